//! An upload becomes a build context: the user's files cleaned of what packing added, the platform's beside them.

use sless_core::Runtime;

use super::{Context, Error, Tree, platform, printable, zip};

/// Where a handler is if nothing else is said.
pub const DEFAULT_ENTRYPOINT: &str = "handler.handler";

/// What an upload became.
#[derive(Debug)]
pub struct Prepared {
    /// What is built.
    pub context: Context,
    /// What the owner should know of it.
    pub notes: Vec<String>,
}

/// Makes the context of an uploaded zip.
///
/// # Errors
/// When the archive is refused.
pub fn prepare(archive: &[u8], runtime: Runtime, entrypoint: Option<&str>) -> Result<Prepared, Error> {
    let mut function = zip::read(archive)?;
    let mut notes = Vec::new();
    let left_out = function.remove(is_desktop_litter);
    if left_out > 0 {
        notes.push(format!("{left_out} files that a desktop added (`__MACOSX`, `.DS_Store`) were left out"));
    }
    if function.is_empty() {
        return Err(Error::Empty);
    }
    let entrypoint = entrypoint.unwrap_or(DEFAULT_ENTRYPOINT);
    // A function may well have all its files in `src`: then its entry point says so.
    if let Some(folder) = function.common_folder().map(str::to_owned)
        && !has_handler(&function, entrypoint)
    {
        function.strip_folder();
        notes.push(format!("everything is below the folder `{}/`, which was stripped", printable(&folder)));
    }
    if let Some((one, other)) = function.case_clash() {
        notes.push(format!(
            "`{}` and `{}` differ in upper and lower case only: they are two files here, and one on Windows and macOS",
            printable(one),
            printable(other)
        ));
    }
    Ok(Prepared { context: Context { function, platform: platform::files(runtime) }, notes })
}

/// Whether a tree has a file, of whatever extension, that an entry point names.
fn has_handler(tree: &Tree, entrypoint: &str) -> bool {
    let file = entrypoint.rsplit_once('.').map_or(entrypoint, |(file, _)| file);
    let named =
        |path: &str| path.rsplit_once('.').is_some_and(|(stem, extension)| stem == file && !extension.contains('/'));
    tree.iter().any(|(path, _)| named(path))
}

/// What macOS puts into archives and folders by itself.
fn is_desktop_litter(path: &str) -> bool {
    path.starts_with("__MACOSX/") || path == ".DS_Store" || path.ends_with("/.DS_Store")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn pack(paths: &[&str]) -> Vec<u8> {
        let mut tree = Tree::new();
        for path in paths {
            tree.insert(path, b"x".to_vec()).unwrap();
        }
        let mut out = Cursor::new(Vec::new());
        zip::write(&tree, &mut out).unwrap();
        out.into_inner()
    }

    fn prepared(paths: &[&str], entrypoint: Option<&str>) -> (Vec<String>, String) {
        let Prepared { context, notes } = prepare(&pack(paths), Runtime::Python311, entrypoint).unwrap();
        (context.function.iter().map(|(path, _)| path.to_owned()).collect(), notes.join("; "))
    }

    #[test]
    fn a_folder_around_everything_is_stripped_and_told() {
        let (paths, notes) = prepared(&["my-function/handler.py", "my-function/lib/a.py", "__MACOSX/x"], None);
        assert_eq!(paths, ["handler.py", "lib/a.py"]);
        assert!(notes.contains("`my-function/`, which was stripped") && notes.contains("1 files"), "{notes}");
        assert_eq!(
            prepared(&["a/handler.py", "b/x.py"], None),
            (vec!["a/handler.py".into(), "b/x.py".into()], String::new())
        );
    }

    #[test]
    fn a_folder_that_the_entry_point_names_stays() {
        assert_eq!(prepared(&["src/app.py", "src/lib.py"], Some("src/app.main")).0, ["src/app.py", "src/lib.py"]);
        assert_eq!(prepared(&["f/src/app.py"], Some("src/app.main")).0, ["src/app.py"]);
    }

    #[test]
    fn cases_that_clash_are_told() {
        assert!(prepared(&["A.py", "a.py"], None).1.contains("`A.py` and `a.py`"));
    }

    #[test]
    fn the_same_language_has_the_same_context() {
        let archive = pack(&["handler.js"]);
        let of = |runtime| prepare(&archive, runtime, None).unwrap().context;
        assert_eq!(of(Runtime::Nodejs20), of(Runtime::WasmJs));
        assert_ne!(of(Runtime::Nodejs20).platform, of(Runtime::Python311).platform);
        assert!(of(Runtime::WasmPython).platform.get("runtime/server.py").is_some());
        assert!(matches!(prepare(&pack(&[]), Runtime::Nodejs20, None), Err(Error::Empty)));
    }
}
