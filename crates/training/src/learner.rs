//! FedBCD (Algorithm 1) at each party: the models of `estimator` behind [`GuestModel`](federation::GuestModel) and
//! [`HostModel`](federation::HostModel).
//!
//! ```text
//! exchange n, update q = 0 … Q−1, all with the learning rate of n and dropout drawn from n·Q + q:
//! guest  θ^k ← θ^k − rate · ∂z^k/∂θ^k · ∂L/∂z^k       z^k computed anew for each q, ∂L/∂z^k stale
//! host   θ   ← θ   − rate · ∂L/∂θ                      the loss computed anew, all z^k stale
//! ```
//!
//! The host minimises an [`Objective`](estimator::Objective): squared errors against its labels, or a loss without
//! labels, for which guests send [`Measurements`](protocol::Measurements) with their embeddings.
//!
//! Variant `frozen`: the gradients of q = 0 are used Q times. The proximal term μ/2·‖θ − θ_n‖² keeps the
//! weights near those at the beginning of the exchange. With Q = 1 all variants are equal, and centralised training is
//! the same learners without messages ([`CentralRun`](crate::CentralRun)).

mod custom;
mod guest;
mod host;
mod host_loss;
mod sealed_size;
mod secure_update;

use estimator::{Recipe, UpdateRule};
use federation::ModelFailure;
use neural::{DropoutRng, Schedule};
use protocol::{LocalUpdates, OptimiserSettings, Plan};

pub use custom::{CustomGuestLearner, CustomSubModel};
pub use guest::GuestLearner;
pub use host::{HostLearner, HostUpdate};
pub use host_loss::{HELD_OUT, HostLoss, Sources, entries};

/// What all parties need to know of a recipe.
pub fn optimiser_settings(recipe: &Recipe) -> OptimiserSettings {
    OptimiserSettings {
        rate: recipe.rate,
        one_cycle: recipe.one_cycle,
        decay: recipe.decay,
        clip: recipe.clip,
        average: recipe.average,
    }
}

/// The plan as the host's part of the model follows it: with its own learning rate, if the recipe has one.
pub(crate) fn host_plan(plan: &Plan, recipe: &Recipe) -> Plan {
    with_rate(plan, recipe.host_rate)
}

/// A plan with another highest learning rate, if one is given.
pub(crate) fn with_rate(plan: &Plan, rate: Option<f32>) -> Plan {
    let rate = rate.unwrap_or(plan.optimiser.rate);
    Plan { optimiser: OptimiserSettings { rate, ..plan.optimiser }, ..plan.clone() }
}

/// How a party's weights move under a plan.
pub fn update_rule(plan: &Plan) -> UpdateRule {
    UpdateRule { proximal: plan.local.proximal, ..UpdateRule::of(&shared_recipe(plan)) }
}

/// The recipe as far as the plan tells it; the rest concerns the host alone.
fn shared_recipe(plan: &Plan) -> Recipe {
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
    /// Of an epoch.
    each: u32,
    /// Whether an authority issues the keys of products.
    keyed: bool,
}

impl Pace {
    fn new(plan: &Plan) -> Self {
        let schedule = shared_recipe(plan).schedule(plan.exchanges as usize);
        let keyed = plan.sealing.is_some_and(|sealing| sealing.is_keyed());
        let (seed, local, each) = (plan.seed, plan.local, plan.exchanges);
        Self { seed, schedule, local, exchanges: 0, each, keyed }
    }

    fn rate(&self) -> f32 {
        self.schedule.rate(self.exchanges)
    }

    fn noise(&self, update: u32) -> DropoutRng {
        let step = self.exchanges * u64::from(self.local.count) + u64::from(update);
        DropoutRng { seed: self.seed, step, first_sample: 0 }
    }
}

fn failed(error: impl std::fmt::Display) -> ModelFailure {
    ModelFailure(error.to_string())
}

/// The name under which a checkpoint counts training exchanges.
const EXCHANGES: &str = "exchanges";
/// Checkpoints here are bytes, and messages name this instead of a file.
const STATE: &str = "the party's state";
