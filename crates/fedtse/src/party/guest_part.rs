//! A guest's data and sub-model, as a federation drives them.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use estimator::{
    FleetData, GuestCard, GuestInputs, GuestPlan, GuestShape, LayerSubModel, Seat, Sizes, Timeline,
    TrainedGuest, WINDOW, train_span,
};
use federation::fedbcd::FedGuest;
use federation::guest::MakeGuestModel;
use federation::message::Terms;
use federation::message::parts::{HeldSteps, Text};
use federation::{Compression, ModelFailure, PartyId, Plan};
use traffic::Step;

use super::trained::Trained;
use crate::subject::subject;

/// A guest's model with its data.
pub type GuestOf = FedGuest<LayerSubModel, Arc<GuestInputs>>;

/// All that a guest brings.
pub struct GuestPart {
    timeline: Arc<Timeline>,
    windows: Arc<GuestInputs>,
    card: GuestCard,
    shape: GuestShape,
}

impl GuestPart {
    /// Reads a fleet. Scales are those of its first 70 % of time, where training lies.
    pub fn read(folder: &Path, fleet: &str, plan: &GuestPlan) -> Result<Self> {
        let fleet = FleetData::open(folder, fleet)?;
        let train = train_span(&sensing::split(fleet.timeline().windows()).train);
        Self::of(&fleet, &train, plan, Sizes::default())
    }

    /// A fleet that was read before, with scales of this span.
    pub fn of(
        fleet: &FleetData,
        train: &RangeInclusive<Step>,
        plan: &GuestPlan,
        sizes: Sizes,
    ) -> Result<Self> {
        let timeline = Arc::clone(fleet.timeline());
        let (inputs, card) = plan.read(fleet, train)?;
        let shape = plan.shape(&inputs, sizes);
        Ok(GuestPart { timeline, windows: Arc::new(inputs), card, shape })
    }

    pub fn terms(&self, compression: Compression) -> Terms {
        terms(&self.timeline, compression)
    }

    /// What its checkpoints belong to.
    pub fn subject(&self) -> Result<Text> {
        subject(&(&self.card, &self.shape, self.timeline.windows()))
    }

    /// What it can embed.
    pub fn held(&self) -> Result<HeldSteps> {
        Ok(HeldSteps::of(self.timeline.windows().iter().copied())?)
    }

    /// What is left of it when the training has finished: all that it needs to estimate live.
    pub fn trained(&self, name: &PartyId) -> Trained<TrainedGuest> {
        let part = TrainedGuest { guest: self.card.clone(), shape: self.shape.clone() };
        Trained::new(name, part, Arc::clone(&self.timeline))
    }

    /// Its place at the host's head.
    pub fn seat(&self) -> Seat {
        Seat::of(&self.shape)
    }

    /// Numbers of its embeddings, per sample.
    pub fn width(&self) -> u32 {
        self.shape.crossing.len(self.timeline.network().links().len()) as u32
    }

    /// Makes its model when the plan is known.
    pub fn maker(self) -> MakeGuestModel<GuestOf> {
        Box::new(move |plan: &Plan| {
            let network = self.timeline.network();
            let model = LayerSubModel::of(&self.shape, network, plan.seed, plan.rule())
                .map_err(|error| ModelFailure(error.to_string()))?;
            FedGuest::new(model, Arc::clone(&self.windows), plan)
        })
    }
}

/// What all parties must agree on. Step 0 begins at the epoch.
pub fn terms(timeline: &Timeline, compression: Compression) -> Terms {
    Terms {
        network_hash: Text::of(timeline.network_hash()),
        step_s: timeline.step().get(),
        origin_s: 0.0,
        window: WINDOW as u32,
        compression,
    }
}
