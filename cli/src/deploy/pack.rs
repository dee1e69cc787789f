//! A folder of source becomes a zip: byte-identical for the same files, and without what does not belong to a function.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::failure::{Exit, Failure};

/// The file in a folder that says what stays out, as `.gitignore` does; `!pattern` takes in what is left out by default.
pub(super) const IGNORE_FILE: &str = ".slessignore";
/// What no function needs in its source: version control, packages that the build installs, caches, editors, secrets.
const LEFT_OUT: &[&str] = &[
    ".git/",
    ".hg/",
    ".svn/",
    ".gitignore",
    ".gitattributes",
    ".slessignore",
    ".sless/",
    "/sless.toml",
    "node_modules/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".tox/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".idea/",
    ".vscode/",
    ".DS_Store",
    ".env",
    ".env.*",
];
/// The platform's bounds, told before anything is sent.
const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 256 << 20;

/// Packs a folder into a new file.
pub(super) fn folder(folder: &Path, into: &Path) -> Result<(), Failure> {
    let files = list(folder)?;
    if files.is_empty() {
        let text = format!("{} has no files to deploy", folder.display());
        return Err(
            Failure::new(Exit::Invalid, text).remedy(format!("look at its {IGNORE_FILE}, or name another folder"))
        );
    }
    write(&files, into).map_err(|e| Failure::file(into, &e))
}

/// Packs one file.
pub(super) fn file(file: &Path, into: &Path) -> Result<(), Failure> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    write(&BTreeMap::from([(name, file.to_owned())]), into).map_err(|e| Failure::file(into, &e))
}

/// Files by their path in the archive.
fn list(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let root = folder.canonicalize().map_err(|e| Failure::file(folder, &e))?;
    let rules = rules(&root)?;
    let mut files = BTreeMap::new();
    let mut size = 0;
    let wanted = {
        let root = root.clone();
        move |entry: &ignore::DirEntry| {
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.path() == root || !rules.matched(entry.path(), is_dir).is_ignore()
        }
    };
    for entry in WalkBuilder::new(&root).standard_filters(false).follow_links(false).filter_entry(wanted).build() {
        let entry = entry.map_err(|e| Failure::new(Exit::Invalid, format!("read {}: {e}", folder.display())))?;
        let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) else { continue };
        let path = entry.path();
        let inside = path.strip_prefix(&root).unwrap_or(path);
        let target = if kind.is_symlink() { linked(&root, path, inside)? } else { path.to_owned() };
        let meta = fs::metadata(&target).map_err(|e| Failure::file(path, &e))?;
        if !meta.is_file() {
            let text = format!("{} is no regular file", inside.display());
            return Err(Failure::new(Exit::Invalid, text).remedy(format!("leave it out in {IGNORE_FILE}")));
        }
        let Some(name) = inside.to_str() else {
            let text = format!("{} has a name that is not UTF-8", inside.display());
            return Err(Failure::new(Exit::Invalid, text).remedy("rename the file"));
        };
        size += meta.len();
        files.insert(name.to_owned(), target);
        if files.len() > MAX_FILES || size > MAX_BYTES {
            let text = format!("{} has more than {MAX_FILES} files or {MAX_BYTES} bytes", folder.display());
            return Err(Failure::new(Exit::Invalid, text).remedy(format!(
                "leave out in {IGNORE_FILE} what the function does not need, or name a folder below"
            )));
        }
    }
    Ok(files)
}

/// What a link leads to, if that is a file of the same folder: archives have no links.
fn linked(root: &Path, link: &Path, shown: &Path) -> Result<PathBuf, Failure> {
    match link.canonicalize() {
        Ok(target) if target.starts_with(root) && target.is_file() => Ok(target),
        _ => {
            let text = format!("{} is a link that leads out of the folder, to a folder, or nowhere", shown.display());
            Err(Failure::new(Exit::Invalid, text)
                .remedy(format!("put the file itself there, or leave the link out in {IGNORE_FILE}")))
        }
    }
}

/// What is left out: the default, then the folder's own file, which has the last word.
fn rules(root: &Path) -> Result<Gitignore, Failure> {
    let wrong = |e: ignore::Error| Failure::new(Exit::Invalid, format!("{IGNORE_FILE}: {e}"));
    let mut rules = GitignoreBuilder::new(root);
    for pattern in LEFT_OUT {
        rules.add_line(None, pattern).map_err(wrong)?;
    }
    let own = root.join(IGNORE_FILE);
    if own.is_file()
        && let Some(error) = rules.add(own)
    {
        return Err(wrong(error));
    }
    rules.build().map_err(wrong)
}

fn write(files: &BTreeMap<String, PathBuf>, into: &Path) -> io::Result<()> {
    // No times, no modes, in the order of paths: the same files are the same bytes.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(BufWriter::new(File::create_new(into)?));
    for (name, path) in files {
        zip.start_file(name.as_str(), options).map_err(io::Error::other)?;
        io::copy(&mut File::open(path)?, &mut zip)?;
    }
    zip.finish().map_err(io::Error::other)?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        list(dir.path()).unwrap().into_keys().collect()
    }

    #[test]
    fn what_does_not_belong_stays_out_and_can_be_taken_in() {
        let dir = folder_of(&[
            ("handler.py", ""),
            ("lib/a.py", ""),
            ("lib/sless.toml", ""),
            ("sless.toml", ""),
            (".git/config", ""),
            ("node_modules/x/index.js", ""),
            ("lib/__pycache__/a.pyc", ""),
            (".env", "SECRET=1"),
            ("notes.txt", ""),
        ]);
        assert_eq!(names(&dir), ["handler.py", "lib/a.py", "lib/sless.toml", "notes.txt"]);
        fs::write(dir.path().join(IGNORE_FILE), "*.txt\n!node_modules/\n").unwrap();
        assert_eq!(names(&dir), ["handler.py", "lib/a.py", "lib/sless.toml", "node_modules/x/index.js"]);
    }

    #[test]
    fn the_same_files_are_the_same_bytes() {
        let packed = |files: &[(&str, &str)]| {
            let dir = folder_of(files);
            let into = dir.path().join("packed.zip");
            // Its own archive is not there yet when it is listed.
            folder(dir.path(), &into).unwrap();
            fs::read(into).unwrap()
        };
        assert_eq!(packed(&[("a", "1"), ("b/c", "2")]), packed(&[("b/c", "2"), ("a", "1")]));
        assert_ne!(packed(&[("a", "1"), ("b/c", "2")]), packed(&[("a", "1"), ("b/c", "3")]));
    }

    #[test]
    fn links_are_followed_within_the_folder_only() {
        let dir = folder_of(&[("a", "1")]);
        std::os::unix::fs::symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(names(&dir), ["a", "b"]);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("c")).unwrap();
        let error = list(dir.path()).unwrap_err();
        assert!(error.text().contains("c is a link"), "{}", error.text());
    }

    #[test]
    fn an_empty_folder_is_told() {
        let dir = folder_of(&[(".git/config", "")]);
        assert!(folder(dir.path(), &dir.path().join("x.zip")).unwrap_err().text().contains("no files"));
    }
}
