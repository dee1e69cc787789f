//! What a component exports and imports, against what is called and given here.

use wasmparser::component_types::ComponentEntityType;

use super::given::GIVEN;
use super::walk::{Found, Import};
use super::{Rejection, cut};

/// What is called.
const HANDLER: &str = "wasi:http/incoming-handler";
/// How many names an error lists.
const MOST_NAMES: usize = 10;
/// How many characters of each.
const MOST_CHARS: usize = 120;

/// Refuses a component that does not export the handler.
pub(super) fn exports(found: &Found) -> Result<(), Rejection> {
    let handles = |name: &String| {
        let Some((HANDLER, version)) = name.split_once('@') else { return false };
        let Some(ComponentEntityType::Instance(id)) = found.types.component_item_for_export(name).map(|item| item.ty)
        else {
            return false;
        };
        let handle = found.types[id].exports.get("handle");
        is_0_2(version) && matches!(handle.map(|item| item.ty), Some(ComponentEntityType::Func(_)))
    };
    if found.exports.iter().any(handles) {
        return Ok(());
    }
    let has = |prefix: &str| found.exports.iter().any(|name| name.starts_with(prefix));
    let hint = if has("wasi:http/handler@0.3") || has("wasi:http/incoming-handler@0.3") {
        "; WASI 0.3 is not served by this release: build it for `wasi:http/incoming-handler@0.2`"
    } else if has("wasi:cli/run") {
        "; it is a command: make it a library that exports the handler (Rust: `crate-type = [\"cdylib\"]` and the `wasi:http/proxy` world)"
    } else if has("fermyon:spin/") {
        "; build it with a handler of `wasi:http` instead"
    } else {
        "; target the `wasi:http/proxy` world"
    };
    Err(Rejection::NoHandler { exports: list(found.exports.iter().map(String::as_str)), hint })
}

/// Refuses a component that imports what is not given: by hosts, or as one of these modules.
pub(super) fn imports(found: &Found, modules: &[String]) -> Result<(), Rejection> {
    let is_module = |import: &&Import| {
        let item = found.types.component_item_for_import(&import.name);
        modules.contains(&import.name) && matches!(item.map(|item| item.ty), Some(ComponentEntityType::Module(_)))
    };
    let others = found.imports.iter().filter(|import| !is_module(import));
    let missing: Vec<String> = others.filter_map(|import| not_given(found, import)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Rejection::NotGiven { imports: list(missing.iter().map(String::as_str)) })
}

/// What of one import is not given.
fn not_given(found: &Found, import: &Import) -> Option<String> {
    let name = import.name.as_str();
    let whole = || Some(name.to_owned());
    let Some(item) = found.types.component_item_for_import(name) else { return whole() };
    match item.ty {
        ComponentEntityType::Instance(id) => {
            let given = name.split_once('@').filter(|(_, version)| is_0_2(version)).and_then(|(interface, _)| {
                GIVEN.iter().find(|(given, _)| *given == interface).map(|(_, names)| *names)
            });
            let Some(given) = given else { return whole() };
            // Types, resources among them, may be another interface's under this one's name: what needs the host is functions.
            let lacking = found.types[id].exports.iter().find(|(export, item)| {
                !matches!(item.ty, ComponentEntityType::Type { .. }) && !given.contains(&export.as_str())
            })?;
            Some(format!("{name} ({})", lacking.0))
        }
        // A name for a type that the component has already needs nothing of the host; a resource of its own does.
        ComponentEntityType::Type { .. } if !import.fresh => None,
        _ => whole(),
    }
}

/// Whether a version is compatible with 0.2: a release of that series (semver: a pre-release is compatible with nothing).
fn is_0_2(version: &str) -> bool {
    version.strip_prefix("0.2.").is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit()))
}

fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    if count == 0 {
        return "nothing".to_owned();
    }
    let mut text =
        names.take(MOST_NAMES).map(|name| format!("`{}`", cut(name, MOST_CHARS))).collect::<Vec<_>>().join(", ");
    if count > MOST_NAMES {
        text.push_str(&format!(" and {} more", count - MOST_NAMES));
    }
    text
}
