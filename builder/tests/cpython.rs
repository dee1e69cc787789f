//! Python becomes a component whose engine is shared. Needs the engine, which `cargo xtask engines` builds; without it
//! these are reported as ignored.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failure fails the test, which says what it measured")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use sless_builder::cache::Packs;
use sless_builder::compile;
use sless_builder::python::{self, BuildError as Error, Built, File, Limits, Python, Source};
use sless_core::artifact::MODULE_IMPORT_PREFIX;
use sless_core::build_protocol::PreparedModule;

/// Where `cargo xtask engines` puts it: beside the programs.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable")]
fn engine_path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("tests lie in deps/ of the profile's folder");
    // Where `build.build-dir` is set, tests lie there, and programs in the target folder.
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let profile = match (target, profile.file_name()) {
        (Some(target), Some(name)) => target.join(name),
        _ => profile.to_owned(),
    };
    profile.join("engines/wasm-python.wasm")
}

fn packs() -> Packs {
    Packs::new(Vec::new(), None, &sless_builder::engine())
}

/// The engine, prepared once for all tests: half a minute.
fn prepared() -> &'static (tempfile::TempDir, Vec<PreparedModule>) {
    static PREPARED: std::sync::OnceLock<(tempfile::TempDir, Vec<PreparedModule>)> = std::sync::OnceLock::new();
    PREPARED.get_or_init(|| {
        let wasm = std::fs::read(engine_path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let modules = python::prepare(&wasm, folder.path()).unwrap();
        println!("prepared in {:?}: {modules:?}", started.elapsed());
        (folder, modules)
    })
}

fn python(limits: Limits) -> Python {
    python::open_with(prepared().0.path(), limits).unwrap()
}

fn source(text: &str) -> Source {
    files(&[("handler.py", text)])
}

fn files(files: &[(&str, &str)]) -> Source {
    let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), content: text.as_bytes().to_vec() };
    Source {
        files: files.iter().map(file).collect(),
        packages: Vec::new(),
        entrypoint: "handler.handler".to_owned(),
        evaluate: true,
    }
}

fn build(text: &str) -> Result<Built, Error> {
    python(Limits::default()).build(source(text))
}

const HELLO: &str = "def handler(event, context):\n    return {'hello': 'world'}\n";

fn a_function_imports_the_engine_and_exports_its_handler_alone() -> Result<(), Failed> {
    let built = build(HELLO).unwrap();
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0);
    for payload in wasmparser::Parser::new(0).parse_all(&built.component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) if depth > 0 => depth -= 1,
            wasmparser::Payload::ComponentImportSection(section) if depth == 0 => {
                // Types ask nothing of a host.
                let asked = section.into_iter().map(Result::unwrap);
                let asked = asked.filter(|import| !matches!(import.ty, wasmparser::ComponentTypeRef::Type(_)));
                imports.extend(asked.map(|import| import.name.name.to_owned()));
            }
            wasmparser::Payload::ComponentExportSection(section) if depth == 0 => {
                exports.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            _ => {}
        }
    }
    let module = format!("{MODULE_IMPORT_PREFIX}{}", prepared().1[0].wasm);
    assert!(imports.contains(&module), "{imports:?}");
    assert!(imports.iter().all(|name| *name == module || name.starts_with("wasi:")), "{imports:?}");
    assert!(exports.len() == 1 && exports[0].starts_with("wasi:http/incoming-handler@0.2"), "{exports:?}");
    wasmparser::Validator::new_with_features(sless_engine::proposals()).validate_all(&built.component).unwrap();
    Ok(())
}

fn a_second_function_costs_its_memory_only() -> Result<(), Failed> {
    let python = python(Limits::default());
    let first = python.build(source(HELLO)).unwrap();
    compile(&first.component, &packs()).unwrap();
    let started = Instant::now();
    let second = python.build(source("def handler(event, context):\n    return event['path']\n")).unwrap();
    let built = started.elapsed();
    let started = Instant::now();
    let compiled = compile(&second.component, &packs()).unwrap();
    println!(
        "second function: built in {built:?}, compiled in {:?}; component {} B, artifact {} B, memory {} B",
        started.elapsed(),
        second.component.len(),
        compiled.artifact.len(),
        second.memory_bytes
    );
    if let Some(folder) = std::option_env!("SLESS_KEEP") {
        std::fs::write(Path::new(folder).join("function.wasm"), &first.component).unwrap();
    }
    // Its code is some trampolines.
    assert!(compiled.artifact.len() < second.memory_bytes + (2 << 20), "{}", compiled.artifact.len());
    Ok(())
}

fn code_that_depends_on_its_surroundings_runs_in_each_instance() -> Result<(), Failed> {
    let tail = "\ndef handler(event, context):\n    return 1\n";
    for (text, what) in [
        ("import os\nK = os.environ['KEY']", "KeyError"),
        ("import os\nK = os.environ.get('KEY')", "the environment (handler.py:2)"),
        ("import time\nT = time.time()", "the date"),
        ("import os\nR = os.urandom(4)", "random bytes"),
        ("import uuid\nU = uuid.uuid4()", "random bytes"),
        ("import urllib.request\nurllib.request.urlopen('http://example.com')", "network"),
    ] {
        let built = build(&format!("{text}{tail}")).unwrap();
        assert!(built.impure.iter().any(|line| line.contains(what)), "{text}: {:?}", built.impure);
    }
    let pure =
        build(&format!("import random, asyncio, tempfile\nprint('loading')\nX = {{n: n for n in range(9)}}{tail}"));
    let pure = pure.unwrap();
    assert_eq!((pure.impure, pure.printed), (vec![], vec!["loading".to_owned()]));
    Ok(())
}

fn modules_of_the_function_its_packages_and_the_library_are_found() -> Result<(), Failed> {
    let mut source = files(&[
        (
            "src/app.py",
            "from lib import prices\nimport yes, plistlib, data\ndef main(event, context): return prices.total()\n",
        ),
        (
            "lib/prices.py",
            "from .more import X\nimport json, os\nassert os.path.exists('/function/lib/prices.py')\n\
            with open(os.path.join(os.path.dirname(__file__), 'table.json')) as f: T = json.load(f)\n\
            def total(): return X + T['a']\n",
        ),
        ("lib/more/__init__.py", "X = 1\n"),
        ("lib/table.json", "{\"a\": 2}"),
        ("data/__init__.py", ""),
    ]);
    source.entrypoint = "src/app.main".to_owned();
    source.packages.push(File {
        path: "yes/__init__.py".to_owned(),
        content: b"import importlib.metadata\nV = importlib.metadata.version('yes')\nassert V == '1.2'\n".to_vec(),
    });
    source.packages.push(File {
        path: "yes-1.2.dist-info/METADATA".to_owned(),
        content: b"Metadata-Version: 2.1\nName: yes\nVersion: 1.2\n".to_vec(),
    });
    let built = python(Limits::default()).build(source).unwrap();
    assert!(built.impure.is_empty(), "{:?}", built.impure);
    Ok(())
}

fn faults_name_the_file_the_line_and_the_remedy() -> Result<(), Failed> {
    for (text, place, what) in [
        ("def handler(event, context):\n    return {\n", "handler.py:2: SyntaxError", "correct the file"),
        ("A = 1\nNone.foo\n", "handler.py:2: AttributeError", "top of the file"),
        ("import requests_not_there\n", "handler.py:1: ModuleNotFoundError", "requirements.txt"),
        ("import sqlite3\n", "handler.py:1: ModuleNotFoundError", "python3.11"),
        ("from json import nothing\n", "handler.py:1: ImportError", "a name that the module has"),
        ("other = 1\n", "handler.py: handler.py has no `handler`", "entrypoint"),
        ("handler = 7\n", "`handler` in handler.py is a int", "def handler(event, context)"),
    ] {
        let told = match build(text) {
            Err(error) => error.to_string(),
            // What may come from the surroundings is told, and tried again in each instance.
            Ok(built) => built.impure.join("\n"),
        };
        assert!(told.contains(place) && told.contains(what), "{text}: {told}");
    }
    let none = python(Limits::default()).build(files(&[("main.py", HELLO)])).unwrap_err().to_string();
    assert!(none.contains("there is no handler.py"), "{none}");
    Ok(())
}

fn code_at_the_top_is_bounded() -> Result<(), Failed> {
    let python = python(Limits { memory_bytes: 64 << 20, time: Duration::from_millis(1500) });
    let started = Instant::now();
    let spin = python.build(source("while True: pass\n")).unwrap_err();
    assert!(matches!(spin, Error::Time { .. }), "{spin}");
    assert!(started.elapsed() < Duration::from_secs(30));
    let hog = python.build(source("a = []\nwhile True: a.append(bytearray(1 << 20))\n")).unwrap_err();
    assert!(matches!(hog, Error::Memory { .. }), "{hog}");
    assert!(python.build(source(HELLO)).is_ok());
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let missing = !engine_path().exists();
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(name, test).with_ignored_flag(missing);
    let trials = vec![
        trial(
            "a_function_imports_the_engine_and_exports_its_handler_alone",
            a_function_imports_the_engine_and_exports_its_handler_alone,
        ),
        trial("a_second_function_costs_its_memory_only", a_second_function_costs_its_memory_only),
        trial(
            "code_that_depends_on_its_surroundings_runs_in_each_instance",
            code_that_depends_on_its_surroundings_runs_in_each_instance,
        ),
        trial(
            "modules_of_the_function_its_packages_and_the_library_are_found",
            modules_of_the_function_its_packages_and_the_library_are_found,
        ),
        trial("faults_name_the_file_the_line_and_the_remedy", faults_name_the_file_the_line_and_the_remedy),
        trial("code_at_the_top_is_bounded", code_at_the_top_is_bounded),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
