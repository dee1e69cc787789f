//! What the whole-system tests share.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

pub mod dev;
pub mod doubles;
pub mod guests;

use std::future::Future;
use std::time::Duration;

/// Awaits a condition; fails with `what` after a deadline that only a hang reaches.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
