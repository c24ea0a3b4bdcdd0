//! The algebra of a fleet dealt into folds.
//!
//! A fleet holds each vehicle with probability `p` and deals it to one of `F` folds. Of a box with
//! total `N` over all vehicles, `F − 1` folds see `S` and the last one `H`:
//!
//! ```text
//! r = p/F  held out      s = p·(F−1)/F  seen      π = r/(1−s)  of the unseen, held out
//! E[H | N, S] = (N − S)·π
//! u = S + H/π            label: E[u | N, S] = N
//! M = (N − S)/(1 − s)    the unseen, scaled up; H/r is its label: u = S + (1 − s)·H/r
//! N̂ = S_all + (1 − p)·mean_j M̂_j
//! ```
//!
//! ```
//! let rates = estimator::loss::FoldRates::new(0.8, 4)?;
//! // 100 vehicles, 60 of them seen, 20 held out: half of the unseen.
//! assert!((rates.label(60.0, 20.0) - 100.0).abs() < 1e-9);
//! # Ok::<(), estimator::loss::HeldOutError>(())
//! ```

use serde::{Deserialize, Serialize};

use super::error::HeldOutError;
use crate::artifact::record::not_negative;

/// Shares of the traffic that a fleet and its folds hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldRates {
    fleet: f64,
    folds: usize,
}

impl FoldRates {
    /// Of a fleet with this share of the traffic, dealt evenly into folds.
    pub fn new(fleet: f64, folds: usize) -> Result<Self, HeldOutError> {
        if !(fleet > 0.0 && fleet <= 1.0) {
            return Err(HeldOutError::Rate(fleet));
        }
        if folds < 2 {
            return Err(HeldOutError::Folds(folds));
        }
        Ok(Self { fleet, folds })
    }

    /// The same folds where the fleet's share is this many times the mean one.
    pub(crate) fn times(&self, factor: f64) -> Self {
        Self { fleet: (self.fleet * factor).min(1.0), folds: self.folds }
    }

    /// Number of folds, F.
    pub(crate) fn folds(&self) -> usize {
        self.folds
    }

    /// The whole fleet, p.
    pub fn fleet(&self) -> f64 {
        self.fleet
    }

    /// One fold, r.
    pub(crate) fn held_out(&self) -> f64 {
        self.fleet / self.folds as f64
    }

    /// All folds but one, s: less than 1 whatever the fleet.
    pub fn seen(&self) -> f64 {
        self.fleet - self.held_out()
    }

    /// The label `u` of a box: all that the folds tell of its total, without bias.
    pub fn label(&self, seen: f64, held_out: f64) -> f64 {
        seen + (1.0 - self.seen()) * self.unseen_label(held_out)
    }

    /// The label `H/r` of the unseen part, scaled up.
    pub fn unseen_label(&self, held_out: f64) -> f64 {
        held_out / self.held_out()
    }

    /// Variance of `u` in a box whose vehicles' squared totals add up to this.
    pub(crate) fn label_variance(&self, squares: f64) -> f64 {
        squares * (1.0 - self.seen()) * (1.0 - self.fleet) / self.held_out()
    }

    /// The variance of a label over the part of it by which folds differ: `V/(V − V̄)` with `V̄ = Q·(1 − p)/p`, the variance of the
    /// mean label of all folds. Without noise, 1.
    pub(super) fn noise_beside_folds(&self) -> f64 {
        let (one, mean) = ((1.0 - self.seen()) / self.held_out(), 1.0 / self.fleet);
        if one > mean { one / (one - mean) } else { 1.0 }
    }

    /// Variance of the label of the unseen part, scaled up.
    pub(crate) fn unseen_label_variance(&self, squares: f64) -> f64 {
        squares * (1.0 - self.fleet) / (self.held_out() * (1.0 - self.seen()))
    }

    /// The unseen part, scaled up, of a box's total, `M = (N − S)/(1 − s)`. Less than nothing where the
    /// total is estimated too low: a mean of several has no bias only if they stay as they are.
    pub(crate) fn unseen_of(&self, total: f64, seen: f64) -> f64 {
        (total - seen) / (1.0 - self.seen())
    }

    /// The estimate of a box's total: what the whole fleet sees and, for the rest, the unseen part
    /// (scaled up) as estimated from each choice of folds, no less than nothing in the mean.
    pub(crate) fn estimate(&self, whole: f64, unseen: &[f64]) -> f64 {
        let mean = unseen.iter().sum::<f64>() / unseen.len().max(1) as f64;
        whole + (1.0 - self.fleet) * not_negative(mean)
    }
}
