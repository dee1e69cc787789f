use super::*;

fn refused(wat: &str) -> String {
    check(&wat::parse_str(wat).unwrap(), &Limits::default()).unwrap_err().to_string()
}

/// A component that answers nothing, but is one: it has the handler and, in `body`, whatever a test adds.
fn handler(body: &str) -> String {
    format!(
        r#"(component
            {body}
            (core module $m (func (export "handle")))
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.3" (instance $handler)))"#
    )
}

#[test]
fn a_component_with_the_handler_passes() {
    let bytes = wat::parse_str(handler("")).unwrap();
    let checked = check(&bytes, &Limits::default()).unwrap();
    assert_eq!(checked, Checked { wasm: Digest::of(&bytes), functions: 1, notes: vec![] });
}

#[test]
fn what_is_given_may_be_imported_in_any_version_of_0_2() {
    for version in ["0.2.0", "0.2.6", "0.2.12", "0.2.99"] {
        let import = format!(
            r#"(import "wasi:random/random@{version}" (instance
                 (export "get-random-u64" (func (result u64)))))
               (import "wasi:io/poll@{version}" (instance
                 (export "pollable" (type (sub resource)))))
               (type $t u8)
               (import "a-type" (type (eq $t)))"#
        );
        let bytes = wat::parse_str(handler(&import)).unwrap();
        assert!(check(&bytes, &Limits::default()).is_ok(), "{version}");
    }
}

#[test]
fn what_is_not_given_is_named() {
    let refuse = |import: &str| refused(&handler(import));
    let keyvalue = refuse(r#"(import "wasi:keyvalue/store@0.2.0" (instance))"#);
    assert!(keyvalue.contains("not give: `wasi:keyvalue/store@0.2.0`;"), "{keyvalue}");
    let draft = refuse(r#"(import "wasi:random/random@0.2.0-rc-2023-11-10" (instance))"#);
    assert!(draft.contains("`wasi:random/random@0.2.0-rc-2023-11-10`"), "{draft}");
    let bare = refuse(r#"(import "wasi:random/random" (instance))"#);
    assert!(bare.contains("`wasi:random/random`"), "{bare}");
    let part = refuse(r#"(import "wasi:random/random@0.2.0" (instance (export "dice" (func (result u8)))))"#);
    assert!(part.contains("`wasi:random/random@0.2.0 (dice)`"), "{part}");
    let function = refuse(r#"(import "log" (func (param "line" string)))"#);
    assert!(function.contains("`log`"), "{function}");
    let resource = refuse(r#"(import "thing" (type (sub resource)))"#);
    assert!(resource.contains("`thing`"), "{resource}");
    let many: String = (0..30).map(|n| format!(r#"(import "my:p{n}/i@1.0.0" (instance))"#)).collect();
    assert!(refuse(&many).contains("`my:p9/i@1.0.0` and 20 more"));
}

#[test]
fn a_core_module_is_told_how_to_become_a_component() {
    let text = refused(r#"(module (func (export "handle")))"#);
    assert!(text.contains("core WebAssembly module") && text.contains("wasm-tools component new"), "{text}");
}

#[test]
fn what_it_exports_instead_is_named() {
    assert!(refused("(component)").contains("it exports nothing"));
    let command = refused(r#"(component (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#);
    assert!(command.contains("`wasi:cli/run@0.2.0`") && command.contains("it is a command"), "{command}");
    // The right name does not make a handler.
    let hollow = refused(r#"(component (instance $i) (export "wasi:http/incoming-handler@0.2.0" (instance $i)))"#);
    assert!(hollow.contains("does not export"), "{hollow}");
    let draft = refused(&handler("").replace("@0.2.3", "@0.3.0"));
    assert!(draft.contains("WASI 0.3"), "{draft}");
}

#[test]
fn every_cut_of_a_component_is_refused_and_none_panics() {
    let bytes = wat::parse_str(handler("")).unwrap();
    for end in 0..bytes.len() {
        // What is left out is a whole custom section (its id is 0): the rest is a component still.
        let whole = bytes[end] == 0 && check(&bytes[..end], &Limits::default()).is_ok();
        assert!(whole || check(&bytes[..end], &Limits::default()).is_err(), "{end}");
    }
    let text = check(&bytes[..bytes.len() - 3], &Limits::default()).unwrap_err().to_string();
    assert!(text.contains("cut short"), "{text}");
}

#[test]
fn files_of_other_kinds_are_recognised() {
    let say = |bytes: &[u8]| check(bytes, &Limits::default()).unwrap_err().to_string();
    assert!(say(b"").contains("an empty file"));
    assert!(say(b"PK\x03\x04....").contains("a zip archive"));
    assert!(say(b"\n(component)").contains("text form"));
    assert!(say(b"\x7fELF\x02").contains("a native program"));
    assert!(say(b"print('hello')").contains("a text file"));
    assert!(say(&[0xff; 9]).contains("another kind"));
}

#[test]
fn proposals_that_the_engine_has_off_are_refused() {
    let threads = refused(&handler("(core module (memory 1 1 shared))"));
    assert!(threads.contains("threads are off"), "{threads}");
    let memory64 = refused(&handler("(core module (memory i64 1))"));
    assert!(memory64.contains("does not run"), "{memory64}");
}

#[test]
fn each_limit_is_named_where_it_is_crossed() {
    let bytes =
        wat::parse_str(handler("(component) (core module (memory 1) (table 1 funcref) (type (func)))")).unwrap();
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        check(&bytes, &limits).unwrap_err()
    };
    assert_eq!(with(|l| l.component_bytes = 9), Rejection::TooLarge { size: bytes.len() as u64, limit: 9 });
    assert!(with(|l| l.component_bytes = 9).is_size());
    for (rejection, name) in [
        (with(|l| l.functions = 0), "1 functions"),
        (with(|l| l.modules = 1), "2 core modules"),
        (with(|l| l.components = 0), "1 nested components"),
        (with(|l| l.depth = 1), "2 levels of nested components"),
        (with(|l| l.instances = 1), "2 instances"),
        (with(|l| l.memories = 0), "1 memories"),
        (with(|l| l.tables = 0), "1 tables"),
        (with(|l| l.types = 1), "2 types"),
        (with(|l| l.adapters = 0), "1 lifted and lowered functions"),
        (with(|l| l.names = 0), "1 imports and exports"),
        (with(|l| l.function_bytes = 1), "has 2 bytes of code"),
    ] {
        let text = rejection.to_string();
        assert!(text.contains(name) && text.contains("limit of") && !rejection.is_size(), "{name}: {text}");
    }
}

#[test]
fn debug_information_that_fills_the_file_is_noted() {
    let bytes = wat::parse_str(handler(&format!(r#"(@custom ".debug_info" "{}")"#, "x".repeat(2 << 20)))).unwrap();
    let notes = check(&bytes, &Limits::default()).unwrap().notes;
    assert!(notes[0].contains("debug information"), "{notes:?}");
}

proptest::proptest! {
    #[test]
    fn damage_never_panics(at in 0usize..400, to: u8, more: Vec<u8>) {
        let mut bytes = wat::parse_str(handler(r#"(import "wasi:random/random@0.2.0" (instance))"#)).unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = check(&bytes, &Limits::default());
        bytes.splice(at..at, more);
        let _ = check(&bytes, &Limits::default());
    }
}
