//! `LocalWorkloads` with the interpreters of this machine: this program starts itself as the launcher.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failure fails the test; interpreters are where the developer has them"
)]

use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use libtest_mimic::{Arguments, Trial};
use sless_adapters::embedded::{self, Options};
use sless_adapters::workloads::local::{Launcher, LocalWorkloads, Settings, Toolchains, launch};
use sless_core::ports::{BlobKey, Blobs, BuildJob, blobs};
use sless_core::testing::{self, WorkloadJobs};
use sless_core::{Digest, FunctionKey, Runtime, Tenant, VersionNumber};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|arg| arg == "__launch") {
        return launch::run(args);
    }
    let contract = |runtime: Runtime| {
        let why = toolchains().missing(runtime);
        let name = match &why {
            Some(why) => format!("contract of {runtime} ({why})"),
            None => format!("contract of {runtime}"),
        };
        Trial::test(name, move || {
            let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            tokio.block_on(run(runtime));
            Ok(())
        })
        .with_ignored_flag(why.is_some())
    };
    let trials = [Runtime::Python311, Runtime::Nodejs20].map(contract);
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn toolchains() -> Toolchains {
    Toolchains { path: std::env::var_os("PATH").unwrap_or_default(), ..Toolchains::default() }
}

async fn run(runtime: Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let opened = embedded::open(&dir.path().join("data"), Options::default()).await.unwrap();
    let launcher = Launcher { program: std::env::current_exe().unwrap(), args: vec!["__launch".into()] };
    let settings = Settings { toolchains: toolchains(), ..Settings::new(dir.path().join("workloads"), launcher) };
    let workloads =
        LocalWorkloads::start(settings, opened.blobs.clone(), opened.logs.clone(), opened.clock.clone()).unwrap();
    let (file, answers) = match runtime {
        Runtime::Python311 => ("handler.py", "def handler(event, context):\n    return "),
        _ => ("handler.js", "exports.handler = async () => "),
    };
    let jobs = WorkloadJobs {
        one: job(opened.blobs.as_ref(), runtime, 1, file, &format!("{answers}'one'\n")).await,
        two: job(opened.blobs.as_ref(), runtime, 2, file, &format!("{answers}'two'\n")).await,
        broken: job(opened.blobs.as_ref(), runtime, 3, file, "(").await,
    };
    testing::workloads(&workloads, jobs).await;
    assert_eq!(workloads.processes(), 2);
    workloads.drain(std::time::Duration::from_secs(5)).await;
    assert_eq!(workloads.processes(), 0);
    opened.close().await;
}

/// A build of one file of source.
async fn job(store: &dyn Blobs, runtime: Runtime, version: u32, file: &str, text: &str) -> BuildJob {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtimes").join(runtime.name());
    for folder in ["", "lib", "sless_runtime"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = std::path::Path::new("runtime").join(path.strip_prefix(&root).unwrap());
                append(&mut tar, name.to_str().unwrap(), &std::fs::read(&path).unwrap());
            }
        }
    }
    append(&mut tar, &format!("function/{file}"), text.as_bytes());
    let context = tar.into_inner().unwrap().finish().unwrap();
    let source: BlobKey = format!("contexts/{version}.tar.gz").parse().unwrap();
    store.put(&source, blobs::once(context), u64::MAX).await.unwrap();
    let list = format!("{}  {file}\n", Digest::of(text.as_bytes()));
    BuildJob {
        function: FunctionKey::new(Tenant::from_subject("a").namespace(), "f".parse().unwrap()),
        uid: uuid::Uuid::now_v7(),
        version: VersionNumber(version),
        runtime,
        entrypoint: None,
        source,
        sha256: Digest::of(list.as_bytes()),
    }
}

fn append(tar: &mut tar::Builder<GzEncoder<Vec<u8>>>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, bytes).unwrap();
}
