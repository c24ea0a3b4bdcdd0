//! A linear read-out of each link beside the network, so that the model is not worse than a regression.
//!
//! One network for all links is poor where a link has a level of its own: where a queue stands for an hour, the truth
//! hardly changes while the fleet's share of the queue is what it happens to be. A regression of the link alone sees
//! that. So when training has ended, the host fits one for each link and quantity, on what it holds itself of the
//! current window (the guests' embeddings of the link and of those next to it, the nearest loops), and moves the
//! network's estimate `a` towards the regression's `b`:
//!
//! ```text
//! y = a + s·(b − a)      b = m + Σ w·x      0 ≤ s ≤ 1
//! ```
//!
//! The weights come from the training part in closed form, shrunk to the link's mean `m`; the validation part chooses how
//! far. It also says how far to go, `s`, for each link: with `d = b − a` and `e = y − a` over its windows, Σed / Σd²
//! would be best there. Windows that follow each other err alike, and a part of the time may flatter the regression by
//! chance. So one standard error of Σed, from consecutive blocks, is taken off, and links of which the validation part
//! says little lean on all others:
//!
//! ```text
//! s = (Σed − se + κ·s̄) / (Σd² + κ)      κ, s̄: mean of Σd² and best share, over all links
//! ```
//!
//! Where the network is better, s is 0 and nothing changes. A window in which a guest is absent is left to the network.

use neural::{Checkpoint, CheckpointError};
use rayon::prelude::*;

use crate::least_squares::{FURTHEST, STRENGTHS, Scaler, factorise, products, substitute};

/// Density and flow.
const QUANTITIES: usize = 2;
/// Blocks of the validation part, from whose differences standard errors come.
const BLOCKS: usize = 5;
/// The entry and the tensors of a checkpoint.
const ENTRY: &str = "read-out";
const TENSORS: [&str; 7] = [
    "read-out.lengths",
    "read-out.columns",
    "read-out.mean",
    "read-out.scale",
    "read-out.weights",
    "read-out.offsets",
    "read-out.shares",
];

/// The read-out of all links.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOut {
    links: Vec<LinkReadOut>,
}

/// That of one link, in the model's own scale.
#[derive(Clone, Debug, PartialEq)]
struct LinkReadOut {
    /// Which numbers of the host's input it looks at.
    columns: Vec<usize>,
    mean: Vec<f32>,
    /// One over the deviation; 0 where nothing changed in training.
    scale: Vec<f32>,
    weights: [Vec<f32>; QUANTITIES],
    offsets: [f32; QUANTITIES],
    /// How far the estimate is moved.
    shares: [f32; QUANTITIES],
}

/// Samples whose targets are known, in the order of time.
#[derive(Default)]
pub(crate) struct KnownSamples {
    /// The host's whole input, as far as any link looks at it: `[sample, number]`.
    pub rows: Vec<f32>,
    /// The network's estimates, `[sample, link, quantity]`.
    pub estimates: Vec<f32>,
    /// The targets, alike.
    pub targets: Vec<f32>,
}

/// A link's regression, and what the validation part says of it.
struct Fitted {
    link: LinkReadOut,
    /// Of each quantity.
    evidence: [Evidence; QUANTITIES],
}

/// Sums over the validation part.
#[derive(Clone, Copy, Default)]
struct Evidence {
    /// Σ e·d.
    gain: f64,
    /// Σ d².
    room: f64,
    /// Of the gain beside `share`·room.
    error: f64,
}

impl ReadOut {
    /// Fits. `places` says for each link which numbers of the host's input it looks at; rows hold those of `kept` alone,
    /// which is sorted.
    pub(crate) fn fit(
        places: Vec<Vec<usize>>,
        kept: &[usize],
        train: &KnownSamples,
        validation: &KnownSamples,
    ) -> Self {
        let links = places.len();
        let fit = |(link, columns): (usize, Vec<usize>)| {
            Fitted::of((link, links), columns, kept, train, validation)
        };
        let fitted: Vec<Fitted> = places.into_par_iter().enumerate().map(fit).collect();
        // What all links say together.
        let all: [(f64, f64); QUANTITIES] = std::array::from_fn(|quantity| {
            let sum = |value: fn(&Evidence) -> f64| -> f64 {
                fitted.iter().map(|one| value(&one.evidence[quantity])).sum()
            };
            let (gain, room) = (sum(|one| one.gain), sum(|one| one.room));
            let share = if room > 0.0 { (gain / room).clamp(0.0, 1.0) } else { 0.0 };
            (share, room / links.max(1) as f64)
        });
        let links = fitted.into_iter().map(|Fitted { mut link, evidence }| {
            for (quantity, (evidence, (share, weight))) in evidence.iter().zip(all).enumerate() {
                let room = evidence.room + weight;
                let gain = evidence.gain - evidence.error + weight * share;
                let share = if room > 0.0 { (gain / room).clamp(0.0, 1.0) } else { 0.0 };
                link.shares[quantity] = share as f32;
            }
            link
        });
        Self { links: links.collect() }
    }

    /// Moves the network's estimates of some samples; `rows` are the host's whole inputs, `width` numbers each.
    pub(crate) fn apply(&self, rows: &[f32], width: usize, y: &mut [f32]) {
        let outputs = QUANTITIES * self.links.len();
        let each = y.par_chunks_exact_mut(outputs.max(1)).zip(rows.par_chunks_exact(width.max(1)));
        each.for_each(|(y, row)| {
            for (link, y) in self.links.iter().zip(y.chunks_exact_mut(QUANTITIES)) {
                link.apply(|place| row[link.columns[place]], y);
            }
        });
    }

    /// Adds it to a checkpoint.
    pub(crate) fn save(&self, to: &mut Checkpoint) {
        to.set(ENTRY, true);
        let flat = |of: fn(&LinkReadOut) -> Vec<f32>| -> Vec<f32> {
            self.links.iter().flat_map(of).collect()
        };
        let values: [Vec<f32>; TENSORS.len()] = [
            flat(|link| vec![link.columns.len() as f32]),
            // Exact: f32 holds whole numbers up to 16 million.
            flat(|link| link.columns.iter().map(|&column| column as f32).collect()),
            flat(|link| link.mean.clone()),
            flat(|link| link.scale.clone()),
            flat(|link| link.weights.concat()),
            flat(|link| link.offsets.to_vec()),
            flat(|link| link.shares.to_vec()),
        ];
        for (name, values) in TENSORS.iter().zip(&values) {
            to.put(name, &[values.len()], values);
        }
    }

    /// Reads it from a checkpoint of a model of so many links, whose input has so many numbers; none if there is none.
    pub(crate) fn load(
        from: &Checkpoint,
        links: usize,
        width: usize,
    ) -> Result<Option<Self>, CheckpointError> {
        if from.get(ENTRY).is_none() {
            return Ok(None);
        }
        let [lengths, columns, mean, scale, weights, offsets, shares] = TENSORS;
        let lengths = from.tensor(lengths, &[links])?;
        let lengths: Vec<usize> = lengths.iter().map(|&length| length as usize).collect();
        let all: usize = lengths.iter().fold(0, |sum, length| sum.saturating_add(*length));
        let columns = from.tensor(columns, &[all])?;
        if let Some(found) = columns.iter().find(|&&column| !(0.0..width as f32).contains(&column))
        {
            let problem = format!("read-out: found column {found}, expected less than {width}");
            return Err(from.broken(&problem));
        }
        let (mean, scale) = (from.tensor(mean, &[all])?, from.tensor(scale, &[all])?);
        let weights = from.tensor(weights, &[all.saturating_mul(QUANTITIES)])?;
        let pairs = [links * QUANTITIES];
        let (offsets, shares) = (from.tensor(offsets, &pairs)?, from.tensor(shares, &pairs)?);
        let mut begin = 0;
        let read = lengths.iter().enumerate().map(|(link, &length)| {
            let own = begin..begin + length;
            begin = own.end;
            let both = &weights[QUANTITIES * own.start..QUANTITIES * own.end];
            let (density, flow) = both.split_at(length);
            let pair = |of: &[f32]| [of[QUANTITIES * link], of[QUANTITIES * link + 1]];
            LinkReadOut {
                columns: columns[own.clone()].iter().map(|&column| column as usize).collect(),
                mean: mean[own.clone()].to_vec(),
                scale: scale[own].to_vec(),
                weights: [density.to_vec(), flow.to_vec()],
                offsets: pair(offsets),
                shares: pair(shares),
            }
        });
        Ok(Some(Self { links: read.collect() }))
    }
}

impl LinkReadOut {
    /// A number of its input, standardised.
    fn standard(&self, place: usize, value: f32) -> f64 {
        let far = (f64::from(value) - f64::from(self.mean[place])) * f64::from(self.scale[place]);
        far.clamp(-FURTHEST, FURTHEST)
    }

    /// The regression alone.
    fn value(&self, quantity: usize, number: impl Fn(usize) -> f32) -> f64 {
        let weights = self.weights[quantity].iter().enumerate();
        let sum: f64 = weights
            .map(|(place, weight)| f64::from(*weight) * self.standard(place, number(place)))
            .sum();
        f64::from(self.offsets[quantity]) + sum
    }

    fn apply(&self, number: impl Fn(usize) -> f32, y: &mut [f32]) {
        for (quantity, y) in y.iter_mut().enumerate() {
            let share = f64::from(self.shares[quantity]);
            if share > 0.0 {
                let network = f64::from(*y);
                *y = (network + share * (self.value(quantity, &number) - network)) as f32;
            }
        }
    }
}

impl KnownSamples {
    fn len(&self, links: usize) -> usize {
        self.targets.len() / (QUANTITIES * links).max(1)
    }

    /// The numbers of a link's columns, sample by sample.
    fn of_columns(&self, places: &[usize], kept: usize, samples: usize) -> Vec<f32> {
        let row = |sample: usize| &self.rows[sample * kept..][..kept];
        (0..samples).flat_map(|sample| places.iter().map(move |&at| row(sample)[at])).collect()
    }
}

impl Fitted {
    fn of(
        (link, links): (usize, usize),
        columns: Vec<usize>,
        kept: &[usize],
        train: &KnownSamples,
        validation: &KnownSamples,
    ) -> Self {
        let count = columns.len();
        let places: Vec<usize> =
            columns.iter().map(|column| kept.partition_point(|place| place < column)).collect();
        let (samples, known) = (train.len(links), validation.len(links));
        let at = |sample: usize, quantity: usize| (sample * links + link) * QUANTITIES + quantity;
        let mut x: Vec<f64> =
            train.of_columns(&places, kept.len(), samples).into_iter().map(f64::from).collect();
        let scaler = Scaler::fit(&x, count);
        let mut fitted = LinkReadOut {
            columns,
            mean: scaler.mean.iter().map(|&mean| mean as f32).collect(),
            scale: scaler.deviation.iter().map(|deviation| (1.0 / deviation) as f32).collect(),
            weights: std::array::from_fn(|_| vec![0.0; count]),
            offsets: [0.0; QUANTITIES],
            shares: [0.0; QUANTITIES],
        };
        for row in x.chunks_exact_mut(count.max(1)) {
            for (place, x) in row.iter_mut().enumerate() {
                *x = fitted.standard(place, *x as f32);
            }
        }
        let mut rest: Vec<f64> = (0..samples * QUANTITIES)
            .map(|i| f64::from(train.targets[at(i / QUANTITIES, i % QUANTITIES)]))
            .collect();
        for (quantity, offset) in fitted.offsets.iter_mut().enumerate() {
            let own = rest.iter().skip(quantity).step_by(QUANTITIES);
            *offset = (own.sum::<f64>() / samples.max(1) as f64) as f32;
        }
        for (i, target) in rest.iter_mut().enumerate() {
            *target -= f64::from(fitted.offsets[i % QUANTITIES]);
        }
        let (gram, moments) =
            (products(&x, count, &x, count), products(&x, count, &rest, QUANTITIES));
        let seen = validation.of_columns(&places, kept.len(), known);
        let number = |sample: usize| {
            let row = &seen[sample * count..][..count];
            move |place: usize| row[place]
        };
        // The regression's errors on the validation part, by quantity; the link's mean to begin with.
        let misses = |fitted: &LinkReadOut, quantity: usize| -> f64 {
            let miss = |sample: usize| {
                let target = f64::from(validation.targets[at(sample, quantity)]);
                (fitted.value(quantity, number(sample)) - target).powi(2)
            };
            (0..known).map(miss).sum()
        };
        let mut least: [f64; QUANTITIES] =
            std::array::from_fn(|quantity| misses(&fitted, quantity));
        for strength in STRENGTHS {
            let mut factor = gram.clone();
            (0..count).for_each(|i| factor[i * count + i] += strength * samples.max(1) as f64);
            if !factorise(&mut factor, count) {
                continue;
            }
            let mut weights = moments.clone();
            substitute(&factor, count, &mut weights, QUANTITIES);
            for (quantity, least) in least.iter_mut().enumerate() {
                let own = weights.iter().skip(quantity).step_by(QUANTITIES);
                let own: Vec<f32> = own.map(|&weight| weight as f32).collect();
                let before = std::mem::replace(&mut fitted.weights[quantity], own);
                let loss = misses(&fitted, quantity);
                if loss < *least {
                    *least = loss;
                } else {
                    fitted.weights[quantity] = before;
                }
            }
        }
        let evidence = std::array::from_fn(|quantity| {
            let pair = |sample: usize| {
                let network = f64::from(validation.estimates[at(sample, quantity)]);
                let target = f64::from(validation.targets[at(sample, quantity)]);
                [target - network, fitted.value(quantity, number(sample)) - network]
            };
            Evidence::of(&(0..known).map(pair).collect::<Vec<_>>())
        });
        Self { link: fitted, evidence }
    }
}

impl Evidence {
    /// From pairs (e, d) in the order of time.
    fn of(pairs: &[[f64; 2]]) -> Self {
        let sums = |pairs: &[[f64; 2]]| {
            pairs.iter().fold([0.0, 0.0], |[gain, room], [e, d]| [gain + e * d, room + d * d])
        };
        let [gain, room] = sums(pairs);
        let blocks = BLOCKS.min(pairs.len());
        if blocks < 2 || room <= 0.0 {
            return Self::default();
        }
        let share = (gain / room).clamp(0.0, 1.0);
        let block = |number: usize| {
            let [from, to] = [number, number + 1].map(|number| number * pairs.len() / blocks);
            let [gain, room] = sums(&pairs[from..to]);
            (gain - share * room).powi(2)
        };
        let squares: f64 = (0..blocks).map(block).sum();
        let error = (squares * blocks as f64 / (blocks - 1) as f64).sqrt();
        Self { gain, room, error }
    }
}

#[cfg(test)]
mod tests;
