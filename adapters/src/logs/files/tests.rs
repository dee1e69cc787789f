use std::io::Write;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use sless_core::ports::Stream;
use sless_core::testing::TestClock;
use sless_core::{InvocationId, Tenant, Timestamp, VersionNumber};

use super::*;

const SMALL: Bounds = Bounds { segment_bytes: 4 << 10, segments: 4, total_bytes: 64 << 10 };

fn open(dir: &Path, bounds: Bounds) -> FileLogs {
    FileLogs::open(dir, bounds, Arc::new(TestClock::default())).unwrap()
}

fn key(name: &str) -> FunctionKey {
    FunctionKey::new(Tenant::from_subject("a").namespace(), name.parse().unwrap())
}

fn line(i: usize) -> LogLine {
    LogLine {
        at: Timestamp::UNIX_EPOCH + Duration::from_millis(i as u64),
        version: VersionNumber(1),
        invocation: InvocationId(uuid::Uuid::from_u128(i as u128)),
        stream: Stream::Stdout,
        line: format!("line {i}"),
    }
}

fn number(line: &LogLine) -> usize {
    line.invocation.0.as_u128() as usize
}

async fn all(logs: &FileLogs, function: &FunctionKey, tail: Option<usize>) -> Vec<LogLine> {
    let query = LogQuery { tail, ..LogQuery::default() };
    logs.read(function, query).await.unwrap().try_collect().await.unwrap()
}

/// All files below, with their sizes.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(self::files(&entry.path())),
            false => files.push((entry.path(), entry.metadata().unwrap().len())),
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    sless_core::testing::logs(&open(dir.path(), Bounds::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_over_many_rotations() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds { segment_bytes: 10 << 10, segments: 1000, total_bytes: 1 << 30 };
    sless_core::testing::logs(&open(dir.path(), bounds)).await;
    assert!(files(dir.path()).len() > 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_lines_are_kept_within_the_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), SMALL);
    let functions: Vec<_> = (0..6).map(|i| key(&format!("f{i}"))).collect();
    for i in 0..600 {
        for function in &functions {
            logs.append(function, vec![line(i)]);
        }
        if i % 50 == 0 {
            logs.flush().await.unwrap();
        }
    }
    logs.flush().await.unwrap();
    let there = files(dir.path());
    let total: u64 = there.iter().map(|file| file.1).sum();
    assert!(total <= SMALL.total_bytes && total > SMALL.total_bytes - 2 * SMALL.segment_bytes, "{total}");
    assert!(there.iter().all(|file| file.1 <= SMALL.segment_bytes));
    for function in &functions {
        let kept = all(&logs, function, None).await;
        assert!(!kept.is_empty());
        let first = number(&kept[0]);
        assert_eq!(
            kept.iter().map(number).collect::<Vec<_>>(),
            (first..600).collect::<Vec<_>>(),
            "the newest, without gaps"
        );
        assert!(files(&logs.shared.folder(function)).len() <= SMALL.segments);
        assert_eq!(all(&logs, function, Some(7)).await, (593..600).map(line).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_line_is_passed_over_and_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let function = key("f");
    let logs = open(dir.path(), SMALL);
    logs.append(&function, (0..3).map(line).collect());
    logs.close().await;
    let (path, size) = files(dir.path())[0].clone();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(br#"{"at":"2006-01-02T15:04:05Z","version":1,"invoc"#).unwrap();

    let logs = open(dir.path(), SMALL);
    assert_eq!(all(&logs, &function, None).await, (0..3).map(line).collect::<Vec<_>>());
    assert_eq!(all(&logs, &function, Some(1)).await, [line(2)], "half a line is none");
    let mut follower = logs.read(&function, LogQuery { tail: Some(1), since: None, follow: true }).await.unwrap();
    assert_eq!(follower.next().await.unwrap().unwrap(), line(2));
    assert!(futures::poll!(follower.next()).is_pending());
    logs.append(&function, vec![line(3)]);
    logs.flush().await.unwrap();
    assert_eq!(all(&logs, &function, None).await, (0..4).map(line).collect::<Vec<_>>());
    assert_eq!(follower.next().await.unwrap().unwrap(), line(3), "a follower that stood before the half line");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text[size as usize..].lines().count(), 1);
    assert!(text.lines().all(|line| serde_json::from_str::<LogLine>(line).is_ok()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_come_too_fast_are_dropped_counted_and_spoken_of() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), Bounds::default());
    let function = key("f");
    let before = std::time::Instant::now();
    const CALLS: usize = 40_000;
    for i in 0..CALLS {
        logs.append(&function, vec![LogLine { line: "z".repeat(300), ..line(i) }]);
    }
    assert!(before.elapsed() < Duration::from_secs(20), "it never waits");
    let read = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            logs.flush().await.unwrap();
            let read = all(&logs, &function, None).await;
            if logs.shared.dropped().is_empty() {
                break read;
            }
        }
    });
    let read = read.await.unwrap();
    let dropped: usize = read
        .iter()
        .filter(|line| line.stream == Stream::Platform)
        .map(|line| line.line.split(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    let kept = read.iter().filter(|line| line.stream == Stream::Stdout).count();
    assert!(dropped > 0, "a queue of {QUEUE_CALLS} calls took {CALLS} without a drop: the test has to be faster");
    assert_eq!(kept + dropped, CALLS, "every line is there or counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_files_are_open_whatever_logs() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), Bounds::default());
    let open_here = || {
        let links =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|path| path.starts_with(dir.path())).count()
    };
    for round in 0..3 {
        for i in 0..500 {
            logs.append(&key(&format!("f{i}")), vec![line(round)]);
        }
        logs.flush().await.unwrap();
        assert!(open_here() <= 64, "{} files are open", open_here());
    }
    for i in 0..500 {
        assert_eq!(all(&logs, &key(&format!("f{i}")), None).await, [line(0), line(1), line(2)]);
    }
    // Followers are forgotten when they leave.
    let function = key("f1");
    let follow = || logs.read(&function, LogQuery { follow: true, ..LogQuery::default() });
    let followers = futures::future::join_all([follow(), follow(), follow()]).await;
    assert_eq!(logs.shared.followers().len(), 1);
    drop(followers);
    assert_eq!(logs.shared.followers().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_ends_at_what_was_there_when_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Arc::new(open(dir.path(), SMALL));
    let function = key("f");
    logs.append(&function, (0..20).map(line).collect());
    logs.flush().await.unwrap();
    let read = logs.read(&function, LogQuery::default()).await.unwrap();
    logs.append(&function, (20..40).map(line).collect());
    logs.flush().await.unwrap();
    assert_eq!(read.try_collect::<Vec<_>>().await.unwrap(), (0..20).map(line).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_can_not_be_written_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), SMALL);
    let function = key("f");
    // A file where the folder belongs.
    let folder = logs.shared.folder(&function);
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    logs.append(&function, vec![line(0), line(1)]);
    logs.flush().await.unwrap();
    std::fs::remove_file(&folder).unwrap();
    logs.append(&function, vec![line(2)]);
    logs.flush().await.unwrap();
    let read = all(&logs, &function, None).await;
    assert_eq!(read[0], line(2));
    assert_eq!((read[1].stream, read[1].line.split(' ').next()), (Stream::Platform, Some("2")), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_longer_than_a_call_may_log_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), Bounds::default());
    let function = key("f");
    logs.append(&function, vec![LogLine { line: "é".repeat(MAX_LINE_BYTES), ..line(0) }]);
    logs.flush().await.unwrap();
    let read = all(&logs, &function, None).await;
    assert_eq!(read[0].line.chars().count(), MAX_LINE_BYTES / 2 + 1);
    assert!(read[0].line.ends_with('…'));
}
