//! How a signal becomes the loss of a federation's host: what guests measure for it, and what the host measures itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimator::data::{HostTargets, train_span};
use estimator::loss::{FleetAggregates, PhysicsPlan, TrafficModelKind, physics_of_counts};
use estimator::{
    HostStudy, LoopData, MeasurementSource, MeasurementTable, PhysicsInformed, TrainingSignal,
};
use federation::{Agreed, ModelFailure};
use protocol::{MeasurementKind, Movements};
use sensing::Split;
use serde::{Deserialize, Deserializer, Serialize};
use traffic::{Step, Window};

use crate::learner::{HostLoss, Sources, entries};

/// The name under which the loss finds the host's own measurements. No party has such a name.
const HOST: &str = "the host itself";
/// Steps of a segment where a traffic model ties them together, unless given: most pairs of steps are
/// within one, and a batch still holds many.
pub const SEGMENT: u16 = 4;
/// Folds of a fleet where all data are in one place.
pub(crate) const CENTRAL_FOLDS: usize = 4;
/// Folds of each guest's fleet in a federation. More of them show more of the fleet in training, so that less changes
/// when the whole of it is seen at use.
pub(crate) const FEDERATED_FOLDS: usize = 8;
/// How fast a traffic model's diagrams are learned, if they are.
const DIAGRAM_RATE: f32 = 1e-3;

/// Signals of a federation by name, as a host's configuration has them.
pub(crate) const FEDERATED_SIGNALS: [(&str, TrainingSignal); 6] = [
    ("labels", TrainingSignal::Labels),
    ("pi", TrainingSignal::PI),
    ("pi-v", TrainingSignal::PI_V),
    ("pi-k", TrainingSignal::PI_K),
    ("hf", TrainingSignal::held_out_totals(FEDERATED_FOLDS)),
    ("pi-hf", TrainingSignal::pi_and_held_out(FEDERATED_FOLDS)),
];

/// Reads a signal of a federation by its name.
pub fn federated_signal<'de, D: Deserializer<'de>>(from: D) -> Result<TrainingSignal, D::Error> {
    signal_named(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// The signal of a federation that a host's configuration calls so.
pub fn signal_named(name: &str) -> Result<TrainingSignal, String> {
    let found = FEDERATED_SIGNALS.iter().find(|(own, _)| *own == name);
    found.map(|(_, signal)| *signal).ok_or_else(|| {
        let names: Vec<&str> = FEDERATED_SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("found `{name}`, expected one of: {}", names.join(", "))
    })
}

/// What guests measure for a signal.
pub fn measured_kinds(signal: &TrainingSignal) -> BTreeSet<MeasurementKind> {
    let Some(terms) = signal.measurements() else { return BTreeSet::new() };
    let kinds = [
        (terms.queues, MeasurementKind::Queues),
        (terms.speeds, MeasurementKind::Speeds),
        (terms.held_out.is_some(), MeasurementKind::HeldOut),
    ];
    kinds.into_iter().filter(|(asked, _)| *asked).map(|(_, kind)| kind).collect()
}

/// A traffic model as it was chosen.
pub(crate) fn physics_plan(model: TrafficModelKind, learn: bool) -> PhysicsPlan {
    PhysicsPlan { model, learning_rate: learn.then_some(DIAGRAM_RATE) }
}

/// The samples of some windows, view by view.
pub(crate) fn windows_of(signal: &TrainingSignal, windows: &[Step]) -> Vec<Window> {
    let of_view = |view| windows.iter().map(move |&last| Window { last, view });
    signal.views().into_iter().flat_map(of_view).collect()
}

/// What one may choose of a host's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LossOptions {
    /// What is learned from.
    pub signal: TrainingSignal,
    /// Whether a traffic model that belongs to the signal is in the loss.
    pub physics: bool,
    /// Which traffic model.
    pub traffic_model: TrafficModelKind,
    /// Whether its diagrams are learned too.
    pub learn_physics: bool,
}

impl LossOptions {
    /// The loss, once it is known what the guests measure. Ground truth is read for labels alone.
    pub(crate) fn loss(
        &self,
        windows: &Arc<HostStudy>,
        loops: &LoopData,
        agreed: &Agreed,
    ) -> Result<HostLoss, ModelFailure> {
        let failed = |error: &dyn std::fmt::Display| ModelFailure(error.to_string());
        let Some(terms) = self.signal.measurements() else {
            let (labels, weights) = (HostTargets(Arc::clone(windows)), windows.loss_weights());
            return Ok(HostLoss::labelled(labels, weights.clone()));
        };
        let mut own: BTreeMap<String, Arc<dyn MeasurementSource>> = BTreeMap::new();
        let mut parties = entries(&agreed.layouts);
        if terms.loops {
            let flows = MeasurementTable::loop_flows(loops, &train_span(&windows.split().train));
            let flows = flows.trusted(terms.systematic_trust());
            parties.insert(HOST.to_owned(), flows.entries().to_vec());
            own.insert(HOST.to_owned(), Arc::new(flows));
        }
        let physics = if self.physics && terms.physics {
            let movements: Movements = agreed.movements.clone();
            let counts = FleetAggregates {
                turned: movements.turned,
                left: movements.left,
                free_metres: movements.free_metres,
                free_seconds: movements.free_seconds,
                queued_metres: movements.queued_metres,
                queued_steps: movements.queued_steps,
                fleets: agreed.layouts.len(),
            };
            let plan = physics_plan(self.traffic_model, self.learn_physics);
            let steps = train_span(&windows.split().train);
            let physics = physics_of_counts(loops, &counts, &steps, plan);
            Some(physics.map_err(|error| failed(&error))?.trusted(terms.systematic_trust()))
        } else {
            None
        };
        let outputs = windows.record().outputs.clone();
        let objective =
            PhysicsInformed::new(physics, outputs, parties).map_err(|error| failed(&error))?;
        let layouts = agreed.layouts.clone();
        Ok(HostLoss { objective: Box::new(objective), sources: Sources { own, layouts } })
    }
}

/// The parts of a time line, as every party cuts it by itself.
pub(crate) fn split_of(loops: &LoopData) -> Split {
    sensing::split(loops.timeline().windows())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a guest's measurements would take the place of the host's.
    #[test]
    fn no_guest_is_called_as_the_host_calls_itself() {
        assert!(protocol::PartyId::new(HOST).is_err());
        assert!(protocol::PartyId::new(crate::learner::HELD_OUT).is_err());
    }
}
