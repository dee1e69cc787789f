//! The built program, driven as a user would: deploy, curl, roll back, restart, curl.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use serde_json::json;
use sless_tests::dev::{Answer, Dev};
use sless_tests::guests;

fn curl(args: &[&str]) -> Answer {
    Command::new("curl").args(["--silent", "--show-error", "--noproxy", "*"]).args(args).output().unwrap().into()
}

fn deploy(dev: &Dev, guest: &str, more: &[&str]) -> String {
    let path = guests::path(guest);
    let mut args = vec!["deploy", path.to_str().unwrap()];
    args.extend(more);
    dev.ok(args)
}

#[test]
fn deploy_curl_roll_back_restart_curl() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let dev = Dev::start(&data);
    let said = deploy(&dev, "hello", &[]);
    assert!(said.contains(&dev.url("hello")), "{said}");
    let hello = |dev: &Dev| curl(&["--fail", &format!("{}/a%2Fb?x=1&x=2&y=", dev.url("hello"))]).out;
    let expected = json!({"message": "hello", "path": "/a%2Fb", "query": "x=1&x=2&y="});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&hello(&dev)).unwrap(), expected);

    let other = dir.path().join("hello.wasm");
    std::fs::write(&other, guests::marked("hello", "second")).unwrap();
    dev.ok(["deploy", other.to_str().unwrap()]);
    let versions = dev.json(["versions", "hello"]);
    let numbers: Vec<_> = versions.as_array().unwrap().iter().map(|v| v["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 1]);
    // The same again is no new version.
    dev.ok(["deploy", other.to_str().unwrap()]);
    assert_eq!(dev.json(["versions", "hello"]).as_array().unwrap().len(), 2);

    dev.ok(["rollback", "hello", "1"]);
    let function = dev.json(["functions", "get", "hello"]);
    assert_eq!((&function["status"]["phase"], &function["status"]["version"]), (&json!("Ready"), &json!(3)));
    let original = std::fs::read(guests::path("hello")).unwrap();
    assert_eq!(function["spec"]["sha256"], sless_core::Digest::of(&original).to_string());
    let before = hello(&dev);
    dev.stop();

    let dev = Dev::start(&data);
    assert_eq!(hello(&dev), before, "the same answer after a restart");
    assert_eq!(dev.json(["functions", "get", "hello"])["status"]["version"], 3);
    let rows = dev.json(["invocations", "hello"]);
    let rows = rows.as_array().unwrap();
    assert!(rows.len() >= 2, "calls of before the restart are there: {rows:?}");
    assert!(rows.iter().all(|row| row["outcome"] == "ok" && row["status"] == 200), "{rows:?}");
    assert_eq!(dev.sless(["functions", "delete", "hello"]).code, 0);
    assert!(curl(&[&dev.url("hello")]).out.contains("function_not_found"));
    dev.stop();
}

#[test]
fn the_three_lines_that_it_prints_work_as_printed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let dev = Dev::start(&data);
    deploy(&dev, "hello", &[]);
    dev.stop();
    // Printed anew, now with a function that is there.
    let dev = Dev::start(&data);
    let lines: Vec<_> = dev.welcome.lines().map(str::trim).filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 3, "{}", dev.welcome);
    for line in lines {
        let answer: Answer = Command::new("bash").args(["-c", &format!("{line} --fail")]).output().unwrap().into();
        assert_eq!(answer.code, 0, "{line}: {}{}", answer.out, answer.err);
        serde_json::from_str::<serde_json::Value>(&answer.out)
            .unwrap_or_else(|error| panic!("{line}: {error}: {}", answer.out));
    }
    dev.stop();
}

#[test]
fn what_goes_wrong_is_said_with_a_code_for_scripts() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(&dir.path().join("data"));
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hello = std::fs::read(guests::path("hello")).unwrap();
    // The same claims under a signature of another secret.
    let (claims, _) = dev.token.rsplit_once('.').unwrap();
    let forged = format!("{claims}.{}", "A".repeat(43));
    // (arguments, exit code, what the sentence has to say)
    let core = file("core.wasm", b"\0asm\x01\0\0\0");
    let cut = file("cut.wasm", &hello[..hello.len() / 2]);
    let text = file("text.wasm", b"not wasm");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["deploy", &core], 6, "component"),
        (&["deploy", &cut], 6, ""),
        (&["deploy", &text], 6, ""),
        (&["deploy", "nowhere.wasm"], 6, "nowhere.wasm"),
        (&["deploy", &core, "--name", "A_b"], 2, "lower-case letter"),
        (&["deploy", &core, "--memory", "0"], 6, "memoryMb"),
        (&["functions", "get", "nobody"], 3, "nobody"),
        (&["rollback", "nobody", "1"], 3, "nobody"),
        (&["invoke", "nobody"], 3, "nobody"),
        (&["--token", "a.b.c", "functions", "list"], 2, "token"),
        (&["--token", &forged, "functions", "list"], 4, "token"),
        (&["--namespace", "sless-0000000000000000", "functions", "list"], 4, ""),
        // Another endpoint does not get the token of `sless dev`.
        (&["--endpoint", "http://127.0.0.1:1", "functions", "list"], 2, "token"),
        (&["--endpoint", "http://127.0.0.1:1", "--token", &dev.token, "functions", "list"], 8, "127.0.0.1:1"),
        (&["functions", "frobnicate"], 2, "frobnicate"),
    ];
    for (args, code, says) in cases {
        let answer = dev.sless(*args);
        assert_eq!(answer.code, *code, "sless {}: {}{}", args.join(" "), answer.out, answer.err);
        assert!(answer.err.contains(says), "sless {}: {}", args.join(" "), answer.err);
        assert!(!answer.err.contains("panicked"), "{}", answer.err);
    }
    let second: Answer = Command::new(sless_tests::dev::program())
        .args(["dev", "--port", "0", "--data"])
        .arg(dir.path().join("data"))
        .output()
        .unwrap()
        .into();
    assert_ne!(second.code, 0);
    assert!(second.err.contains(&dev.pid().to_string()) && second.err.contains("--data"), "{}", second.err);
    let port = dev.endpoint.rsplit(':').next().unwrap();
    let taken: Answer = Command::new(sless_tests::dev::program())
        .args(["dev", "--port", port, "--data"])
        .arg(dir.path().join("elsewhere"))
        .output()
        .unwrap()
        .into();
    assert_ne!(taken.code, 0);
    assert!(taken.err.contains(port) && taken.err.contains("--port"), "{}", taken.err);
    dev.stop();
}

#[test]
fn a_function_is_configured_watched_and_called_by_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(&dir.path().join("data"));
    dev.ok(["secrets", "set", "token", "s3cret"]);
    deploy(&dev, "kitchen", &["--name", "kit", "--no-http", "--env", "COLOUR=green", "--secret", "TOKEN=token"]);
    assert!(curl(&[&dev.url("kit")]).out.contains("function_not_found"), "it is not exposed");
    let env = dev.ok(["invoke", "kit", "--path", "/env"]);
    assert!(env.contains("COLOUR=green") && env.contains("TOKEN=s3cret"), "{env}");
    assert!(!dev.ok(["secrets", "list", "--output", "json"]).contains("s3cret"));
    dev.ok(["triggers", "create", "kit"]);
    assert!(curl(&["--fail", &format!("{}/env", dev.url("kit"))]).out.contains("COLOUR=green"));
    dev.ok(["invoke", "kit", "--path", "/log"]);
    let logs = dev.ok(["logs", "kit"]);
    assert!(!logs.trim().is_empty());
    // Metrics are made of rows, which are written a moment after their calls.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let counted = || curl(&["--fail", &format!("{}/metrics", dev.internal)]).out.contains("sless_invocations_total{");
    while !counted() {
        assert!(std::time::Instant::now() < deadline, "no call was counted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(curl(&["--fail", &format!("{}/readyz", dev.internal)]).code == 0);
    assert!(dev.ok(["build-log", "kit"]).contains("compil"), "{}", dev.ok(["build-log", "kit"]));
    dev.stop();
}
