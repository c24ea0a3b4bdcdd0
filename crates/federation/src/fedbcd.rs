//! FedBCD (Algorithm 1) at each party: `estimator`'s models behind [`GuestModel`](crate::GuestModel) and
//! [`HostModel`](crate::HostModel).
//!
//! ```text
//! exchange n, update q = 0 … Q−1, all with the learning rate of n and dropout drawn from n·Q + q:
//! guest  θ^k ← θ^k − rate · ∂z^k/∂θ^k · ∂L/∂z^k       z^k computed anew for each q, ∂L/∂z^k stale
//! host   θ   ← θ   − rate · ∂L/∂θ                      the loss computed anew, all z^k stale
//! ```
//!
//! What is made small is an [`Objective`](estimator::Objective) of the host: squared errors against its labels, or
//! a loss without labels, for which guests send [`Measurements`](protocol::Measurements) with their embeddings.
//!
//! Variant `frozen`: the gradients of q = 0 are used Q times. The term μ/2·‖θ − θ_n‖² holds the
//! weights near those at the beginning of the exchange. With Q = 1 all variants are the same, and
//! equal to training with all data in one place.

mod apart;
mod guest;
mod host;
mod loss;
mod own;

use std::sync::Arc;

use estimator::{FoldedInputs, GuestInputs, HostInputs, HostStudy, Recipe, UpdateRule};
use neural::{DropoutRng, Schedule};
use protocol::plan::{LocalUpdates, OptimiserSettings, Plan};
use traffic::Window;

use crate::model::ModelFailure;

pub use guest::FedGuest;
pub use host::FedHost;
pub use loss::{HELD_OUT, HostLoss, Sources, entries};
pub use own::{OwnGuest, OwnSubModel};

/// The samples of one party.
pub trait Windows: Send {
    /// OptimiserSettings of an input.
    fn input_len(&self) -> usize;
    /// Writes the input of a sample that the party holds.
    fn write_input(&self, sample: Window, to: &mut [f32]);
}

impl Windows for Arc<GuestInputs> {
    fn input_len(&self) -> usize {
        self.len()
    }
    fn write_input(&self, sample: Window, to: &mut [f32]) {
        self.write(sample.last, to);
    }
}

impl Windows for Arc<HostStudy> {
    fn input_len(&self) -> usize {
        self.inputs().len()
    }
    fn write_input(&self, sample: Window, to: &mut [f32]) {
        self.inputs().write(sample.last, to);
    }
}

impl Windows for Arc<HostInputs> {
    fn input_len(&self) -> usize {
        self.len()
    }
    fn write_input(&self, sample: Window, to: &mut [f32]) {
        self.write(sample.last, to);
    }
}

impl Windows for Arc<FoldedInputs> {
    fn input_len(&self) -> usize {
        self.len()
    }
    fn write_input(&self, sample: Window, to: &mut [f32]) {
        self.write(sample, to);
    }
}

/// The part of a recipe that all parties need.
pub fn optimiser_settings(recipe: &Recipe) -> OptimiserSettings {
    OptimiserSettings {
        rate: recipe.rate,
        one_cycle: recipe.one_cycle,
        decay: recipe.decay,
        clip: recipe.clip,
        average: recipe.average,
    }
}

/// How a party updates its weights under a plan.
pub fn update_rule(plan: &Plan) -> UpdateRule {
    UpdateRule { proximal: plan.local.proximal, ..UpdateRule::of(&recipe_of(plan)) }
}

/// The recipe as far as the plan defines it; the rest is known to the host alone.
fn recipe_of(plan: &Plan) -> Recipe {
    let OptimiserSettings { rate, one_cycle, decay, clip, average } = plan.optimiser;
    Recipe {
        epochs: plan.epochs as usize,
        batch: plan.batch as usize,
        rate,
        one_cycle,
        decay,
        clip,
        average,
        ..Recipe::of(estimator::Architecture::Link)
    }
}

/// Counts exchanges, and says what each update uses.
#[derive(Clone, Copy, Debug)]
struct Pace {
    seed: u64,
    schedule: Schedule,
    local: LocalUpdates,
    /// Training exchanges done.
    exchanges: u64,
}

impl Pace {
    fn new(plan: &Plan) -> Self {
        let schedule = recipe_of(plan).schedule(plan.exchanges as usize);
        Self { seed: plan.seed, schedule, local: plan.local, exchanges: 0 }
    }

    fn rate(&self) -> f32 {
        self.schedule.rate(self.exchanges)
    }

    fn noise(&self, update: u32) -> DropoutRng {
        let step = self.exchanges * u64::from(self.local.count) + u64::from(update);
        DropoutRng { seed: self.seed, step, first_sample: 0 }
    }
}

/// Inputs of some samples, side by side.
fn gather(data: &impl Windows, samples: &[Window], to: &mut Vec<f32>) {
    let each = data.input_len();
    to.resize(samples.len() * each, 0.0);
    for (&sample, x) in samples.iter().zip(to.chunks_exact_mut(each.max(1))) {
        data.write_input(sample, x);
    }
}

fn failed(error: impl std::fmt::Display) -> ModelFailure {
    ModelFailure(error.to_string())
}

/// The name under which a checkpoint counts training exchanges.
const EXCHANGES: &str = "exchanges";
/// Checkpoints here are bytes, and messages name this instead of a file.
const STATE: &str = "the party's state";
