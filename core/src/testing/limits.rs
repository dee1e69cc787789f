//! What [`Limits`] promises.

use std::time::{Duration, Instant};

use super::{namespace, within};
use crate::FunctionKey;
use crate::ports::Limits;

/// Runs the contract of [`Limits`].
pub async fn limits(limits: &dyn Limits) {
    let key = |name: &str| FunctionKey::new(namespace(), name.parse().expect("a name"));
    let (one, other) = (key("one"), key("other"));

    // A burst of one second's worth, and what comes back meanwhile.
    let began = Instant::now();
    let taken = (0..1000).take_while(|_| limits.take(&one, 50).is_ok()).count();
    let back = (began.elapsed().as_secs_f64() * 50.0).ceil() as usize;
    assert!((50..=50 + back).contains(&taken), "a burst of 50 gave {taken} calls, {back} of them could have come back");

    // The answer says when one is free, and then it is.
    let wait = limits.take(&one, 50).expect_err("the burst is used up");
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_millis(20),
        "one of 50 a second is free in 20 ms, not {wait:?}"
    );
    within("a call that was said to be free", async {
        tokio::time::sleep(wait).await;
        // A neighbour may not take it; only a clock's grain may be missing.
        while let Err(wait) = limits.take(&one, 50) {
            assert!(wait <= Duration::from_millis(2), "{wait:?} more after the time that was said");
            tokio::time::sleep(wait).await;
        }
    })
    .await;

    // Functions don't meet, also not those of one name in two namespaces.
    limits.take(&other, 1).expect("another function's first call");
    limits.take(&other, 1).expect_err("its second within a second");
    limits.take(&key("other"), 1).expect("the function of that name in another namespace");

    // A rate that changes counts from then on.
    let changed = key("changed");
    limits.take(&changed, 1).expect("the first call");
    limits.take(&changed, 1).expect_err("the second");
    let more = (0..100).take_while(|_| limits.take(&changed, 100).is_ok()).count();
    assert!(more >= 50, "at a rate of 100, {more} calls went through");
    limits.take(&key("fast"), u32::MAX).expect("the highest rate there is");

    // All at once from many threads: no call too many.
    let shared = key("shared");
    let began = Instant::now();
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..500).filter(|_| limits.take(&shared, 100).is_ok()).count())).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that takes calls")).sum()
    });
    let back = (began.elapsed().as_secs_f64() * 100.0).ceil() as usize;
    assert!((100..=100 + back).contains(&taken), "a burst of 100 gave {taken} calls to four threads");
}
