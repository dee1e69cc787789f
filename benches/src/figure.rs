//! What a measurement says.

/// One figure: ours, the peer's, and their ratio.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Its stable name.
    pub name: &'static str,
    /// Ours: the median of the rounds.
    pub value: f64,
    /// The unit of both values.
    pub unit: &'static str,
    /// What it is compared with.
    pub peer: Option<&'static str>,
    /// The peer's value in the same run.
    pub peer_value: Option<f64>,
    /// Ours ÷ peer.
    pub ratio: Option<f64>,
    /// What is asked of it.
    pub bar: Option<Bar>,
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// The ratio is at least so much.
    RatioAtLeast(f64),
    /// The ratio is at most so much.
    RatioAtMost(f64),
    /// The value is at most so much.
    ValueAtMost(f64),
}

impl Figure {
    /// Of two medians.
    pub(crate) fn ratio(
        name: &'static str,
        unit: &'static str,
        value: f64,
        peer: &'static str,
        peer_value: f64,
    ) -> Self {
        let ratio = Some(value / peer_value);
        Self { name, value, unit, peer: Some(peer), peer_value: Some(peer_value), ratio, bar: None }
    }

    /// With what is asked of it.
    pub(crate) fn bar(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }

    /// Whether what is asked of it is met.
    pub(crate) fn met(&self) -> Option<bool> {
        let ratio = self.ratio.unwrap_or(f64::NAN);
        self.bar.map(|bar| match bar {
            Bar::RatioAtLeast(least) => ratio >= least,
            Bar::RatioAtMost(most) => ratio <= most,
            Bar::ValueAtMost(most) => self.value <= most,
        })
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioAtLeast(least) => write!(f, "ratio ≥ {least}"),
            Self::RatioAtMost(most) => write!(f, "ratio ≤ {most}"),
            Self::ValueAtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_on_its_own_side() {
        let figure = Figure::ratio("x", "µs", 2.0, "peer", 1.0);
        assert_eq!(figure.clone().bar(Bar::RatioAtLeast(2.0)).met(), Some(true));
        assert_eq!(figure.clone().bar(Bar::RatioAtMost(1.2)).met(), Some(false));
        assert_eq!(figure.clone().bar(Bar::ValueAtMost(2.0)).met(), Some(true));
        assert_eq!(figure.met(), None);
    }
}
