//! Runs a model over a batch: in cache-sized chunks, on all threads, with the same bits whatever
//! their number.
//!
//! The batch is cut into chunks of [`Plan::chunk`] samples. Chunks are dealt out to
//! [`Plan::lanes`] accumulators by their number, never by which thread is free; each lane adds up
//! its gradients in order, and the lanes are added up in order. So a result depends on the plan,
//! not on the machine. After the first step nothing is allocated.
//!
//! ```
//! use neural::{Adam, Decay, Learner, Linear, Plan, Squared};
//! let mut learner = Learner::new(Linear::new(1, 1, 1), 7, Plan::default());
//! let mut adam = Adam::new(learner.parameters().len(), Decay::None);
//! let (x, y) = ([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]); // y = 2x + 1
//! for _ in 0..3000 {
//!     learner.train(&x, &Squared::new(&y, &[1.0]), None);
//!     learner.step(&mut adam, 0.01);
//! }
//! assert!((learner.parameters()[0] - 2.0).abs() < 1e-3);
//! assert!((learner.parameters()[1] - 1.0).abs() < 1e-3);
//! ```

mod plan;
mod pull_back;
mod work;

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::layer::{DropoutRng, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::random::Draw;
use crate::vector;

use work::{Lane, Work};

pub use plan::Plan;
pub use pull_back::{OneSample, PulledBack};

/// Parameters that do not fit the model.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParametersError {
    /// Wrong number.
    #[error("found {found} parameters, expected {expected}")]
    Length {
        /// Given.
        found: usize,
        /// Of the model.
        expected: usize,
    },
    /// NaN or infinite.
    #[error("parameter {name} holds a value that is not finite")]
    NotFinite {
        /// Its name.
        name: String,
    },
}

/// A model with its parameters, gradient and working memory, see the [module](self).
pub struct Learner<L> {
    model: L,
    layout: Layout,
    plan: Plan,
    parameters: Vec<f32>,
    prepared: Vec<f32>,
    gradient: Vec<f32>,
    lanes: Vec<Lane>,
    /// Working memory that no chunk uses at the moment. Which one a chunk gets makes no
    /// difference: passes read only what they wrote.
    idle: Mutex<Vec<Work>>,
    /// Memory of the chunks of the last [`forward`](Self::forward).
    kept: Vec<Work>,
}

/// What all lanes of a backward pass share.
struct Batch<'a> {
    x: &'a [f32],
    dy: &'a [f32],
    rng: Option<DropoutRng>,
    chunks: usize,
    lanes: usize,
}

impl Batch<'_> {
    fn first_chunk(&self, lane: usize) -> usize {
        lane * self.chunks / self.lanes
    }
}

impl<L: Layer> Learner<L> {
    /// A model with parameters drawn from a seed.
    ///
    /// # Panics
    /// If the plan has empty chunks or no lanes.
    pub fn new(model: L, seed: u64, plan: Plan) -> Self {
        assert!(plan.chunk > 0 && plan.lanes > 0, "{plan:?} has nothing to work with");
        let layout = model.layout();
        let mut parameters = vec![0.0; layout.len()];
        model.initialise(&mut Draw::new(seed), &mut parameters);
        let mut learner = Learner {
            prepared: vec![0.0; model.prepared_len()],
            gradient: vec![0.0; layout.len()],
            lanes: (0..plan.lanes).map(|_| Lane::default()).collect(),
            idle: Mutex::new(Vec::new()),
            kept: Vec::new(),
            model,
            layout,
            plan,
            parameters,
        };
        learner.prepare();
        learner
    }

    /// The model.
    pub fn model(&self) -> &L {
        &self.model
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The parameters.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Replaces the parameters.
    pub fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), ParametersError> {
        let (found, expected) = (parameters.len(), self.parameters.len());
        if found != expected {
            return Err(ParametersError::Length { found, expected });
        }
        if let Some(place) = parameters.iter().position(|value| !value.is_finite()) {
            let holds = self.layout.parameters().iter().find(|p| p.range.contains(&place));
            let name = holds.map(|p| p.name.clone()).unwrap_or_default();
            return Err(ParametersError::NotFinite { name });
        }
        self.update(|to, _| to.copy_from_slice(parameters));
        Ok(())
    }

    /// The gradient of the last [`train`](Self::train) or [`backward`](Self::backward).
    pub fn gradient(&self) -> &[f32] {
        &self.gradient
    }

    /// The same, to clip it or to add rng.
    pub fn gradient_mut(&mut self) -> &mut [f32] {
        &mut self.gradient
    }

    /// Changes the parameters, given the gradient.
    pub fn update(&mut self, change: impl FnOnce(&mut [f32], &[f32])) {
        change(&mut self.parameters, &self.gradient);
        self.prepare();
    }

    /// One step of an optimiser along the gradient.
    pub fn step(&mut self, optimiser: &mut dyn Optimiser, rate: f32) {
        self.update(|parameters, gradient| optimiser.update(rate, parameters, gradient));
    }

    fn prepare(&mut self) {
        self.model.prepare(&self.parameters, &mut self.prepared);
    }

    /// Loss of a batch; its gradient goes to [`gradient`](Self::gradient). `rng` switches
    /// dropout on (its `first_sample` is that of the batch, usually 0).
    ///
    /// # Panics
    /// If `x` is not a whole number of samples.
    pub fn train(&mut self, x: &[f32], loss: &impl Loss, rng: Option<DropoutRng>) -> f64 {
        let samples = self.samples(x);
        let chunks = samples.div_ceil(self.plan.chunk);
        let mut lanes = std::mem::take(&mut self.lanes);
        let count = lanes.len();
        let each = |(number, lane): (usize, &mut Lane)| {
            let chunks = number * chunks / count..(number + 1) * chunks / count;
            lane.start(self.layout.len(), chunks.len());
            if chunks.is_empty() {
                return;
            }
            let mut work = self.borrow_work();
            for chunk in chunks {
                let (first, x) = self.chunk(x, chunk);
                let pass = self.pass(x, first, rng);
                work.forward(&self.model, &pass, x);
                let length = pass.samples * self.model.output_len();
                lane.loss += loss.evaluate(first, &work.y[..length], &mut work.dy[..length]);
                work.backward(&self.model, &pass, x, None, &mut lane.gradient);
            }
            self.return_work(work);
        };
        if chunks <= 1 {
            lanes.iter_mut().enumerate().for_each(each);
        } else {
            self.reserve_work(chunks.min(count));
            lanes.par_iter_mut().enumerate().with_max_len(1).for_each(each);
        }
        self.lanes = lanes;
        self.add_up_lanes();
        self.lanes.iter().map(|lane| lane.loss).sum()
    }

    /// Outputs of a batch, without dropout.
    ///
    /// # Panics
    /// If `x` is not a whole number of samples, or `y` has not as many.
    pub fn infer(&self, x: &[f32], y: &mut [f32]) {
        let samples = self.samples(x);
        assert_eq!(y.len(), samples * self.model.output_len(), "outputs of {samples} samples");
        let each = |chunk: usize, y: &mut [f32]| {
            let (first, x) = self.chunk(x, chunk);
            let mut work = self.borrow_work();
            let memory = Memory { saved: &mut work.saved, scratch: &mut work.scratch };
            self.model.forward(&self.pass(x, first, None), x, y, memory);
            self.return_work(work);
        };
        if samples <= self.plan.chunk {
            if samples > 0 {
                each(0, y);
            }
            return;
        }
        self.reserve_work(samples.div_ceil(self.plan.chunk));
        let length = self.plan.chunk * self.model.output_len();
        y.par_chunks_mut(length).enumerate().for_each(|(chunk, y)| each(chunk, y));
    }

    /// Outputs of a batch whose gradient comes later, by [`backward`](Self::backward). Keeps the
    /// memory of all chunks until then.
    ///
    /// # Panics
    /// If `x` is not a whole number of samples, or `y` has not as many.
    pub fn forward(&mut self, x: &[f32], y: &mut [f32], rng: Option<DropoutRng>) {
        let samples = self.samples(x);
        assert_eq!(y.len(), samples * self.model.output_len(), "outputs of {samples} samples");
        let mut kept = std::mem::take(&mut self.kept);
        while kept.len() < samples.div_ceil(self.plan.chunk) {
            kept.push(Work::new(&self.model, self.plan.chunk));
        }
        let length = self.plan.chunk * self.model.output_len();
        let chunks = y.par_chunks_mut(length.max(1)).zip(&mut kept).enumerate();
        chunks.for_each(|(chunk, (y, work))| {
            let (first, x) = self.chunk(x, chunk);
            work.forward(&self.model, &self.pass(x, first, rng), x);
            y.copy_from_slice(&work.y[..y.len()]);
        });
        self.kept = kept;
    }

    /// Gradient of the parameters, to [`gradient`](Self::gradient), and of the input if wanted,
    /// from that of the outputs. `x` and `rng` as in [`forward`](Self::forward), which must have
    /// come before, with the same parameters.
    ///
    /// # Panics
    /// If forward has not run on as many samples, or lengths differ.
    pub fn backward(
        &mut self,
        x: &[f32],
        dy: &[f32],
        dx: Option<&mut [f32]>,
        rng: Option<DropoutRng>,
    ) {
        let samples = self.samples(x);
        let chunks = samples.div_ceil(self.plan.chunk);
        assert_eq!(dy.len(), samples * self.model.output_len(), "gradient of {samples} samples");
        assert!(chunks <= self.kept.len(), "forward has not run on these {samples} samples");
        if let Some(dx) = &dx {
            assert_eq!(dx.len(), x.len(), "gradient of the input");
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        let mut kept = std::mem::take(&mut self.kept);
        let batch = Batch { x, dy, rng, chunks, lanes: lanes.len() };
        self.back_lanes(&batch, 0, &mut lanes, &mut kept[..chunks], dx);
        (self.lanes, self.kept) = (lanes, kept);
        self.add_up_lanes();
    }

    /// Backward of some lanes, with the memory and input gradients of their chunks: in halves,
    /// side by side, down to single lanes.
    fn back_lanes(
        &self,
        batch: &Batch<'_>,
        first_lane: usize,
        lanes: &mut [Lane],
        works: &mut [Work],
        dx: Option<&mut [f32]>,
    ) {
        let first_chunk = batch.first_chunk(first_lane);
        if let [lane] = lanes {
            return self.back_lane(batch, lane, first_chunk, works, dx);
        }
        let half = lanes.len() / 2;
        let chunks = batch.first_chunk(first_lane + half) - first_chunk;
        let (lanes_a, lanes_b) = lanes.split_at_mut(half);
        let (works_a, works_b) = works.split_at_mut(chunks);
        let length = chunks * self.plan.chunk * self.model.input_len();
        let (dx_a, dx_b) = match dx {
            Some(dx) => {
                let (a, b) = dx.split_at_mut(length.min(dx.len()));
                (Some(a), Some(b))
            }
            None => (None, None),
        };
        rayon::join(
            || self.back_lanes(batch, first_lane, lanes_a, works_a, dx_a),
            || self.back_lanes(batch, first_lane + half, lanes_b, works_b, dx_b),
        );
    }

    fn back_lane(
        &self,
        batch: &Batch<'_>,
        lane: &mut Lane,
        first_chunk: usize,
        works: &mut [Work],
        mut dx: Option<&mut [f32]>,
    ) {
        lane.start(self.layout.len(), works.len());
        for (i, work) in works.iter_mut().enumerate() {
            let (first, x) = self.chunk(batch.x, first_chunk + i);
            let pass = self.pass(x, first, batch.rng);
            let length = pass.samples * self.model.output_len();
            let from = first * self.model.output_len();
            work.dy[..length].copy_from_slice(&batch.dy[from..from + length]);
            let dx = dx.as_deref_mut().map(|dx| {
                let from = i * self.plan.chunk * self.model.input_len();
                &mut dx[from..from + x.len()]
            });
            work.backward(&self.model, &pass, x, dx, &mut lane.gradient);
        }
    }

    fn add_up_lanes(&mut self) {
        const BLOCK: usize = 4096;
        let lanes = &self.lanes;
        self.gradient.par_chunks_mut(BLOCK).enumerate().for_each(|(block, gradient)| {
            let range = block * BLOCK..block * BLOCK + gradient.len();
            let mut used = lanes.iter().filter(|lane| lane.chunks > 0);
            match used.next() {
                Some(lane) => gradient.copy_from_slice(&lane.gradient[range.clone()]),
                None => gradient.fill(0.0),
            }
            used.for_each(|lane| vector::add(gradient, &lane.gradient[range.clone()]));
        });
        self.model.finish_gradient(&mut self.gradient);
    }

    fn samples(&self, x: &[f32]) -> usize {
        let input = self.model.input_len().max(1);
        assert!(
            x.len().is_multiple_of(input),
            "{} inputs are not a whole number of samples of {input}",
            x.len()
        );
        x.len() / input
    }

    /// Number of the first sample and inputs of a chunk.
    fn chunk<'x>(&self, x: &'x [f32], chunk: usize) -> (usize, &'x [f32]) {
        let length = self.plan.chunk * self.model.input_len();
        let from = chunk * length;
        (chunk * self.plan.chunk, &x[from..x.len().min(from + length)])
    }

    fn pass(&self, x: &[f32], first: usize, rng: Option<DropoutRng>) -> Pass<'_> {
        Pass {
            samples: x.len() / self.model.input_len().max(1),
            parameters: &self.parameters,
            prepared: &self.prepared,
            rng: rng.map(|n| DropoutRng { first_sample: n.first_sample + first as u64, ..n }),
        }
    }

    /// Makes sure that every thread that may take part finds memory: not one that happens to come
    /// late allocates in the middle of training.
    fn reserve_work(&self, tasks: usize) {
        let most = tasks.min(rayon::current_num_threads());
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while idle.len() < most {
            idle.push(Work::new(&self.model, self.plan.chunk));
        }
    }

    fn borrow_work(&self) -> Work {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Work::new(&self.model, self.plan.chunk))
    }

    fn return_work(&self, work: Work) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}
