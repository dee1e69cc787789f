//! The cache folder of a namespace: packs of compiled functions, the least recently used thrown out.
//!
//! Packs are only moved and removed here; what is in them is read by builders alone.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use sless_core::build_protocol::PACK_EXTENSION;
use uuid::Uuid;

/// The most packs of a namespace: a builder opens each. One is made by each build that compiles anything.
const MAX_PACKS: usize = 64;

/// Takes a build's new pack into the folder, marks those that it used, and throws out what is over `limit` bytes.
pub(super) fn keep(folder: &Path, pack: &Path, used: &[String], limit: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for name in used {
        touch(folder, name);
    }
    match fs::symlink_metadata(pack) {
        // A builder that found every function leaves it empty.
        Ok(meta) if meta.is_file() && meta.len() > 0 => {
            take(pack, &folder.join(format!("{}.{PACK_EXTENSION}", Uuid::now_v7().simple())))?;
        }
        _ => {}
    }
    evict(folder, limit)
}

/// Marks a pack as used now. The builder named it, so the name is only looked up in the folder.
fn touch(folder: &Path, name: &str) {
    if Path::new(name).file_name().is_none_or(|file| file != name) {
        return;
    }
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    // It may have been thrown out meanwhile.
    let _ = utimensat(CWD, folder.join(name), &times, AtFlags::SYMLINK_NOFOLLOW);
}

fn take(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            // Under a name that is no pack's until it is whole.
            let part = to.with_extension("part");
            let copied = fs::copy(from, &part).and_then(|_| fs::rename(&part, to));
            if copied.is_err() {
                let _ = fs::remove_file(&part);
            }
            copied
        }
        other => other,
    }
}

fn evict(folder: &Path, limit: u64) -> io::Result<()> {
    let mut packs: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another build may remove it at the same time.
        let Ok(meta) = entry.metadata() else { continue };
        packs.push((meta.modified()?, meta.len(), entry.path()));
    }
    packs.sort_by_key(|pack| Reverse(pack.0));
    let mut total = 0;
    for (n, (_, size, path)) in packs.iter().enumerate() {
        total += size;
        if n >= MAX_PACKS || total > limit {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= size,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn pack(folder: &Path, name: &str, size: usize, age: u64) {
        fs::write(folder.join(name), vec![1; size]).unwrap();
        let file = fs::File::options().write(true).open(folder.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age)).unwrap();
    }

    #[test]
    fn the_least_recently_used_go_first_and_the_new_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cache");
        fs::create_dir(&folder).unwrap();
        pack(&folder, "oldest.pack", 40, 3);
        pack(&folder, "old.pack", 40, 2);
        pack(&folder, "young.pack", 40, 1);
        fs::write(dir.path().join("new"), [1; 40]).unwrap();
        keep(&folder, &dir.path().join("new"), &["oldest.pack".into(), "../new".into(), "gone.pack".into()], 100)
            .unwrap();
        let names = names(&folder);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"oldest.pack".to_owned()) && !dir.path().join("new").exists());
    }

    #[test]
    fn the_number_of_packs_is_bounded_too() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..80 {
            pack(dir.path(), &format!("{n:02}.pack"), 1, 100 - n);
        }
        keep(dir.path(), &dir.path().join("none"), &[], 1 << 20).unwrap();
        let names = names(dir.path());
        assert_eq!((names.len(), names[0].as_str()), (MAX_PACKS, "16.pack"));
    }

    #[test]
    fn what_a_builder_left_as_a_link_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("pack")).unwrap();
        let folder = dir.path().join("cache");
        keep(&folder, &dir.path().join("pack"), &[], 1 << 20).unwrap();
        assert!(names(&folder).is_empty());
    }
}
