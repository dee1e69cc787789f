//! JavaScript in the host pool (`wasm-js`), from a folder to an answer, as its author sees it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failure fails the test, which says what it measured")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use reqwest::Method;
use serde_json::json;
use sless_tests::dev::{Dev, program};

fn main() -> ExitCode {
    let engine = program().with_file_name("engines").join("wasm-js.wasm");
    let missing = !engine.is_file();
    let trial = |name: &str, run: fn(World) -> Result<(), Failed>| {
        let name =
            if missing { format!("{name} (no engine; `cargo xtask engines` builds it)") } else { name.to_owned() };
        Trial::test(name, move || run(World::start())).with_ignored_flag(missing)
    };
    let trials = vec![
        trial("a_folder_becomes_a_function_whose_words_and_faults_are_in_its_log", logs),
        trial("a_changed_handler_answers_soon_and_no_call_fails_meanwhile", changed),
        trial("calls_go_out_through_the_egress_policy", egress),
        trial("settings_and_secrets_are_read_by_the_code_at_the_top", settings),
        trial("several_files_and_typescript_are_one_function", several),
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
        self.dev.ok(["deploy".as_ref(), folder.as_os_str(), "--runtime".as_ref(), "wasm-js".as_ref()]);
    }

    fn call(&self, name: &str, path: &str) -> (u16, String) {
        self.tokio.block_on(async {
            let response = self.dev.http.get(format!("{}{path}", self.dev.url(name))).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    }

    /// The function's log once it has a text in it.
    fn logged(&self, name: &str, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let log = self.dev.ok(["logs", name]);
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "`{text}` is not in the log: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn logs(world: World) -> Result<(), Failed> {
    let folder = world.folder(
        "words",
        &[(
            "handler.js",
            "export async function handler(event, context) {\n\
               console.log('asked for', event.path);\n\
               if (event.path === '/bad') throw new TypeError('on purpose');\n\
               await new Promise((resolve) => setTimeout(resolve, 5));\n\
               return { path: event.path, query: event.query, name: context.functionName, version: context.version };\n\
             }\n",
        )],
    );
    world.deploy(&folder);
    let (status, body) = world.call("words", "/a%2Fb?x=1&x=2&y=");
    let answer: serde_json::Value = serde_json::from_str(&body)?;
    let wanted = json!({ "path": "/a%2Fb", "query": { "x": ["1", "2"], "y": "" }, "name": "words", "version": 1 });
    assert_eq!((status, answer), (200, wanted));
    world.logged("words", "asked for /a%2Fb");

    let (status, body) = world.call("words", "/bad");
    assert!(status == 500 && body.contains("function_error") && body.contains("TypeError: on purpose"), "{body}");
    world.logged("words", "handler.js:3");
    Ok(())
}

fn changed(world: World) -> Result<(), Failed> {
    let text = |n: usize| format!("const n = {n};\nexports.handler = () => String(n);\n");
    world.deploy(&world.folder("changed", &[("handler.js", &text(0))]));
    assert_eq!(world.call("changed", "/"), (200, "0".to_owned()));
    let url = world.dev.url("changed");
    let http = world.dev.http.clone();
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let calling = world.tokio.spawn(async move {
        let mut calls = 0;
        while !*stopped.borrow_and_update() {
            let response = http.get(&url).send().await.unwrap();
            assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
            calls += 1;
        }
        calls
    });
    for n in 1..=5 {
        let folder = world.folder("changed", &[("handler.js", &text(n))]);
        let started = Instant::now();
        world.deploy(&folder);
        assert_eq!(world.call("changed", "/"), (200, n.to_string()));
        println!("deployed again and called in {:?}", started.elapsed());
    }
    stop.send(true)?;
    assert!(world.tokio.block_on(calling)? > 0);
    Ok(())
}

fn egress(world: World) -> Result<(), Failed> {
    let text = "exports.handler = async (event) => {\n\
                  try {\n\
                    const response = await fetch(event.query.url);\n\
                    return { status: response.status, body: await response.text() };\n\
                  } catch (error) {\n\
                    return { error: String(error) };\n\
                  }\n\
                };\n";
    let folder = world.folder("out", &[("handler.js", text)]);
    world.deploy(&folder);
    let path = format!("/?url={}/healthz", world.dev.internal);
    let (status, body) = world.call("out", &path);
    assert!(status == 200 && body.contains("error") && !body.contains("\"status\""), "{body}");
    world.folder("out", &[("sless.toml", "runtime = \"wasm-js\"\n[egress]\nallow = [\"127.0.0.0/8\"]\n")]);
    world.deploy(&folder);
    let (status, body) = world.call("out", &path);
    assert!(status == 200 && body.contains("\"status\":200"), "{body}");
    Ok(())
}

fn settings(world: World) -> Result<(), Failed> {
    let text = "const { GREETING, KEY } = process.env;\nexports.handler = () => `${GREETING} ${KEY}`;\n";
    let toml = "runtime = \"wasm-js\"\n[env]\nGREETING = \"hi\"\n[secretRefs]\nKEY = \"key\"\n";
    let folder = world.folder("set", &[("handler.js", text), ("sless.toml", toml)]);
    world.tokio.block_on(async {
        world.dev.api(Method::POST, "/ensure").send().await.unwrap();
        let value = json!({ "value": "s3cret" });
        let answer = world.dev.api(Method::PUT, "/secrets/key").json(&value).send().await.unwrap();
        assert!(answer.status().is_success(), "{:?}", answer.text().await);
    });
    world.deploy(&folder);
    assert_eq!(world.call("set", "/"), (200, "hi s3cret".to_owned()));
    let log = world.dev.ok(["build-log", "set"]);
    assert!(log.contains("the environment (handler.js:1)"), "{log}");
    Ok(())
}

fn several(world: World) -> Result<(), Failed> {
    let folder = world.folder(
        "parts",
        &[
            (
                "handler.ts",
                "import { shout } from './lib/shout';\nexport const handler = (event: { path: string }): string => shout(event.path);\n",
            ),
            (
                "lib/shout.js",
                "const { format } = require('node:util');\n\
                 exports.shout = (text) => {\n\
                   if (text === '/bad') throw new Error('too loud');\n\
                   return format('%s!', text);\n\
                 };\n",
            ),
        ],
    );
    world.deploy(&folder);
    assert_eq!(world.call("parts", "/hey"), (200, "/hey!".to_owned()));
    assert_eq!(world.call("parts", "/bad").0, 500);
    world.logged("parts", "lib/shout.js:3");
    Ok(())
}

fn faults(world: World) -> Result<(), Failed> {
    for (files, told) in [
        (&[("handler.js", "exports.handler = () => {\n  return 1 +;\n};\n")][..], "handler.js:2"),
        (&[("handler.js", "exports.other = 1;\n")], "exports no `handler`"),
        (&[("handler.js", "\nimport './no.js';\n")], "handler.js:2"),
        (&[("index.js", "exports.handler = () => 1;\n")], "handler.js"),
    ] {
        let folder = world.folder("faulty", files);
        let args = ["deploy".as_ref(), folder.as_os_str(), "--runtime".as_ref(), "wasm-js".as_ref()];
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
