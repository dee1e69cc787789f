//! A function's folder: which of its files are the function's. `.slessignore` (written as `.gitignore` is) leaves files
//! out, and so does what no function ever needs.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use crate::failure::{Exit, Failure};

/// What says which files are left out.
pub(crate) const IGNORE_FILE: &str = ".slessignore";
/// Never part of a function: version control, installed packages, caches, and the data of `sless dev`.
const NEVER: [&str; 10] =
    [".git", ".hg", ".svn", ".sless", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache"];
/// The most files and folders that are looked at: a folder with more is not a function's.
pub(crate) const MAX_ENTRIES: usize = 10_000;

/// An entry of a function's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// With the folder's own path before it.
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
}

/// The folder itself and all that is in it, in order of name. Links are not followed: what they lead to is not in the
/// folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<Entry>, Failure> {
    let mut walk = WalkBuilder::new(folder);
    walk.standard_filters(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .filter_entry(|entry| {
            entry.depth() == 0 || !entry.file_name().to_str().is_some_and(|name| NEVER.contains(&name))
        })
        .sort_by_file_name(Ord::cmp);
    let mut entries = Vec::new();
    for entry in walk.build() {
        let entry = entry.map_err(|e| Failure::new(Exit::Invalid, format!("read {}: {e}", folder.display())))?;
        if let Some(error) = entry.error() {
            return Err(Failure::new(Exit::Invalid, error.to_string()).remedy(format!("correct {IGNORE_FILE}")));
        }
        if entries.len() == MAX_ENTRIES {
            let text = format!("{} has more than {MAX_ENTRIES} files and folders", folder.display());
            return Err(Failure::new(Exit::Invalid, text)
                .remedy(format!("name what is no part of the function in {IGNORE_FILE}, or name another folder")));
        }
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entries.push(Entry { path: entry.into_path(), is_folder });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let relative = |entry: Entry| entry.path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        entries(folder).unwrap().into_iter().map(relative).collect()
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "handler.py",
            ".env",
            ".gitignore",
            "src/a.py",
            "src/__pycache__/a.pyc",
            ".git/config",
            "node_modules/x/index.js",
            "build/out.wasm",
            "notes.log",
            "src/keep.log",
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "handler.py\n").unwrap();
        fs::write(folder.path().join(IGNORE_FILE), "/build/\n*.log\n!src/keep.log\n").unwrap();
        let expected = ["", ".env", ".gitignore", ".slessignore", "handler.py", "src", "src/a.py", "src/keep.log"];
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn a_folder_may_have_any_name_and_links_lead_nowhere() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("node_modules");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(outer.path().join("elsewhere")).unwrap();
        fs::write(outer.path().join("elsewhere/secret"), "x").unwrap();
        std::os::unix::fs::symlink(outer.path().join("elsewhere"), folder.join("link")).unwrap();
        fs::write(folder.join("a"), "x").unwrap();
        assert_eq!(names(&folder), ["", "a", "link"]);
    }

    #[test]
    fn a_folder_of_too_many_files_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..MAX_ENTRIES {
            fs::write(folder.path().join(index.to_string()), "").unwrap();
        }
        let text = entries(folder.path()).unwrap_err().text();
        assert!(text.contains("more than 10000 files") && text.contains(IGNORE_FILE), "{text}");
    }
}
