//! JavaScript becomes a component whose engine is shared. Needs the engine, which `cargo xtask engines` builds; without it
//! these are reported as ignored.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failure fails the test, which says what it measured")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use sless_builder::cache::Packs;
use sless_builder::compile;
use sless_builder::js::{Built, Engine, Error, Limits, Prepared, Source};
use sless_core::artifact::MODULE_IMPORT_PREFIX;

/// Where `cargo xtask engines` puts it: beside the programs.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable")]
fn engine_path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("tests lie in deps/ of the profile's folder");
    // Where `build.build-dir` is set, tests lie there, and programs in the target folder.
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let profile = match (target, profile.file_name()) {
        (Some(target), Some(name)) => target.join(name),
        _ => profile.to_owned(),
    };
    profile.join("engines/wasm-js.wasm")
}

fn packs() -> Packs {
    Packs::new(Vec::new(), None, &sless_builder::engine())
}

/// The engine, prepared once for all tests: a few seconds.
fn prepared() -> &'static Prepared {
    static PREPARED: std::sync::OnceLock<Prepared> = std::sync::OnceLock::new();
    PREPARED.get_or_init(|| {
        let wasm = std::fs::read(engine_path()).unwrap();
        let started = Instant::now();
        let prepared = Prepared::make(&wasm, &packs()).unwrap();
        println!(
            "prepared in {:?}: base {} B, builder {} B, module {} B, artifact {} B",
            started.elapsed(),
            prepared.base.len(),
            prepared.builder.len(),
            prepared.module.len(),
            prepared.artifact.len()
        );
        prepared
    })
}

fn engine(limits: Limits) -> Engine<'static> {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("builder"), &prepared().builder).unwrap();
        folder
    });
    // SAFETY: as `make` gave it.
    #[expect(unsafe_code, reason = "made by this test")]
    unsafe { Engine::load(&prepared().base, &folder.path().join("builder"), limits) }.unwrap()
}

fn source(text: &str) -> Source {
    Source {
        name: "handler.js".to_owned(),
        text: text.to_owned(),
        source_map: None,
        handler: "handler".to_owned(),
        evaluate: true,
    }
}

fn build(text: &str) -> Result<Built, Error> {
    engine(Limits::default()).build(&source(text))
}

fn refused(text: &str) -> String {
    build(text).unwrap_err().to_string()
}

const HELLO: &str = "exports.handler = async () => ({ hello: 'world' });\n";

fn a_function_imports_the_engine_and_exports_its_handler_alone() -> Result<(), Failed> {
    let built = build(HELLO).unwrap();
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0);
    for payload in wasmparser::Parser::new(0).parse_all(&built.component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) if depth > 0 => depth -= 1,
            wasmparser::Payload::ComponentImportSection(section) if depth == 0 => {
                // Types ask nothing of a host.
                let asked = section.into_iter().map(Result::unwrap);
                let asked = asked.filter(|import| !matches!(import.ty, wasmparser::ComponentTypeRef::Type(_)));
                imports.extend(asked.map(|import| import.name.name.to_owned()));
            }
            wasmparser::Payload::ComponentExportSection(section) if depth == 0 => {
                exports.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            _ => {}
        }
    }
    let module = format!("{MODULE_IMPORT_PREFIX}{}", prepared().digest());
    assert!(imports.contains(&module), "{imports:?}");
    assert!(imports.iter().all(|name| *name == module || name.starts_with("wasi:")), "{imports:?}");
    assert!(exports.len() == 1 && exports[0].starts_with("wasi:http/incoming-handler@0.2"), "{exports:?}");
    wasmparser::Validator::new_with_features(sless_engine::proposals()).validate_all(&built.component).unwrap();
    Ok(())
}

fn a_second_function_costs_its_memory_only() -> Result<(), Failed> {
    let engine = engine(Limits::default());
    let first = engine.build(&source(HELLO)).unwrap();
    compile(&first.component, &packs()).unwrap();
    let started = Instant::now();
    let second = engine.build(&source("export const handler = (event) => event.path;\n")).unwrap();
    let built = started.elapsed();
    let started = Instant::now();
    let compiled = compile(&second.component, &packs()).unwrap();
    println!(
        "second function: built in {built:?}, compiled in {:?}; component {} B, artifact {} B, heap {} B",
        started.elapsed(),
        second.component.len(),
        compiled.artifact.len(),
        second.heap_bytes
    );
    assert!(compiled.artifact.len() < prepared().artifact.len());
    Ok(())
}

fn code_that_depends_on_its_surroundings_runs_in_each_instance() -> Result<(), Failed> {
    for (text, what) in [
        ("const k = process.env.KEY;\nexports.handler = () => k;", "the environment (handler.js:1)"),
        ("\nconst t = Date.now();\nexports.handler = () => t;", "the date"),
        ("const r = Math.random();\nexports.handler = () => r;", "random numbers (handler.js:1)"),
        ("const id = crypto.randomUUID();\nexports.handler = () => id;", "random bytes (handler.js:1)"),
        ("setTimeout(() => {}, 1);\nexports.handler = () => 1;", "a timer (handler.js:1)"),
        ("if (!process.env.KEY) throw new Error('no key');\nexports.handler = () => 1;", "no key"),
        ("await new Promise((r) => setTimeout(r, 5));\nexport const handler = () => 1;", "handler.js"),
    ] {
        let built = build(text).unwrap();
        assert!(built.impure.iter().any(|line| line.contains(what)), "{text}: {:?}", built.impure);
    }
    let pure = build("console.log('loading');\nexports.handler = () => Math.random() + Date.now();").unwrap();
    assert_eq!((pure.impure, pure.printed), (vec![], vec!["loading".to_owned()]));
    Ok(())
}

fn faults_name_the_file_the_line_and_the_remedy() -> Result<(), Failed> {
    for (text, place, what) in [
        ("export async function handler() {\n  return { x: };\n}\n", "handler.js:2: SyntaxError", "correct the file"),
        ("const a = 1;\nnull.foo;\nexports.handler = () => 1;", "handler.js:2: TypeError", "top of the file"),
        ("exports.other = 1;", "handler.js: handler.js exports no `handler`", "set the entrypoint"),
        ("exports.handler = 7;", "`handler` in handler.js is not a function", "export async function"),
        ("import fs from 'node:fs';\nexport const handler = 1;", "there is no module `node:fs`", "nodejs20"),
        ("await new Promise(() => {});\nexport const handler = 1;", "never settles", "await only what ends"),
    ] {
        let told = refused(text);
        assert!(told.contains(place) && told.contains(what), "{text}: {told}");
    }
    Ok(())
}

fn code_at_the_top_is_bounded() -> Result<(), Failed> {
    let limits = Limits { memory_bytes: 32 << 20, time: Duration::from_millis(500) };
    let engine = engine(limits);
    let started = Instant::now();
    let spin = engine.build(&source("for (;;);")).unwrap_err();
    assert!(matches!(spin, Error::Time { .. }), "{spin}");
    assert!(started.elapsed() < Duration::from_secs(30));
    let hog = engine.build(&source("const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1));")).unwrap_err();
    assert!(matches!(hog, Error::Memory { .. }), "{hog}");
    assert!(engine.build(&source(HELLO)).is_ok());
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let missing = !engine_path().exists();
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(name, test).with_ignored_flag(missing);
    let trials = vec![
        trial(
            "a_function_imports_the_engine_and_exports_its_handler_alone",
            a_function_imports_the_engine_and_exports_its_handler_alone,
        ),
        trial("a_second_function_costs_its_memory_only", a_second_function_costs_its_memory_only),
        trial(
            "code_that_depends_on_its_surroundings_runs_in_each_instance",
            code_that_depends_on_its_surroundings_runs_in_each_instance,
        ),
        trial("faults_name_the_file_the_line_and_the_remedy", faults_name_the_file_the_line_and_the_remedy),
        trial("code_at_the_top_is_bounded", code_at_the_top_is_bounded),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
