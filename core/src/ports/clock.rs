//! `Clock`: what time it is. Tests set it.

use async_trait::async_trait;

use crate::Timestamp;

/// The time.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now, in UTC.
    fn now(&self) -> Timestamp;
    /// Returns when that instant has come.
    async fn sleep_until(&self, instant: Timestamp);
}
