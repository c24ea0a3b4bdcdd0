//! The held-out fold as a measurement of everything.

use traffic::Step;

use super::folds::Choices;
use super::noise::LabelNoise;
use super::rates::FoldRates;
use crate::measurement_table::{MeasurementTable, each_link};
use crate::measurements::{Entry, Quantity};

/// For each view without a fold: density and flow of all vehicles, `u = S + (1 − s)·H/r`, in steps of their
/// own. Nothing where nothing is held out.
///
/// Variances are means over links: an error of an estimate counts alike wherever it is.
pub(crate) fn held_out_totals(
    choices: &Choices,
    rates: &FoldRates,
    noise: &LabelNoise,
) -> Option<MeasurementTable> {
    let timeline = choices.whole.timeline();
    let links = timeline.network().links().len().max(1) as f64;
    let unseen = 1.0 - rates.seen();
    let weights = [0, 1].map(|at| {
        let of_links = timeline.network().link_ids().map(|link| noise.unseen(link)[at]);
        let variance = of_links.sum::<f64>() / links * unseen * unseen;
        if variance > 0.0 { 1.0 / variance } else { 0.0 }
    });
    let tables = choices.seen.iter().zip(&choices.held_out).map(|(seen, held_out)| {
        let entries = each_link(timeline, &[Quantity::Density, Quantity::Flow]);
        MeasurementTable::filled(timeline, entries, |step: Step, _, entry: Entry| {
            let (seen, held_out) =
                (seen.scaled_up(step, entry.link), held_out.scaled_up(step, entry.link));
            let whole = |seen: f64, held_out: f64| rates.seen() * seen + unseen * held_out;
            Some(match entry.quantity {
                Quantity::Flow => (whole(seen.flow.get(), held_out.flow.get()), weights[1]),
                _ => (whole(seen.density.get(), held_out.density.get()), weights[0]),
            })
        })
    });
    MeasurementTable::of_views(tables.collect())
}
