//! What a federation learns from: the host's labels, or what its parties measure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use estimator::{
    HostStudy, LoopData, MeasurementSource, MeasurementTable, PhysicsInformed, Recipe, SYSTEMATIC,
    ctm_of_counts, train_span,
};
use federation::fedbcd::{HostLoss, Sources, entries};
use federation::{Agreed, ModelFailure};
use protocol::Kind;
use sensing::Split;
use serde::{Deserialize, Serialize};
use traffic::{FleetView, Step, Window};

/// The name under which the loss finds the host's own measurements. No party has such a name.
const HOST: &str = "the host itself";
/// Steps of a segment where a traffic model ties them together, unless given: most pairs of steps are
/// within one, and a batch still holds many.
pub const SEGMENT: u16 = 4;
/// Parts into which a guest deals its fleet to hold one of them out. More of them show more of the fleet
/// in training, so that less changes when the whole of it is seen at use.
pub const FOLDS: usize = 8;
/// How fast a traffic model's diagrams are learned, if they are.
pub const DIAGRAM_RATE: f32 = 1e-3;

/// What the host learns from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learning {
    /// Its ground truth.
    #[default]
    Labels,
    /// Loop flow, guests' speeds and queues, and a traffic model.
    Pi,
    /// The same without queues.
    PiV,
    /// The same without speeds.
    PiK,
    /// What guests hold out of their fleets.
    Hf,
    /// The same, their queues, loop flow and a traffic model.
    PiHf,
}

/// What one may choose of a loss without labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LossOptions {
    pub learning: Learning,
    /// Whether there is a traffic model in the loss.
    pub physics: bool,
    /// Whether its diagrams are learned too.
    pub learn_physics: bool,
}

impl Learning {
    /// What guests measure for it.
    pub fn kinds(self) -> BTreeSet<Kind> {
        match self {
            Learning::Labels => BTreeSet::new(),
            Learning::Pi => [Kind::Queues, Kind::Speeds].into(),
            Learning::PiV => [Kind::Speeds].into(),
            Learning::PiK => [Kind::Queues].into(),
            Learning::Hf => [Kind::HeldOut].into(),
            Learning::PiHf => [Kind::HeldOut, Kind::Queues].into(),
        }
    }

    /// Whether guests hold out part of their fleets.
    pub fn is_held_out(self) -> bool {
        self.kinds().contains(&Kind::HeldOut)
    }

    /// How far what errs alike each time is trusted.
    fn trust(self) -> f64 {
        if self.is_held_out() { SYSTEMATIC } else { 1.0 }
    }

    /// Whether a traffic model belongs to it.
    pub fn has_physics(self) -> bool {
        !matches!(self, Learning::Labels | Learning::Hf)
    }

    /// How it is trained: with a fold held out, as many steps as without, in epochs that see a window once
    /// for each fold.
    pub fn recipe(self, recipe: Recipe) -> Recipe {
        if self.is_held_out() { recipe.held_out(FOLDS) } else { recipe }
    }

    /// The samples of some windows: as seen by all folds but one, for each, where one is held out.
    pub fn samples(self, windows: &[Step]) -> Vec<Window> {
        let views: Vec<FleetView> = match self.is_held_out() {
            true => (0..FOLDS).filter_map(FleetView::without).collect(),
            false => vec![FleetView::WHOLE],
        };
        let of_view = |view| windows.iter().map(move |&last| Window { last, view });
        views.into_iter().flat_map(of_view).collect()
    }
}

impl LossOptions {
    /// The loss, once it is known what the guests measure. Truth has no way in unless it is learned from.
    pub fn loss(
        &self,
        windows: &Arc<HostStudy>,
        loops: &LoopData,
        agreed: &Agreed,
    ) -> Result<HostLoss, ModelFailure> {
        let failed = |error: &dyn std::fmt::Display| ModelFailure(error.to_string());
        if self.learning == Learning::Labels {
            return Ok(HostLoss::labelled(Arc::clone(windows)));
        }
        let mut own: BTreeMap<String, Box<dyn MeasurementSource>> = BTreeMap::new();
        let mut parties = entries(&agreed.layouts);
        if self.learning != Learning::Hf {
            let flows = MeasurementTable::loop_flows(loops, &train_span(&windows.split().train));
            let flows = flows.trusted(self.learning.trust());
            parties.insert(HOST.to_owned(), flows.entries().to_vec());
            own.insert(HOST.to_owned(), Box::new(flows));
        }
        let physics = if self.physics && self.learning.has_physics() {
            let movements = &agreed.movements;
            let rate = self.learn_physics.then_some(DIAGRAM_RATE);
            let physics =
                ctm_of_counts(windows.timeline(), &movements.turned, &movements.left, rate);
            Some(physics.map_err(|error| failed(&error))?.trusted(self.learning.trust()))
        } else {
            None
        };
        let outputs = windows.card().outputs.clone();
        let objective =
            PhysicsInformed::new(physics, outputs, parties).map_err(|error| failed(&error))?;
        let layouts = agreed.layouts.clone();
        Ok(HostLoss { objective: Box::new(objective), sources: Sources { own, layouts } })
    }
}

/// The parts of a time line, as every party cuts it by itself.
pub fn split_of(loops: &LoopData) -> Split {
    sensing::split(loops.timeline().windows())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a guest's measurements would take the place of the host's.
    #[test]
    fn no_guest_is_called_as_the_host_calls_itself() {
        assert!(protocol::PartyId::new(HOST).is_err());
        assert!(protocol::PartyId::new(federation::fedbcd::HELD_OUT).is_err());
    }
}
