//! The held-out fold as a measurement of everything.
//!
//! With several guests, whose fleets have no vehicle in common, what is seen is what all of them show, and
//! what is held out what all of them hold out. The label of the whole traffic is then a sum over guests,
//! and each brings its part of it:
//!
//! ```text
//! u = Σ_k u^k        u^k = S^k + H^k·(1 − s)/r        s, r: shares of all guests together
//! ```

use traffic::{MeasurementEntry, Quantity, Step};

use super::error::HeldOutError;
use super::folds::Choices;
use super::noise::LabelNoise;
use super::rates::FoldRates;
use crate::data::measurement_table::{MeasurementTable, each_link};
use crate::data::sources::FleetData;

/// No label is taken to be surer than this, (veh/km/lane)² and (veh/min/lane)²: with everyone in the
/// fleets there is no noise at all.
const LEAST_VARIANCES: [f64; 2] = [0.1, 0.01];

/// A guest's part of the labels, from the folds of its fleet: `own` are its shares, `all` those of all
/// guests. The noise is that of some steps, the training part.
pub fn held_out_part(
    folds: &[FleetData],
    own: &FoldRates,
    all: &FoldRates,
    training: &[Step],
) -> Result<MeasurementTable, HeldOutError> {
    let choices = Choices::of_folds(folds, own)?;
    let noise = LabelNoise::of(&choices.held_out, own, training);
    parts(&choices, own, all, &noise).ok_or(HeldOutError::Folds(folds.len()))
}

/// What [`held_out_part`] measures of each sample.
pub fn held_out_entries(fleet: &FleetData) -> Vec<MeasurementEntry> {
    each_link(fleet.timeline(), &[Quantity::Density, Quantity::Flow])
}

/// The label of the only guest: for each view without a fold, density and flow of all vehicles,
/// `u = S + (1 − s)·H/r`, in steps of their own. Nothing where nothing is held out.
pub(crate) fn held_out_totals(
    choices: &Choices,
    rates: &FoldRates,
    noise: &LabelNoise,
) -> Option<MeasurementTable> {
    parts(choices, rates, rates, noise)
}

/// Variances are means over links: an error of an estimate counts alike wherever it is.
fn parts(
    choices: &Choices,
    own: &FoldRates,
    all: &FoldRates,
    noise: &LabelNoise,
) -> Option<MeasurementTable> {
    let timeline = choices.whole.timeline();
    let links = timeline.network().links().len().max(1) as f64;
    let unseen = 1.0 - all.seen();
    // Of all that is held out, this guest's part.
    let part = own.held_out() / all.held_out();
    let weights = [0, 1].map(|at| {
        let of_links = timeline.network().link_ids().map(|link| noise.unseen(link)[at]);
        let alone = of_links.sum::<f64>() / links;
        // The noise of a whole label goes with the unseen and the share held out; of a sum of parts each
        // brings its share.
        let variance = alone * as_all(own, all) * unseen * unseen * part;
        1.0 / variance.max(LEAST_VARIANCES[at])
    });
    let tables = choices.seen.iter().zip(&choices.held_out).map(|(seen, held_out)| {
        let entries = each_link(timeline, &[Quantity::Density, Quantity::Flow]);
        MeasurementTable::filled(timeline, entries, |step: Step, _, entry: MeasurementEntry| {
            let (seen, held_out) =
                (seen.scaled_up(step, entry.link), held_out.scaled_up(step, entry.link));
            let whole = |seen: f64, held_out: f64| own.seen() * seen + unseen * part * held_out;
            Some(match entry.quantity {
                Quantity::Flow => (whole(seen.flow.get(), held_out.flow.get()), weights[1]),
                _ => (whole(seen.density.get(), held_out.density.get()), weights[0]),
            })
        })
    });
    MeasurementTable::of_views(tables.collect())
}

/// How much noisier a label of the unseen part would be if its folds were those of all guests: the squares
/// of the box that both tell are the same.
fn as_all(own: &FoldRates, all: &FoldRates) -> f64 {
    if own == all {
        return 1.0;
    }
    all.unseen_label_variance(1.0) / own.unseen_label_variance(1.0)
}
