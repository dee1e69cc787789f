//! The system's clock.

use std::time::Duration;

use async_trait::async_trait;
use sless_core::Timestamp;
use sless_core::ports::Clock;

/// Looks at the clock again at least this often while waiting, since somebody may set it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The system's clock in whole microseconds: what the stores keep is what was said.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    async fn sleep_until(&self, instant: Timestamp) {
        loop {
            let left = Timestamp::now().duration_until(instant);
            let Ok(left) = Duration::try_from(left) else { return };
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_AGAIN)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeps_until_the_instant_and_not_for_one_that_has_passed() {
        let clock = SystemClock;
        let wake = clock.now() + Duration::from_millis(20);
        clock.sleep_until(wake).await;
        assert!(clock.now() >= wake);
        tokio::time::timeout(Duration::from_secs(5), clock.sleep_until(wake - Duration::from_secs(60))).await.unwrap();
    }

    #[test]
    fn says_whole_microseconds() {
        assert_eq!(SystemClock.now().as_nanosecond() % 1000, 0);
    }
}
