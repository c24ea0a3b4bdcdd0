//! Models small enough to be trained thousands of times: a line for each guest, their sum and a
//! line of its own at the host.
//!
//! ```text
//! z^k = w^k·x^k        y = Σ_k (z^k, or an absent number) + w·x        L = mean (y − t)²
//! ```
//!
//! Each party goes down its own gradient, with momentum, so that a lost or doubled update shows.

use std::collections::BTreeMap;

use federation::message::parts::{Embedding, EmbeddingGradient, Values};
use federation::model::{Embeddings, GuestModel, HostModel, Learned, ModelFailure};
use federation::{LocalUpdates, Numbers, PartyId, Plan, Samples};
use neural::{hash, unit};
use traffic::Step;

/// Numbers of an embedding.
pub const WIDTH: usize = 2;
pub const KEEP_EVERY: u32 = 3;
/// Two epochs of three batches and one validation block, and one block of estimates.
pub const ROUNDS: u64 = 2 * (3 + 1) + 1;

pub fn plan() -> Plan {
    Plan {
        seed: 5,
        batch: 2,
        epochs: 2,
        exchanges: 0,
        recipe: Numbers { rate: 0.1, one_cycle: false, decay: 0.0, clip: None, average: None },
        local: LocalUpdates::default(),
        keep_every: KEEP_EVERY,
    }
}

pub fn samples() -> Samples {
    let steps = |range: std::ops::Range<i64>| range.map(Step).collect();
    Samples { train: steps(0..6), validation: steps(6..8), estimate: steps(8..10) }
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
    embedded: Vec<Step>,
    /// Training exchanges, with or without it.
    exchanges: u64,
}

impl ToyGuest {
    pub fn new(party: &PartyId) -> Self {
        let name = party.to_string();
        Self { line: Line::new(&name, WIDTH), name, embedded: Vec::new(), exchanges: 0 }
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

    fn values(&self, steps: &[Step], weights: &[f32]) -> Vec<f32> {
        let each = |step: &Step| {
            let step = *step;
            weights.iter().enumerate().map(move |(i, w)| w * number(&self.name, step, i))
        };
        steps.iter().flat_map(each).collect()
    }
}

impl GuestModel for ToyGuest {
    fn width(&self) -> usize {
        WIDTH
    }
    fn embed(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        self.embedded = steps.to_vec();
        Ok(self.values(steps, &self.line.weights))
    }
    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        let mut own = vec![0.0; WIDTH];
        for (step, dz) in self.embedded.iter().zip(gradient.0.as_slice().chunks(WIDTH)) {
            for (i, (own, dz)) in own.iter_mut().zip(dz).enumerate() {
                *own += dz * number(&self.name, *step, i);
            }
        }
        self.line.descend(&own);
        self.exchanges += 1;
        Ok(())
    }
    fn skip_to(&mut self, exchanges: u64) {
        self.exchanges = exchanges;
    }
    fn judge(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.values(steps, &self.line.weights))
    }
    fn keep_best(&mut self) {
        self.line.best = self.line.weights.clone();
    }
    fn estimate(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.values(steps, &self.line.best))
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
}

impl ToyHost {
    pub fn new(guests: Vec<PartyId>) -> Self {
        // Its own number, and one in the place of each absent guest.
        let line = Line::new("host", 1 + guests.len());
        Self { line, guests, estimates: BTreeMap::new() }
    }

    /// Everything that training has changed, and what was estimated.
    pub fn bits(&self) -> Vec<u32> {
        let mut bits = self.line.bits();
        bits.extend(self.estimates.iter().flat_map(|(&step, &bits)| [step as u32, bits]));
        bits
    }

    /// Whether the estimates are those of the best weights of some of the guests, the others absent.
    pub fn estimated_with_some(&self, guests: &BTreeMap<PartyId, &ToyGuest>) -> bool {
        let steps: Vec<Step> = self.estimates.keys().map(|step| Step(*step)).collect();
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

    fn output(&self, steps: &[Step], embeddings: &Embeddings, weights: &[f32]) -> Vec<f32> {
        let each = |(row, step): (usize, &Step)| {
            let own = weights[0] * number("host", *step, 0);
            let guests = self.guests.iter().zip(&weights[1..]).map(|(guest, absent)| {
                match embeddings.get(guest).and_then(Option::as_ref) {
                    Some(z) => z.0.as_slice()[row * WIDTH..][..WIDTH].iter().sum::<f32>(),
                    None => *absent,
                }
            });
            own + guests.sum::<f32>()
        };
        steps.iter().enumerate().map(each).collect()
    }

    fn errors(&self, steps: &[Step], embeddings: &Embeddings, weights: &[f32]) -> Vec<f32> {
        let y = self.output(steps, embeddings, weights);
        y.iter().zip(steps).map(|(y, step)| y - 3.0 * number("truth", *step, 0)).collect()
    }
}

impl HostModel for ToyHost {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.guests.iter().map(|guest| (guest.clone(), WIDTH)).collect()
    }

    fn learn(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<Learned, ModelFailure> {
        let errors = self.errors(steps, embeddings, &self.line.weights);
        let loss = errors.iter().map(|error| f64::from(error * error)).sum();
        let mut own = vec![0.0; self.line.weights.len()];
        let mut gradients = BTreeMap::new();
        for (error, step) in errors.iter().zip(steps) {
            own[0] += 2.0 * error * number("host", *step, 0);
        }
        for (place, guest) in self.guests.iter().enumerate() {
            if embeddings.get(guest).is_some_and(Option::is_some) {
                let numbers = errors.iter().flat_map(|error| [2.0 * error; WIDTH]).collect();
                let values =
                    Values::new(WIDTH, numbers).map_err(|error| ModelFailure(error.to_string()))?;
                gradients.insert(guest.clone(), EmbeddingGradient(values));
            } else {
                own[1 + place] += errors.iter().map(|error| 2.0 * error).sum::<f32>();
            }
        }
        self.line.descend(&own);
        Ok(Learned { loss, gradients })
    }

    fn judge(
        &mut self,
        steps: &[Step],
        embeddings: &Embeddings,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let errors = self.errors(steps, embeddings, &self.line.weights);
        Ok(errors.iter().fold(total, |total, error| total + f64::from(error * error)))
    }

    fn keep_best(&mut self) {
        self.line.best = self.line.weights.clone();
    }

    fn estimate(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<(), ModelFailure> {
        let y = self.output(steps, embeddings, &self.line.best);
        self.estimates.extend(steps.iter().zip(y).map(|(step, y)| (step.0, y.to_bits())));
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
