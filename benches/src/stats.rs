//! Medians, percentiles, and taking turns.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The value in the middle; of an even number, the mean of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The value that `part` of all (0.5, 0.99) are not above.
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let rank = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The medians of ours and the peer's, which take turns, so that a neighbour's load meets both.
pub(crate) fn turns(
    rounds: u32,
    mut ours: impl FnMut() -> Result<f64>,
    mut peer: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut of_us, mut of_peer) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_us.push(ours()?);
        of_peer.push(peer()?);
    }
    Ok((median(&of_us), median(&of_peer)))
}

/// Microseconds, as a number.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// How long it took.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let made = work();
    (start.elapsed(), made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let sorted: Vec<_> = (1..=100).map(Duration::from_micros).collect();
        assert_eq!(percentile(&sorted, 0.5), Duration::from_micros(50));
        assert_eq!(percentile(&sorted, 0.99), Duration::from_micros(99));
        assert_eq!(percentile(&sorted, 1.0), Duration::from_micros(100));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn ours_and_the_peer_take_turns() {
        let order = std::cell::RefCell::new(String::new());
        let note = |word| {
            order.borrow_mut().push(word);
            Ok(1.0)
        };
        turns(3, || note('o'), || note('p')).unwrap();
        assert_eq!(*order.borrow(), "opopop");
    }
}
