//! Every limit has its outcome, and the next call works.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use sless_core::ports::logs::Stream;
use sless_core::{ColdGrade, Outcome};
use sless_host::Settings;

use crate::world::{World, eventually, function_key, get, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeper_is_stopped_at_its_deadline_and_never_goes_on() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.timeout_seconds = 1);
    let started = Instant::now();
    let failure = kitchen.failure("/sleep?1500").await;
    let took = started.elapsed();
    assert_eq!(failure.outcome, Outcome::DeadlineExceeded);
    assert!(failure.detail.contains("timeoutSeconds = 1"), "{}", failure.detail);
    assert!((Duration::from_millis(990)..Duration::from_millis(1400)).contains(&took), "{took:?}");
    world.idle().await;
    // Past the instant at which it would have printed.
    eventually(|| started.elapsed() > Duration::from_millis(1800)).await;
    assert_eq!(world.logs.texts(Stream::Stdout), Vec::<String>::new());
    let row = world.row().await;
    assert_eq!((row.outcome, row.status), (Outcome::DeadlineExceeded, 504));
    assert!(row.cpu_us < 500_000, "sleeping costs no processor time: {}", row.cpu_us);
    kitchen.works().await;
}

#[tokio::test]
async fn the_deadline_holds_for_a_body_that_streams_too() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.timeout_seconds = 1);
    let failure = kitchen.failure("/stream?20000").await;
    assert_eq!(failure.outcome, Outcome::DeadlineExceeded);
    assert_eq!(world.row().await.outcome, Outcome::DeadlineExceeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_is_cut_at_its_budget_and_its_neighbours_do_not_wait() {
    let world = World::new();
    let looping = world.kitchen(|spec| spec.limits.cpu_ms = 1500);
    let neighbour = world.kitchen(|_| {});
    neighbour.works().await;
    let stopped = AtomicU32::new(0);
    let spin = async {
        // As many as there are threads.
        for failure in join_all([looping.failure("/spin"), looping.failure("/spin")]).await {
            assert_eq!(failure.outcome, Outcome::DeadlineExceeded);
            assert!(failure.detail.contains("limits.cpuMs = 1500"), "{}", failure.detail);
        }
        stopped.store(1, Ordering::Relaxed);
    };
    let calls = async {
        let mut took = Vec::new();
        while stopped.load(Ordering::Relaxed) == 0 {
            let started = Instant::now();
            neighbour.works().await;
            took.push(started.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        took.sort();
        took
    };
    let ((), took) = tokio::join!(spin, calls);
    // A tick is 10 ms, and two loops share the thread of this test with the neighbour.
    let median = took[took.len() / 2];
    assert!(median < Duration::from_millis(100), "{median:?} of {} calls", took.len());
    let rows = [world.row().await, world.row().await];
    assert_eq!(rows[0].outcome, Outcome::Ok);
    world.idle().await;
}

#[tokio::test]
async fn computing_is_charged_and_sleeping_is_not() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.text("/spin-ms?100").await;
    let row = world.row().await;
    assert!((90_000..2_000_000).contains(&row.cpu_us), "{}", row.cpu_us);
    assert!(row.duration_us >= 100_000);
    kitchen.text("/sleep?100").await;
    let row = world.row().await;
    assert!(row.cpu_us < 50_000, "{}", row.cpu_us);
}

#[tokio::test]
async fn running_out_of_memory_has_its_own_name() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.memory_mb = 128);
    let failure = kitchen.failure("/alloc?1024").await;
    assert_eq!(failure.outcome, Outcome::OutOfMemory, "{}", failure.detail);
    assert!(failure.detail.contains("memoryMb = 128"), "{}", failure.detail);
    assert_eq!(world.row().await.outcome, Outcome::OutOfMemory);
    kitchen.works().await;
    world.row().await;
    assert_eq!(kitchen.text("/alloc?64").await, format!("{}\n", 64 << 20));
    let row = world.row().await;
    assert!((64 << 20..=128 << 20).contains(&row.peak_memory_bytes), "{}", row.peak_memory_bytes);
    assert_eq!(kitchen.failure("/alloc?127").await.outcome, Outcome::OutOfMemory, "with what it had already");

    let tiny = world.kitchen(|spec| spec.memory_mb = 1);
    assert_eq!(tiny.failure("/hello").await.outcome, Outcome::OutOfMemory, "its initial memory is 2 MiB");
}

#[tokio::test]
async fn traps_fail_one_call_only() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    for (path, words) in [
        ("/recurse?1", "call stack exhausted"),
        ("/recurse-with-data?1", "out of bounds memory access"),
        ("/trap", "unreachable"),
        ("/panic", "unreachable"),
        // `wasi:cli/exit@0.2` tells good from bad only.
        ("/exit", "status 1"),
    ] {
        let failure = kitchen.failure(path).await;
        assert_eq!(failure.outcome, Outcome::FunctionTrapped, "{path}");
        assert!(failure.detail.contains(words), "{path}: {}", failure.detail);
        let row = world.row().await;
        assert_eq!((row.outcome, row.status), (Outcome::FunctionTrapped, 500), "{path}");
        assert_eq!(row.error.as_deref(), Some(failure.detail.as_str()));
        kitchen.works().await;
        world.row().await;
    }
    let said = world.logs.texts(Stream::Platform).join("\n");
    assert!(said.contains("wasm backtrace"), "{said}");
    assert!(world.logs.texts(Stream::Stderr).join("\n").contains("on purpose"), "the panic's own words");
    assert!(world.host.is_healthy());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_stop_their_guests() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.concurrency = 10);
    kitchen.works().await;
    for round in 0..200 {
        let path = ["/sleep?20000", "/spin", "/stream?20000", "/big?6000"][round % 4];
        if let Ok(answered) = tokio::time::timeout(Duration::from_millis(5), kitchen.call(get(path))).await {
            // It has a head: its body is dropped with it.
            drop(answered.unwrap());
        }
    }
    world.idle().await;
    kitchen.works().await;
    let stats = world.host.stats();
    assert_eq!((stats.instances_in_use, stats.calls_waiting, stats.calls_total), (0, 0, 202));
    // Each of them has left its row.
    for _ in 0..202 {
        world.row().await;
    }
}

#[tokio::test]
async fn more_calls_than_concurrency_wait_or_are_told_to_come_again() {
    let quick = Settings { queue_wait: Duration::from_millis(50), ..settings() };
    let world = World::with(quick);
    let kitchen = world.kitchen(|spec| spec.concurrency = 4);
    kitchen.target.prepare().await.unwrap();
    let answers = join_all((0..54).map(|_| kitchen.get("/sleep?400"))).await;
    let served = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(served, 4);
    for failure in answers.into_iter().filter_map(Result::err) {
        assert_eq!(failure.outcome, Outcome::ConcurrencyExceeded);
        assert!(failure.retry_after.is_some());
        assert!(failure.detail.contains("concurrency = 4"), "{}", failure.detail);
    }
    world.idle().await;

    let patient = World::new();
    let kitchen = patient.kitchen(|spec| spec.concurrency = 4);
    let answers = join_all((0..54).map(|_| kitchen.get("/sleep?10"))).await;
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_full_host_says_so_and_bounds_who_waits() {
    let small = Settings { instances: 2, queue_wait: Duration::from_millis(50), queue_calls: 3, ..settings() };
    let world = World::with(small);
    let kitchen = world.kitchen(|_| {});
    kitchen.target.prepare().await.unwrap();
    let started = Instant::now();
    let mut refused_at = Vec::new();
    let answers = join_all((0..10).map(|_| async {
        let answer = kitchen.get("/sleep?300").await;
        (answer, started.elapsed())
    }))
    .await;
    for (answer, at) in answers {
        if let Err(failure) = answer {
            assert_eq!(failure.outcome, Outcome::PoolExhausted);
            assert!(failure.retry_after.is_some());
            refused_at.push(at);
        }
    }
    assert_eq!(refused_at.len(), 8);
    let at_once = refused_at.iter().filter(|at| **at < Duration::from_millis(45)).count();
    assert_eq!(at_once, 5, "three wait, the others are refused at once: {refused_at:?}");
    world.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_at_a_function_at_zero_is_served() {
    let world = World::with(Settings { instances: 100, ..settings() });
    let kitchen = world.kitchen(|_| {});
    let answers = join_all((0..1000).map(|_| kitchen.get("/hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|r| r.status() == 200)));
    assert_eq!(*world.store.fetched.lock().unwrap(), 1, "one flight for all of them");
}

#[tokio::test]
async fn instances_are_fresh_unless_the_function_asks_for_reuse() {
    let world = World::new();
    let fresh = world.kitchen(|_| {});
    for _ in 0..3 {
        assert_eq!(fresh.text("/calls").await, "1");
    }
    let reused = world.kitchen(|spec| spec.reuse = true);
    for calls in 1..=3 {
        assert_eq!(reused.text("/calls").await, calls.to_string());
    }
    let mut colds = Vec::new();
    for _ in 0..6 {
        colds.push(world.row().await.cold.unwrap());
    }
    assert_eq!(colds[0], ColdGrade::Artifact);
    assert_eq!(
        colds[1..],
        [ColdGrade::Instance, ColdGrade::Instance, ColdGrade::Instance, ColdGrade::Warm, ColdGrade::Warm]
    );
    assert_eq!(world.host.stats().instances_idle, 1);

    // What each call prints is its own, though the guest keeps its streams.
    world.logs.lines.lock().unwrap().clear();
    reused.text("/log?1,3").await;
    reused.text("/log?1,5").await;
    let (first, second) = (world.row().await, world.row().await);
    assert!(first.log_tail.contains("0 xxx\n") && !first.log_tail.contains("xxxxx"), "{:?}", first.log_tail);
    assert!(second.log_tail.contains("0 xxxxx\n"), "{:?}", second.log_tail);

    // A trap takes its instance with it.
    reused.failure("/trap").await;
    assert_eq!(world.host.stats().instances_idle, 0);
    assert_eq!(reused.text("/calls").await, "1");
    // The budget is each call's own.
    let busy = world.kitchen(|spec| {
        spec.reuse = true;
        spec.limits.cpu_ms = 300;
    });
    for _ in 0..4 {
        busy.text("/spin-ms?150").await;
    }
    drop((busy, reused));
    eventually(|| world.host.stats().instances_idle == 0).await;
}

#[tokio::test]
async fn settings_reach_a_guest_as_its_environment() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| {
        spec.env.insert("GREETING".into(), "grüezi".into());
        spec.env.insert("EMPTY".into(), String::new());
    });
    let namespace = function_key("kitchen").namespace;
    let platform = format!(
        "SLESS_FUNCTION_NAME=kitchen\nSLESS_NAMESPACE={namespace}\nSLESS_VERSION=3\nSLESS_TIMEOUT_SECONDS=30\n"
    );
    assert_eq!(kitchen.text("/env").await, format!("EMPTY=\nGREETING=grüezi\n{platform}"));
}
