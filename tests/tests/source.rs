//! Source through the front door: archives as strangers make them, builds that fail with file and line, functions that run
//! as processes and move between runtimes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sless_tests::dev::Dev;
use zip::write::SimpleFileOptions;

const HELLO: &str = "def handler(event, context):\n    return {'hello': event['path'], 'version': context.version}\n";
const HELLO_JS: &str =
    "exports.handler = async (event, context) => ({ hello: event.path, version: context.version });\n";

/// A `sless dev` whose namespace is there.
struct World {
    dev: Dev,
    dir: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    async fn start_with(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let more: Vec<&std::ffi::OsStr> = more.iter().map(|word| (*word).as_ref()).collect();
        let dev = Dev::start_with(&dir.path().join("data"), &more);
        let world = Self { dev, dir };
        world.send(Method::POST, "/ensure", None).await;
        world
    }

    /// What the API answers: its status and its body.
    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self.dev.api(method, path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or(Value::Null))
    }

    async fn create(&self, name: &str, spec: Value) {
        let (status, answer) = self.send(Method::POST, "/functions", Some(json!({"name": name, "spec": spec}))).await;
        assert_eq!(status, 201, "{answer}");
        let trigger = json!({"name": name, "spec": {"function": name, "http": {"auth": "none"}}});
        let (status, answer) = self.send(Method::POST, "/triggers", Some(trigger)).await;
        assert_eq!(status, 201, "{answer}");
    }

    async fn upload(&self, name: &str, archive: Vec<u8>) -> (u16, Value) {
        let request = self.dev.api(Method::POST, &format!("/functions/{name}/upload"));
        let response = request.header("content-type", "application/zip").body(archive).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The function's status once its newest generation is ready or failed.
    async fn settled(&self, name: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let function = self.dev.get(&format!("/functions/{name}")).await;
            let status = &function["status"];
            let seen = status["observedGeneration"] == function["generation"];
            if seen && (status["phase"] == "Ready" || status["phase"] == "Failed") {
                return status.clone();
            }
            assert!(Instant::now() < deadline, "{function}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn deployed(&self, name: &str, files: &[(&str, &str)]) -> Value {
        let (status, answer) = self.upload(name, pack(files)).await;
        assert_eq!(status, 202, "{answer}");
        self.settled(name).await
    }

    async fn call(&self, name: &str, path: &str) -> (u16, String) {
        let response = self.dev.http.get(format!("{}{path}", self.dev.url(name))).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

fn pack(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[tokio::test]
async fn archives_of_strangers_are_refused_or_taken_for_what_they_are() {
    let world = World::start().await;
    world.create("f", json!({"runtime": "python3.11"})).await;
    for (name, says) in [("../../tmp/evil", "../../tmp/evil"), ("/tmp/evil", "absolute")] {
        let (status, problem) = world.upload("f", pack(&[("handler.py", HELLO), (name, "x")])).await;
        assert_eq!((status, &problem["code"]), (422, &json!("invalid_source")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc", SimpleFileOptions::default()).unwrap();
    let (status, problem) = world.upload("f", zip.finish().unwrap().into_inner()).await;
    assert_eq!(status, 422, "{problem}");
    let zeros = "\0".repeat(100 << 20);
    let (status, problem) = world.upload("f", pack(&[("zeros", &zeros)])).await;
    assert_eq!((status, &problem["code"]), (413, &json!("payload_too_large")), "{problem}");

    let files = [
        ("my-function/handler.py", "from pkg import mod\nhandler = mod.handler\n"),
        ("my-function/pkg\\mod.py", HELLO),
    ];
    let (status, answer) = world.upload("f", pack(&files)).await;
    assert_eq!(status, 202, "{answer}");
    assert!(answer["notes"][0].as_str().unwrap().contains("`my-function/`"), "{answer}");
    let status = world.settled("f").await;
    assert_eq!(status["phase"], "Ready", "{status}");
    assert_eq!(world.call("f", "/a%2Fb").await, (200, r#"{"hello":"/a%2Fb","version":1}"#.to_owned()));
    let source = world.dev.api(Method::GET, "/functions/f/source").send().await.unwrap();
    assert_eq!(source.headers()["content-type"], "application/zip");
    let mut back = zip::ZipArchive::new(Cursor::new(source.bytes().await.unwrap())).unwrap();
    let names: Vec<_> = (0..back.len()).map(|n| back.by_index(n).unwrap().name().unwrap().into_owned()).collect();
    assert_eq!(names, ["handler.py", "pkg/mod.py"]);
    // The same files, packed in another way.
    let (_, again) = world.upload("f", pack(&[("pkg/mod.py", HELLO), ("handler.py", files[0].1)])).await;
    assert_eq!((&again["changed"], &again["version"]["number"]), (&json!(false), &json!(1)), "{again}");
    world.dev.stop();
}

#[tokio::test]
async fn what_can_not_be_loaded_fails_at_its_build_with_file_line_and_remedy() {
    let world = World::start().await;
    world.create("py", json!({"runtime": "python3.11"})).await;
    world.create("js", json!({"runtime": "nodejs20"})).await;
    for (name, files, says) in [
        ("py", [("handler.py", "def handler(event, context):\n    return (1\n")], "handler.py:2: SyntaxError"),
        (
            "py",
            [("handler.py", "import nowhere\ndef handler(event, context): pass\n")],
            "handler.py:1: ModuleNotFoundError",
        ),
        ("py", [("other.py", HELLO)], "handler.py"),
        ("py", [("handler.py", "def handle(event, context): pass\n")], "no `handler`"),
        ("js", [("handler.js", "exports.handler = async () => {\n  return (1;\n};\n")], "handler.js:2: SyntaxError"),
        ("js", [("handler.js", "require('nowhere');\n")], "handler.js:1: Error"),
        ("js", [("other.js", HELLO_JS)], "handler.js"),
        ("js", [("handler.js", "exports.handle = 1;\n")], "no `handler`"),
    ] {
        let status = world.deployed(name, &files).await;
        assert_eq!(status["phase"], "Failed", "{status}");
        let error = status["lastError"].as_str().unwrap();
        assert!(error.contains(says) && error.contains("; "), "{says}: {error}");
        let log = world.dev.ok(["build-log", name]);
        assert!(log.contains("can't be loaded"), "{log}");
    }
    for (name, files) in [("py", [("handler.py", HELLO)]), ("js", [("handler.js", HELLO_JS)])] {
        let status = world.deployed(name, &files).await;
        assert_eq!(status["phase"], "Ready", "without a list of packages: {status}");
        assert_eq!(world.call(name, "/").await.0, 200);
    }
    world.dev.stop();
}

#[tokio::test]
async fn a_folder_is_deployed_changed_and_rolled_back() {
    let world = World::start().await;
    let folder = world.dir.path().join("app");
    write(&folder, &[("handler.py", HELLO), ("sless.toml", "runtime = \"python3.11\"\n"), ("node_modules/x.js", "x")]);
    let deploy = |more: &[&str]| {
        let args: Vec<_> = ["deploy", folder.to_str().unwrap()].iter().chain(more).map(|s| (*s).to_owned()).collect();
        world.dev.sless(args)
    };
    let said = deploy(&[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("version 1 is ready"), "{}", said.out);
    assert_eq!(world.call("app", "/").await.1, r#"{"hello":"/","version":1}"#);
    // Cold once, warm from then on.
    world.call("app", "/").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let grades = || {
        let rows = world.dev.json(["invocations", "app"]);
        rows.as_array().unwrap().iter().map(|row| row["cold"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    while grades() != ["warm", "container"] {
        assert!(Instant::now() < deadline, "{:?}", grades());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(deploy(&[]).out.contains("already"), "the same folder makes no version");
    write(&folder, &[("handler.py", &HELLO.replace("hello", "bye"))]);
    assert_eq!(deploy(&[]).code, 0);
    assert_eq!(world.call("app", "/").await.1, r#"{"bye":"/","version":2}"#);
    write(&folder, &[("handler.py", "def handler(:\n")]);
    let failed = deploy(&[]);
    assert_eq!(failed.code, 7, "{}{}", failed.out, failed.err);
    assert!(
        failed.err.contains("handler.py:1: SyntaxError") && failed.err.contains("version 2 still serves"),
        "{}",
        failed.err
    );
    assert_eq!(world.call("app", "/").await.1, r#"{"bye":"/","version":2}"#);
    let started = Instant::now();
    world.dev.ok(["rollback", "app", "1"]);
    assert!(started.elapsed() < Duration::from_secs(10));
    let status = world.settled("app").await;
    assert_eq!((&status["phase"], &status["version"]), (&json!("Ready"), &json!(4)));
    assert_eq!(world.call("app", "/").await.1, r#"{"hello":"/","version":4}"#);
    let versions = world.dev.json(["versions", "app"]);
    assert_eq!(versions[0]["image"], versions[3]["image"], "a rollback builds nothing");
    world.dev.stop();
}

#[tokio::test]
async fn one_file_is_a_function_and_settings_reach_it() {
    let world = World::start().await;
    world.dev.ok(["secrets", "set", "key", "s3cret"]);
    let file = world.dir.path().join("env.js");
    let text = "console.log('loaded');\nexports.handler = async () => { console.log('called'); return process.env.A + process.env.B; };\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    world.dev.ok(["deploy", file, "--runtime", "nodejs20", "--env", "A=1", "--secret", "B=key"]);
    assert_eq!(world.call("env", "/").await, (200, "1s3cret".to_owned()));
    world.dev.ok(["secrets", "set", "key", "other"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while world.call("env", "/").await.1 != "1other" {
        assert!(Instant::now() < deadline, "the new value does not reach it");
    }
    let logs = world.dev.ok(["logs", "env"]);
    assert!(logs.contains("loaded") && logs.contains("called"), "{logs}");
    world.dev.stop();
}

#[tokio::test]
async fn processes_are_bounded_replaced_and_never_left_behind() {
    let world = World::start_with(&["--idle", "1s"]).await;
    world.create("f", json!({"runtime": "python3.11", "memoryMb": 128, "timeoutSeconds": 5})).await;
    let code = "import os\nheld = []\ndef handler(event, context):\n    if event['path'] == '/eat':\n        while True:\n            held.append(b'x' * (16 << 20))\n    if event['path'] == '/die':\n        os._exit(3)\n    return os.getpid()\n";
    let status = world.deployed("f", &[("handler.py", code)]).await;
    assert_eq!(status["phase"], "Ready", "{status}");
    let (status, body) = world.call("f", "/eat").await;
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("out_of_memory"), "{body}");
    let (status, first) = world.call("f", "/").await;
    assert_eq!(status, 200, "the next call works: {first}");
    let (status, body) = world.call("f", "/die").await;
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("function_trapped") && body.contains("exit code 3"), "{body}");
    let (status, second) = world.call("f", "/").await;
    assert_eq!(status, 200, "{second}");
    assert_ne!(first, second);
    gone(&second, "an idle process is stopped").await;
    let (_, third) = world.call("f", "/").await;
    world.dev.kill();
    gone(&third, "a process ends with the platform").await;
}

/// Waits until a process is not there any more.
async fn gone(pid: &str, why: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    // A zombie has ended: who should have reaped it was killed.
    let there = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while there() {
        assert!(Instant::now() < deadline, "{why}: {pid}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn no_call_fails_while_versions_are_swapped() {
    let world = World::start().await;
    world.create("f", json!({"runtime": "nodejs20"})).await;
    world.deployed("f", &[("handler.js", HELLO_JS)]).await;
    let url = world.dev.url("f");
    let http = world.dev.http.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let calls = tokio::spawn(async move {
        let mut statuses = Vec::new();
        while stopped.try_recv().is_err() {
            let response = http.get(&url).send().await.unwrap();
            statuses.push(response.status().as_u16());
            response.bytes().await.unwrap();
        }
        statuses
    });
    for n in 0..4 {
        let status = world.deployed("f", &[("handler.js", &format!("{HELLO_JS}// {n}\n"))]).await;
        assert_eq!(status["phase"], "Ready", "{status}");
    }
    stop.send(()).unwrap();
    let statuses = calls.await.unwrap();
    assert!(statuses.len() > 4 && statuses.iter().all(|status| *status == 200), "{statuses:?}");
    world.dev.stop();
}

#[tokio::test]
async fn deleted_while_building_it_is_gone_and_the_last_of_two_uploads_wins() {
    let world = World::start().await;
    world.create("f", json!({"runtime": "python3.11"})).await;
    let slow = format!("import time\ntime.sleep(1)\n{HELLO}");
    world.upload("f", pack(&[("handler.py", &slow)])).await;
    let (_, second) = world.upload("f", pack(&[("handler.py", HELLO)])).await;
    assert_eq!(second["version"]["number"], 2, "{second}");
    let status = world.settled("f").await;
    assert_eq!((&status["phase"], &status["version"]), (&json!("Ready"), &json!(2)));
    let same = pack(&[("handler.py", &HELLO.replace("hello", "both"))]);
    let (one, other) = tokio::join!(world.upload("f", same.clone()), world.upload("f", same));
    assert_eq!(
        (&one.1["version"]["number"], &other.1["version"]["number"]),
        (&json!(3), &json!(3)),
        "{one:?} {other:?}"
    );
    world.settled("f").await;
    world.upload("f", pack(&[("handler.py", &slow)])).await;
    let (status, _) = world.send(Method::DELETE, "/functions/f", None).await;
    assert_eq!(status, 204);
    assert_eq!(world.call("f", "/").await.0, 404);
    world.dev.stop();
}

#[tokio::test]
async fn packages_are_installed_from_a_list_beside_the_source() {
    let world = World::start().await;
    // A package of this machine, so that no index is asked.
    let package = world.dir.path().join("greet");
    write(
        &package,
        &[
            (
                "pyproject.toml",
                "[project]\nname = \"greet\"\nversion = \"1.0\"\n[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
            ),
            ("backend.py", BACKEND),
        ],
    );
    world.create("f", json!({"runtime": "python3.11"})).await;
    let list = package.to_str().unwrap();
    let code = "import greet\ndef handler(event, context):\n    return greet.WORD\n";
    let status = world.deployed("f", &[("handler.py", code), ("requirements.txt", list)]).await;
    assert_eq!(status["phase"], "Ready", "{status} {}", world.dev.ok(["build-log", "f"]));
    assert_eq!(world.call("f", "/").await, (200, "good day".to_owned()));
    let missing = [("handler.py", code), ("requirements.txt", "./not-there")];
    let status = world.deployed("f", &missing).await;
    let error = status["lastError"].as_str().unwrap();
    assert!(error.contains("requirements.txt can't be installed"), "{error}");
    world.dev.stop();
}

/// A build backend (PEP 517) that needs no other package.
const BACKEND: &str = "import zipfile, os\n\ndef build_wheel(folder, config_settings=None, metadata_directory=None):\n    name = 'greet-1.0-py3-none-any.whl'\n    with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:\n        wheel.writestr('greet.py', \"WORD = 'good day'\\n\")\n        wheel.writestr('greet-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n')\n        wheel.writestr('greet-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n        wheel.writestr('greet-1.0.dist-info/RECORD', '')\n    return name\n";
