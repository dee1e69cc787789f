//! `sless dev --watch`: what is saved is what serves, and no call notices.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use sless_core::Digest;
use sless_tests::dev::Dev;
use sless_tests::{eventually, guests};

/// A function whose "compiler" copies the component that `main.txt` names, and complains as compilers do.
const MANIFEST: &str = r#"
name = "swapped"
build = "test -s main.txt || { echo 'main.txt:1:1: error: nothing is named' >&2; exit 1; }; cp $(cat main.txt) out.wasm"
component = "out.wasm"
"#;

struct Folder {
    path: PathBuf,
    digests: Vec<Digest>,
}

impl Folder {
    /// With so many components to swap, each of another digest.
    fn new(parent: &Path, components: usize) -> Self {
        let path = parent.join("swapped");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("sless.toml"), MANIFEST).unwrap();
        fs::write(path.join(".slessignore"), "*.wasm\n*.log\n").unwrap();
        let made = (0..components).map(|index| {
            let bytes = guests::marked("hello", &format!("number {index}"));
            fs::write(path.join(format!("{index}.wasm")), &bytes).unwrap();
            Digest::of(&bytes)
        });
        let digests = made.collect();
        Self { path, digests }
    }

    /// What an editor does when the file is saved.
    fn save(&self, index: usize) {
        fs::write(self.path.join("main.txt"), format!("{index}.wasm")).unwrap();
    }
}

async fn serves(dev: &Dev, digest: Digest) -> u64 {
    eventually("the new code serves", || async {
        let response = dev.api(reqwest::Method::GET, "/functions/swapped").send().await.unwrap();
        let function: Value = response.json().await.unwrap();
        let ready = function["status"]["phase"] == "Ready" && function["spec"]["sha256"] == digest.to_string();
        ready.then(|| function["status"]["version"].as_u64().unwrap())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_a_function_is_swapped_ten_times() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path(), 11);
    folder.save(0);
    let dev = Dev::start_with(&dir.path().join("data"), &["--watch".as_ref(), folder.path.as_os_str()]);
    serves(&dev, folder.digests[0]).await;

    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, calls, http, url) =
                (Arc::clone(&stop), Arc::clone(&calls), dev.http.clone(), dev.url("swapped"));
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = match http.get(&url).send().await {
                        Ok(response) => {
                            let status = response.status().as_u16();
                            response.text().await.map(|text| (status, text)).map_err(|e| e.to_string())
                        }
                        Err(error) => Err(error.to_string()),
                    };
                    calls.fetch_add(1, Ordering::Relaxed);
                    if !matches!(&answer, Ok((200, text)) if text.contains("hello")) {
                        failed.push(answer);
                    }
                }
                failed
            })
        })
        .collect();
    let mut versions = Vec::new();
    for index in 1..=10 {
        let before = calls.load(Ordering::Relaxed);
        folder.save(index);
        versions.push(serves(&dev, folder.digests[index]).await);
        eventually("calls go on", || async { (calls.load(Ordering::Relaxed) >= before + 20).then_some(()) }).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let failed = client.await.unwrap();
        assert!(failed.is_empty(), "{} calls failed, the first with {:?}", failed.len(), failed[0]);
    }
    assert!(calls.load(Ordering::Relaxed) >= 200);
    assert_eq!(versions, (2..=11).collect::<Vec<_>>(), "one version a change");
    dev.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_is_told_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path(), 2);
    // There is something to build only later: the watch waits for it.
    fs::write(folder.path.join("main.txt"), "").unwrap();
    let dev = Dev::start_with(&dir.path().join("data"), &["--watch".as_ref(), folder.path.as_os_str()]);
    let log = || fs::read_to_string(dir.path().join("dev.log")).unwrap();
    let complaints = || log().matches("main.txt:1:1: error: nothing is named\n").count();
    eventually("the first build fails", || async { (complaints() == 1).then_some(()) }).await;
    folder.save(0);
    assert_eq!(serves(&dev, folder.digests[0]).await, 1);

    fs::write(folder.path.join("main.txt"), "").unwrap();
    eventually("the build fails again", || async { (complaints() == 2).then_some(()) }).await;
    eventually("its end is told", || async { log().contains("the build command").then_some(()) }).await;
    let response = dev.http.get(dev.url("swapped")).send().await.unwrap();
    assert_eq!(response.status(), 200, "what was there still serves");

    // What is ignored, and what is written as it was, wakes nothing: the next version is the second.
    fs::write(folder.path.join("noise.log"), "noise").unwrap();
    fs::write(folder.path.join("sless.toml"), MANIFEST).unwrap();
    folder.save(1);
    assert_eq!(serves(&dev, folder.digests[1]).await, 2);
    assert_eq!(complaints(), 2);
    dev.stop();
}
