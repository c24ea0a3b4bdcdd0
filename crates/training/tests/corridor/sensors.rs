//! What the parties of the corridor measure, as random as their inputs, and the losses made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimator::data::Scale;
use estimator::loss::{CTM_DEVIATIONS, Physics};
use estimator::{MeasurementSource, PhysicsInformed};
use federation::{Agreed, Samples};
use neural::{hash, unit};
use physics::{Ctm, Discretisation, Parameters};
use protocol::{MeasurementKind, MeasurementLayout, MeasurementOffer, Movements};
use traffic::{FleetView, LinkId, MeasurementEntry, Quantity, Seconds, Step, Window, corridor};
use training::learner::{HostLoss, Sources, entries};

use super::{Columns, ESTIMATE, TRAIN, Targets, VALIDATION, steps};

/// The name under which losses find what the host measures.
pub(crate) const HOST: &str = "the city";
/// Folds of each fleet.
const FOLDS: u16 = 3;

/// What is learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Labels,
    /// Queues, speeds, the host's flows and a traffic model.
    Physics,
    /// What is held out of the fleets.
    HeldOut,
}

impl From {
    pub(crate) fn kinds(self) -> BTreeSet<MeasurementKind> {
        match self {
            From::Labels => BTreeSet::new(),
            From::Physics => [MeasurementKind::Queues, MeasurementKind::Speeds].into(),
            From::HeldOut => [MeasurementKind::HeldOut].into(),
        }
    }

    pub(crate) fn segment(self) -> u32 {
        if self == From::Physics { 4 } else { 1 }
    }

    pub(crate) fn samples(self) -> Samples {
        let views = if self == From::HeldOut { 1..=FOLDS } else { 0..=0 };
        let all = |range: std::ops::Range<i64>| {
            let of_view =
                |view| steps(range.clone()).into_iter().map(move |s| (s, FleetView(view)));
            let all = views.clone().flat_map(of_view);
            all.map(|(last, view)| Window { last, view }).collect()
        };
        let estimate = Samples::whole(&[], &[], &steps(ESTIMATE)).estimate;
        Samples { train: all(TRAIN), validation: all(VALIDATION), estimate }
    }

    /// What a guest measures, kind after kind.
    pub(crate) fn sensors(self, guest: &str) -> Vec<Arc<dyn MeasurementSource>> {
        let key = guest.bytes().fold(3, |key, byte| hash([key, byte.into()]));
        let sensor = |kind| Arc::new(Sensor::of(kind, key)) as Arc<dyn MeasurementSource>;
        self.kinds().into_iter().map(sensor).collect()
    }

    pub(crate) fn measures(self, guest: &str) -> MeasurementOffer {
        let layout: BTreeMap<MeasurementKind, Vec<MeasurementEntry>> = self
            .kinds()
            .into_iter()
            .zip(self.sensors(guest))
            .map(|(kind, sensor)| (kind, sensor.entries().to_vec()))
            .collect();
        let held_out = self == From::HeldOut;
        MeasurementOffer {
            layout: MeasurementLayout::new(layout).expect("a layout"),
            folds: if held_out { FOLDS } else { 0 },
            passages: held_out.then_some(1.5),
            stated: None,
            movements: Movements::default(),
        }
    }

    /// The loss of the host, with what the guests measure.
    pub(crate) fn loss(self, labels: &Columns, agreed: &Agreed) -> HostLoss {
        if self == From::Labels {
            return HostLoss::labelled(Targets(labels.clone()), labels.loss_weights());
        }
        let mut parties = entries(&agreed.layouts);
        let mut own: BTreeMap<String, Arc<dyn MeasurementSource>> = BTreeMap::new();
        if self == From::Physics {
            let flows = Sensor::flows();
            parties.insert(HOST.to_owned(), flows.entries.clone());
            own.insert(HOST.to_owned(), Arc::new(flows));
        }
        let objective = Box::new(self.objective(parties));
        HostLoss { objective, sources: Sources { own, layouts: agreed.layouts.clone() } }
    }

    pub(crate) fn objective(
        self,
        parties: BTreeMap<String, Vec<MeasurementEntry>>,
    ) -> PhysicsInformed {
        let network = corridor().expect("the corridor");
        let physics = (self == From::Physics).then(|| {
            let parameters = Parameters::typical(&network).expect("parameters");
            let plan = Discretisation::of_step(Seconds::new(10.0));
            let model = Ctm::new(&network, parameters, plan).expect("a model");
            Physics::new(&network, Box::new(model), CTM_DEVIATIONS).expect("physics")
        });
        let scale = |mean| Scale { mean, deviation: mean };
        let scales = vec![[scale(33.0), scale(5.0)]; network.links().len()];
        PhysicsInformed::new(physics, scales, parties).expect("a loss")
    }
}

/// Measurements that depend on the sample, a quarter of them missing.
pub(crate) struct Sensor {
    entries: Vec<MeasurementEntry>,
    key: u64,
    /// The largest value.
    most: f32,
}

impl Sensor {
    /// What the host measures: flow on every third link.
    pub(crate) fn flows() -> Self {
        let links = (0..17).step_by(3).map(LinkId);
        let quantity = Quantity::Flow;
        Self {
            entries: links.map(|link| MeasurementEntry { link, quantity }).collect(),
            key: 77,
            most: 20.0,
        }
    }

    fn of(kind: MeasurementKind, key: u64) -> Self {
        let quantities: &[Quantity] = match kind {
            MeasurementKind::Queues => &[Quantity::Density],
            MeasurementKind::Speeds => &[Quantity::Speed],
            MeasurementKind::HeldOut => &[Quantity::Density, Quantity::Flow],
        };
        let of_link =
            |link| quantities.iter().map(move |&quantity| MeasurementEntry { link, quantity });
        let entries = (0..17).map(LinkId).flat_map(of_link).collect();
        // A vehicle that is held out stands for many.
        let most = if kind == MeasurementKind::HeldOut { 800.0 } else { 20.0 };
        Self { entries, key: hash([key, kind as u64]), most }
    }
}

impl MeasurementSource for Sensor {
    fn entries(&self) -> &[MeasurementEntry] {
        &self.entries
    }

    fn write(&self, sample: Window, values: &mut [f32], weights: &mut [f32]) {
        let Step(last) = sample.last;
        for (place, (value, weight)) in values.iter_mut().zip(weights).enumerate() {
            let draw =
                |n| unit(hash([self.key, last as u64, u64::from(sample.view.0), place as u64, n]));
            let missing = draw(0) < 0.25;
            (*value, *weight) =
                if missing { (0.0, 0.0) } else { (self.most * draw(1), 0.1 + draw(2)) };
        }
    }
}
