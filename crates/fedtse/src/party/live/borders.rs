//! Intervals around a live host's estimates, where its model's folder has them.

use std::path::Path;

use anyhow::{Context, Result};
use estimator::artifact::Level;
use estimator::{Intervals, LinkInterval};
use tracing::info;
use traffic::{LinkState, Network};

/// The model's intervals of one level, if it has any.
pub(super) struct Borders(Option<(Intervals, Level)>);

impl Borders {
    pub(super) fn of(model: &Path, network: &Network, percent: u8) -> Result<Self> {
        Intervals::level(percent).context("publish.interval")?;
        if !model.join("intervals.json").exists() {
            info!("the model has no intervals: estimates are published without them");
            return Ok(Borders(None));
        }
        let intervals = Intervals::load(model, network.links().len())?;
        let level = intervals.known_level(percent).context("publish.interval")?;
        Ok(Borders(Some((intervals, level))))
    }

    pub(super) fn percent(&self) -> Option<u8> {
        self.0.as_ref().map(|(_, level)| level.percent())
    }

    /// Of an estimate of all links.
    pub(super) fn around(&self, states: &[LinkState]) -> Option<Vec<LinkInterval>> {
        let (intervals, level) = self.0.as_ref()?;
        states.iter().enumerate().map(|(at, state)| intervals.of(at, state, *level)).collect()
    }
}
