//! A guest's records to embeddings.

use estimator::data::LiveFleet;
use sensing::StepFeatures;
use sensing::stream::{FleetColumns, FleetFeed, RecordError};
use tokio::sync::mpsc;
use tracing::{debug, error};
use traffic::{Network, Step};

use super::records::Taker;
use crate::party::{LiveContribution, LiveSumGuestPart, TrainedModel};

/// What a guest makes of a step of its fleet, to be sent.
pub(super) trait OfFleet: Send + 'static {
    type Out: Send + 'static;
    /// Nothing of a step that is not whole, or that the policy cannot be applied to.
    fn of_step(&mut self, step: &StepFeatures) -> Option<(Step, Self::Out)>;
}

/// Takes a fleet's lines and sends what is made of each step.
pub(super) struct FleetTaker<'n, F: OfFleet> {
    pub network: &'n Network,
    pub columns: Option<FleetColumns>,
    pub feed: FleetFeed<'n>,
    pub fleet: F,
    pub to: mpsc::Sender<(Step, F::Out)>,
    /// On their way.
    pub ready: Vec<(Step, F::Out)>,
}

impl<F: OfFleet> FleetTaker<'_, F> {
    /// Sends what is ready; false if nobody listens any more.
    fn send(&mut self) -> bool {
        self.ready.drain(..).all(|own| self.to.blocking_send(own).is_ok())
    }
}

fn whole(step: &StepFeatures) -> bool {
    if !step.complete {
        debug!(step = step.step.0, "incomplete");
    }
    step.complete
}

/// From steps to embeddings of windows, as far as the guest's policy allows.
pub(super) struct Embedder {
    pub contribution: LiveContribution,
    pub window: LiveFleet,
    pub model: TrainedModel,
}

impl OfFleet for Embedder {
    type Out = Vec<f32>;

    /// Nothing, too, where a window is not whole.
    fn of_step(&mut self, step: &StepFeatures) -> Option<(Step, Vec<f32>)> {
        if !whole(step) {
            return None;
        }
        let own = self.contribution.of_step(step.step, &step.all);
        let own = own.map_err(|problem| error!("step {}: {problem}", step.step.0)).ok()?;
        self.window.push(step.step, &own);
        let sample = self.window.sample().map_err(|problem| error!("{problem}")).ok()??;
        let (step, x) = sample;
        let z = self.model.infer(&x, 1).map_err(|problem| error!("{problem:#}")).ok()?;
        debug!(step = step.0, "embedded");
        Some((step, z))
    }
}

impl OfFleet for LiveSumGuestPart {
    type Out = Vec<u64>;

    fn of_step(&mut self, step: &StepFeatures) -> Option<(Step, Vec<u64>)> {
        if !whole(step) {
            return None;
        }
        let words = self.words(step.step, &step.all);
        let words = words.map_err(|problem| error!("step {}: {problem}", step.step.0)).ok()?;
        Some((step.step, words))
    }
}

impl<F: OfFleet> Taker for FleetTaker<'_, F> {
    fn header(&mut self, line: &str) -> Result<(), RecordError> {
        self.columns = Some(FleetColumns::of(line)?);
        Ok(())
    }

    fn time(&self, line: &str) -> Option<f64> {
        self.columns.as_ref()?.time(line)
    }

    fn gap(&self) -> f64 {
        self.feed.gap()
    }

    fn record(&mut self, line: &str) -> Result<bool, RecordError> {
        let Some(columns) = &self.columns else { return Ok(true) };
        let record = columns.parse(line, self.network)?;
        let Self { feed, fleet, ready, .. } = self;
        let taken = feed.take(record, &mut |step| ready.extend(fleet.of_step(step)));
        let wanted = self.send();
        taken.map(|()| wanted)
    }

    fn finish(&mut self) -> Result<(), RecordError> {
        let Self { feed, fleet, ready, .. } = self;
        feed.finish(&mut |step| ready.extend(fleet.of_step(step)))?;
        self.send();
        Ok(())
    }
}
