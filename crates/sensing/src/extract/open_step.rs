//! The sums of a step that is not yet closed.

use std::collections::BTreeMap;

use traffic::{LinkId, Network, Totals};

use super::FeaturePlan;

/// Sums of one open step.
pub(super) struct OpenStep {
    /// `[band][link][sub-step][cell]`
    pub boxes: Vec<Totals>,
    /// `[band][link]`: vehicles that were in the box.
    pub vehicles: Vec<u32>,
    /// `[link]`: Σ over vehicles of their own time² and distance² in the box.
    pub squares: Vec<[f64; 2]>,
    /// `[band][turn]`
    pub turns: Vec<u32>,
    /// `[band]`: trips that ended, by origin and destination.
    pub trips: Vec<BTreeMap<(LinkId, LinkId), u32>>,
    /// `[loop]`
    pub loops: Vec<u32>,
}

impl OpenStep {
    pub fn new(network: &Network, plan: &FeaturePlan) -> Self {
        let (links, bands) = (network.links().len(), plan.fleets.bands());
        Self {
            boxes: vec![Totals::default(); bands * links * plan.cells * plan.sub_steps],
            vehicles: vec![0; bands * links],
            squares: vec![[0.0; 2]; links],
            turns: vec![0; bands * network.turns().len()],
            trips: vec![BTreeMap::new(); bands],
            loops: vec![0; network.loops().len()],
        }
    }

    pub fn clear(&mut self) {
        self.boxes.fill(Totals::default());
        self.vehicles.fill(0);
        self.squares.fill([0.0; 2]);
        self.turns.fill(0);
        self.trips.iter_mut().for_each(BTreeMap::clear);
        self.loops.fill(0);
    }
}
