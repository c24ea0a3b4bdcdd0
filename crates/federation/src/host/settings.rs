//! What the host is told by those who run it, and what follows from it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::message::Terms;
use protocol::message::parts::{MAX_STEPS, MAX_VALUES, PartError, Text};
use protocol::message::sealed::Sealing;
use protocol::party::{PartyId, Round, RunId};
use protocol::plan::Plan;
use serde::{Deserialize, Serialize};

use super::MeasurementBounds;
use crate::error::PartyError;
use crate::model::Layouts;
use crate::schedule::{Order, Samples};
use crate::session::timing::Timing;

/// Samples that are validated or estimated together.
const BLOCK: usize = 512;

/// What the host is told by those who run it.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Its name.
    pub party: PartyId,
    /// The guests that must take part, with the numbers of their embeddings per sample.
    pub guests: BTreeMap<PartyId, u32>,
    /// Version of its software, for logs.
    pub software: Text,
    /// A number drawn for a new run; one that goes on keeps its own.
    pub run: RunId,
    /// What all parties must agree on.
    pub terms: Terms,
    /// Digest of what is trained on what: a folder with checkpoints of something else is refused.
    pub subject: Text,
    /// How the parties train. `exchanges` follows from the samples that all hold.
    pub plan: Plan,
    /// When the parties store checkpoints.
    pub checkpoints: CheckpointInterval,
    /// What guests' measurements are compared with; of use only if the plan asks for some.
    pub measurement_bounds: MeasurementBounds,
    /// The host's own samples; those that a guest lacks are left out.
    pub samples: Samples,
    /// Whether the training part is shuffled in each epoch.
    pub shuffle: bool,
    /// Epochs without a better validation loss after which training stops.
    pub patience: u32,
    /// What to do without a guest.
    pub absent: AbsencePolicy,
    /// How long it waits.
    pub timing: Timing,
}

/// When the parties store checkpoints: whichever comes first. The host decides, and tells the guests with the request of the
/// round, so that all store the same rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointInterval {
    /// After this long, by the clock on the wall, at the end of the round that begins then.
    pub time: Duration,
    /// After so many rounds; none if time alone decides.
    pub rounds: Option<NonZeroU32>,
}

impl Default for CheckpointInterval {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), rounds: None }
    }
}

impl CheckpointInterval {
    /// Whether one is due at the end of a round that begins now.
    pub(super) fn is_due(&self, round: Round, last: Duration, now: Duration) -> bool {
        // A clock on the wall may be set back.
        let due = now.abs_diff(last) >= self.time;
        due || self.rounds.is_some_and(|rounds| round.0.is_multiple_of(rounds.get().into()))
    }
}

/// What to do without a guest that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbsencePolicy {
    /// Wait for it, up to the limit; then stop. The weights are those of an undisturbed run.
    Wait,
    /// Go on with the learned absent embedding in its place until it is back.
    Skip,
    /// Stop as soon as it is missed.
    Stop,
}

impl HostSettings {
    pub(super) fn check(&self) -> Result<(), PartyError> {
        self.timing.check().map_err(PartyError::misuse)?;
        let plan = Plan { exchanges: 1, ..self.plan.clone() };
        plan.check().map_err(PartyError::misuse)?;
        if self.checkpoints.time.is_zero() {
            let error = PartError::new("time between checkpoints", "0 s", "more than 0");
            return Err(PartyError::misuse(error));
        }
        self.measurement_bounds.check(&self.plan.measured).map_err(PartyError::misuse)?;
        let wrong = |what, found: String, expected: &str| {
            Err(PartyError::misuse(PartError::new(what, found, expected)))
        };
        if self.guests.is_empty() {
            return wrong("guests", "none".to_owned(), "at least one");
        }
        for (party, &width) in &self.guests {
            if width == 0 || self.plan.batch as usize * width as usize > MAX_VALUES {
                let found =
                    format!("{} samples of {width} numbers from `{party}`", self.plan.batch);
                return wrong("batch", found, &format!("1 to {MAX_VALUES} numbers in all"));
            }
        }
        Ok(())
    }

    pub(super) fn order(&self, layouts: &Layouts) -> Order {
        let widths = self.guests.values().map(|width| *width as usize);
        // Values and weights.
        let measured = layouts.values().map(|layout| 2 * layout.len());
        let widest = widths.chain(measured).max().unwrap_or(1).max(1);
        // With a key authority what is measured of a block is encrypted as one.
        let entries = layouts.values().map(|layout| layout.len()).max().unwrap_or(1).max(1);
        let keyed = self.plan.sealing.filter(Sealing::is_keyed);
        let keyed = keyed.map_or(MAX_VALUES, |sealing| sealing.most_width() / entries);
        Order {
            segment: self.plan.segment as usize,
            seed: self.plan.seed,
            shuffle: self.shuffle,
            batch: self.plan.batch as usize,
            block: (MAX_VALUES / widest).min(keyed).clamp(1, BLOCK.min(MAX_STEPS)),
            epochs: self.plan.epochs,
            patience: self.patience,
        }
    }
}
