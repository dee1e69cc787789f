use std::os::unix::fs::symlink;

use sless_core::ports::blobs::{once, read};

use super::*;

fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    sless_core::testing::blobs(&FolderBlobs::open(dir.path()).unwrap()).await;
    let left: Vec<_> = std::fs::read_dir(dir.path().join(TEMPORARY)).unwrap().collect();
    assert!(left.is_empty(), "what was refused or dropped left files: {left:?}");
    let left: Vec<_> = std::fs::read_dir(dir.path().join(DATA)).unwrap().collect();
    assert!(left.is_empty(), "what was deleted left folders: {left:?}");
}

#[tokio::test]
async fn symbolic_links_are_not_followed() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "outside").unwrap();
    let blobs = FolderBlobs::open(dir.path()).unwrap();
    let data = dir.path().join(DATA);
    symlink(outside.path(), data.join("folder+")).unwrap();
    symlink(outside.path().join("secret"), data.join("file")).unwrap();
    for text in ["folder/secret", "file"] {
        assert!(matches!(blobs.get(&key(text)).await.err(), Some(Error::Unavailable { .. })), "{text}");
        assert!(blobs.exists(&key(text)).await.is_err(), "{text}");
    }
    assert!(blobs.put(&key("folder/new"), once("x"), 9).await.is_err());
    assert!(!outside.path().join("new").exists());
    assert!(blobs.delete(&key("folder/secret")).await.is_err());
    let keys: Vec<_> = blobs.list("").await.unwrap().collect().await;
    assert!(keys.is_empty(), "{keys:?}");
    // A link in a blob's place is replaced and removed itself, not what it leads to.
    blobs.put(&key("file"), once("inside"), 9).await.unwrap();
    assert_eq!(read(&blobs, &key("file"), 9).await.unwrap(), b"inside");
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"outside");
}

#[tokio::test]
async fn what_was_half_written_is_removed_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = FolderBlobs::open(dir.path()).unwrap();
    blobs.put(&key("a"), once("whole"), 9).await.unwrap();
    std::fs::write(dir.path().join(TEMPORARY).join("7"), "half").unwrap();
    drop(blobs);
    let blobs = FolderBlobs::open(dir.path()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join(TEMPORARY)).unwrap().count(), 0);
    assert_eq!(read(&blobs, &key("a"), 9).await.unwrap(), b"whole");
}

#[tokio::test]
async fn what_is_no_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = FolderBlobs::open(dir.path()).unwrap();
    let pipe = dir.path().join(DATA).join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let get = tokio::time::timeout(std::time::Duration::from_secs(10), blobs.get(&key("pipe"))).await.unwrap();
    assert!(matches!(get.err(), Some(Error::Unavailable { .. })));
}
