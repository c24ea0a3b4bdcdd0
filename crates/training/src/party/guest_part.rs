//! A guest's data and sub-model, as a federation drives them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use estimator::artifact::GuestRecord;
use estimator::data::{Timeline, train_span};
use estimator::loss::{
    FoldRates, FoldedInputs, SYSTEMATIC, fleet_aggregates, held_out_entries, held_out_part,
    movement_counts, passages_per_step,
};
use estimator::{
    Arrangement, FleetData, GuestInputs, GuestPlan, GuestShape, GuestSlot, LayerSubModel,
    MeasurementSource, MeasurementTable, Sizes, TrainedGuest, WindowSource,
};
use federation::ModelFailure;
use federation::guest::MakeGuestModel;
use protocol::message::Terms;
use protocol::message::parts::{HeldSteps, Text};
use protocol::{
    Compression, MeasurementKind, MeasurementLayout, MeasurementOffer, Movements, PartyId, Plan,
};
use traffic::{Step, Window};

use super::contribution::Contribution;
use super::guest_party::{CustomSubModelSpec, GuestParty};
use super::policy::{Policy, PrivacyContext};
use super::trained::TrainedParty;
use crate::error::{Result, TrainingError, ensure};
use crate::fingerprint::run_fingerprint;
use crate::learner::{CustomGuestLearner, GuestLearner, update_rule, with_rate};

/// All that a guest brings.
pub struct GuestPart {
    timeline: Arc<Timeline>,
    windows: GuestWindows,
    record: GuestRecord,
    shape: GuestShape,
    measures: MeasurementOffer,
    measured: BTreeMap<MeasurementKind, Source>,
    /// What it keeps to, in training and live.
    policy: Policy,
    /// A custom sub-model.
    custom: Option<CustomSubModelSpec>,
    /// Its own learning rate, where it is not the plan's.
    rate: Option<f32>,
}

/// A guest's inputs: of its whole fleet, or in views of its folds.
#[derive(Clone)]
pub enum GuestWindows {
    /// Of its whole fleet.
    Whole(Arc<GuestInputs>),
    /// In views of its folds.
    Folded(Arc<FoldedInputs>),
}

/// What a guest measures.
#[derive(Clone)]
enum Source {
    Table(Arc<MeasurementTable>),
    /// Made of folds when the guest hears its share of the traffic; the noise is that of these steps.
    HeldOut(Arc<Vec<FleetData>>, Vec<Step>),
}

impl WindowSource for GuestWindows {
    fn row_len(&self) -> usize {
        match self {
            GuestWindows::Whole(inputs) => inputs.len(),
            GuestWindows::Folded(inputs) => inputs.len(),
        }
    }
    fn write_row(&self, sample: Window, to: &mut [f32]) {
        match self {
            GuestWindows::Whole(inputs) => inputs.write(sample.last, to),
            GuestWindows::Folded(inputs) => inputs.write(sample, to),
        }
    }
}

impl GuestPart {
    /// Reads a fleet, or the folds of one, and what it measures, in windows of so many steps. Scales are those of its first 70 % of
    /// time, where training lies.
    pub fn read(
        folder: &Path,
        fleets: &[String],
        plan: &GuestPlan,
        kinds: &BTreeSet<MeasurementKind>,
        (privacy, window): (&PrivacyContext, usize),
    ) -> Result<Self> {
        let open = |fleet: &String| {
            Ok::<_, TrainingError>(FleetData::open(folder, fleet)?.windowed(window))
        };
        let fleets = fleets.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        ensure!(!fleets.is_empty(), "fleets: found none, expected at least one");
        let training = sensing::split(fleets[0].timeline().windows()).train;
        Self::of(folder, fleets, &training, (plan, Sizes::default()), kinds, privacy)
    }

    /// Fleets that were read before, with scales of the training part.
    pub fn of(
        folder: &Path,
        fleets: Vec<FleetData>,
        training: &[Step],
        (plan, sizes): (&GuestPlan, Sizes),
        kinds: &BTreeSet<MeasurementKind>,
        privacy: &PrivacyContext,
    ) -> Result<Self> {
        let Contribution { fleets, tables, .. } =
            Contribution::of(folder, fleets, plan.features, kinds, privacy)?;
        let timeline = Arc::clone(fleets[0].timeline());
        let span = train_span(training, timeline.window());
        let (windows, record, shape) = match &fleets[..] {
            [fleet] => {
                let (inputs, record) = plan.read(fleet, &span)?;
                let shape = plan.shape(&inputs, sizes);
                (GuestWindows::Whole(Arc::new(inputs)), record, shape)
            }
            folds => {
                let (inputs, record) = FoldedInputs::new(folds, plan, &span)?;
                let shape = plan.shape(inputs.whole(), sizes);
                (GuestWindows::Folded(Arc::new(inputs)), record, shape)
            }
        };
        let (measures, measured) = measuring(fleets, tables, training, &span, kinds)?;
        let (policy, custom) = (privacy.policy.clone(), None);
        let part = GuestPart {
            timeline,
            windows,
            record,
            shape,
            measures,
            measured,
            policy,
            custom,
            rate: None,
        };
        privacy.policy.check_announced(&part.measures, part.width())?;
        Ok(part)
    }

    /// The same with a custom sub-model, if there is one; the plan says so too.
    pub fn with_custom(mut self, custom: Option<&CustomSubModelSpec>) -> Self {
        self.custom = custom.cloned();
        self
    }

    /// The same with a learning rate of its own (η_k of the paper), if one is given.
    pub fn with_learning_rate(mut self, rate: Option<f32>) -> Self {
        self.rate = rate;
        self
    }

    /// What all parties must agree on.
    pub fn terms(&self, compression: Compression) -> Terms {
        terms(&self.timeline, compression)
    }

    /// What its checkpoints belong to.
    pub fn fingerprint(&self) -> Result<Text> {
        let windows = self.timeline.windows();
        run_fingerprint(&(&self.record, &self.shape, windows, &self.measures, self.rate))
    }

    /// What it can embed.
    pub fn held(&self) -> Result<HeldSteps> {
        Ok(HeldSteps::of(self.timeline.windows().iter().copied())?)
    }

    /// What it measures.
    pub fn measures(&self) -> MeasurementOffer {
        self.measures.clone()
    }

    /// What is left of it when the training has finished: all that it needs to estimate live.
    pub fn trained(&self, name: &PartyId) -> TrainedParty<TrainedGuest> {
        let part = TrainedGuest { guest: self.record.clone(), shape: self.shape.clone() };
        TrainedParty::new(name, part, Arc::clone(&self.timeline)).under(&self.policy)
    }

    /// What its part assumes, and its sizes.
    pub(crate) fn record(&self) -> (GuestRecord, GuestShape) {
        (self.record.clone(), self.shape.clone())
    }

    /// Its slot at the host's head.
    pub(crate) fn slot(&self) -> GuestSlot {
        GuestSlot::of(&self.shape)
    }

    /// Numbers of its embeddings, per sample.
    pub fn width(&self) -> u32 {
        self.shape.embedding.len(self.timeline.network().links().len()) as u32
    }

    /// Makes its model when the plan is known.
    pub fn maker(self) -> MakeGuestModel<GuestParty> {
        Box::new(move |plan: &Plan| {
            let plan = &with_rate(plan, self.rate);
            let network = self.timeline.network();
            let asked = self.measured.iter().filter(|(kind, _)| plan.measured.contains(kind));
            let measured = asked.map(|(kind, source)| source.table(*kind, plan));
            let measured = measured.collect::<Result<Vec<_>, _>>()?;
            let windows = self.windows.clone();
            if let Some(custom) = &self.custom {
                let (model, width) = ((custom.make)(&self.sample_shape())?, self.width() as usize);
                let guest = CustomGuestLearner::new(model, windows, width, plan, measured)?;
                return Ok(GuestParty::Custom(Box::new(guest)));
            }
            let model = LayerSubModel::of(&self.shape, network, plan.seed, update_rule(plan))
                .map_err(|error| ModelFailure(error.to_string()))?;
            let guest = GuestLearner::new(model, windows, plan)?.measuring(measured);
            Ok(GuestParty::Layers(Box::new(guest)))
        })
    }

    /// Links and numbers of a sample, or steps, links and channels.
    fn sample_shape(&self) -> Vec<usize> {
        let (links, channels) = (self.timeline.network().links().len(), self.shape.channels);
        match self.shape.sub_model.arrangement() {
            Arrangement::ByLink => vec![links, channels],
            Arrangement::ByStep => vec![self.timeline.window(), links, channels],
        }
    }
}

impl Source {
    fn table(
        &self,
        kind: MeasurementKind,
        plan: &Plan,
    ) -> Result<Arc<dyn MeasurementSource>, ModelFailure> {
        let failed = |error: &dyn std::fmt::Display| ModelFailure(error.to_string());
        let beside_folds = plan.measured.contains(&MeasurementKind::HeldOut);
        match self {
            // Beside a held-out fold, what errs alike each time counts less.
            Source::Table(table) if kind == MeasurementKind::Queues && beside_folds => {
                Ok(Arc::new(MeasurementTable::clone(table).trusted(SYSTEMATIC)))
            }
            Source::Table(table) => Ok(Arc::clone(table) as Arc<dyn MeasurementSource>),
            Source::HeldOut(folds, training) => {
                let shares =
                    plan.shares.ok_or_else(|| failed(&"share of the traffic: found none"))?;
                let rates = |share| FoldRates::new(share, folds.len()).map_err(|e| failed(&e));
                let (own, all) = (rates(shares.own)?, rates(shares.all)?);
                let part = held_out_part(folds, &own, &all, training);
                Ok(Arc::new(part.map_err(|error| failed(&error))?))
            }
        }
    }
}

/// What a guest announces, and where it has it from.
fn measuring(
    fleets: Vec<FleetData>,
    tables: BTreeMap<MeasurementKind, MeasurementTable>,
    training: &[Step],
    span: &RangeInclusive<Step>,
    kinds: &BTreeSet<MeasurementKind>,
) -> Result<(MeasurementOffer, BTreeMap<MeasurementKind, Source>)> {
    let (mut measures, mut measured, mut layout) =
        (MeasurementOffer::default(), BTreeMap::new(), BTreeMap::new());
    if kinds.is_empty() {
        return Ok((measures, measured));
    }
    // For the turning ratios of a traffic model, beside which there are other kinds.
    if kinds.iter().any(|kind| *kind != MeasurementKind::HeldOut) {
        let network = fleets[0].timeline().network();
        let mut counts = movement_counts(network, &fleets, span);
        // Noise is drawn of totals, and hides movements: then nothing else is told either.
        if counts.turned.iter().chain(&counts.left).any(|count| *count > 0) {
            counts = fleet_aggregates(network, &fleets, span);
        }
        measures.movements = Movements {
            turned: counts.turned,
            left: counts.left,
            free_metres: counts.free_metres,
            free_seconds: counts.free_seconds,
            queued_metres: counts.queued_metres,
            queued_steps: counts.queued_steps,
        };
    }
    for (kind, table) in tables {
        layout.insert(kind, table.entries().to_vec());
        measured.insert(kind, Source::Table(Arc::new(table)));
    }
    if kinds.contains(&MeasurementKind::HeldOut) {
        let found = fleets.len();
        ensure!(found > 1, "folds of the fleet: found {found}, expected 2 or more to hold one out");
        layout.insert(MeasurementKind::HeldOut, held_out_entries(&fleets[0]));
        measures.folds =
            u16::try_from(found).map_err(|error| TrainingError::Invalid(error.to_string()))?;
        measures.passages = Some(passages_per_step(&fleets, span));
        // A fleet that is all of its dataset does not know its share.
        let stated: f64 = fleets.iter().map(FleetData::rate).sum();
        measures.stated = Some(stated).filter(|share| *share > 0.0 && *share < 1.0);
        let source = Source::HeldOut(Arc::new(fleets), training.to_vec());
        measured.insert(MeasurementKind::HeldOut, source);
    }
    measures.layout = MeasurementLayout::new(layout)?;
    Ok((measures, measured))
}

/// What all parties must agree on. Step 0 begins at the epoch.
pub(crate) fn terms(timeline: &Timeline, compression: Compression) -> Terms {
    Terms {
        network_hash: Text::of(timeline.network_hash()),
        step_s: timeline.step().get(),
        origin_s: 0.0,
        window: timeline.window() as u32,
        compression,
    }
}

#[cfg(test)]
mod tests;
