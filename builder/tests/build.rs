//! The builder's binary on components: what it makes, what it refuses, and that neither costs more than its limits.

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::time::Instant;

use common::{Desk, busy, component, empty, module};
use sless_core::Digest;
use sless_core::build_protocol::{ARTIFACT_FILE, CacheUse, Limits, PACK_FILE, Reply};

fn rejected(run: common::Run) -> String {
    match run.reply {
        Some(Reply::Rejected { reason }) => {
            assert_eq!(run.status.code(), Some(10));
            reason
        }
        other => panic!("{other:?} {} {}", run.status, run.log),
    }
}

#[track_caller]
fn built(run: &common::Run) -> (Digest, CacheUse) {
    match &run.reply {
        Some(Reply::Built { artifact, cache, .. }) => (*artifact, cache.clone()),
        other => panic!("{other:?} {} {}", run.status, run.log),
    }
}

#[test]
fn a_component_becomes_an_artifact_in_the_output_folder_and_nowhere_else() {
    let wasm = component(&module([empty()]));
    let desk = Desk::new(&wasm);
    let (run, output) = desk.build("out", &[], Limits::default());
    let Some(Reply::Built { wasm: source, artifact, size_bytes, engine, .. }) = run.reply else {
        panic!("{:?} {}", run.reply, run.log)
    };
    assert_eq!(run.status.code(), Some(0));
    let bytes = std::fs::read(output.join(ARTIFACT_FILE)).unwrap();
    assert_eq!((source, artifact), (Digest::of(&wasm), Digest::of(&bytes)));
    assert_eq!((size_bytes, engine), (bytes.len() as u64, sless_builder::engine()));
    assert_eq!(std::fs::read_dir(desk.folder.path()).unwrap().count(), 2);
    assert_eq!(std::fs::read_dir(output).unwrap().count(), 2);
    assert!(run.log.contains("compiled to"), "{}", run.log);
}

#[test]
fn the_same_component_gives_the_same_artifact_with_a_cold_and_a_warm_cache() {
    let desk = Desk::new(&component(&module((0..50).map(|n| busy(n, 40)))));
    let one = || Limits { threads: 1, ..Limits::default() };
    let (cold, output) = desk.build("cold", &[], one());
    let (artifact, cache) = built(&cold);
    assert_eq!(cache.hits, 0);
    assert!(cache.misses >= 50, "{cache:?}");

    let (again, _) = desk.build("again", &[], Limits { threads: 4, ..Limits::default() });
    assert_eq!(built(&again).0, artifact);

    let (warm, _) = desk.build("warm", &[&output], one());
    let (same, use_of_it) = built(&warm);
    assert_eq!(same, artifact);
    // Not all: Cranelift 0.135 leaves a table of the function before in a context that it uses again, and that changes the
    // key of the function after it. Which thread compiled what before decides, so one thread makes this test repeatable.
    assert!(use_of_it.hits >= cache.misses * 8 / 10, "{use_of_it:?}");
    assert_eq!(use_of_it.packs, [PACK_FILE]);
}

#[test]
fn a_similar_component_compiles_only_what_is_new() {
    let functions = 1_500;
    let first = Desk::new(&component(&module((0..functions).map(|n| busy(n, 150)))));
    let second = Desk::new(&component(&module((1..functions + 1).map(|n| busy(n, 150)))));
    let started = Instant::now();
    let one = || Limits { threads: 1, ..Limits::default() };
    let (cold, output) = first.build("out", &[], one());
    let cold_took = started.elapsed();
    built(&cold);
    let started = Instant::now();
    let (warm, _) = second.build("out", &[&output], one());
    let warm_took = started.elapsed();
    let (_, cache) = built(&warm);
    assert!(cache.hits >= 1_350, "{cache:?}");
    println!(
        "first {cold_took:?}, second {warm_took:?}: {:.1} times faster",
        cold_took.as_secs_f64() / warm_took.as_secs_f64()
    );
}

#[test]
fn a_damaged_cache_is_no_cache() {
    let desk = Desk::new(&component(&module([busy(1, 30)])));
    let (cold, output) = desk.build("out", &[], Limits::default());
    let pack = output.join(PACK_FILE);
    let mut bytes = std::fs::read(&pack).unwrap();
    for byte in &mut bytes[40..] {
        *byte ^= 0x55;
    }
    std::fs::write(&pack, bytes).unwrap();
    let missing = desk.folder.path().join("not-there");
    let (run, _) = desk.build("again", &[&output, &missing], Limits::default());
    let (artifact, cache) = built(&run);
    assert_eq!((artifact, cache.hits), (built(&cold).0, 0));
}

/// Case u9.
#[test]
fn what_can_not_be_served_is_refused_with_the_import_or_the_limit() {
    let check = |wasm: &[u8]| Desk::new(wasm).check(Limits::default());
    let core = module([empty()]);
    assert!(rejected(check(&core)).contains("core WebAssembly module"));
    let whole = component(&core);
    assert!(rejected(check(&whole[..whole.len() - 5])).contains("cut short"));
    let needy = wat::parse_str(r#"(component (import "wasi:keyvalue/store@0.2.0" (instance)))"#).unwrap();
    assert!(rejected(check(&needy)).contains("incoming-handler"));

    let desk = Desk::new(&whole);
    std::fs::File::options().write(true).open(&desk.input).unwrap().set_len(200 << 20).unwrap();
    let run = desk.check(Limits::default());
    let Some(Reply::TooLarge { reason }) = run.reply else { panic!("{:?}", run.reply) };
    assert!(reason.contains("67108864 bytes"), "{reason}");
    assert_eq!(run.status.code(), Some(11));
}

/// Case u10, first half.
#[test]
fn a_hundred_thousand_empty_functions_compile_within_the_limits() {
    let desk = Desk::new(&component(&module((0..100_000).map(|_| empty()))));
    let started = Instant::now();
    let (run, output) = desk.build("out", &[], Limits::default());
    let (_, cache) = built(&run);
    // They are all the same function: nearly all of them come out of the pack that is being written.
    assert!(cache.hits > 90_000, "{cache:?}");
    let size = |name| std::fs::metadata(output.join(name)).unwrap().len();
    println!("{:?}, artifact {} bytes, pack {} bytes", started.elapsed(), size(ARTIFACT_FILE), size(PACK_FILE));
}

/// Case u10, second half.
#[test]
fn a_function_of_five_megabytes_is_refused_by_name() {
    let steps = 5_000_000 / 12;
    let desk = Desk::new(&component(&module([empty(), busy(1 << 20, steps)])));
    let reason = rejected(desk.check(Limits::default()));
    assert!(reason.contains("function 1 of core module 0") && reason.contains("limit of 1048576 bytes"), "{reason}");
    let (run, output) = desk.build("out", &[], Limits::default());
    assert_eq!(rejected(run), reason);
    assert_eq!(std::fs::metadata(output.join(ARTIFACT_FILE)).unwrap().len(), 0);
}

#[test]
fn the_largest_function_that_passes_compiles_within_the_limits() {
    let steps = (1 << 20) / 14;
    let desk = Desk::new(&component(&module([empty(), busy(1 << 20, steps)])));
    let started = Instant::now();
    let (run, _) = desk.build("out", &[], Limits::default());
    built(&run);
    println!("{:?}", started.elapsed());
}

/// Components that instantiate components that instantiate components: ten to the eighth in two kilobytes.
#[test]
fn nested_instances_that_explode_end_at_a_limit() {
    let mut nested = String::from("(component $c0)");
    for level in 1..=8 {
        let instances = format!("(instance (instantiate $c{}))", level - 1).repeat(10);
        nested = format!("(component $c{level} {nested} {instances})");
    }
    let wasm = wat::parse_str(format!(
        r#"(component {nested} (instance (instantiate $c8))
            (core module $m (func (export "handle")))
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.3" (instance $handler)))"#
    ))
    .unwrap();
    let limits = Limits { cpu_seconds: 20, memory_bytes: 512 << 20, ..Limits::default() };
    let (run, _) = Desk::new(&wasm).build("out", &[], limits);
    assert!(run.reply.is_none(), "{:?}", run.reply);
    assert!(matches!(run.status.signal(), Some(libc::SIGABRT | libc::SIGXCPU)), "{} {}", run.status, run.log);
}

#[test]
fn memory_and_processor_time_end_where_the_job_says() {
    let many = component(&module((0..4_000).map(|n| busy(n, 200))));
    let (run, _) = Desk::new(&many).build("out", &[], Limits { memory_bytes: 24 << 20, ..Limits::default() });
    assert!(run.reply.is_none(), "{:?}", run.reply);
    assert_eq!(run.status.signal(), Some(libc::SIGABRT), "{} {}", run.status, run.log);
    assert!(run.log.contains("memory allocation"), "{}", run.log);

    let (run, _) = Desk::new(&many).build("out", &[], Limits { cpu_seconds: 1, ..Limits::default() });
    assert_eq!(run.status.signal(), Some(libc::SIGXCPU), "{} {}", run.status, run.log);
}

#[test]
fn an_artifact_over_its_limit_is_refused_with_the_limit() {
    let desk = Desk::new(&component(&module([empty()])));
    let (run, _) = desk.build("out", &[], Limits { artifact_bytes: 100, ..Limits::default() });
    let Some(Reply::TooLarge { reason }) = run.reply else { panic!("{:?} {} {}", run.reply, run.status, run.log) };
    assert!(reason.contains("limit of 100 bytes"), "{reason}");
}

#[test]
fn a_job_that_is_no_job_fails_with_what_is_wrong_with_it() {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), r#"{"task":{"mode":"polish"}}"#).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sless-builder")).arg(path.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(12));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("polish"), "{text}");
}
