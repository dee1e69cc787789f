//! Python in the host pool (`wasm-python`), from a folder to an answer, as its author sees it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failure fails the test, which says what it measured")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use sless_tests::dev::{Dev, program};

fn main() -> ExitCode {
    let engine = program().with_file_name("engines").join("wasm-python.wasm");
    let missing = !engine.is_file();
    let trial = |name: &str, run: fn(World) -> Result<(), Failed>| {
        let name =
            if missing { format!("{name} (no engine; `cargo xtask engines` builds it)") } else { name.to_owned() };
        Trial::test(name, move || run(World::start())).with_ignored_flag(missing)
    };
    let trials = vec![
        trial("a_folder_becomes_a_function_whose_words_and_faults_are_in_its_log", logs),
        trial("a_changed_handler_answers_soon", changed),
        trial("calls_go_out_through_the_egress_policy", egress),
        trial("settings_and_seeds_are_those_of_the_instance", instances),
        trial("what_is_wrong_with_the_source_ends_the_deploy_with_its_place", faults),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

struct World {
    dev: Dev,
    dir: tempfile::TempDir,
    tokio: tokio::runtime::Runtime,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dev = Dev::start(&dir.path().join("data"));
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { dev, dir, tokio }
    }

    fn folder(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.dir.path().join(name);
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn deploy(&self, folder: &Path) {
        self.dev.ok(["deploy".as_ref(), folder.as_os_str(), "--runtime".as_ref(), "wasm-python".as_ref()]);
    }

    fn call(&self, name: &str, path: &str) -> (u16, String) {
        self.tokio.block_on(async {
            let response = self.dev.http.get(format!("{}{path}", self.dev.url(name))).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    }

    /// Waits until the function's log has a text in it.
    fn logged(&self, name: &str, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let log = self.dev.ok(["logs", name]);
            if log.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "`{text}` is not in the log: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn logs(world: World) -> Result<(), Failed> {
    let folder = world.folder(
        "words",
        &[
            (
                "handler.py",
                "import asyncio, logging\nfrom lib import shout\n\n\
                 async def handler(event, context):\n    \
                     print('asked for', event['path'])\n    \
                     logging.warning('beware')\n    \
                     await asyncio.sleep(0.005)\n    \
                     return {'path': shout.loud(event['path']), 'query': event['query'], 'name': context.functionName,\n            \
                         'version': context.version}\n",
            ),
            ("lib/shout.py", "def loud(text):\n    if text == '/bad':\n        raise TypeError('on purpose')\n    return text\n"),
        ],
    );
    world.deploy(&folder);
    let (status, body) = world.call("words", "/a%2Fb?x=1&x=2&y=");
    let answer: Value = serde_json::from_str(&body)?;
    let wanted = json!({ "path": "/a%2Fb", "query": { "x": ["1", "2"], "y": "" }, "name": "words", "version": 1 });
    assert_eq!((status, answer), (200, wanted));
    world.logged("words", "asked for /a%2Fb");
    world.logged("words", "WARNING beware");

    let (status, body) = world.call("words", "/bad");
    assert!(status == 500 && body.contains("function_error") && body.contains("TypeError: on purpose"), "{body}");
    world.logged("words", "\"/function/lib/shout.py\", line 3");
    world.logged("words", "raise TypeError('on purpose')");
    Ok(())
}

fn changed(world: World) -> Result<(), Failed> {
    let text = |n: usize| format!("N = {n}\ndef handler(event, context):\n    return str(N)\n");
    world.deploy(&world.folder("changed", &[("handler.py", &text(0))]));
    assert_eq!(world.call("changed", "/"), (200, "0".to_owned()));
    for n in 1..=3 {
        let folder = world.folder("changed", &[("handler.py", &text(n))]);
        let started = Instant::now();
        world.deploy(&folder);
        assert_eq!(world.call("changed", "/"), (200, n.to_string()));
        println!("deployed again and called in {:?}", started.elapsed());
    }
    Ok(())
}

fn egress(world: World) -> Result<(), Failed> {
    let text = "import urllib.request\n\n\
                def handler(event, context):\n    \
                    try:\n        \
                        with urllib.request.urlopen(event['query']['url'], timeout=5) as answer:\n            \
                            return {'status': answer.status, 'body': answer.read().decode()}\n    \
                    except Exception as error:\n        \
                        return {'error': f'{type(error).__name__}: {error}'}\n";
    let folder = world.folder("out", &[("handler.py", text)]);
    world.deploy(&folder);
    let path = format!("/?url={}/healthz", world.dev.internal);
    let (status, body) = world.call("out", &path);
    assert!(status == 200 && body.contains("egress") && !body.contains("\"status\""), "{body}");
    world.folder("out", &[("sless.toml", "runtime = \"wasm-python\"\n[egress]\nallow = [\"127.0.0.0/8\"]\n")]);
    world.deploy(&folder);
    let (status, body) = world.call("out", &path);
    assert!(status == 200 && body.contains("\"status\":200"), "{body}");
    Ok(())
}

fn instances(world: World) -> Result<(), Failed> {
    let text = "import os, random, time, uuid\nGREETING = os.environ['GREETING']\n\n\
                def handler(event, context):\n    \
                    return {'greeting': GREETING, 'random': random.random(), 'uuid': str(uuid.uuid4()), 'time': time.time()}\n";
    let toml = "runtime = \"wasm-python\"\n[env]\nGREETING = \"hi\"\n";
    world.deploy(&world.folder("set", &[("handler.py", text), ("sless.toml", toml)]));
    let call = || -> Value { serde_json::from_str(&world.call("set", "/").1).unwrap() };
    let (one, other) = (call(), call());
    assert_eq!((&one["greeting"], &other["greeting"]), (&json!("hi"), &json!("hi")));
    assert!(one["random"] != other["random"] && one["uuid"] != other["uuid"], "{one} {other}");
    let now = sless_core::Timestamp::now().as_microsecond() as f64 / 1e6;
    assert!((now - other["time"].as_f64().unwrap()).abs() < 60.0, "{other}");
    let log = world.dev.ok(["build-log", "set"]);
    assert!(log.contains("GREETING"), "{log}");
    Ok(())
}

fn faults(world: World) -> Result<(), Failed> {
    for (files, told) in [
        (&[("handler.py", "def handler(event, context):\n    return 1 +\n")][..], "handler.py:2"),
        (&[("handler.py", "\nimport not_there\n")], "handler.py:2"),
        (&[("handler.py", "other = 1\n")], "has no `handler`"),
        (&[("main.py", "def handler(event, context): pass\n")], "handler.py"),
        (&[("handler.py", "def handler(e, c): pass\n"), ("requirements.txt", "idna\n-e .\n")], "requirements.txt:2"),
    ] {
        let folder = world.folder("faulty", files);
        let args = ["deploy".as_ref(), folder.as_os_str(), "--runtime".as_ref(), "wasm-python".as_ref()];
        let answer = world.dev.sless(args);
        assert!(
            answer.code != 0 && answer.err.contains(told),
            "{files:?}: {} {} {}",
            answer.code,
            answer.out,
            answer.err
        );
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
