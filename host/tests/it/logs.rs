//! What functions print.

use sless_core::invocation::LOG_TAIL_BYTES;
use sless_core::ports::logs::Stream;

use crate::world::{World, eventually, get};

#[tokio::test]
async fn lines_come_with_their_call_and_in_order() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.text("/log?4,3").await;
    let row = world.row().await;
    let lines = world.logs.lines.lock().unwrap().clone();
    let texts: Vec<_> = lines.iter().map(|line| (line.stream, line.line.as_str())).collect();
    assert_eq!(
        texts,
        [
            (Stream::Stdout, "0 xxx"),
            (Stream::Stderr, "1 xxx"),
            (Stream::Stdout, "2 xxx"),
            (Stream::Stderr, "3 xxx"),
            (Stream::Stdout, "unfinished"),
        ]
    );
    assert!(lines.iter().all(|line| line.invocation == row.id && line.version == row.version));
    assert_eq!(row.log_tail, "0 xxx\n1 xxx\n2 xxx\n3 xxx\nunfinished\n");
}

#[tokio::test]
async fn what_is_over_the_limit_is_dropped_and_counted() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.limits.log_bytes = 1000);
    // Lines of "N xxxxxxxxxx\n": 13 bytes each for the first ten, 14 for the others. The first ten take 130 bytes, and
    // (1000 - 130) / 14 = 62 more fit. Of 100, 28 are dropped, 28 * 14 = 392 bytes, and "unfinished" with its 10.
    kitchen.text("/log?100,10").await;
    assert_eq!(world.logs.texts(Stream::Stdout).len() + world.logs.texts(Stream::Stderr).len(), 72);
    let said = world.logs.texts(Stream::Platform);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("29 lines (402 bytes) were dropped"), "{}", said[0]);
    assert!(said[0].contains("limits.logBytes = 1000"), "{}", said[0]);
    let row = world.row().await;
    assert!(row.log_tail.ends_with(&format!("{}\n", said[0])));
}

#[tokio::test]
async fn long_lines_are_cut_into_several_and_the_tail_is_bounded() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.text("/log?1,40000").await;
    let lengths: Vec<_> = world.logs.texts(Stream::Stdout).iter().map(String::len).collect();
    // "0 " and 40,000 characters, in lines of 16 KiB, then the unfinished one.
    assert_eq!(lengths, [16384, 16384, 40_002 - 2 * 16384, "unfinished".len()]);
    let row = world.row().await;
    assert_eq!(row.log_tail.len(), LOG_TAIL_BYTES);
}

#[tokio::test]
async fn a_log_can_be_followed_while_the_guest_waits() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let call = kitchen.call(get("/log-then-sleep?20000"));
    tokio::pin!(call);
    let seen = eventually(|| world.logs.texts(Stream::Stdout) == ["before"]);
    tokio::select! {
        _ = &mut call => panic!("it sleeps"),
        () = seen => {}
    }
}
