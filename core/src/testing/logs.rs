//! What [`Logs`] promises.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use proptest::prelude::*;

use super::{namespace, samples, within};
use crate::ports::{LogLine, LogQuery, Logs, Stream};
use crate::{FunctionKey, InvocationId, Timestamp, VersionNumber};

fn key(name: &str) -> FunctionKey {
    FunctionKey::new(namespace(), name.parse().expect("a name"))
}

fn at(second: usize) -> Timestamp {
    Timestamp::constant(1_136_214_245, 123_456_789) + Duration::from_secs(second as u64)
}

fn line(second: usize, text: &str) -> LogLine {
    let stream = [Stream::Stdout, Stream::Stderr, Stream::Platform][second % 3];
    let version = VersionNumber(second as u32 + 1);
    LogLine { at: at(second), version, invocation: InvocationId::now(), stream, line: text.to_owned() }
}

async fn all(logs: &dyn Logs, function: &FunctionKey, query: LogQuery) -> Vec<LogLine> {
    assert!(!query.follow);
    within("a read that does not follow", async {
        logs.read(function, query).await.expect("read").try_collect().await.expect("read")
    })
    .await
}

/// Runs the contract of [`Logs`], whose bounds let 2 MiB a function be.
pub async fn logs(logs: &dyn Logs) {
    reads(logs).await;
    follows(logs).await;
    deletes(logs).await;
}

async fn reads(logs: &dyn Logs) {
    let (one, other) = (key("one"), key("other"));
    assert_eq!(all(logs, &one, LogQuery::default()).await, [], "a function that never logged has no lines");
    logs.append(&one, Vec::new());
    logs.flush().await.expect("flush");
    let texts = [
        "plain",
        "",
        "é\u{1f980}\u{2028}",
        "quotes \" and \\ and {\"json\": true}",
        "line\nend\r\nin it",
        "\0\u{1b}[31m",
    ];
    let random = samples(30, any::<String>());
    let long = "x".repeat(700_000);
    let texts = texts.iter().copied().chain(random.iter().map(String::as_str)).chain([long.as_str()]);
    let lines: Vec<_> = texts.enumerate().map(|(i, text)| line(i, text)).collect();
    for call in lines.chunks(4) {
        logs.append(&one, call.to_vec());
        logs.append(&other, vec![line(0, "of another function")]);
    }
    logs.flush().await.expect("flush");
    assert!(all(logs, &one, LogQuery::default()).await == lines, "lines came back changed, or in another order");
    assert_eq!(all(logs, &other, LogQuery::default()).await.len(), lines.len().div_ceil(4));
    let elsewhere = FunctionKey::new(namespace(), one.name.clone());
    assert_eq!(all(logs, &elsewhere, LogQuery::default()).await, [], "another namespace's function of that name");

    let n = lines.len();
    for tail in [0, 1, 2, n - 1, n, n + 1, usize::MAX] {
        let read = all(logs, &one, LogQuery { tail: Some(tail), ..LogQuery::default() }).await;
        assert!(read == lines[n.saturating_sub(tail)..], "the last {tail} of {n} lines: got {}", read.len());
    }
    for since in [0, 1, 7, n - 1, n] {
        let read = all(logs, &one, LogQuery { since: Some(at(since)), ..LogQuery::default() }).await;
        assert!(read == lines[since..], "lines since the {since}th: got {} of {}", read.len(), n - since);
    }
    let read = all(logs, &one, LogQuery { tail: Some(5), since: Some(at(n - 3)), follow: false }).await;
    assert!(read == lines[n - 3..], "tail and since both hold");
}

async fn follows(logs: &dyn Logs) {
    let one = key("followed");
    let follow = LogQuery { follow: true, ..LogQuery::default() };
    // Some follow before there is a line, some come later; each line comes once to each, in order.
    const LINES: usize = 3000;
    let early = logs.read(&one, follow.clone()).await.expect("follow");
    let lines: Vec<_> = (0..LINES).map(|i| line(i, &format!("line {i} {}", "y".repeat(i % 400)))).collect();
    let writing = async {
        for (i, call) in lines.chunks(10).enumerate() {
            logs.append(&one, call.to_vec());
            if i % 20 == 0 {
                logs.flush().await.expect("flush");
            }
        }
        logs.flush().await.expect("flush");
    };
    let read = |stream: crate::ports::LogStream| stream.take(LINES).try_collect::<Vec<_>>();
    let early = async { read(early).await };
    let late = async {
        tokio::task::yield_now().await;
        read(logs.read(&one, follow.clone()).await.expect("follow")).await
    };
    let ((), early, late) = within("followers", async { futures::join!(writing, early, late) }).await;
    assert!(early.expect("follow") == lines, "a follower from the beginning lost or doubled lines");
    assert!(late.expect("follow") == lines, "a follower that came later lost or doubled lines");

    // What is there already comes first; then it waits for more.
    let query = LogQuery { tail: Some(2), since: None, follow: true };
    let mut tail = logs.read(&one, query).await.expect("follow");
    for expected in &lines[LINES - 2..] {
        assert_eq!(&within("the tail", tail.next()).await.expect("a line").expect("a line"), expected);
    }
    assert!(futures::poll!(tail.next()).is_pending());
    let more = line(1, "more");
    logs.append(&one, vec![more.clone()]);
    assert_eq!(within("a new line", tail.next()).await.expect("a line").expect("a line"), more);
}

async fn deletes(logs: &dyn Logs) {
    let one = key("deleted");
    logs.append(&one, vec![line(0, "old")]);
    // Without a flush: what was taken before goes with it.
    logs.delete(&one).await.expect("delete");
    logs.delete(&one).await.expect("deleting what is not there");
    logs.flush().await.expect("flush");
    assert_eq!(all(logs, &one, LogQuery::default()).await, []);
    let mut follower = logs.read(&one, LogQuery { follow: true, ..LogQuery::default() }).await.expect("follow");
    let new = line(1, "new");
    logs.append(&one, vec![new.clone()]);
    logs.flush().await.expect("flush");
    assert_eq!(
        all(logs, &one, LogQuery::default()).await,
        std::slice::from_ref(&new),
        "a later function of that name has its own lines"
    );
    assert_eq!(within("a new line", follower.next()).await.expect("a line").expect("a line"), new);
}
