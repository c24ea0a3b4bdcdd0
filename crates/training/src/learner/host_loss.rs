//! The host's loss, and the measurements that go into it.
//!
//! Guests' measurements come by guest and kind. What they hold out of their fleets adds up to one label of
//! all traffic, `u = Σ_k u^k` (docs/held-out-fleet.md): without any one of them there is none. All else
//! counts for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::data::{Gathered, MeasuredBatch};
use estimator::loss::{Labelled, LossWeights};
use estimator::{MeasurementSource, Objective, Readings, WindowSource};
use federation::{Layouts, ModelFailure};
use protocol::{MeasurementKind, MeasurementLayout, Measurements, PartyId};
use traffic::{MeasurementEntry, Window};

/// The name under which an objective finds what all guests hold out. No party has such a name.
pub const HELD_OUT: &str = "held-out fleets";

/// A loss, and what goes into it besides estimates.
pub struct HostLoss {
    /// The loss.
    pub objective: Box<dyn Objective + Send>,
    /// What goes into it.
    pub sources: Sources,
}

/// Those who measure.
#[derive(Default)]
pub struct Sources {
    /// The host itself, by the name under which the objective finds it.
    pub own: BTreeMap<String, Arc<dyn MeasurementSource>>,
    /// The guests.
    pub layouts: Layouts,
}

impl HostLoss {
    /// Squared errors against labels.
    pub fn labelled(labels: impl WindowSource + 'static, weights: LossWeights) -> Self {
        Self::of(Labelled::new(labels, weights))
    }

    /// A loss that needs no measurements.
    pub fn of(objective: impl Objective + Send + 'static) -> Self {
        Self { objective: Box::new(objective), sources: Sources::default() }
    }
}

/// The entries of guests' measurements as an objective finds them: by name, and what all hold out
/// together.
pub fn entries(layouts: &Layouts) -> BTreeMap<String, Vec<MeasurementEntry>> {
    let mut all = BTreeMap::new();
    for (party, layout) in layouts {
        let own = alone(layout).flat_map(|(_, entries)| entries.iter().copied());
        let own: Vec<MeasurementEntry> = own.collect();
        if !own.is_empty() {
            all.insert(party.to_string(), own);
        }
    }
    let together = together(layouts);
    if !together.is_empty() {
        all.insert(HELD_OUT.to_owned(), together);
    }
    all
}

/// Kinds that count for themselves, each with the place of its first number.
fn alone(layout: &MeasurementLayout) -> impl Iterator<Item = (usize, &[MeasurementEntry])> {
    groups(layout)
        .filter(|(_, kind, _)| *kind != MeasurementKind::HeldOut)
        .map(|(at, _, all)| (at, all))
}

fn groups(
    layout: &MeasurementLayout,
) -> impl Iterator<Item = (usize, MeasurementKind, &[MeasurementEntry])> {
    let mut next = 0;
    layout.groups().map(move |(kind, entries)| {
        let first = next;
        next += entries.len();
        (first, kind, entries)
    })
}

fn held_out(layout: &MeasurementLayout) -> Option<(usize, &[MeasurementEntry])> {
    groups(layout)
        .find(|(_, kind, _)| *kind == MeasurementKind::HeldOut)
        .map(|(at, _, all)| (at, all))
}

/// What all guests that hold anything out tell together.
fn together(layouts: &Layouts) -> Vec<MeasurementEntry> {
    let mut all = layouts.values().filter_map(held_out).map(|(_, entries)| entries);
    let first = all.next().unwrap_or_default().to_vec();
    all.fold(first, |mut common, entries| {
        common.retain(|entry| entries.contains(entry));
        common
    })
}

/// The measurements of a batch, by name.
pub(super) struct Gathering<'a> {
    own: Vec<(&'a str, Gathered)>,
    guests: BTreeMap<&'a str, (Vec<f32>, Vec<f32>)>,
}

impl<'a> Gathering<'a> {
    pub(super) fn of(
        sources: &'a Sources,
        samples: &[Window],
        measured: &'a BTreeMap<PartyId, Measurements>,
    ) -> Result<Self, ModelFailure> {
        let mut own = Vec::new();
        for (name, party) in &sources.own {
            let mut gathered = Gathered::default();
            gathered.gather(party.as_ref(), samples);
            own.push((name.as_str(), gathered));
        }
        let mut guests = BTreeMap::new();
        for (party, measurements) in measured {
            let Some(layout) = sources.layouts.get(party) else { continue };
            let (found, expected) = (measurements.entries(), layout.len());
            if found != expected {
                let problem = format!("found {found} entries of `{party}`, expected {expected}");
                return Err(ModelFailure(problem));
            }
            let places = alone(layout).flat_map(|(first, entries)| first..first + entries.len());
            let places: Vec<usize> = places.collect();
            if !places.is_empty() {
                guests.insert(party.as_str(), columns(measurements, &places));
            }
        }
        guests.extend(sum(&sources.layouts, measured).map(|sum| (HELD_OUT, sum)));
        Ok(Self { own, guests })
    }

    /// As an objective reads them.
    pub(super) fn batch(&self) -> MeasuredBatch<'_> {
        let own = self.own.iter().map(|(name, gathered)| (*name, gathered.readings()));
        let guests = self.guests.iter().map(|(name, (values, weights))| {
            let readings = Readings { values, weights };
            (*name, readings)
        });
        own.chain(guests).collect()
    }
}

/// Some columns of values and weights.
fn columns(measurements: &Measurements, places: &[usize]) -> (Vec<f32>, Vec<f32>) {
    let pick = |numbers: &[f32]| -> Vec<f32> {
        let rows = numbers.chunks_exact(measurements.entries());
        rows.flat_map(|row| places.iter().map(|place| row[*place])).collect()
    };
    (pick(measurements.values()), pick(measurements.weights()))
}

/// The sum of what all guests hold out, and one over its variance; nothing if one of them is absent.
fn sum(
    layouts: &Layouts,
    measured: &BTreeMap<PartyId, Measurements>,
) -> Option<(Vec<f32>, Vec<f32>)> {
    let common = together(layouts);
    let mut total: Option<(Vec<f32>, Vec<f32>)> = None;
    for (party, layout) in layouts {
        let Some((first, entries)) = held_out(layout) else { continue };
        let place = |entry| entries.iter().position(|own| own == entry);
        let places = common.iter().filter_map(place).map(|place| first + place);
        let (values, weights) = columns(measured.get(party)?, &places.collect::<Vec<_>>());
        let Some((sum, sum_weights)) = &mut total else {
            total = Some((values, weights));
            continue;
        };
        let pairs = sum.iter_mut().zip(sum_weights).zip(values.iter().zip(&weights));
        for ((sum, sum_weight), (value, weight)) in pairs {
            // Variances add up; what one does not tell is not known.
            let known = *sum_weight > 0.0 && *weight > 0.0;
            (*sum, *sum_weight) = match known {
                true => (*sum + value, 1.0 / (1.0 / *sum_weight + 1.0 / weight)),
                false => (0.0, 0.0),
            };
        }
    }
    total.filter(|_| !common.is_empty())
}

#[cfg(test)]
mod tests;
