//! `LocalBuilds` with the real builder: this program starts itself as one.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use sless_adapters::blobs::folder::FolderBlobs;
use sless_adapters::builds::{Error, LocalBuilds, Settings};
use sless_core::build_protocol::Limits;
use sless_core::ports::blobs::{self, BlobKey, Blobs};
use sless_core::ports::{BuildError, BuildJob, Builds};
use sless_core::{Digest, FunctionKey, Runtime, Tenant, VersionNumber};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("__builder") => return sless_builder::run_child(std::env::args_os().skip(2)),
        Some("__parent") => return build_until_killed(Path::new(&args[2])),
        _ => {}
    }
    let trials = vec![
        test("an_upload_is_checked", checks),
        test("a_build_stores_its_artifact_and_keeps_its_functions", builds),
        test("the_limit_that_ended_a_build_is_named", limits),
        test("a_dropped_build_leaves_nothing", dropped),
        test("builds_of_a_killed_process_end_and_are_cleared_away", killed),
        test("a_work_folder_has_one_owner", one_owner),
        test("what_is_wrong_with_the_store_is_not_the_codes_fault", store_at_fault),
        test("a_program_that_is_no_builder_is_not_taken_for_one", no_builder),
    ];
    let mut trials = trials;
    let missing = engines().is_none();
    trials.extend([
        test("javascript_is_built_over_its_engine", javascript).with_ignored_flag(missing),
        test("javascript_of_several_files_is_bundled_and_its_faults_have_a_place", bundled).with_ignored_flag(missing),
        test("source_without_its_engine_is_refused_with_what_to_do", no_engine),
    ]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn test<F: Future<Output = anyhow::Result<()>> + 'static>(name: &str, run: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run()).map_err(|error| Failed::from(format!("{error:?}")))
    })
}

/// A store and builds in a temporary folder.
struct World {
    root: tempfile::TempDir,
    blobs: Arc<dyn Blobs>,
    builds: LocalBuilds,
}

fn settings(root: &Path) -> Settings {
    Settings {
        program: std::env::current_exe().unwrap(),
        args: vec!["__builder".into()],
        work_dir: root.join("work"),
        cache_dir: root.join("cache"),
        base_cache: None,
        engines: None,
        search_path: "/usr/local/bin:/usr/bin:/bin".into(),
        engine_cache: root.join("engines"),
        cache_bytes: 64 << 20,
        max_parallel: 2,
        limits: Limits::default(),
    }
}

impl World {
    async fn new(change: impl FnOnce(&mut Settings)) -> anyhow::Result<Self> {
        let root = tempfile::tempdir()?;
        let blobs: Arc<dyn Blobs> = Arc::new(FolderBlobs::open(&root.path().join("blobs"))?);
        let mut settings = settings(root.path());
        change(&mut settings);
        let builds = LocalBuilds::start(settings, blobs.clone()).await?;
        Ok(Self { root, blobs, builds })
    }

    async fn upload(&self, name: &str, bytes: Vec<u8>) -> anyhow::Result<BuildJob> {
        upload(&*self.blobs, name, bytes).await
    }

    fn jobs(&self) -> Vec<PathBuf> {
        jobs(&self.root.path().join("work"))
    }
}

fn jobs(work: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(work).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

async fn upload(blobs: &dyn Blobs, name: &str, bytes: Vec<u8>) -> anyhow::Result<BuildJob> {
    let function = FunctionKey::new(Tenant::from_subject("somebody").namespace(), name.parse()?);
    let source: BlobKey = format!("functions/{name}.wasm").parse()?;
    let meta = blobs.put(&source, blobs::once(bytes), 100 << 20).await?;
    Ok(BuildJob {
        function,
        uid: uuid::Uuid::now_v7(),
        version: VersionNumber(1),
        runtime: Runtime::Wasm,
        entrypoint: None,
        source,
        sha256: meta.digest,
    })
}

/// A component with the handler and `functions` functions of `steps` steps each.
fn component(functions: usize, steps: usize) -> Vec<u8> {
    let mut bodies = String::new();
    for n in 0..functions {
        let steps: String = (0..steps)
            .map(|step| {
                format!(
                    "(local.set {} (i32.mul (local.get {}) (i32.const {})))",
                    step % 3,
                    (step + 1) % 3,
                    n * 31 + step
                )
            })
            .collect();
        bodies.push_str(&format!(
            "(func (export \"f{n}\") (result i32) (local i32 i32 i32) {steps} (i32.xor (local.get 0) (local.get 1)))"
        ));
    }
    wat::parse_str(format!(
        r#"(component
            (core module $m (func (export "handle")) {bodies})
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.3" (instance $handler)))"#
    ))
    .unwrap()
}

/// Takes much longer to build than a test takes to kill it.
fn slow_component() -> Vec<u8> {
    component(3_000, 300)
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        anyhow::ensure!(Instant::now() < deadline, "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn checks() -> anyhow::Result<()> {
    let world = World::new(|settings| settings.limits.component_bytes = 1 << 20).await?;
    let good = world.upload("good", component(1, 1)).await?;
    assert_eq!(world.builds.check(Runtime::Wasm, &good.source).await?.notes, Vec::<String>::new());

    let module = world.upload("module", wat::parse_str("(module)")?).await?;
    let refused = world.builds.check(Runtime::Wasm, &module.source).await.unwrap_err();
    assert!(
        matches!(&refused, BuildError::Rejected { reason, .. } if reason.contains("core WebAssembly module")),
        "{refused}"
    );

    let large = world.upload("large", vec![0; (1 << 20) + 1]).await?;
    let refused = world.builds.check(Runtime::Wasm, &large.source).await.unwrap_err();
    assert!(matches!(&refused, BuildError::TooLarge { reason } if reason.contains("1048576")), "{refused}");

    for runtime in [Runtime::WasmJs, Runtime::WasmPython, Runtime::Python311, Runtime::Nodejs20] {
        let refused = world.builds.check(runtime, &good.source).await.unwrap_err();
        assert!(
            matches!(&refused, BuildError::Rejected { reason, .. } if reason.contains(runtime.name())),
            "{refused}"
        );
        let refused = world.builds.build(BuildJob { runtime, ..good.clone() }).await.unwrap_err();
        let told = if runtime.is_wasm() { "cargo xtask engines" } else { "release yet" };
        assert!(matches!(&refused, BuildError::Rejected { reason, .. } if reason.contains(told)), "{refused}");
    }
    assert_eq!(world.jobs(), Vec::<PathBuf>::new());
    Ok(())
}

async fn builds() -> anyhow::Result<()> {
    let world = World::new(|_| {}).await?;
    assert_eq!(world.builds.engine(), sless_builder::engine());
    let wasm = component(40, 20);
    let job = world.upload("hello", wasm.clone()).await?;
    let first = world.builds.build(job.clone()).await?;
    assert_eq!((first.wasm, first.engine), (Digest::of(&wasm), sless_builder::engine()));
    let artifact = blobs::read(&*world.blobs, &BlobKey::artifact(&first.artifact), 10 << 20).await?;
    assert_eq!((Digest::of(&artifact), artifact.len() as u64), (first.artifact, first.size_bytes));
    assert!(first.log.contains("compiled to"), "{}", first.log);

    let cache = world.root.path().join("cache").join(job.function.namespace.to_string());
    assert_eq!(std::fs::read_dir(&cache)?.count(), 1);
    let again = world.builds.build(job).await?;
    assert_eq!(again.artifact, first.artifact);
    assert!(!again.log.contains(" 0 from the cache"), "{}", again.log);
    assert_eq!(world.jobs(), Vec::<PathBuf>::new());
    Ok(())
}

async fn limits() -> anyhow::Result<()> {
    let slow = slow_component();
    for (limits, named) in [
        (Limits { cpu_seconds: 1, ..Limits::default() }, "1 s of processor time"),
        (Limits { wall_seconds: 1, ..Limits::default() }, "more than 1 s."),
        (Limits { memory_bytes: 32 << 20, ..Limits::default() }, "32 MiB of memory"),
    ] {
        let world = World::new(|settings| settings.limits = limits).await?;
        let job = world.upload("slow", slow.clone()).await?;
        let refused = world.builds.build(job).await.unwrap_err();
        assert!(
            matches!(&refused, BuildError::Rejected { reason, .. } if reason.contains(named)),
            "{named}: {refused:?}"
        );
        assert_eq!(world.jobs(), Vec::<PathBuf>::new());
    }
    Ok(())
}

/// The processes that a process has started and that still run.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

fn runs(pid: u32) -> bool {
    // State is the word after the name in brackets (proc(5)); Z has ended and waits to be collected.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

async fn dropped() -> anyhow::Result<()> {
    let world = World::new(|_| {}).await?;
    let job = world.upload("slow", slow_component()).await?;
    let compiling = || world.jobs().iter().any(|folder| folder.join("out").join("functions.pack").exists());
    let build = world.builds.build(job);
    tokio::select! {
        built = build => anyhow::bail!("it ended before it was dropped: {built:?}"),
        started = eventually("the builder starts", compiling) => started?,
    }
    eventually("its folder is gone", || world.jobs().is_empty()).await?;
    let artifacts = world.root.path().join("blobs").join("artifacts");
    assert!(!artifacts.exists() || std::fs::read_dir(artifacts)?.next().is_none());
    Ok(())
}

fn build_until_killed(root: &Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let blobs: Arc<dyn Blobs> = Arc::new(FolderBlobs::open(&root.join("blobs")).unwrap());
        let job = upload(&*blobs, "slow", slow_component()).await.unwrap();
        let builds = LocalBuilds::start(settings(root), blobs).await.unwrap();
        let _ = builds.build(job).await;
    });
    ExitCode::SUCCESS
}

async fn killed() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    let mut parent =
        Command::new(std::env::current_exe()?).arg("__parent").arg(root.path()).stdout(Stdio::null()).spawn()?;
    let work = root.path().join("work");
    let compiling =
        || work.exists() && jobs(&work).iter().any(|folder| folder.join("out").join("functions.pack").exists());
    eventually("the builder starts", compiling).await?;
    let builders = children(parent.id());
    assert_eq!(builders.len(), 1, "{builders:?}");
    parent.kill()?;
    parent.wait()?;
    eventually("the builder ends with its parent", || !runs(builders[0])).await?;
    assert_eq!(jobs(&work).len(), 1, "it left its folder");
    let blobs = Arc::new(FolderBlobs::open(&root.path().join("blobs"))?);
    let _builds = LocalBuilds::start(settings(root.path()), blobs).await?;
    assert_eq!(jobs(&work), Vec::<PathBuf>::new());
    Ok(())
}

async fn one_owner() -> anyhow::Result<()> {
    let world = World::new(|_| {}).await?;
    let second = LocalBuilds::start(settings(world.root.path()), world.blobs.clone()).await;
    assert!(matches!(second, Err(Error::InUse { .. })));
    Ok(())
}

async fn store_at_fault() -> anyhow::Result<()> {
    let world = World::new(|_| {}).await?;
    let job = world.upload("hello", component(1, 1)).await?;
    let swapped = world.builds.build(BuildJob { sha256: Digest::of(b"other"), ..job.clone() }).await;
    assert!(matches!(swapped, Err(BuildError::Failed { .. })), "{swapped:?}");
    world.blobs.delete(&job.source).await?;
    let gone = world.builds.build(job).await;
    assert!(matches!(gone, Err(BuildError::Failed { .. })), "{gone:?}");
    assert_eq!(world.jobs(), Vec::<PathBuf>::new());
    Ok(())
}

async fn no_builder() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    let blobs = Arc::new(FolderBlobs::open(&root.path().join("blobs"))?);
    let settings = Settings { program: "/bin/cat".into(), args: vec![], ..settings(root.path()) };
    let refused = LocalBuilds::start(settings, blobs).await;
    assert!(matches!(refused, Err(Error::Builder { .. })));
    Ok(())
}

/// Where `cargo xtask engines` puts engines: beside the programs.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable")]
fn engines() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("tests lie in deps/ of the profile's folder");
    // Where `build.build-dir` is set, tests lie there, and programs in the target folder.
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let profile = match (target, profile.file_name()) {
        (Some(target), Some(name)) => target.join(name),
        _ => profile.to_owned(),
    };
    Some(profile.join("engines")).filter(|folder| folder.join("wasm-js.wasm").is_file())
}

async fn upload_source(blobs: &dyn Blobs, name: &str, files: &[(&str, &str)]) -> anyhow::Result<BuildJob> {
    let mut context = sless_builder::source::Context::default();
    for (path, text) in files {
        context.function.insert(path, text.as_bytes().to_vec())?;
    }
    let mut bytes = Vec::new();
    context.write(&mut bytes)?;
    Ok(BuildJob { runtime: Runtime::WasmJs, ..upload(blobs, name, bytes).await? })
}

async fn javascript() -> anyhow::Result<()> {
    let world = World::new(|settings| settings.engines = engines()).await?;
    assert!(world.builds.supports(Runtime::WasmJs));
    let build = async |name: &str, text: &str| {
        let job = upload_source(&*world.blobs, name, &[("handler.js", text), ("README.md", "#")]).await?;
        anyhow::Ok(world.builds.build(job).await)
    };
    let one = build("one", "exports.handler = () => 1;").await??;
    let two = build("two", "export const handler = () => 2;").await??;
    assert_ne!(one.artifact, two.artifact);
    assert_eq!(one.modules, two.modules, "one engine for all");
    assert_eq!(one.modules.len(), 1);
    for digest in [one.artifact, two.artifact, one.modules[0].artifact] {
        assert!(world.blobs.exists(&BlobKey::artifact(&digest)).await?);
    }
    assert!(one.size_bytes < 4 << 20, "{}", one.size_bytes);
    let again = build("one", "exports.handler = () => 1;").await??;
    assert_eq!((again.artifact, again.wasm), (one.artifact, one.wasm), "the same source is the same artifact");

    for (text, told) in [
        ("exports.handler = () => {\n  return 1 +;\n};", "handler.js:2: SyntaxError"),
        ("null.x;", "handler.js:1: TypeError"),
        ("exports.other = 1;", "handler.js exports no `handler`"),
    ] {
        match build("bad", text).await? {
            Err(BuildError::Rejected { reason, .. }) => assert!(reason.contains(told), "{reason}"),
            other => anyhow::bail!("{text}: {other:?}"),
        }
    }
    Ok(())
}

async fn bundled() -> anyhow::Result<()> {
    let world = World::new(|settings| settings.engines = engines()).await?;
    let build = async |files: &[(&str, &str)]| {
        let job = upload_source(&*world.blobs, "several", files).await?;
        anyhow::Ok(world.builds.build(job).await)
    };
    build(&[
        ("handler.ts", "import { twice } from './lib/twice';\nexport const handler = (e: { path: string }): string => twice(e.path);"),
        ("lib/twice.js", "const { format } = require('node:util');\nexports.twice = (text) => format('%s%s', text, text);"),
    ])
    .await??;
    for (files, told) in [
        (&[("handler.js", "\nimport './no.js';")][..], "handler.js:2: Could not resolve \"./no.js\"; add that file"),
        (&[("handler.js", "require('left-pad')")], "handler.js:1: Could not resolve \"left-pad\"; add the package"),
        (&[("handler.js", "import './a.js';"), ("a.js", "\n\nnull.x;")], "a.js:3: TypeError"),
        // Files of the machine are out of its reach.
        (&[("handler.js", "import '/etc/passwd';")], "Could not resolve \"/etc/passwd\""),
    ] {
        match build(files).await? {
            Err(BuildError::Rejected { reason, .. }) => assert!(reason.contains(told), "{reason}"),
            other => anyhow::bail!("{files:?}: {other:?}"),
        }
    }
    Ok(())
}

async fn no_engine() -> anyhow::Result<()> {
    let world = World::new(|_| {}).await?;
    assert!(!world.builds.supports(Runtime::WasmJs));
    let job = upload_source(&*world.blobs, "one", &[("handler.js", "exports.handler = () => 1;")]).await?;
    match world.builds.build(job).await {
        Err(BuildError::Rejected { reason, .. }) => assert!(reason.contains("cargo xtask engines"), "{reason}"),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}
