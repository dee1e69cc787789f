//! The binary `sless-host`, built alone, as it is shipped.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::world::{compiled, function_key, key, sign};

/// Builds the package alone, since features of a build of all would put the compiler into it.
fn build() -> PathBuf {
    let cargo = env!("CARGO");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", "sless-host", "--bin", "sless-host", "--message-format", "json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "sless-host does not build");
    let messages = String::from_utf8(built.stdout).unwrap();
    let executable = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    executable.expect("cargo names the executable")
}

struct Running {
    child: Child,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request over one connection; the whole answer as text.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_binary_has_no_compiler_inside_serves_and_drains() {
    let binary = build();
    let bytes = std::fs::read(&binary).unwrap();
    let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    assert!(has("wasmtime"), "the search works");
    for compiler in ["cranelift_codegen", "regalloc2", "wasmtime_internal_cranelift", "winch_codegen"] {
        assert!(!has(compiler), "{compiler} is in sless-host");
    }
    let engine = Command::new(&binary).arg("engine").output().unwrap().stdout;
    let engine = String::from_utf8(engine).unwrap();
    assert_eq!(engine.trim(), sless_engine::digest().to_string(), "host and compiler have different engines");

    // What this process, which has the compiler, made is served by the one that has none.
    let folder = tempfile::tempdir().unwrap();
    let running = serve(&binary, folder.path());
    let get = "GET /hello HTTP/1.1\r\nhost: kitchen.ns.svc:8080\r\nconnection: close\r\n\r\n";
    let answer = ask(&running.address, get);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello\n"), "{answer}");
    let by_header =
        "GET /describe HTTP/1.1\r\nhost: example.org\r\nx-sless-function: kitchen\r\nconnection: close\r\n\r\n";
    let answer = ask(&running.address, by_header);
    assert!(answer.ends_with("GET http example.org example.org /describe\n"), "{answer}");
    let stranger = "GET /a HTTP/1.1\r\nhost: nobody\r\nx-request-id: r-1\r\nconnection: close\r\n\r\n";
    let answer = ask(&running.address, stranger);
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("x-sless-outcome: function_not_found\r\n"), "{answer}");
    assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
    let problem: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((problem["requestId"].as_str(), problem["instance"].as_str()), (Some("r-1"), Some("/a")));

    drain(running);
}

fn serve(binary: &Path, folder: &Path) -> Running {
    let (wasm, code) = compiled("kitchen");
    let artifact = sign(&function_key("kitchen"), wasm, &code);
    let artifacts = folder.join("artifacts");
    std::fs::create_dir(&artifacts).unwrap();
    std::fs::write(artifacts.join(artifact.digest.to_string()), &code).unwrap();
    let manifest = serde_json::json!({
        "namespace": function_key("kitchen").namespace,
        "publicKey": key().public().to_string(),
        "functions": [{
            "name": "kitchen", "uid": uuid::Uuid::from_u128(1), "version": 1,
            "spec": { "runtime": "wasm" }, "artifact": artifact,
        }],
    });
    let file = folder.join("manifest.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let mut child = Command::new(binary)
        .arg("serve")
        .arg("--manifest")
        .arg(&file)
        .arg("--artifacts")
        .arg(&artifacts)
        .arg("--cache")
        .arg(folder.join("cache"))
        .args(["--listen", "127.0.0.1:0", "--instances", "16", "--grace-seconds", "10"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
    let address = event["fields"]["address"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
    // Read to the end, so that the host never waits for this test.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Running { child, address }
}

/// A call in flight is finished after SIGTERM, and its connection closed; then the process ends well.
fn drain(mut running: Running) {
    let mut stream = TcpStream::connect(&running.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Its body streams, so the call is known to be in flight when its head is there.
    stream.write_all(b"GET /stream?1000 HTTP/1.1\r\nhost: kitchen\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let killed = Command::new("kill").arg(running.child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("piece 18\n") && rest.ends_with("0\r\n\r\n"), "{rest}");
    assert!(running.child.wait().unwrap().success());
}
