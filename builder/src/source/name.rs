//! Names of files in archives: what strangers' tools write, as relative paths with `/`.

use super::{Error, MAX_DEPTH, MAX_PATH_BYTES, MAX_SEGMENT_BYTES};

/// The path of a name: `\` is `/`, as tools on Windows write it; `.` and empty segments go.
///
/// # Errors
/// Where it is absolute, leads upwards, is too long, or has control characters.
pub(super) fn normal(name: &str) -> Result<String, Error> {
    let refuse = |why: &str| Err(Error::entry(name, why));
    if name.contains(|c: char| c.is_control()) {
        return refuse("has a control character in its name; rename the file");
    }
    let path = name.replace('\\', "/");
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.starts_with('/') || drive {
        return refuse("has an absolute path; pack the files relative to the function's folder");
    }
    let mut normal = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        if segment == ".." {
            return refuse("leads out of its folder; pack the files relative to the function's folder");
        }
        if segment.len() > MAX_SEGMENT_BYTES {
            return refuse(&format!("has a name of more than {MAX_SEGMENT_BYTES} bytes; make it shorter"));
        }
        if !normal.is_empty() {
            normal.push('/');
        }
        normal.push_str(segment);
    }
    if normal.len() > MAX_PATH_BYTES {
        return refuse(&format!("has a path of more than {MAX_PATH_BYTES} bytes; make it shorter"));
    }
    if normal.matches('/').count() > MAX_DEPTH {
        return refuse(&format!("is in more than {MAX_DEPTH} folders; make it flatter"));
    }
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_systems_become_one_path() {
        for (name, path) in [
            ("a.py", "a.py"),
            ("pkg\\mod.py", "pkg/mod.py"),
            ("./a//b/./c", "a/b/c"),
            ("pkg/", "pkg"),
            ("..a/b..", "..a/b.."),
            ("naïve/файл.py", "naïve/файл.py"),
            (" a b ", " a b "),
        ] {
            assert_eq!(normal(name).unwrap(), path);
        }
        let longest = "é".repeat(127);
        assert_eq!(normal(&longest).unwrap(), longest);
    }

    #[test]
    fn what_leads_out_or_can_not_be_is_refused_by_name() {
        for (name, why) in [
            ("../../tmp/evil", "leads out"),
            ("a/../../b", "leads out"),
            ("..\\evil", "leads out"),
            ("/etc/passwd", "absolute"),
            ("\\\\server\\share", "absolute"),
            ("C:\\x", "absolute"),
            ("c:x", "absolute"),
            ("a\0b", "control"),
            ("a\nb", "control"),
            (&"é".repeat(128), "255 bytes"),
            (&format!("{}/x", ["a".repeat(200).as_str(); 6].join("/")), "1024 bytes"),
            (&"d/".repeat(70), "64 folders"),
        ] {
            let error = normal(name).unwrap_err().to_string();
            assert!(error.contains(why), "{name:?}: {error}");
            assert!(error.starts_with("entry `"), "{error}");
        }
    }
}
