//! The host's loss, and the measurements that go into it.
//!
//! Guests' measurements come by guest and kind. What they hold out of their fleets adds up to one label of
//! all traffic, `u = Σ_k u^k` (docs/held-out-fleet.md): without any one of them there is none. All else
//! counts for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::data::{Gathered, MeasuredBatch};
use estimator::loss::{Labelled, LinearPart, LossWeights, MeasurementWeights, PartialLoss};
use estimator::model::PassError;
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

/// An objective that finds what all guests hold out under one name, where values stay with the guests.
///
/// With `u = Σ_k u^k`, c·u and d·u are sums over guests of the same coefficients: each guest's own products with them add
/// up to those of the label, which nobody sees.
pub(super) struct WithoutValues<'a> {
    pub objective: &'a mut dyn Objective,
    pub layouts: &'a Layouts,
}

/// The weights of sealed measurements as an objective finds them: by name, and of what all hold out together.
pub(super) fn weights_by_name(
    layouts: &Layouts,
    weights: &MeasurementWeights<'_>,
) -> BTreeMap<String, Vec<f32>> {
    let mut all = BTreeMap::new();
    for (party, layout) in layouts {
        let Some(own) = weights.get(party.as_str()) else { continue };
        let places: Vec<usize> =
            alone(layout).flat_map(|(first, entries)| first..first + entries.len()).collect();
        if !places.is_empty() {
            all.insert(party.to_string(), picked(own, layout.len(), &places));
        }
    }
    let common = together(layouts);
    let mut total: Option<Vec<f32>> = None;
    for (party, layout) in layouts {
        let Some(places) = held_out_places(layout, &common) else { continue };
        // Without one of them there is no label.
        let Some(own) = weights.get(party.as_str()) else { return all };
        let own = picked(own, layout.len(), &places);
        total = Some(match total {
            None => own,
            Some(sum) => sum.into_iter().zip(own).map(|(a, b)| weight_of_sum(a, b)).collect(),
        });
    }
    all.extend(total.filter(|_| !common.is_empty()).map(|total| (HELD_OUT.to_owned(), total)));
    all
}

impl WithoutValues<'_> {
    /// What each guest's values add, in the order of its layout.
    fn by_guest(&self, weights: &MeasurementWeights<'_>, found: PartialLoss) -> PartialLoss {
        let common = together(self.layouts);
        let mut parties = BTreeMap::new();
        for (party, layout) in self.layouts {
            let Some(own) = weights.get(party.as_str()) else { continue };
            let each = layout.len().max(1);
            let entries = layout.groups().flat_map(|(_, entries)| entries);
            let mut part = LinearPart {
                loss: vec![0.0; own.len()],
                slopes: vec![[0.0; 2]; own.len()],
                links: entries.map(|entry| entry.link.index()).collect(),
            };
            let places: Vec<usize> =
                alone(layout).flat_map(|(first, entries)| first..first + entries.len()).collect();
            let alone = found.parties.get(party.as_str()).map(|from| (from, places));
            let held_out = found.parties.get(HELD_OUT).zip(held_out_places(layout, &common));
            for (from, places) in alone.into_iter().chain(held_out) {
                let columns = (0..own.len() / each)
                    .flat_map(|sample| places.iter().map(move |place| sample * each + place));
                for ((to, loss), slopes) in columns.zip(&from.loss).zip(&from.slopes) {
                    (part.loss[to], part.slopes[to]) = (*loss, *slopes);
                }
            }
            parties.insert(party.to_string(), part);
        }
        PartialLoss { known: found.known, parties }
    }
}

impl Objective for WithoutValues<'_> {
    fn train(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<f64, PassError> {
        self.objective.train(samples, measured, y, dy)
    }

    fn validate(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        total: f64,
    ) -> Result<f64, PassError> {
        self.objective.validate(samples, measured, y, total)
    }

    fn train_without_values(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        weights: &MeasurementWeights<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<PartialLoss, PassError> {
        let named = weights_by_name(self.layouts, weights);
        let named = named.iter().map(|(name, all)| (name.as_str(), all.as_slice())).collect();
        let found = self.objective.train_without_values(samples, measured, &named, y, dy)?;
        Ok(self.by_guest(weights, found))
    }

    fn validate_without_values(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        weights: &MeasurementWeights<'_>,
        y: &[f32],
    ) -> Result<PartialLoss, PassError> {
        let named = weights_by_name(self.layouts, weights);
        let named = named.iter().map(|(name, all)| (name.as_str(), all.as_slice())).collect();
        let found = self.objective.validate_without_values(samples, measured, &named, y)?;
        Ok(self.by_guest(weights, found))
    }
}

/// Where the entries that all hold out are in a layout; none if it holds nothing out.
fn held_out_places(layout: &MeasurementLayout, common: &[MeasurementEntry]) -> Option<Vec<usize>> {
    let (first, entries) = held_out(layout)?;
    let place = |entry| entries.iter().position(|own| own == entry);
    Some(common.iter().filter_map(place).map(|place| first + place).collect())
}

/// Some of so many numbers of each sample.
fn picked(numbers: &[f32], each: usize, places: &[usize]) -> Vec<f32> {
    let rows = numbers.chunks_exact(each.max(1));
    rows.flat_map(|row| places.iter().map(|place| row[*place])).collect()
}

/// One over the variance of a sum: variances add up, and what one does not tell is not known.
fn weight_of_sum(one: f32, other: f32) -> f32 {
    if one > 0.0 && other > 0.0 { 1.0 / (1.0 / one + 1.0 / other) } else { 0.0 }
}

/// Some columns of values and weights.
fn columns(measurements: &Measurements, places: &[usize]) -> (Vec<f32>, Vec<f32>) {
    let pick = |numbers| picked(numbers, measurements.entries(), places);
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
        let Some(places) = held_out_places(layout, &common) else { continue };
        let (values, weights) = columns(measured.get(party)?, &places);
        let Some((sum, sum_weights)) = &mut total else {
            total = Some((values, weights));
            continue;
        };
        let pairs = sum.iter_mut().zip(sum_weights).zip(values.iter().zip(&weights));
        for ((sum, sum_weight), (value, weight)) in pairs {
            *sum_weight = weight_of_sum(*sum_weight, *weight);
            *sum = if *sum_weight > 0.0 { *sum + value } else { 0.0 };
        }
    }
    total.filter(|_| !common.is_empty())
}

#[cfg(test)]
mod tests;
