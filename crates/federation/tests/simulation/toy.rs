//! Models small enough to be trained thousands of times: a line for each guest, their sum and a
//! line of its own at the host.
//!
//! ```text
//! z^k = w^k·x^k        y = Σ_k (z^k, or an absent number) + w·x        L = mean (y − t)²
//! ```
//!
//! Each party goes down its own gradient, with momentum, so that a lost or doubled update shows.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use estimator::EmbeddingCoefficients;
use federation::model::{
    Answers, Embeddings, GuestModel, HostModel, Learned, ModelFailure, Updated,
};
use federation::{CheckpointInterval, GuestRows, ProductRows, Products, Samples};
use neural::{hash, unit};
use protocol::message::parts::{Embedding, EmbeddingGradient, Values};
use protocol::{
    CommitmentTerms, LocalUpdates, MeasurementKind, MeasurementLayout, MeasurementOffer,
    Measurements, Movements, OptimiserSettings, PartyId, Plan, Scheme, Sealing,
};
use traffic::{FleetView, LinkId, MeasurementEntry, Quantity, Step, Window};

/// Numbers of an embedding.
pub const WIDTH: usize = 2;
pub const KEEP_EVERY: NonZeroU32 = NonZeroU32::new(3).expect("not 0");
/// Two epochs of three batches and one validation block, and one block of estimates.
pub const ROUNDS: u64 = 2 * (3 + 1) + 1;

/// Few rounds, or as long as three unanswered requests.
pub fn checkpoints() -> CheckpointInterval {
    CheckpointInterval { time: Duration::from_secs(30), rounds: Some(KEEP_EVERY) }
}

pub fn plan() -> Plan {
    Plan {
        seed: 5,
        batch: 2,
        epochs: 2,
        exchanges: 0,
        optimiser: OptimiserSettings {
            rate: 0.1,
            one_cycle: false,
            decay: 0.0,
            clip: None,
            average: None,
        },
        local: LocalUpdates::default(),
        segment: 1,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

/// The same with measurements, for which samples come in pairs.
pub fn measured_plan() -> Plan {
    Plan {
        segment: 2,
        measured: [MeasurementKind::Speeds, MeasurementKind::HeldOut].into(),
        ..plan()
    }
}

/// The same with speeds alone, which cross in products; with what hides nothing, since thousands of lists are run.
pub fn sealed_plan() -> Plan {
    let sealing = Sealing { scheme: Scheme::Plain, most_rows: 100, commitments: None };
    Plan { measured: [MeasurementKind::Speeds].into(), sealing: Some(sealing), ..measured_plan() }
}

/// The same with messages of two products, so that rows and coefficients are asked in parts.
pub fn in_parts(plan: Plan) -> Plan {
    let sealing = plan.sealing.map(|sealing| Sealing { most_rows: 2, ..sealing });
    Plan { sealing, ..plan }
}

/// The same by ciphertexts, with or without commitments.
pub fn lattice_plan(commitments: Option<CommitmentTerms>) -> Plan {
    let sealing = Sealing { scheme: Scheme::Lattice, most_rows: 100, commitments };
    Plan { sealing: Some(sealing), ..sealed_plan() }
}

/// What a guest announces: two speeds, and one number of what it holds out.
pub fn measures() -> MeasurementOffer {
    let entry = |link, quantity| MeasurementEntry { link: LinkId(link), quantity };
    let speeds = vec![entry(0, Quantity::Speed), entry(2, Quantity::Speed)];
    let held_out = vec![entry(1, Quantity::Flow)];
    let kinds =
        BTreeMap::from([(MeasurementKind::Speeds, speeds), (MeasurementKind::HeldOut, held_out)]);
    let layout = MeasurementLayout::new(kinds).expect("a layout");
    let movements = Movements {
        turned: vec![3, 1],
        left: vec![4],
        free_metres: vec![250],
        free_seconds: vec![20],
        queued_metres: vec![30],
        queued_steps: vec![9],
    };
    MeasurementOffer { layout, folds: 2, passages: Some(2.0), stated: None, movements }
}

/// As many samples as [`samples`], in two views of the fleets.
pub fn viewed_samples() -> Samples {
    let at = |step: i64| {
        let view = FleetView(1 + (step / 2 % 2) as u16);
        Window { last: Step(step), view }
    };
    let all = |range: std::ops::Range<i64>| range.map(at).collect();
    Samples { train: all(0..6), validation: all(6..8), estimate: samples().estimate }
}

pub fn samples() -> Samples {
    let steps = |range: std::ops::Range<i64>| range.map(Step).collect::<Vec<_>>();
    Samples::whole(&steps(0..6), &steps(6..8), &steps(8..10))
}

/// A party's number for a sample.
fn number(party: &str, step: Step, place: usize) -> f32 {
    let key = party.bytes().fold(7, |key, byte| hash([key, byte.into()]));
    2.0 * unit(hash([key, step.0 as u64, place as u64])) - 1.0
}

/// Weights with momentum, and the best so far.
#[derive(Clone)]
struct Line {
    weights: Vec<f32>,
    momentum: Vec<f32>,
    best: Vec<f32>,
}

impl Line {
    fn new(party: &str, len: usize) -> Self {
        let weights: Vec<f32> = (0..len).map(|i| number(party, Step(1000), i)).collect();
        Self { momentum: vec![0.0; len], best: weights.clone(), weights }
    }

    fn descend(&mut self, gradient: &[f32]) {
        for ((w, m), g) in self.weights.iter_mut().zip(&mut self.momentum).zip(gradient) {
            *m = 0.9 * *m + g;
            *w -= 0.05 * *m;
        }
    }

    fn save(&self) -> Vec<u8> {
        let all = self.weights.iter().chain(&self.momentum).chain(&self.best);
        all.flat_map(|value| value.to_le_bytes()).collect()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let (words, _) = saved.as_chunks::<4>();
        let numbers: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        let len = self.weights.len();
        if numbers.len() != 3 * len {
            return Err(ModelFailure(format!("found {} numbers", numbers.len())));
        }
        self.weights.copy_from_slice(&numbers[..len]);
        self.momentum.copy_from_slice(&numbers[len..2 * len]);
        self.best.copy_from_slice(&numbers[2 * len..]);
        Ok(())
    }

    fn bits(&self) -> Vec<u32> {
        let all = self.weights.iter().chain(&self.momentum).chain(&self.best);
        all.map(|value| value.to_bits()).collect()
    }
}

pub struct ToyGuest {
    name: String,
    line: Line,
    embedded: Vec<Window>,
    /// Training exchanges, with or without it.
    exchanges: u64,
    /// Numbers that it measures of a sample.
    entries: usize,
}

impl ToyGuest {
    pub fn new(party: &PartyId, plan: &Plan) -> Self {
        let name = party.to_string();
        let entries = measures().layout.of(&plan.measured).len();
        Self { line: Line::new(&name, WIDTH), name, embedded: Vec::new(), exchanges: 0, entries }
    }

    /// Everything that training has changed.
    pub fn bits(&self) -> Vec<u32> {
        let mut bits = self.line.bits();
        bits.push(self.exchanges as u32);
        bits
    }

    /// Training exchanges, with or without it.
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    fn values(&self, samples: &[Window], weights: &[f32]) -> Vec<f32> {
        let each = |sample: &Window| {
            let step = seen(*sample);
            weights.iter().enumerate().map(move |(i, w)| w * number(&self.name, step, i))
        };
        samples.iter().flat_map(each).collect()
    }
}

/// Each view of a step has numbers of its own.
fn seen(sample: Window) -> Step {
    Step(sample.last.0 + 100 * i64::from(sample.view.0))
}

impl GuestModel for ToyGuest {
    fn width(&self) -> usize {
        WIDTH
    }
    fn embed(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.embedded = samples.to_vec();
        Ok(self.values(samples, &self.line.weights))
    }
    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        let mut own = vec![0.0; WIDTH];
        for (sample, dz) in self.embedded.iter().zip(gradient.0.as_slice().chunks(WIDTH)) {
            for (i, (own, dz)) in own.iter_mut().zip(dz).enumerate() {
                *own += dz * number(&self.name, seen(*sample), i);
            }
        }
        self.line.descend(&own);
        self.exchanges += 1;
        Ok(())
    }
    fn skip_update(&mut self) {
        self.exchanges += 1;
    }
    fn skip_to(&mut self, exchanges: u64) {
        self.exchanges = exchanges;
    }
    fn validate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.values(samples, &self.line.weights))
    }
    fn keep_best(&mut self) {
        self.line.best = self.line.weights.clone();
    }
    fn estimate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.values(samples, &self.line.best))
    }
    fn measure(&self, samples: &[Window]) -> Result<Measurements, ModelFailure> {
        let entries = self.entries;
        let value = |sample: &Window, i| number(&self.name, seen(*sample), 10 + i);
        let values = samples.iter().flat_map(|sample| (0..entries).map(move |i| value(sample, i)));
        let values: Vec<f32> = values.collect();
        let weights = values.iter().map(|value| 1.0 + value.abs()).collect();
        Measurements::new(entries, values, weights).map_err(|error| ModelFailure(error.to_string()))
    }
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut bytes = self.exchanges.to_le_bytes().to_vec();
        bytes.extend(self.line.save());
        Ok(bytes)
    }
    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let cut = || ModelFailure("found too few bytes".to_owned());
        let (exchanges, line) = saved.split_first_chunk().ok_or_else(cut)?;
        self.embedded.clear();
        self.exchanges = u64::from_le_bytes(*exchanges);
        self.line.restore(line)
    }
}

pub struct ToyHost {
    line: Line,
    guests: Vec<PartyId>,
    /// Estimates by step, as bits, in the order of the steps.
    estimates: BTreeMap<i64, u32>,
    /// Loss and gradient without what guests measured, while products are on their way.
    waiting: Option<(f64, Vec<f32>)>,
    /// Rows that can be asked for, with their number of columns.
    rows: BTreeMap<PartyId, (Vec<f64>, usize)>,
}

impl ToyHost {
    pub fn new(guests: Vec<PartyId>) -> Self {
        // Its own number, and one in the place of each absent guest.
        let line = Line::new("host", 1 + guests.len());
        Self { line, guests, estimates: BTreeMap::new(), waiting: None, rows: BTreeMap::new() }
    }

    /// Everything that training has changed, and what was estimated.
    pub fn bits(&self) -> Vec<u32> {
        let mut bits = self.line.bits();
        bits.extend(self.estimates.iter().flat_map(|(&step, &bits)| [step as u32, bits]));
        bits
    }

    /// Whether the estimates are those of the best weights of some of the guests, the others absent.
    pub fn estimated_with_some(&self, guests: &BTreeMap<PartyId, &ToyGuest>) -> bool {
        let steps = self.estimates.keys().map(|step| Window::whole(Step(*step)));
        let steps: Vec<Window> = steps.collect();
        (0..1usize << guests.len()).any(|some| {
            let embeddings = guests.iter().enumerate().map(|(place, (party, guest))| {
                let values = guest.values(&steps, &guest.line.best);
                let there = (some >> place) & 1 == 1;
                let embedding = Values::new(WIDTH, values).ok().filter(|_| there);
                (party.clone(), embedding.map(Embedding))
            });
            let y = self.output(&steps, &embeddings.collect(), &self.line.best);
            y.iter().zip(self.estimates.values()).all(|(y, bits)| y.to_bits() == *bits)
        })
    }

    fn output(&self, samples: &[Window], embeddings: &Embeddings, weights: &[f32]) -> Vec<f32> {
        let each = |(row, sample): (usize, &Window)| {
            let own = weights[0] * number("host", sample.last, 0);
            let guests = self.guests.iter().zip(&weights[1..]).map(|(guest, absent)| {
                match embeddings.get(guest).and_then(Option::as_ref) {
                    Some(z) => z.0.as_slice()[row * WIDTH..][..WIDTH].iter().sum::<f32>(),
                    None => *absent,
                }
            });
            own + guests.sum::<f32>()
        };
        samples.iter().enumerate().map(each).collect()
    }

    /// Against the truth, and where guests measure against the weighted mean of that and of all that they
    /// have measured: one measurement less is another error.
    fn errors(&self, samples: &[Window], answers: &Answers, weights: &[f32]) -> Vec<f32> {
        let y = self.output(samples, &answers.embeddings, weights);
        let target = |(row, sample): (usize, &Window)| {
            let (mut sum, mut total) = (3.0 * number("truth", sample.last, 0), 1.0);
            for measured in answers.measured.values() {
                let each = row * measured.entries()..(row + 1) * measured.entries();
                let pairs = measured.values()[each.clone()].iter().zip(&measured.weights()[each]);
                pairs.for_each(|(value, weight)| {
                    (sum, total) = (sum + weight * value, total + weight)
                });
            }
            sum / total
        };
        let targets = samples.iter().enumerate().map(target);
        y.iter().zip(targets).map(|(y, target)| y - target).collect()
    }
}

impl HostModel for ToyHost {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.guests.iter().map(|guest| (guest.clone(), WIDTH)).collect()
    }

    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure> {
        let errors = self.errors(samples, answers, &self.line.weights);
        let loss = errors.iter().map(|error| f64::from(error * error)).sum();
        let mut own = vec![0.0; self.line.weights.len()];
        let mut gradients = BTreeMap::new();
        for (error, sample) in errors.iter().zip(samples) {
            own[0] += 2.0 * error * number("host", sample.last, 0);
        }
        for (place, guest) in self.guests.iter().enumerate() {
            if answers.embeddings.get(guest).is_some_and(Option::is_some) {
                let numbers = errors.iter().flat_map(|error| [2.0 * error; WIDTH]).collect();
                let values =
                    Values::new(WIDTH, numbers).map_err(|error| ModelFailure(error.to_string()))?;
                gradients.insert(guest.clone(), EmbeddingGradient(values));
            } else {
                own[1 + place] += errors.iter().map(|error| 2.0 * error).sum::<f32>();
            }
        }
        self.line.descend(&own);
        Ok(Learned { loss: Some(loss), gradients })
    }

    /// Any rows will do that depend on everything that was said.
    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        let y = self.output(samples, &answers.embeddings, &self.line.weights);
        let parameters = self.line.weights.len();
        let known = (0..parameters).map(|p| y.iter().sum::<f32>() * (1.0 + p as f32)).collect();
        self.waiting = Some((y.iter().map(|y| f64::from(y * y)).sum(), known));
        let mut rows = ProductRows::new();
        self.rows.clear();
        for (party, weights) in &answers.weights {
            let entries = weights.len() / samples.len();
            let column = |at: usize| f64::from(weights[at] * (1.0 + y[at / entries]));
            let row = |p: usize| (0..weights.len()).map(move |at| 0.1 * p as f64 * column(at));
            let number = |(sample, z): (usize, usize)| {
                let own = sample * entries..(sample + 1) * entries;
                own.map(move |at| 0.1 * (1.0 + z as f64) * column(at))
            };
            let share = |coefficients| EmbeddingCoefficients {
                terms: entries,
                entries: (0..WIDTH).flat_map(|_| 0..entries as u32).collect(),
                coefficients,
            };
            let numbers = || (0..samples.len()).flat_map(|s| (0..WIDTH).map(move |z| (s, z)));
            // Measurements of others count twice: without one of them the gradient is another.
            let lent = |(party, weights): (&PartyId, &Vec<f32>)| {
                let column = |at: usize| f64::from(weights[at] * (2.0 + y[at / entries]));
                let lent = |(sample, z): (usize, usize)| {
                    let own = sample * entries..(sample + 1) * entries;
                    own.map(move |at| 0.2 * (1.0 + z as f64) * column(at)).collect::<Vec<f64>>()
                };
                (party.clone(), share(numbers().flat_map(lent).collect()))
            };
            let others = answers.weights.iter().filter(|(other, _)| *other != party);
            let all = (0..=parameters).flat_map(row).collect();
            self.rows.insert(party.clone(), (all, weights.len()));
            let own = GuestRows {
                rows: parameters + 1,
                embedding: share(numbers().flat_map(number).collect()),
                others: others.map(lent).collect(),
                known: numbers().map(|(sample, z)| f64::from(y[sample]) - z as f64).collect(),
            };
            rows.insert(party.clone(), own);
        }
        Ok(Some(rows))
    }

    fn write_rows(
        &mut self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure> {
        let (all, columns) =
            self.rows.get(party).ok_or_else(|| ModelFailure("nothing was asked".into()))?;
        to.copy_from_slice(&all[rows.start * columns..rows.end * columns]);
        Ok(())
    }

    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        let waiting = self.waiting.take();
        let (loss, mut own) = waiting.ok_or_else(|| ModelFailure("nothing was asked".into()))?;
        for products in products.values() {
            for (own, product) in own.iter_mut().zip(&products[1..]) {
                *own += *product as f32;
            }
        }
        own.iter_mut().for_each(|own| *own *= 0.05);
        self.line.descend(&own);
        let loss = products.values().fold(loss, |loss, products| loss + products[0]);
        Ok(Updated { loss, more: false })
    }

    fn validate_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        let y = self.output(samples, &answers.embeddings, &self.line.weights);
        let row = |weights: &Vec<f32>| -> Vec<f64> {
            let entries = weights.len() / samples.len();
            let row = weights.iter().enumerate().map(|(at, w)| f64::from(w * y[at / entries]));
            row.collect()
        };
        let rows = answers.weights.iter();
        self.rows = rows.map(|(party, w)| (party.clone(), (row(w), w.len()))).collect();
        let rows = answers.weights.keys();
        let rows = rows.map(|party| (party.clone(), GuestRows { rows: 1, ..GuestRows::default() }));
        Ok((y.iter().fold(total, |total, y| total + f64::from(y * y)), rows.collect()))
    }

    fn validate(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let errors = self.errors(samples, answers, &self.line.weights);
        Ok(errors.iter().fold(total, |total, error| total + f64::from(error * error)))
    }

    fn keep_best(&mut self) {
        self.line.best = self.line.weights.clone();
    }

    fn estimate(
        &mut self,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<(), ModelFailure> {
        let y = self.output(samples, embeddings, &self.line.best);
        let bits = samples.iter().zip(y).map(|(sample, y)| (sample.last.0, y.to_bits()));
        self.estimates.extend(bits);
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let estimates =
            self.estimates.iter().flat_map(|(step, bits)| [*step as u64, u64::from(*bits)]);
        let mut bytes = (self.estimates.len() as u64).to_le_bytes().to_vec();
        bytes.extend(estimates.flat_map(u64::to_le_bytes));
        bytes.extend(self.line.save());
        Ok(bytes)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let (words, _) = saved.as_chunks::<8>();
        let count = words.first().map_or(0, |word| u64::from_le_bytes(*word)) as usize;
        let pairs = words[1..=2 * count].iter().map(|word| u64::from_le_bytes(*word));
        let pairs: Vec<u64> = pairs.collect();
        self.estimates = pairs.chunks(2).map(|pair| (pair[0] as i64, pair[1] as u32)).collect();
        self.line.restore(&saved[8 + 16 * count..])
    }
}
