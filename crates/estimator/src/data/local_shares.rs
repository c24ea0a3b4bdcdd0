//! A fleet's share of the traffic by link and step.

use std::sync::Arc;

use traffic::{LinkId, Step};

use crate::data::timeline::Timeline;

/// Shares relative to a fleet's mean one.
#[derive(Clone, Debug)]
pub struct LocalShares {
    timeline: Arc<Timeline>,
    links: usize,
    /// `[row, link]`
    factors: Vec<f32>,
}

impl LocalShares {
    /// Of all steps that a timeline holds, link by link.
    pub(crate) fn new(timeline: Arc<Timeline>, links: usize, factors: Vec<f32>) -> Self {
        Self { timeline, links, factors }
    }

    /// The local share over the mean one.
    pub fn factor(&self, step: Step, link: LinkId) -> f64 {
        f64::from(self.factors[self.timeline.row(step) * self.links + link.index()])
    }
}
