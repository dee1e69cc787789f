use std::fs;

use clap::Parser as _;
use sless_core::Runtime;

use super::*;
use crate::args::{Cli, Command};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn args(line: &[&str]) -> DeployArgs {
    match Cli::try_parse_from(["sless", "deploy"].iter().chain(line)).unwrap().command {
        Command::Deploy(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn plan(path: &Path, flags: &[&str]) -> Result<Plan, Failure> {
    let path = path.to_str().unwrap();
    Plan::make(&args(&[&[path], flags].concat()))
}

/// A folder named `my_app` with these files.
fn folder(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("my_app");
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    (outer, folder)
}

#[test]
fn names_come_from_files_as_far_as_the_rule_allows() {
    for (stem, name) in [
        ("hello", "hello"),
        ("Hello_World.v2", "hello-world-v2"),
        ("__x__", "x"),
        ("a  b", "a-b"),
        (&"n".repeat(60), &"n".repeat(48)),
    ] {
        assert_eq!(name_of(stem).unwrap().as_str(), name, "{stem}");
    }
    for (stem, example) in [
        ("2048", "--name f-2048"),
        ("", "--name hello"),
        ("日本", "--name hello"),
        ("kubernetes", "--name f-kubernetes"),
    ] {
        let failure = name_of(stem).unwrap_err();
        assert_eq!(failure.exit, Exit::Invalid);
        assert!(failure.text().contains(example), "{}", failure.text());
    }
}

#[test]
fn a_component_alone_becomes_a_function_with_an_http_trigger() {
    let (_outer, folder) = folder(&[("hello_1.wasm", COMPONENT)]);
    let plan = plan(&folder.join("hello_1.wasm"), &[]).unwrap();
    assert_eq!(plan.name.as_str(), "hello-1");
    assert!(plan.notes[0].contains("hello-1") && plan.notes[0].contains("`hello_1`"));
    assert_eq!(plan.triggers.len(), 1);
    assert_eq!(plan.triggers[0].name.as_str(), "hello-1");
    assert_eq!(plan.spec(None), FunctionSpec::new(Runtime::Wasm));
    assert!(
        Plan::make(&args(&[folder.join("hello_1.wasm").to_str().unwrap(), "--no-http"])).unwrap().triggers.is_empty()
    );
}

#[test]
fn flags_beat_the_file_which_beats_what_was_there() {
    let manifest = b"name = \"named\"\ncomponent = \"f.wasm\"\nmemoryMb = 64\n[env]\nA = \"file\"\nB = \"file\"\n";
    let (_outer, folder) = folder(&[("f.wasm", COMPONENT), ("sless.toml", manifest)]);
    let flags = ["--timeout", "7", "--env", "A=flag", "--secret", "B=key", "--allow", "example.org"];
    let plan = plan(&folder, &flags).unwrap();
    assert_eq!(plan.name.as_str(), "named");
    let mut present = FunctionSpec::new(Runtime::Wasm);
    present.concurrency = 5;
    present.s3_key = Some("k".into());
    let spec = plan.spec(Some(&present));
    assert_eq!((spec.memory_mb, spec.timeout_seconds), (64, 7));
    assert_eq!(spec.concurrency, FunctionSpec::new(Runtime::Wasm).concurrency, "a file describes the whole function");
    assert_eq!(spec.s3_key.as_deref(), Some("k"));
    assert_eq!(spec.env.into_iter().collect::<Vec<_>>(), [("A".to_owned(), "flag".to_owned())]);
    assert_eq!(spec.secret_refs["B"].as_str(), "key");
    assert_eq!(spec.egress.allow, ["example.org"]);
}

#[test]
fn without_a_file_settings_that_are_not_given_stay() {
    let (_outer, folder) = folder(&[("f.wasm", COMPONENT)]);
    let mut present = FunctionSpec::new(Runtime::Wasm);
    present.concurrency = 5;
    present.env.insert("A".into(), "old".into());
    let spec = plan(&folder.join("f.wasm"), &["--memory", "32"]).unwrap().spec(Some(&present));
    assert_eq!((spec.memory_mb, spec.concurrency, spec.env["A"].as_str()), (32, 5, "old"));
    assert_eq!(plan(&folder.join("f.wasm"), &[]).unwrap().spec(Some(&present)), present);
}

#[test]
fn a_file_that_names_another_component_says_nothing_of_this_one() {
    let files: &[(&str, &[u8])] =
        &[("a.wasm", COMPONENT), ("b.wasm", COMPONENT), ("sless.toml", b"name = \"of-a\"\ncomponent = \"a.wasm\"\n")];
    let (_outer, folder) = folder(files);
    assert_eq!(plan(&folder.join("a.wasm"), &[]).unwrap().name.as_str(), "of-a");
    assert_eq!(plan(&folder.join("b.wasm"), &[]).unwrap().name.as_str(), "b");
    assert_eq!(plan(&folder.join("sless.toml"), &[]).unwrap().code.file(), folder.join("a.wasm"));
}

#[test]
fn triggers_of_the_file_replace_the_default_one() {
    let with = |triggers: &str| {
        let manifest = format!("component = \"f.wasm\"\n{triggers}");
        let (_outer, folder) = folder(&[("f.wasm", COMPONENT), ("sless.toml", manifest.as_bytes())]);
        plan(&folder, &[]).map(|p| p.triggers.into_iter().map(|t| t.name.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(with("").unwrap(), ["my-app"]);
    assert!(with("triggers = []\n").unwrap().is_empty());
    assert_eq!(with("[[triggers]]\nname = \"web\"\nhttp = {}\n").unwrap(), ["web"]);
    let twice = with("[[triggers]]\nhttp = {}\n[[triggers]]\nhttp = {}\n").unwrap_err();
    assert!(twice.text().contains("two triggers named my-app"), "{}", twice.text());
}

#[test]
fn a_rust_project_is_deployed_from_its_newest_component() {
    let (_outer, folder) = folder(&[
        ("Cargo.toml", b""),
        ("target/wasm32-wasip2/release/old.wasm", COMPONENT),
        ("target/wasm32-wasip2/release/new.wasm", COMPONENT),
    ]);
    let release = folder.join(CARGO_OUTPUT);
    let old = fs::File::options().append(true).open(release.join("old.wasm")).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let plan = plan(&folder, &[]).unwrap();
    assert_eq!((plan.code.file(), plan.name.as_str()), (release.join("new.wasm").as_path(), "my-app"));
}

#[test]
fn source_is_packed_and_one_file_names_its_entry_point() {
    let (_outer, folder) = folder(&[
        ("handler.py", b"def handler(event, context): pass"),
        ("app.py", b"def handler(event, context): pass"),
        ("sless.toml", b"runtime = \"python3.11\"\nmemoryMb = 64\n"),
    ]);
    let all = plan(&folder, &[]).unwrap();
    let spec = all.spec(None);
    assert_eq!((spec.runtime, spec.entrypoint, spec.memory_mb), (Runtime::Python311, None, 64));
    assert_eq!(all.code.file().file_name().unwrap(), "my-app.zip");
    let one = plan(&folder.join("app.py"), &["--runtime", "wasm-python"]).unwrap();
    assert_eq!((one.name.as_str(), one.spec(None).entrypoint.as_deref()), ("app", Some("app.handler")));
    let named = plan(&folder.join("app.py"), &["--runtime", "wasm-python", "--entrypoint", "app.main"]).unwrap();
    assert_eq!(named.spec(None).entrypoint.as_deref(), Some("app.main"));
    let other = plan(&folder.join("app.py"), &["--runtime", "nodejs20"]).unwrap_err();
    assert!(other.text().contains("--runtime python3.11"), "{}", other.text());
}

#[test]
fn what_can_not_be_deployed_says_what_to_do() {
    let say = |files: &[(&str, &[u8])], path: &str| {
        let (_outer, folder) = folder(files);
        let failure = plan(&folder.join(path), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Invalid);
        failure.text()
    };
    let text = say(&[("Cargo.toml", b"")], "");
    assert!(text.contains("build it first: cd ") && text.contains(CARGO_BUILD), "{text}");
    let text = say(&[("sless.toml", b"component = \"gone.wasm\"\n"), ("Cargo.toml", b"")], "");
    assert!(text.contains("gone.wasm, which is not there") && text.contains(CARGO_BUILD), "{text}");
    let text = say(&[("readme.md", b"")], "");
    assert!(text.contains("neither a sless.toml nor a Cargo.toml"), "{text}");
    for path in ["handler.py", ""] {
        let text = say(&[("handler.py", b"def handler(): pass")], path);
        assert!(text.contains("--runtime wasm-python or --runtime python3.11"), "{text}");
    }
    let text = say(&[("text.wasm", b"text")], "text.wasm");
    assert!(text.contains("is not a WebAssembly component"), "{text}");
    let text = say(&[("x", b"")], "missing.wasm");
    assert!(text.contains("missing.wasm: No such file"), "{text}");
    let text = say(&[("f.wasm", COMPONENT), ("sless.toml", b"\nmemory = 1\n")], "");
    assert!(text.contains("line 2") && text.contains("`memory`"), "{text}");
}

#[test]
fn the_build_command_makes_the_component_that_is_deployed() {
    let manifest = b"build = \"printf '\\\\0asm' > out.wasm\"\ncomponent = \"out.wasm\"\n";
    let (_outer, folder) = folder(&[("sless.toml", manifest)]);
    let without = plan(&folder, &["--no-build"]).unwrap_err();
    assert!(without.text().contains("out.wasm, which is not there"), "{}", without.text());
    assert_eq!(plan(&folder, &[]).unwrap().code.file(), folder.join("out.wasm"));
    // It runs at each deploy, and not when the component itself is named.
    fs::write(folder.join("sless.toml"), "build = \"echo no; exit 3\"\ncomponent = \"out.wasm\"\n").unwrap();
    assert!(plan(&folder.join("out.wasm"), &[]).is_ok());
    let failure = plan(&folder, &[]).unwrap_err();
    assert_eq!(failure.exit, Exit::BuildFailed);
    assert!(failure.text().contains("echo no; exit 3") && failure.text().contains("--no-build"), "{}", failure.text());
}
