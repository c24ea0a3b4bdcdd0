//! A guest's records to embeddings.

use estimator::data::LiveFleet;
use sensing::StepFeatures;
use sensing::stream::{FleetColumns, FleetFeed, RecordError};
use tokio::sync::mpsc;
use tracing::{debug, error};
use traffic::{Network, Step};

use super::records::Taker;
use crate::party::{LiveContribution, TrainedModel};

/// Takes a fleet's lines and sends an embedding for each step that has a whole window.
pub(super) struct FleetTaker<'n> {
    pub network: &'n Network,
    pub columns: Option<FleetColumns>,
    pub feed: FleetFeed<'n>,
    pub embedder: Embedder,
    pub to: mpsc::Sender<(Step, Vec<f32>)>,
    /// Embeddings on their way.
    pub ready: Vec<(Step, Vec<f32>)>,
}

impl FleetTaker<'_> {
    /// Sends what is ready; false if nobody listens any more.
    fn send(&mut self) -> bool {
        self.ready.drain(..).all(|embedding| self.to.blocking_send(embedding).is_ok())
    }
}

/// From steps to embeddings of windows, as far as the guest's policy allows.
pub(super) struct Embedder {
    pub contribution: LiveContribution,
    pub window: LiveFleet,
    pub model: TrainedModel,
}

impl Embedder {
    /// Nothing of a step that is not whole, that the policy cannot be applied to, or before which a window is not whole.
    fn embed(&mut self, step: &StepFeatures) -> Option<(Step, Vec<f32>)> {
        if !step.complete {
            debug!(step = step.step.0, "incomplete");
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

impl Taker for FleetTaker<'_> {
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
        let Self { feed, embedder, ready, .. } = self;
        let taken = feed.take(record, &mut |step| ready.extend(embedder.embed(step)));
        let wanted = self.send();
        taken.map(|()| wanted)
    }

    fn finish(&mut self) -> Result<(), RecordError> {
        let Self { feed, embedder, ready, .. } = self;
        feed.finish(&mut |step| ready.extend(embedder.embed(step)))?;
        self.send();
        Ok(())
    }
}
