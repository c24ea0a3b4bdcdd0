//! What estimates are made of: what parties observe, and for which links and windows states are asked for.

use std::path::Path;

use traffic::{LinkId, LinkState, Network, Seconds, Step, Totals};

use crate::data::sources::{FleetData, LoopData};
use crate::data::study::TargetKind;

/// What parties observe of a dataset, without the truth.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The dataset's folder, for what is made of trajectories.
    pub folder: &'a Path,
    /// The host's loops.
    pub loops: &'a LoopData,
    /// The guests' fleets.
    pub fleets: &'a [FleetData],
}

impl Observed<'_> {
    /// The network.
    pub fn network(&self) -> &Network {
        self.loops.timeline().network()
    }

    /// Length of a step.
    pub fn step(&self) -> Seconds {
        self.loops.timeline().step()
    }

    /// The state of a link in a step as all fleets together would estimate it: their totals over the sum of their
    /// rates. Not a number without fleets.
    pub(crate) fn scaled_up(&self, step: Step, link: LinkId) -> LinkState {
        let mut totals = Totals::default();
        let mut rate = 0.0;
        for fleet in self.fleets {
            totals += fleet.totals(step, link);
            rate += fleet.rate();
        }
        let state = totals.state(self.network().link(link), self.step());
        LinkState { density: state.density / rate, flow: state.flow / rate }
    }
}

/// States that are asked for: of some links at the ends of some windows, `[window][link]`.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// States of single steps, or means over a minute.
    pub target: TargetKind,
    /// Which links.
    pub links: &'a [LinkId],
    /// Windows, by their last steps.
    pub windows: &'a [Step],
}

impl Asked<'_> {
    /// Of states of all links of a network, window by window, those of the links asked for.
    pub(crate) fn of_all(&self, all: &[LinkState], network: &Network) -> Vec<LinkState> {
        let rows = all.chunks(network.links().len().max(1));
        rows.flat_map(|row| self.links.iter().map(|link| row[link.index()])).collect()
    }
}
