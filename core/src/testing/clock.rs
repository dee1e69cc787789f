//! A clock that stands still until a test moves it.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::Timestamp;
use crate::ports::Clock;

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct TestClock {
    now: watch::Sender<Timestamp>,
}

impl TestClock {
    /// A clock that stands at this instant.
    pub fn new(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Sets it, forth or back; wakes those who waited for it.
    pub fn set(&self, now: Timestamp) {
        self.now.send_replace(now);
    }

    /// Moves it forth.
    ///
    /// # Panics
    /// Past the last instant that a [`Timestamp`] has.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
    }

    /// How many wait for an instant: a test that is to wake somebody waits for this first.
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }
}

impl Default for TestClock {
    /// At 2006-01-02T15:04:05Z.
    fn default() -> Self {
        Self::new(Timestamp::constant(1_136_214_245, 0))
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        let mut now = self.now.subscribe();
        // The sender lives as long as this.
        let _ = now.wait_for(|now| *now >= instant).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn wakes_sleepers_when_their_instant_has_come_and_not_before() {
        let clock = Arc::new(TestClock::default());
        let start = clock.now();
        clock.sleep_until(start).await;
        let sleeper = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep_until(start + Duration::from_secs(10)).await;
                clock.now()
            }
        });
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(9));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!sleeper.is_finished());
        clock.set(start + Duration::from_secs(11));
        assert_eq!(sleeper.await.unwrap(), start + Duration::from_secs(11));
        assert_eq!(clock.sleepers(), 0);
    }
}
