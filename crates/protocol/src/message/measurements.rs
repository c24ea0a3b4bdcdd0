//! What guests measure of the traffic, besides what they embed: what a loss without ground truth
//! works with.
//!
//! Which numbers there are is agreed upon when a guest joins ([`MeasurementLayout`]); each exchange then brings
//! their values and weights ([`Measurements`]). Here they cross in the clear.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use traffic::{LinkId, MeasurementEntry, Quantity};

use super::parts::{MAX_VALUES, PartError};

/// Most numbers that a guest measures of one sample.
pub(crate) const MAX_ENTRIES: usize = 1 << 14;
/// Most turns and links whose vehicles a guest counts.
pub(crate) const MAX_MOVEMENTS: usize = 1 << 14;
/// The largest weight of a measurement: nothing on a road is known to a thousandth of its unit.
pub(crate) const MAX_WEIGHT: f32 = 1e6;
/// Most folds that a guest deals its fleet into.
pub(crate) const MAX_FOLDS: u16 = 64;

/// Kinds of measurements. A host asks for some of them, and a guest gives what it is asked for or
/// takes no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasurementKind {
    /// Densities of the queues that the fleet's trajectories tell.
    Queues,
    /// Mean speeds of the fleet.
    Speeds,
    /// What a held-out part of the fleet tells of all traffic; those of all guests add up.
    HeldOut,
}

impl MeasurementKind {
    /// The name, as configurations and errors say it.
    pub fn name(self) -> &'static str {
        match self {
            MeasurementKind::Speeds => "speeds",
            MeasurementKind::Queues => "queues",
            MeasurementKind::HeldOut => "held-out",
        }
    }
}

/// The names of some kinds, for people.
pub fn names(kinds: impl IntoIterator<Item = MeasurementKind>) -> String {
    let names: Vec<&str> = kinds.into_iter().map(MeasurementKind::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What a guest measures of each sample: for each kind the entries, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<MeasurementKind, Vec<MeasurementEntry>>",
    into = "BTreeMap<MeasurementKind, Vec<MeasurementEntry>>"
)]
pub struct MeasurementLayout(BTreeMap<MeasurementKind, Vec<MeasurementEntry>>);

impl MeasurementLayout {
    /// Checks their number; of each kind there is something, and nothing twice.
    pub fn new(kinds: BTreeMap<MeasurementKind, Vec<MeasurementEntry>>) -> Result<Self, PartError> {
        let wrong = |found: String, expected: String| {
            Err(PartError::new("entries of measurements", found, expected))
        };
        let count: usize = kinds.values().map(Vec::len).sum();
        if count > MAX_ENTRIES {
            return wrong(count.to_string(), format!("at most {MAX_ENTRIES}"));
        }
        for (kind, entries) in &kinds {
            let distinct: BTreeSet<MeasurementEntry> = entries.iter().copied().collect();
            if entries.is_empty() || distinct.len() < entries.len() {
                let found = format!("{} of them for {}", entries.len(), kind.name());
                return wrong(found, "at least one, and none twice".to_owned());
            }
        }
        Ok(Self(kinds))
    }

    /// The kinds.
    pub fn kinds(&self) -> impl Iterator<Item = MeasurementKind> + '_ {
        self.0.keys().copied()
    }

    /// Each kind with its entries.
    pub fn groups(&self) -> impl Iterator<Item = (MeasurementKind, &[MeasurementEntry])> {
        self.0.iter().map(|(kind, entries)| (*kind, entries.as_slice()))
    }

    /// The part of it that is asked for.
    pub fn of(&self, kinds: &BTreeSet<MeasurementKind>) -> MeasurementLayout {
        let asked = self.0.iter().filter(|(kind, _)| kinds.contains(kind));
        MeasurementLayout(asked.map(|(kind, entries)| (*kind, entries.clone())).collect())
    }

    /// The most entries that any link has.
    pub fn most_of_a_link(&self) -> usize {
        let mut counts: BTreeMap<&LinkId, usize> = BTreeMap::new();
        for entry in self.0.values().flatten() {
            *counts.entry(&entry.link).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Entries of all kinds together.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether nothing is measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<MeasurementKind, Vec<MeasurementEntry>>> for MeasurementLayout {
    type Error = PartError;
    fn try_from(
        kinds: BTreeMap<MeasurementKind, Vec<MeasurementEntry>>,
    ) -> Result<Self, PartError> {
        Self::new(kinds)
    }
}

impl From<MeasurementLayout> for BTreeMap<MeasurementKind, Vec<MeasurementEntry>> {
    fn from(layout: MeasurementLayout) -> Self {
        layout.0
    }
}

/// All that a guest can say of the traffic besides its embeddings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementOffer {
    /// What it measures.
    pub layout: MeasurementLayout,
    /// Folds that its fleet is dealt into, each of which can be left out; 0 if it is not dealt.
    pub folds: u16,
    /// How many of its vehicles pass the loops in a step of the training part, in the mean: the one
    /// number that tells its share of the traffic. Not of guests that hold nothing out.
    pub passages: Option<f64>,
    /// Its share of all vehicles, where it knows that: what counts where loops count nothing.
    pub stated: Option<f64>,
    /// Where its vehicles went in the training part, for the turning ratios of a traffic model.
    pub movements: Movements,
}

/// What a fleet did on the links, in the training part; lists are empty where nobody counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Movements {
    /// Vehicles by turn.
    pub turned: Vec<u64>,
    /// Vehicles whose trips ended, by link.
    pub left: Vec<u64>,
    /// The faster half of what was driven, by link: metres.
    #[serde(default)]
    pub free_metres: Vec<u64>,
    /// And seconds that it took.
    #[serde(default)]
    pub free_seconds: Vec<u64>,
    /// What was driven while a link stood in a queue that did not clear, by link: metres.
    #[serde(default)]
    pub queued_metres: Vec<u64>,
    /// And in how many steps that was.
    #[serde(default)]
    pub queued_steps: Vec<u64>,
}

impl Movements {
    /// Those of two fleets together.
    pub fn add(&mut self, other: &Movements) {
        for (sums, counts) in self.lists_mut().into_iter().zip(other.lists()) {
            sums.resize(sums.len().max(counts.len()), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
    }

    /// How many numbers these are.
    pub fn count(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// Refuses more than any network has.
    pub fn check(&self) -> Result<(), PartError> {
        let most = self.lists().iter().map(|list| list.len()).max().unwrap_or(0);
        if most > MAX_MOVEMENTS {
            return Err(PartError::new("movements", most, format!("at most {MAX_MOVEMENTS}")));
        }
        Ok(())
    }

    fn lists(&self) -> [&Vec<u64>; 6] {
        let Self { turned, left, free_metres, free_seconds, queued_metres, queued_steps } = self;
        [turned, left, free_metres, free_seconds, queued_metres, queued_steps]
    }

    fn lists_mut(&mut self) -> [&mut Vec<u64>; 6] {
        let Self { turned, left, free_metres, free_seconds, queued_metres, queued_steps } = self;
        [turned, left, free_metres, free_seconds, queued_metres, queued_steps]
    }
}

impl MeasurementOffer {
    /// Refuses numbers that cannot be.
    pub fn check(&self) -> Result<(), PartError> {
        if self.folds > MAX_FOLDS {
            return Err(PartError::new("folds", self.folds, format!("at most {MAX_FOLDS}")));
        }
        self.movements.check()?;
        if let Some(found) = self.stated.filter(|stated| !(*stated > 0.0 && *stated <= 1.0)) {
            return Err(PartError::new("stated share", found, "more than 0 and at most 1"));
        }
        match self.passages {
            Some(found) if !(found.is_finite() && found >= 0.0) => {
                Err(PartError::new("passages", found, "a number of 0 or more"))
            }
            _ => Ok(()),
        }
    }
}

/// A guest's shares of the traffic, measured at the loops: more than 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficShares {
    /// Of the guest that is told.
    pub own: f64,
    /// Of all guests together.
    pub all: f64,
}

impl TrafficShares {
    /// Refuses shares that are none.
    pub fn check(&self) -> Result<(), PartError> {
        if self.own > 0.0 && self.own <= self.all && self.all <= 1.0 {
            return Ok(());
        }
        let found = format!("{} of {}", self.own, self.all);
        Err(PartError::new("share of the traffic", found, "more than 0, and at most 1 in all"))
    }
}

/// A guest's measurements of some samples, `[sample, entry]`: values, and as weights one over their
/// variances. Where nothing was measured both are 0. What they are is never shown.
#[derive(Clone, PartialEq)]
pub struct Measurements {
    entries: usize,
    values: Vec<f32>,
    weights: Vec<f32>,
}

impl Measurements {
    /// Checks their number, and that every weight is one over a variance.
    pub fn new(entries: usize, values: Vec<f32>, weights: Vec<f32>) -> Result<Self, PartError> {
        let most = MAX_VALUES / 2;
        let count = values.len();
        let wrong =
            |found: String, expected: String| Err(PartError::new("measurements", found, expected));
        if count == 0 || count > most {
            return wrong(count.to_string(), format!("1 to {most}"));
        }
        if entries == 0 || !count.is_multiple_of(entries) {
            return wrong(count.to_string(), format!("a whole number of samples of {entries}"));
        }
        if weights.len() != count {
            return wrong(format!("{} weights", weights.len()), count.to_string());
        }
        for (place, (value, weight)) in values.iter().zip(&weights).enumerate() {
            let sound = value.is_finite() && weight.is_finite() && *weight >= 0.0;
            if !sound || *weight == 0.0 && *value != 0.0 {
                let found = format!("{value} with weight {weight} at place {place}");
                return wrong(found, "finite numbers, weights of 0 or more, 0 for nothing".into());
            }
        }
        Ok(Self { entries, values, weights })
    }

    /// Refuses numbers that no traffic has, of which one could drown all else or end a run.
    pub fn check(&self, layout: &MeasurementLayout) -> Result<(), PartError> {
        let entries: Vec<MeasurementEntry> =
            layout.groups().flat_map(|(_, all)| all).copied().collect();
        let pairs = self.values.iter().zip(&self.weights);
        for ((value, weight), entry) in pairs.zip(entries.iter().cycle()) {
            let most = largest(entry.quantity);
            if value.abs() > most || *weight > MAX_WEIGHT {
                let found = format!(
                    "{value} with weight {weight} for {:?} of link {}",
                    entry.quantity, entry.link.0
                );
                let expected = format!("at most {most} with weight {MAX_WEIGHT}");
                return Err(PartError::new("measurements", found, expected));
            }
        }
        Ok(())
    }

    /// How many numbers a sample has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Samples.
    pub fn samples(&self) -> usize {
        self.values.len() / self.entries
    }

    /// The values, sample by sample.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Their weights.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }
}

/// The largest value, on either side of 0. Jams have some 200 veh/km/lane, but one vehicle alone on a lane of
/// 10 m, scaled up from a fold of one vehicle in ten thousand, tells of a million.
fn largest(quantity: Quantity) -> f32 {
    match quantity {
        Quantity::Density | Quantity::Flow => 1e6,
        Quantity::Speed => 1e3,
    }
}

crate::debug_sizes!(Measurements, |it| "[{} × {} measurements]", it.samples(), it.entries);
