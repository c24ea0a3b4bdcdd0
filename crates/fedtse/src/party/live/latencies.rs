//! How long estimates took, of the last thousand.

use std::collections::VecDeque;

use serde::Serialize;

/// Seconds from the end of a step to its estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies(VecDeque<f64>);

/// Shares of the estimates that were at most so late, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Quantiles {
    pub p50: f64,
    pub p99: f64,
    pub most: f64,
}

impl Latencies {
    const MOST: usize = 1000;

    pub(super) fn note(&mut self, seconds: f64) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(seconds);
    }

    /// None before the first estimate.
    pub(super) fn quantiles(&self) -> Option<Quantiles> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            // The smallest that a share of all is not above.
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied()
        };
        Some(Quantiles { p50: at(0.5)?, p99: at(0.99)?, most: at(1.0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_thousand() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantiles(), None);
        for second in 0..1200 {
            latencies.note(f64::from(second));
        }
        // 200 to 1199 are left; half of them are at most 699.
        let expected = Quantiles { p50: 699.0, p99: 1189.0, most: 1199.0 };
        assert_eq!(latencies.quantiles(), Some(expected));
    }
}
