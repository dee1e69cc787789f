//! Archives as strangers make them.

use super::*;

/// An archive of names and texts.
fn pack(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The same archive with other bytes of the same number in place of a name.
fn renamed(mut archive: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut found = 0;
    for at in 0..archive.len() - from.len() {
        if archive[at..].starts_with(from) {
            archive[at..at + to.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert_eq!(found, 2, "a name is in the local header and in the directory");
    archive
}

fn paths(archive: &[u8]) -> Vec<String> {
    read(archive).unwrap().iter().map(|(path, _)| path.to_owned()).collect()
}

fn refusal(archive: &[u8]) -> Error {
    read(archive).unwrap_err()
}

#[test]
fn what_leads_out_is_refused_by_its_name() {
    for name in ["../../tmp/evil", "/tmp/evil", "a/../../evil", "..\\evil", "C:\\evil"] {
        let error = refusal(&pack(&[("handler.py", ""), (name, "x")]));
        assert!(!error.is_size() && error.to_string().contains(&name.escape_debug().to_string()), "{error}");
    }
    // The crate that writes keeps names as they are, so the test packs what it says.
    let archive = renamed(pack(&[("aa/evil", "x")]), b"aa/evil", b"../evil");
    assert!(refusal(&archive).to_string().contains("../evil"));
}

#[test]
fn links_and_devices_are_refused() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc", SimpleFileOptions::default()).unwrap();
    zip.start_file("link/passwd", SimpleFileOptions::default()).unwrap();
    let error = refusal(&zip.finish().unwrap().into_inner());
    assert!(error.to_string().contains("`link` is a symbolic link"), "{error}");
}

#[test]
fn backslashes_of_windows_are_folders() {
    let archive = renamed(pack(&[("pkg/mod.py", "x = 1")]), b"pkg/mod.py", b"pkg\\mod.py");
    assert_eq!(paths(&archive), ["pkg/mod.py"]);
    let archive = renamed(pack(&[("pkg/", ""), ("a", "")]), b"pkg/", b"pkg\\");
    assert_eq!(paths(&archive), ["a"]);
}

#[test]
fn names_are_utf_8_with_or_without_the_flag_else_cp437() {
    assert_eq!(paths(&pack(&[("naïve/файл.py", "")])), ["naïve/файл.py"]);
    // Written as ASCII, so without the flag: the same bytes as UTF-8 …
    assert_eq!(paths(&renamed(pack(&[("ab.py", "")]), b"ab.py", "é.py".as_bytes())), ["é.py"]);
    // … and é as CP437 has it.
    assert_eq!(paths(&renamed(pack(&[("a.py", "")]), b"a.py", b"\x82.py")), ["é.py"]);
    let longest = "n".repeat(255);
    assert_eq!(paths(&pack(&[(longest.as_str(), "")])), [longest.as_str()]);
    assert!(refusal(&pack(&[("n".repeat(256).as_str(), "")])).to_string().contains("255 bytes"));
}

#[test]
fn bombs_are_told_by_what_comes_out() {
    let bomb = |bytes: u64| {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("zeros", SimpleFileOptions::default().large_file(true)).unwrap();
        let piece = vec![0; 1 << 20];
        for _ in 0..bytes >> 20 {
            zip.write_all(&piece).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    assert!(read(&bomb(RATIO_FREE_BYTES)).is_ok());
    let error = refusal(&bomb(2 * RATIO_FREE_BYTES));
    assert!(error.is_size() && error.to_string().contains("200 times"), "{error}");
    // The same bomb that says it is small.
    let mut lying = bomb(2 * RATIO_FREE_BYTES);
    let size = (2 * RATIO_FREE_BYTES as u32).to_le_bytes();
    for at in 0..lying.len() - 4 {
        if lying[at..].starts_with(&size) {
            lying[at..at + 4].copy_from_slice(&[9, 0, 0, 0]);
        }
    }
    assert!(read(&lying).is_err());
    // An archive in an archive is a file.
    assert_eq!(paths(&pack(&[("a.zip", std::str::from_utf8(&pack(&[("b", "c")])).unwrap_or("PK"))])), ["a.zip"]);
}

#[test]
fn a_great_number_of_entries_is_refused_before_they_are_read() {
    // An end of an archive that says 65,535 entries, with none of them there.
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend([0xff, 0xff, 0xff, 0xff]);
    end.extend([0; 10]);
    let error = refusal(&end);
    assert!(error.is_size() && error.to_string().contains("65535 entries"), "{error}");
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    for bytes in [&b""[..], b"PK\x03\x04", b"hello", &pack(&[("a", "b")])[..30]] {
        let error = refusal(bytes);
        assert!(!error.is_size() && error.to_string().contains("zip"), "{error}");
    }
    let mut flipped = pack(&[("a", "some text that is long enough to be packed")]);
    flipped[35] ^= 0xff;
    assert!(read(&flipped).is_err(), "its checksum is looked at");
}

#[test]
fn the_same_tree_is_the_same_bytes_whatever_it_was_made_of() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let later = SimpleFileOptions::default()
        .unix_permissions(0o755)
        .last_modified_time(DateTime::from_date_and_time(2026, 11, 30, 12, 0, 0).unwrap());
    for (name, text) in [("b/c.py", "2"), ("a.py", "1")] {
        zip.start_file(name, later).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let one = read(&zip.finish().unwrap().into_inner()).unwrap();
    let two = read(&pack(&[("a.py", "1"), ("b/", ""), ("b/c.py", "2")])).unwrap();
    assert_eq!((&one, one.digest()), (&two, two.digest()));
    let written = |tree: &Tree| {
        let mut out = Cursor::new(Vec::new());
        write(tree, &mut out).unwrap();
        out.into_inner()
    };
    assert_eq!(written(&one), written(&two));
    assert_eq!(read(&written(&one)).unwrap(), one);
}
