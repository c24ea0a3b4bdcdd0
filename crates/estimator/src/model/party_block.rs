//! The parameters of one party, and how they move: what a guest's sub-model and the host's model
//! have in common.
//!
//! One update: add μ·(θ − θ_r) to the gradient (the proximal term, θ_r the weights at the start of
//! the round), clip it to its longest length, one step of Adam, take the weights into the average.
//!
//! There are three sets of weights: those that move; those that are validated, which is their average
//! if the rule has one; and the best so far, as the party was told to keep them.

use std::sync::{Arc, OnceLock};

use neural::{
    Adam, Average, Checkpoint, CheckpointError, Decay, Layer, Learner, Optimiser, Plan, clip_norm,
};

use crate::model::recipe::Recipe;

/// Of what a checkpoint of a party's parameters says it is.
pub const PARTY_CHECKPOINT: &str = "fedtse-party";

/// Of what a file with a party's best weights says it is.
pub(crate) const PARTY_WEIGHTS: &str = "fedtse-party-weights";

/// How the parameters of a party move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRule {
    /// Weight decay.
    pub decay: Decay,
    /// Longest gradient; longer ones are scaled down to it.
    pub clip: Option<f32>,
    /// Decay of the moving average of the weights, which then is what is validated and kept.
    pub average: Option<f32>,
    /// μ of the proximal term, 0 for none.
    pub proximal: f32,
}

impl UpdateRule {
    /// That of a recipe, without a proximal term.
    pub fn of(recipe: &Recipe) -> Self {
        Self {
            decay: recipe.weight_decay(),
            clip: recipe.clip,
            average: recipe.average,
            proximal: 0.0,
        }
    }
}

type Model = Arc<dyn Layer>;

/// See the [module](self).
pub(crate) struct PartyBlock {
    pub learner: Learner<Model>,
    rule: UpdateRule,
    adam: Adam,
    average: Option<Average>,
    best: Vec<f32>,
    /// The weights at the start of the round, for the proximal term.
    start: Vec<f32>,
    /// The gradient as it is used; the learner's stays, to be used again.
    used: Vec<f32>,
    /// Models with other weights than those that move, made when first asked for.
    validated: OnceLock<Learner<Model>>,
    kept: OnceLock<Learner<Model>>,
}

impl PartyBlock {
    /// A model with parameters drawn from a seed.
    pub(crate) fn new(model: impl Layer + 'static, seed: u64, rule: UpdateRule) -> Self {
        let model: Model = Arc::new(model);
        let learner = Learner::new(model, seed, Plan::default());
        let parameters = learner.parameters();
        Self {
            adam: Adam::new(parameters.len(), rule.decay),
            average: rule.average.map(|decay| Average::new(parameters, decay)),
            best: parameters.to_vec(),
            start: parameters.to_vec(),
            used: Vec::with_capacity(parameters.len()),
            validated: OnceLock::new(),
            kept: OnceLock::new(),
            rule,
            learner,
        }
    }

    pub(crate) fn model(&self) -> &dyn Layer {
        &**self.learner.model()
    }

    /// Holds the weights of this moment as those that the proximal term draws to.
    pub(crate) fn begin_round(&mut self) {
        self.start.copy_from_slice(self.learner.parameters());
    }

    /// One step along the gradient.
    pub(crate) fn update(&mut self, rate: f32) {
        let Self { learner, rule, adam, used, start, .. } = self;
        learner.update(|parameters, gradient| {
            used.clear();
            used.extend_from_slice(gradient);
            if rule.proximal > 0.0 {
                for ((used, now), start) in used.iter_mut().zip(&*parameters).zip(start) {
                    *used += rule.proximal * (now - *start);
                }
            }
            if let Some(longest) = rule.clip {
                clip_norm(used, longest);
            }
            adam.update(rate, parameters, used);
        });
        if let Some(average) = &mut self.average {
            average.update(self.learner.parameters());
        }
        self.validated = OnceLock::new();
    }

    fn validated_weights(&self) -> &[f32] {
        self.average.as_ref().map_or(self.learner.parameters(), Average::weights)
    }

    /// The model with the weights that are validated.
    pub(crate) fn validated(&self) -> &Learner<Model> {
        self.validated.get_or_init(|| self.with_weights(self.validated_weights()))
    }

    /// The model with the best weights.
    pub(crate) fn kept(&self) -> &Learner<Model> {
        self.kept.get_or_init(|| self.with_weights(&self.best))
    }

    fn with_weights(&self, weights: &[f32]) -> Learner<Model> {
        let mut learner = Learner::new(Arc::clone(self.learner.model()), 0, Plan::default());
        learner.update(|parameters, _| parameters.copy_from_slice(weights));
        learner
    }

    /// The weights that are validated are the best so far.
    pub(crate) fn keep_best(&mut self) {
        self.best = self.validated_weights().to_vec();
        self.kept = OnceLock::new();
    }

    pub(crate) fn best(&self) -> &[f32] {
        &self.best
    }

    /// Everything that changes in training.
    pub(crate) fn save(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint::new(PARTY_CHECKPOINT);
        let layout = self.learner.layout();
        checkpoint.put_parameters("weights", layout, self.learner.parameters());
        checkpoint.put_parameters("best", layout, &self.best);
        checkpoint.put_optimiser("adam", &self.adam);
        if let Some(average) = &self.average {
            checkpoint.put_parameters("average", layout, average.weights());
            checkpoint.set("average.updates", average.updates());
        }
        if self.rule.proximal > 0.0 {
            checkpoint.put_parameters("start", layout, &self.start);
        }
        checkpoint
    }

    /// The best weights alone: what a party needs to estimate.
    pub(crate) fn save_best(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint::new(PARTY_WEIGHTS);
        checkpoint.put_parameters("weights", self.learner.layout(), &self.best);
        checkpoint
    }

    /// Takes such weights as the best, and to go on from.
    pub(crate) fn load_best(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.set_best(&checkpoint.parameters("weights", self.learner.layout())?);
        Ok(())
    }

    /// The same, as numbers.
    pub(crate) fn set_best(&mut self, weights: &[f32]) {
        self.best = weights.to_vec();
        self.learner.update(|parameters, _| parameters.copy_from_slice(weights));
        (self.validated, self.kept) = (OnceLock::new(), OnceLock::new());
    }

    /// Goes back to what was saved; on an error nothing changes.
    pub(crate) fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let layout = self.learner.layout();
        let weights = checkpoint.parameters("weights", layout)?;
        let best = checkpoint.parameters("best", layout)?;
        let start = match self.rule.proximal > 0.0 {
            true => checkpoint.parameters("start", layout)?,
            false => weights.clone(),
        };
        let average = match self.rule.average {
            Some(decay) => {
                let average = checkpoint.parameters("average", layout)?;
                Some(Average::restore(&average, decay, checkpoint.count("average.updates")?))
            }
            None => None,
        };
        checkpoint.restore_optimiser("adam", &mut self.adam)?;
        self.learner.update(|parameters, _| parameters.copy_from_slice(&weights));
        (self.average, self.best, self.start) = (average, best, start);
        (self.validated, self.kept) = (OnceLock::new(), OnceLock::new());
        Ok(())
    }
}
