//! Rate limits in this process: a bucket (GCRA, by `governor`) for each function and rate.
//!
//! A bucket that was not asked for a second is full again, so it can be forgotten without anybody noticing: that bounds
//! how many there are by how many functions are called in a second.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use governor::clock::{Clock, QuantaClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sless_core::FunctionKey;
use sless_core::ports::Limits;

/// Locks that calls of different functions share; a power of two, more than a machine has processors to contend.
const SHARDS: usize = 64;
/// Functions of a shard when buckets are first looked through. Later it is twice what was left the time before.
const MIN_SWEEP: usize = 32;
/// Functions with a rate at once, some 30 MB. Beyond it those that waited longest go, and have a burst too many.
const MAX_FUNCTIONS: usize = 131_072;
/// Rates of one function at once: the old version's and the new one's, and room for changes in a second.
const MAX_RATES: usize = 4;
/// A burst is one second's worth, so a bucket is full after a second.
const FULL_AFTER: Duration = Duration::from_secs(1);
/// The most that a nanosecond clock can tell apart.
const MAX_RATE: u32 = 1_000_000_000;

/// Rate limits in this process.
#[derive(Debug)]
pub struct LocalLimits {
    shards: Vec<RwLock<Shard>>,
    hasher: std::hash::RandomState,
    clock: QuantaClock,
    began: Instant,
    max_of_shard: usize,
}

#[derive(Debug)]
struct Shard {
    buckets: HashMap<FunctionKey, Vec<Bucket>>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Bucket {
    rate: u32,
    limiter: DefaultDirectRateLimiter,
    /// Milliseconds since the beginning.
    asked: AtomicU64,
}

impl Default for LocalLimits {
    fn default() -> Self {
        Self::bounded(MAX_FUNCTIONS)
    }
}

impl LocalLimits {
    fn bounded(max_functions: usize) -> Self {
        let shard = || RwLock::new(Shard { buckets: HashMap::new(), sweep_at: MIN_SWEEP });
        Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            hasher: std::hash::RandomState::new(),
            clock: QuantaClock::default(),
            began: Instant::now(),
            max_of_shard: max_functions / SHARDS,
        }
    }
}

impl Bucket {
    fn new(rate: u32) -> Self {
        let quota = Quota::per_second(NonZeroU32::new(rate.min(MAX_RATE)).unwrap_or(NonZeroU32::MIN));
        Self { rate, limiter: RateLimiter::direct(quota), asked: AtomicU64::new(0) }
    }

    fn take(&self, clock: &QuantaClock, now: u64) -> Result<(), Duration> {
        self.asked.store(now, Ordering::Relaxed);
        self.limiter.check().map_err(|not_until| not_until.wait_time_from(clock.now()))
    }

    fn is_full(&self, now: u64) -> bool {
        now.saturating_sub(self.asked.load(Ordering::Relaxed)) > FULL_AFTER.as_millis() as u64
    }
}

impl Shard {
    /// Makes room: forgets what is full and, where that is not enough, the eighth that waited longest, so that one look
    /// at all of them serves many that come.
    fn sweep(&mut self, now: u64, max: usize) {
        self.buckets.retain(|_, buckets| {
            buckets.retain(|bucket| !bucket.is_full(now));
            !buckets.is_empty()
        });
        if self.buckets.len() >= max {
            let asked = |buckets: &[Bucket]| buckets.iter().map(|b| b.asked.load(Ordering::Relaxed)).max();
            let mut by_age: Vec<_> = self.buckets.iter().map(|(key, buckets)| (asked(buckets), key.clone())).collect();
            by_age.sort_unstable();
            for (_, key) in by_age.iter().take(max.div_ceil(8)) {
                self.buckets.remove(key);
            }
        }
        self.sweep_at = (self.buckets.len() * 2).clamp(MIN_SWEEP.min(max), max);
    }
}

impl Limits for LocalLimits {
    fn take(&self, function: &FunctionKey, per_second: u32) -> Result<(), Duration> {
        if per_second == 0 {
            return Err(FULL_AFTER);
        }
        self.take_at(function, per_second, self.began.elapsed().as_millis() as u64)
    }
}

impl LocalLimits {
    /// The same at a time, in milliseconds since the beginning, that says what can be forgotten.
    fn take_at(&self, function: &FunctionKey, per_second: u32, now: u64) -> Result<(), Duration> {
        let shard = &self.shards[self.hasher.hash_one(function) as usize % SHARDS];
        {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            let buckets = shard.buckets.get(function).map(Vec::as_slice).unwrap_or_default();
            if let Some(bucket) = buckets.iter().find(|bucket| bucket.rate == per_second) {
                return bucket.take(&self.clock, now);
            }
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        if !shard.buckets.contains_key(function) && shard.buckets.len() >= shard.sweep_at {
            shard.sweep(now, self.max_of_shard);
        }
        let buckets = shard.buckets.entry(function.clone()).or_default();
        // Another call may have made it meanwhile.
        let index = buckets.iter().position(|bucket| bucket.rate == per_second).unwrap_or_else(|| {
            if buckets.len() >= MAX_RATES {
                let oldest =
                    buckets.iter().enumerate().min_by_key(|(_, b)| b.asked.load(Ordering::Relaxed)).map(|(i, _)| i);
                oldest.map(|i| buckets.swap_remove(i));
            }
            buckets.push(Bucket::new(per_second));
            buckets.len() - 1
        });
        buckets[index].take(&self.clock, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> FunctionKey {
        FunctionKey::new(sless_core::Tenant::from_subject("a").namespace(), name.parse().unwrap())
    }

    fn functions(limits: &LocalLimits) -> usize {
        limits.shards.iter().map(|shard| shard.read().unwrap().buckets.len()).sum()
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        sless_core::testing::limits(&LocalLimits::default()).await;
    }

    #[test]
    fn changing_back_and_forth_between_two_rates_gives_no_new_burst() {
        let limits = LocalLimits::default();
        let taken = (0..1000).filter(|i| limits.take(&key("f"), if i % 2 == 0 { 10 } else { 20 }).is_ok()).count();
        assert!(taken <= 30 + 3, "{taken} calls of a burst of 10 and one of 20");
    }

    #[test]
    fn forgets_functions_that_are_not_called_any_more() {
        let limits = LocalLimits::default();
        for i in 0..4000 {
            limits.take_at(&key(&format!("f{i}")), 5, 1000).unwrap();
        }
        assert_eq!(functions(&limits), 4000);
        // In the same second nobody is forgotten: each has its bucket still.
        for i in 0..4000 {
            limits.take_at(&key(&format!("g{i}")), 5, 2000).unwrap();
        }
        assert_eq!(functions(&limits), 8000);
        for i in 0..16_000 {
            limits.take_at(&key(&format!("h{i}")), 5, 4000).unwrap();
        }
        assert_eq!(functions(&limits), 16_000, "only those that were called in the last second are left");
    }

    #[test]
    fn has_no_more_functions_than_its_bound() {
        let limits = LocalLimits::bounded(4096);
        for i in 0..20_000 {
            limits.take_at(&key(&format!("f{i}")), 1, i / 100).unwrap();
        }
        assert!((3000..=4096).contains(&functions(&limits)), "{}", functions(&limits));
        // The newest are those that are remembered.
        limits.take_at(&key("f19999"), 1, 200).unwrap_err();
        limits.take_at(&key("f0"), 1, 200).unwrap();
    }
}
