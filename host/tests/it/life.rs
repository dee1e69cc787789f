//! Drain and panic: a host that goes away does so in order.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sless_core::Outcome;

use crate::world::{World, eventually, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_lets_calls_finish_and_refuses_new_ones() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.works().await;
    let in_flight = kitchen.get("/sleep?300");
    let drained = async {
        eventually(|| world.host.stats().instances_in_use == 1).await;
        let started = Instant::now();
        world.host.drain(Duration::from_secs(20)).await;
        started.elapsed()
    };
    let (answer, took) = tokio::join!(in_flight, drained);
    assert_eq!(answer.unwrap().body(), "slept\n");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let failure = kitchen.failure("/hello").await;
    assert_eq!(failure.outcome, Outcome::ShuttingDown);
    assert!(failure.retry_after.is_some());
    assert!(!world.host.is_healthy());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_finish_within_the_grace_is_cut() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.works().await;
    let drained = async {
        eventually(|| world.host.stats().instances_in_use == 3).await;
        world.host.drain(Duration::from_millis(100)).await;
        world.host.stats().instances_in_use
    };
    let started = Instant::now();
    let (sleeper, spinner, streamer, left) = tokio::join!(
        kitchen.get("/sleep?25000"),
        kitchen.get("/spin"),
        async {
            let answer = kitchen.call(get("/stream?25000")).await.unwrap();
            http_body_util::BodyExt::collect(answer.into_body()).await.map(drop)
        },
        drained
    );
    assert_eq!(sleeper.unwrap_err().outcome, Outcome::ShuttingDown);
    assert_eq!(spinner.unwrap_err().outcome, Outcome::ShuttingDown);
    let error = streamer.unwrap_err().to_string();
    assert!(error.contains("shutting down"), "{error}");
    assert_eq!(left, 0);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_panic_of_the_host_fails_one_call_and_is_reported() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.works().await;
    // In the middle of a host call: 256 lines are handed on at once.
    world.logs.panics.store(true, Ordering::Relaxed);
    let failure = kitchen.failure("/log?300,1").await;
    assert_eq!(failure.outcome, Outcome::Internal);
    world.logs.panics.store(false, Ordering::Relaxed);
    tokio::time::timeout(Duration::from_secs(5), world.host.unhealthy()).await.unwrap();
    assert!(!world.host.is_healthy());
    assert_eq!(world.host.stats().panics_total, 1);
    world.idle().await;
    kitchen.works().await;
}
