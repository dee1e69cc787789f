use std::collections::BTreeSet;

use clap::ValueEnum as _;

use super::*;
use crate::manifest;

fn text(result: Result<(), Failure>) -> String {
    result.unwrap_err().text()
}

fn new(folder: &Path, lang: Language, runtime: Option<Runtime>) -> Result<(), Failure> {
    run(NewArgs { folder: folder.to_owned(), lang, runtime }, &mut Output::new(crate::output::Format::Json))
}

#[test]
fn every_template_has_what_a_function_needs() {
    let dir = tempfile::tempdir().unwrap();
    for (index, &lang) in Language::value_variants().iter().enumerate() {
        for &runtime in templates::of(lang).runtimes {
            let folder = dir.path().join(format!("fn-{index}-{}", runtime.name().replace('.', "-")));
            new(&folder, lang, Some(runtime)).unwrap();
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
            let described = manifest::parse(&read("sless.toml")).unwrap();
            assert_eq!(described.name.unwrap().as_str(), folder.file_name().unwrap().to_str().unwrap());
            assert_eq!(described.runtime, Some(runtime));
            assert_eq!(described.build.is_some(), runtime == Runtime::Wasm, "a component is built by its owner");
            assert_eq!(described.component.is_some(), runtime == Runtime::Wasm);
            for name in ["README.md", ".gitignore", ".slessignore"] {
                assert!(!read(name).is_empty(), "{lang:?}: {name}");
            }
            for file in templates::of(lang).files() {
                assert!(!read(file.path).contains("{{"), "{lang:?}: {} has a word that was not filled in", file.path);
            }
        }
    }
}

/// What is added to a template's folder is in the program as well.
#[test]
fn templates_are_whole() {
    let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-sdks");
    for &lang in Language::value_variants() {
        let value = lang.to_possible_value().unwrap();
        let folder = sdks.join(value.get_name()).join("template");
        let mut there = BTreeSet::new();
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    there.insert(path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let known: BTreeSet<_> = templates::of(lang).files().map(|file| file.path.to_owned()).collect();
        assert!(there.is_subset(&known), "{}: {:?}", value.get_name(), there.difference(&known));
    }
}

#[test]
fn nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("hello");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("mine"), "mine").unwrap();
    let failure = new(&folder, Language::Js, None).unwrap_err();
    assert_eq!(failure.exit, Exit::Conflict);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "it is as it was");
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(text(new(&file, Language::Js, None)).contains("not an empty folder"));
    // An empty folder is what `mkdir` before `sless new` leaves.
    std::fs::remove_file(folder.join("mine")).unwrap();
    new(&folder, Language::Js, None).unwrap();
    assert!(folder.join("handler.js").is_file());
}

#[test]
fn what_can_not_be_made_is_told_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let says = |name: &str, lang, runtime| text(new(&dir.path().join(name), lang, runtime));
    let bad_name = says("A_b", Language::Js, None);
    assert!(bad_name.contains("NAME") && bad_name.contains("`A_b`") && bad_name.contains("lower-case"), "{bad_name}");
    let bad_runtime = says("hello", Language::Js, Some(Runtime::Python311));
    assert!(bad_runtime.contains("--runtime") && bad_runtime.contains("wasm-js or nodejs20"), "{bad_runtime}");
    assert!(says("no/folder", Language::Js, None).contains("make it first"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_folder_is_shown_as_a_shell_reads_it() {
    assert_eq!(quoted(Path::new("services/hello-1")), "services/hello-1");
    assert_eq!(quoted(Path::new("my folder/it's")), "-- 'my folder/it'\\''s'");
}
