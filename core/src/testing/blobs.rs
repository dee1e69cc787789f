//! What [`Blobs`] promises.

use std::collections::BTreeSet;
use std::pin::pin;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

use super::{samples, within};
use crate::digest::Digest;
use crate::ports::blobs::{once, read};
use crate::ports::{BlobKey, Blobs, ByteStream, Error};

const LIMIT: u64 = 64 << 20;

fn key(text: &str) -> BlobKey {
    text.parse().expect("a key")
}

/// Bytes that differ everywhere.
fn pattern(size: usize, seed: u8) -> Vec<u8> {
    (0..size).map(|i| (i as u64 * 31 + i as u64 / 251) as u8 ^ seed).collect()
}

fn pieces(bytes: &[u8], size: usize) -> ByteStream {
    let pieces: Vec<_> = bytes.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    futures::stream::iter(pieces).boxed()
}

async fn keys(blobs: &dyn Blobs, prefix: &str) -> Vec<String> {
    let stream = blobs.list(prefix).await.expect("a list");
    stream.map_ok(|key| key.to_string()).try_collect().await.expect("a list")
}

/// Runs the contract of [`Blobs`]; the store is empty.
pub async fn blobs(blobs: &dyn Blobs) {
    assert_eq!(keys(blobs, "").await, [""; 0], "the store is empty");
    round_trips(blobs).await;
    refusals(blobs).await;
    readers_see_a_whole_blob(blobs).await;
    lists(blobs).await;
    deletes_cross_puts(blobs).await;
}

async fn round_trips(blobs: &dyn Blobs) {
    let a = key("round/trip.bin");
    assert!(!blobs.exists(&a).await.expect("exists"));
    assert!(matches!(blobs.get(&a).await.err(), Some(Error::NotFound { .. })));
    let sizes = [0, 1, 65_535, 65_536, 65_537, 1_000_003].into_iter().chain(samples(6, 0..3_000_000usize));
    for (size, piece) in sizes.zip(samples(12, 1..200_000usize)) {
        let bytes = pattern(size, piece as u8);
        let meta = blobs.put(&a, pieces(&bytes, piece), LIMIT).await.expect("put");
        assert_eq!(
            (meta.size_bytes, meta.digest),
            (size as u64, Digest::of(&bytes)),
            "{size} bytes in pieces of {piece}"
        );
        assert!(
            read(blobs, &a, LIMIT).await.expect("get") == bytes,
            "{size} bytes in pieces of {piece} came back changed"
        );
        assert!(blobs.exists(&a).await.expect("exists"));
    }
    // Large ones come in large pieces, not byte by byte and not all at once.
    let bytes = pattern(8 << 20, 1);
    blobs.put(&a, pieces(&bytes, 1 << 20), LIMIT).await.expect("put");
    let sizes: Vec<usize> = blobs.get(&a).await.expect("get").map_ok(|p| p.len()).try_collect().await.expect("get");
    assert!(sizes.len() > 1 && sizes.len() <= 128, "8 MiB came in {} pieces", sizes.len());
    blobs.delete(&a).await.expect("delete");
    blobs.delete(&a).await.expect("deleting what is not there");
    assert!(!blobs.exists(&a).await.expect("exists"));
}

async fn refusals(blobs: &dyn Blobs) {
    let a = key("refused");
    let bytes = pattern(100_000, 2);
    blobs.put(&a, pieces(&bytes, 10_000), 100_000).await.expect("a blob of exactly the limit");
    let error = blobs.put(&a, pieces(&pattern(100_001, 3), 10_000), 100_000).await.expect_err("a byte too many");
    assert!(matches!(error, Error::TooLarge { limit: 100_000 }), "{error:?}");
    // The limit holds while the stream runs: this one has no end.
    let endless = futures::stream::repeat_with(|| Ok(Bytes::from_static(&[7; 4096]))).boxed();
    let error = within("refusing an endless stream", blobs.put(&a, endless, 1 << 20)).await.expect_err("no end");
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    let broken = futures::stream::iter([
        Ok(Bytes::from_static(b"half")),
        Err(Error::Interrupted { reason: "the client went away".into() }),
    ]);
    let error = blobs.put(&a, broken.boxed(), LIMIT).await.expect_err("a broken stream");
    assert!(matches!(&error, Error::Interrupted { reason } if reason == "the client went away"), "{error:?}");
    // A put that is dropped in the middle is no put.
    let never = futures::stream::iter([Ok(Bytes::from_static(b"half"))]).chain(futures::stream::pending());
    let mut put = pin!(blobs.put(&a, never.boxed(), LIMIT));
    for _ in 0..50 {
        assert!(futures::poll!(put.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(read(blobs, &a, LIMIT).await.expect("get") == bytes, "a refused put changed what was there");
    assert_eq!(keys(blobs, "").await, ["refused"], "a refused put left something");
    blobs.delete(&a).await.expect("delete");
}

async fn readers_see_a_whole_blob(blobs: &dyn Blobs) {
    let a = key("replaced");
    let versions: Vec<_> = (0..4).map(|seed| pattern(700_000 + seed as usize, seed)).collect();
    blobs.put(&a, pieces(&versions[0], 50_000), LIMIT).await.expect("put");
    let reader = blobs.get(&a).await.expect("get");
    let put_all = futures::future::join_all(versions.iter().map(|bytes| blobs.put(&a, pieces(bytes, 50_000), LIMIT)));
    let read_all = futures::future::join_all((0..8).map(|_| read(blobs, &a, LIMIT)));
    let (put, seen) = futures::join!(put_all, read_all);
    for (meta, bytes) in put.iter().zip(&versions) {
        assert_eq!(meta.as_ref().expect("put").digest, Digest::of(bytes));
    }
    for bytes in seen {
        assert!(versions.contains(&bytes.expect("get")), "a reader saw something that nobody put");
    }
    let begun: Vec<Bytes> = reader.try_collect().await.expect("get");
    assert!(begun.concat() == versions[0], "a reader that had begun saw another blob");
    blobs.delete(&a).await.expect("delete");
}

async fn lists(blobs: &dyn Blobs) {
    // A key may be what another begins with; `-` and `.` sort before `/`, digits and letters after it.
    let fixed = ["a", "a/b", "a/b/c", "a-b", "a.b", "a0", "a/b.c", "ab/c", "B", "..a/x", "a/..", "z"];
    let fixed = fixed.iter().filter_map(|text| text.parse::<BlobKey>().ok());
    let random =
        samples(60, "[a-cA-C0-1._-]{1,3}(/[a-c0-1._-]{1,2}){0,3}").into_iter().filter_map(|text| text.parse().ok());
    let long = key(&format!("{}/{}", "l".repeat(200), "m".repeat(200)));
    let stored: BTreeSet<BlobKey> = fixed.chain(random).chain([long]).collect();
    for key in &stored {
        blobs.put(key, once(key.to_string().into_bytes()), LIMIT).await.expect("put");
    }
    for prefix in ["", "a", "a/", "a/b", "a/b/", "b", "nothing/here", "lll", "..", "/", "../", "%"] {
        let expected: Vec<_> = stored.iter().map(BlobKey::to_string).filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(keys(blobs, prefix).await, expected, "keys that begin with {prefix:?}");
    }
    for key in &stored {
        assert_eq!(read(blobs, key, LIMIT).await.expect("get"), key.to_string().into_bytes());
        blobs.delete(key).await.expect("delete");
    }
    assert_eq!(keys(blobs, "").await, [""; 0], "all were deleted");
}

async fn deletes_cross_puts(blobs: &dyn Blobs) {
    let (a, b) = (key("cross/folder/a"), key("cross/folder/b"));
    for round in 0..30u8 {
        blobs.put(&a, once(vec![round]), LIMIT).await.expect("put");
        let (deleted, put) = futures::join!(blobs.delete(&a), blobs.put(&b, once(vec![round]), LIMIT));
        deleted.expect("delete");
        put.expect("a put beside a delete");
        assert_eq!(read(blobs, &b, LIMIT).await.expect("get"), [round]);
        let (deleted, put) = futures::join!(blobs.delete(&b), blobs.put(&a, once(vec![round]), LIMIT));
        deleted.expect("delete");
        put.expect("a put beside a delete");
        assert_eq!(read(blobs, &a, LIMIT).await.expect("get"), [round]);
    }
    blobs.delete(&a).await.expect("delete");
}
