//! How long a training step of the host and a guest takes: with labels, and with a traffic model,
//! measurements of both and no labels.
//!
//! ```sh
//! cargo run --release -p estimator --example pi_speed
//! ```
//!
//! Prints a line for people, then one of JSON for `scripts/bench.py`. The corridor, batches of 128 windows
//! in segments of 4, random numbers: what is measured is arithmetic, not learning.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use estimator::data::{MeasuredBatch, Scale};
use estimator::loss::{CTM_DEVIATIONS, Labelled, LossWeights, Physics};
use estimator::model::{HostBatch, HostShape};
use estimator::{
    Architecture, EmbeddingShape, Embeddings, GuestShape, GuestSlot, HostModel, LayerSubModel,
    Objective, PhysicsInformed, Readings, Recipe, Sizes, SubModel, SubModelKind, UpdateRule,
    WindowSource,
};
use neural::DropoutRng;
use neural::random::Draw;
use physics::{Ctm, Discretisation, Parameters};
use traffic::{MeasurementEntry, Network, Quantity, Seconds, Step, Window};

const BATCH: usize = 128;
const SEGMENT: usize = 4;
const SEED: u64 = 1;
const WINDOW: usize = estimator::WINDOW;
/// Steps of a round, and rounds of each kind, which take turns.
const STEPS: usize = 30;
const ROUNDS: usize = 5;

/// The same label for every window.
struct OneLabel(Vec<f32>);

impl WindowSource for OneLabel {
    fn row_len(&self) -> usize {
        self.0.len()
    }
    fn write_row(&self, _window: Window, to: &mut [f32]) {
        to.copy_from_slice(&self.0);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let network = traffic::corridor()?;
    let links = network.links().len();
    let mut parties = Parties::new(&network)?;
    let weights = vec![1.0 / links as f32; 2 * links];
    let weights = LossWeights { training: weights.clone(), validation: weights };
    let mut plain = Labelled::new(OneLabel(numbers(2 * links, 9)), weights);
    let mut informed = informed(&network)?;
    let (mut times, mut informed_times) = (Vec::new(), Vec::new());
    parties.steps(&mut plain, STEPS)?;
    parties.steps(&mut informed, STEPS)?;
    for _ in 0..ROUNDS {
        times.push(parties.steps(&mut plain, STEPS)?);
        informed_times.push(parties.steps(&mut informed, STEPS)?);
    }
    let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let (plain, informed) = (best(&times), best(&informed_times));
    println!(
        "a step with labels {:.2} ms, physics-informed {:.2} ms: {:.2} times as long",
        1e3 * plain,
        1e3 * informed,
        informed / plain
    );
    println!("{}", serde_json::json!({ "labelled_s": times, "informed_s": informed_times }));
    Ok(())
}

/// The host and one guest in one process, with inputs and measurements of a batch.
struct Parties {
    host: HostModel,
    guest: LayerSubModel,
    samples: Vec<Window>,
    own: Vec<f32>,
    seen: Vec<f32>,
    loops: (Vec<f32>, Vec<f32>),
    fleet: (Vec<f32>, Vec<f32>),
    step: u64,
}

impl Parties {
    fn new(network: &Network) -> Result<Self, Box<dyn Error>> {
        let sizes = Sizes::default();
        let shape = GuestShape {
            name: "guest".into(),
            sub_model: SubModelKind::Link,
            channels: 3 * WINDOW,
            totals: true,
            embedding: EmbeddingShape::PerLink(4),
            sizes,
            window: WINDOW,
        };
        let host = HostShape {
            architecture: Architecture::Link,
            shared: 12 * WINDOW,
            channels: WINDOW,
            slots: vec![GuestSlot::of(&shape)],
            party_dropout: 0.0,
            sizes,
            window: WINDOW,
        };
        let rule = UpdateRule::of(&Recipe::of(Architecture::Link));
        let host = HostModel::new(&host, network, SEED, rule)?;
        let guest = LayerSubModel::of(&shape, network, SEED, rule)?;
        let segment = |at: usize| 60 + (at / SEGMENT * 100 + at % SEGMENT) as i64;
        let measured = |entries: usize| (numbers(BATCH * entries, 3), vec![0.05; BATCH * entries]);
        Ok(Self {
            samples: (0..BATCH).map(|at| Window::whole(Step(segment(at)))).collect(),
            own: numbers(BATCH * host.input_len(), 1),
            seen: numbers(BATCH * guest.input_len(), 2),
            loops: measured(network.loops().len()),
            fleet: measured(2 * network.links().len()),
            host,
            guest,
            step: 0,
        })
    }

    /// Mean seconds of a step.
    fn steps(
        &mut self,
        objective: &mut dyn Objective,
        count: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let begin = Instant::now();
        let mut z = vec![0.0; BATCH * self.guest.output_len()];
        for _ in 0..count {
            let noise = DropoutRng { seed: SEED, step: self.step, first_sample: 0 };
            self.guest.forward(&self.seen, &mut z, noise)?;
            let readings = |of: &'_ (Vec<f32>, Vec<f32>)| (of.0.clone(), of.1.clone());
            let (loops, fleet) = (readings(&self.loops), readings(&self.fleet));
            let batch = HostBatch {
                samples: &self.samples,
                x: &self.own,
                embeddings: &Embeddings::from([("guest", z.as_slice())]),
                measured: &MeasuredBatch::from([
                    ("host", Readings { values: &loops.0, weights: &loops.1 }),
                    ("guest", Readings { values: &fleet.0, weights: &fleet.1 }),
                ]),
            };
            self.host.train(&batch, objective, noise)?;
            self.host.update(1e-4);
            let gradient = self.host.gradient_of("guest").ok_or("no gradient for the guest")?;
            self.guest.backward(&self.seen, gradient, noise)?;
            self.guest.update(1e-4);
            self.step += 1;
        }
        Ok(begin.elapsed().as_secs_f64() / count as f64)
    }
}

/// Loop flow, the fleet's speeds and densities, and the CTM.
fn informed(network: &Network) -> Result<PhysicsInformed, Box<dyn Error>> {
    let plan = Discretisation::of_step(Seconds::new(10.0));
    let model = Ctm::new(network, Parameters::typical(network)?, plan)?;
    let physics = Physics::new(network, Box::new(model), CTM_DEVIATIONS)?;
    let scales = [Scale { mean: 33.0, deviation: 33.0 }, Scale { mean: 5.0, deviation: 5.0 }];
    let loops = network.loops().iter();
    let loops =
        loops.map(|l| MeasurementEntry { link: l.link, quantity: Quantity::Flow }).collect();
    let fleet = network.link_ids().flat_map(|link| {
        [Quantity::Speed, Quantity::Density].map(|quantity| MeasurementEntry { link, quantity })
    });
    let parties =
        BTreeMap::from([("host".to_owned(), loops), ("guest".to_owned(), fleet.collect())]);
    Ok(PhysicsInformed::new(Some(physics), vec![scales; network.links().len()], parties)?)
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut numbers = vec![0.0; count];
    Draw::new(seed).fill(&mut numbers, 1.0);
    numbers
}
