//! Every template of `sless new`, as its reader would go on: made, tried, deployed, called. Then, in the same folder, a
//! function that uses every part of the library that needs the host.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that runs the tools of this machine")]

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use sless_tests::dev::{Answer, Dev, program};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let has = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let wasm_rust = root.join("tools/wasm-rust.sh");
    let componentize = cache().join("componentize/debug/sless-componentize").exists();
    let wasi = has("sh", &["-c", "echo '#include <stdlib.h>' | clang-19 --target=wasm32-wasi -E - > /dev/null"]);
    // (language, the source that a function of it is in, whether its tools are here)
    let languages = [
        ("rust", "src/lib.rs", has(wasm_rust.to_str().unwrap(), &["check"])),
        ("go", "main.go", componentize && has("go", &["version"])),
        ("c", "src/handler.c", componentize && wasi),
    ];
    let sources = [
        ("js", has("npm", &["--version"])),
        ("python", has("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 11))"])),
    ];
    let made = sources.into_iter().map(|(lang, here)| {
        Trial::test(format!("{lang}_is_made_and_tried"), move || tried(lang)).with_ignored_flag(!here)
    });
    let trials = languages
        .into_iter()
        .map(|(lang, source, here)| {
            let name = format!("{lang}_is_made_tried_deployed_and_called");
            Trial::test(name, move || deployed(lang, source)).with_ignored_flag(!here)
        })
        .chain(made)
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The cache that `cargo xtask` fills.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    base.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache")).join("sless")
}

/// Runs a line of a terminal in a folder, where `sless` is on the path, too.
fn shell(folder: &Path, data: &Path, line: &str) -> Answer {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut path: OsString = program().parent().unwrap().into();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    // Where rustup can't fetch the target, this is the compiler that has it; else it says nothing.
    let script = format!("eval \"$('{}' env)\"; {line}", root.join("tools/wasm-rust.sh").display());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(folder).env("PATH", path).env("SLESS_DATA", data);
    command.env("COMPONENTIZE", cache().join("componentize/debug/sless-componentize"));
    // A function's dependencies are compiled once, not once a temporary folder.
    command.env("CARGO_BUILD_BUILD_DIR", cache().join("sdk-build")).env_remove("CARGO_TARGET_DIR").env_remove("CARGO");
    command.output().unwrap().into()
}

fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    let answer: Answer =
        command.args(["--silent", "--show-error", "--noproxy", "*"]).args(args).output().unwrap().into();
    assert_eq!(answer.code, 0, "curl {}: {}", args.join(" "), answer.err);
    answer.out
}

/// What `sless new` says to do next.
fn new(dir: &Path, data: &Path, name: &str, lang: &str) -> Vec<String> {
    let made = shell(dir, data, &format!("sless new {name} --lang {lang} --output json"));
    assert_eq!(made.code, 0, "{}", made.err);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let next: Vec<_> = made["next"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect();
    assert_eq!(next.len(), 3);
    next
}

fn tried(lang: &str) -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    let next = new(dir.path(), dir.path(), &format!("greet-{lang}"), lang);
    let done = shell(dir.path(), dir.path(), &format!("set -e; {}", next[..2].join("\n")));
    assert_eq!(done.code, 0, "{}\n{}\n{}", next.join("\n"), done.out, done.err);
    // Two tests were run: each tool counts in its own words.
    let said = done.out + &done.err;
    assert!(said.contains("pass 2") || said.contains("Ran 2 tests"), "{said}");
    Ok(())
}

fn deployed(lang: &str, source: &str) -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let dev = Dev::start(&data);
    let name = format!("greet-{lang}");
    let next = new(dir.path(), &data, &name, lang);
    // All three in one terminal, since the first changes the folder.
    let done = shell(dir.path(), &data, &format!("set -e; {}", next.join("\n")));
    assert_eq!(done.code, 0, "{}\n{}\n{}", next.join("\n"), done.out, done.err);
    assert!(done.err.contains("running the build command of sless.toml"), "{}", done.err);
    assert!(done.out.contains(&dev.url(&name)), "{}", done.out);
    greets(&dev, &name);
    exercised(&dev, lang, &name, &dir.path().join(&name), source);
    dev.stop();
    Ok(())
}

/// What every template's function does.
fn greets(dev: &Dev, name: &str) {
    let call = |query: &str| {
        let url = format!("{}/{query}", dev.url(name));
        curl(&["--write-out", "\n%{http_code} %{content_type}", "--header", "x-request-id: r7", &url])
    };
    assert_eq!(call("?name=Ada%22"), "{\"message\":\"hello, Ada\\\"\"}\n200 application/json");
    let refused = call("?name=");
    assert!(refused.ends_with("\n400 application/problem+json") && refused.contains("`name` is empty"), "{refused}");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let lines = dev.ok(["logs", name]);
        if let Some(line) = lines.lines().find(|line| line.contains("greeting Ada")) {
            assert!(line.contains("\"level\":\"info\"") && line.contains("\"requestId\":\"r7\""), "{line}");
            break;
        }
        assert!(Instant::now() < deadline, "its line never came into the log: {lines}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The function of `tests/guests/sdks/`, which is the same in each language.
fn exercised(dev: &Dev, lang: &str, name: &str, folder: &Path, source: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let extension = source.rsplit('.').next().unwrap();
    let all = std::fs::read(root.join(format!("guests/sdks/{lang}.{extension}"))).unwrap();
    std::fs::write(folder.join(source), all).unwrap();
    let peer = peer();
    let data = folder.parent().unwrap().join("data");
    let deploy = |more: &str| {
        let done = shell(folder, &data, &format!("sless deploy --reuse --env GREETING=hi {more}"));
        assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    };
    let url = |path: &str| format!("{}{path}", dev.url(name));
    let fetch = url(&format!("/fetch?url=http://{peer}/a%3Fb%3Dc%23fragment"));
    deploy("");
    let refused = curl(&[&fetch]);
    assert!(refused.contains("egress.allow") && refused.contains("\"status\":500"), "{refused}");
    deploy(&format!("--no-build --allow {peer}"));
    assert_eq!(curl(&[&fetch]), "418 b POST /a?b=c ping");
    assert_eq!(curl(&[&url(&format!("/fetch?url=http://{peer}"))]), "418 b POST / ping", "a URL needs no path");
    assert!(curl(&[&url("/fetch?url=ftp://x")]).contains("function_error"));

    assert_eq!(curl(&["--request", "QUUX", &url("/a%2Fb//c?x=%20")]), "QUUX /a%2Fb//c?x=%20");
    assert_eq!(curl(&[&url("/env")]), "hi");
    let cookies = curl(&["--include", &url("/cookies")]).to_ascii_lowercase();
    assert!(
        cookies.starts_with("http/1.1 201") && cookies.contains("set-cookie: a=1\r\nset-cookie: b=2\r\n"),
        "{cookies}"
    );
    let error: Value = serde_json::from_str(&curl(&[&url("/error")])).unwrap();
    assert_eq!(
        (&error["status"], &error["code"], &error["detail"]),
        (&500.into(), &"function_error".into(), &"no number".into())
    );

    // Bytes of all values, more than a piece of a stream and than the memory at first; an instance has several of them.
    let body: Vec<u8> = (0..3_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (sent, got) = (folder.join("sent"), folder.join("got"));
    std::fs::write(&sent, &body).unwrap();
    let binary = format!("@{}", sent.display());
    for _ in 0..5 {
        let head = ["--header", "content-type: image/x", "--write-out", "%{http_code} %{content_type}", "--output"];
        let said = curl(&[&head[..], &[got.to_str().unwrap(), "--data-binary", &binary, &url("/echo")]].concat());
        assert_eq!(said, "200 image/x");
        assert!(std::fs::read(&got).unwrap() == body, "the bytes came back as they were sent");
    }
}

/// A server that tells what it was sent. It ends with the test.
fn peer() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            tell(stream.unwrap());
        }
    });
    address
}

fn tell(mut stream: TcpStream) {
    let mut request = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let whole = text.split_once("\r\n\r\n").filter(|(head, body)| {
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            body.len() >= length.unwrap_or(0)
        });
        if let Some((head, body)) = whole {
            break (head.to_owned(), body.to_owned());
        }
        if read == 0 {
            return;
        }
    };
    let target: Vec<_> = head.split(' ').take(2).collect();
    let seen = head.to_ascii_lowercase().split("x-a: ").nth(1).and_then(|rest| rest.lines().next().map(str::to_owned));
    let answer = format!("{} {body}", target.join(" "));
    let head = format!(
        "HTTP/1.1 418 Teapot\r\nx-seen: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        seen.unwrap_or_default(),
        answer.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes()));
}
