//! The paper's figures as panels of lines: the course of training, errors by rate, estimates over
//! time.

use super::cells::Quantity;
use super::curves::Curve;
use super::rounds::Rounds;
use super::series::Labelled;
use super::table::{QUANTITIES, Table};
use crate::plot::panels::{Panel, PlotLine, Span};

/// A panel for each rate and quantity, over epochs.
pub(super) fn by_epoch(curves: &[Curve]) -> Vec<Panel> {
    let mut rates: Vec<u32> = curves.iter().map(|curve| curve.rate).collect();
    rates.dedup();
    let panels = rates.into_iter().flat_map(|rate| {
        QUANTITIES.map(|quantity| {
            let of_rate = curves.iter().filter(|curve| curve.rate == rate);
            Panel {
                caption: format!("{}, fleet of {rate} %", name(quantity)),
                x: "epoch",
                y: unit(quantity),
                lines: of_rate.map(|curve| line(curve, quantity, 1)).collect(),
                levels: Vec::new(),
                span: Span::LossCurve,
            }
        })
    });
    panels.collect()
}

/// A panel for each architecture and quantity, over rounds, with the target.
pub(super) fn by_round(curves: &[Curve], rounds: &[Rounds]) -> Vec<Panel> {
    let mut architectures: Vec<_> = curves.iter().map(|curve| curve.architecture).collect();
    architectures.dedup();
    let panels = architectures.into_iter().flat_map(|architecture| {
        QUANTITIES.map(|quantity| {
            let own = curves.iter().filter(|curve| curve.architecture == architecture);
            let first = rounds.iter().find(|row| row.architecture == architecture);
            let rate = own.clone().next().map_or(0, |curve| curve.rate);
            Panel {
                caption: format!("{}, fleet of {rate} %", name(quantity)),
                x: "communication round",
                y: unit(quantity),
                lines: own.map(|curve| line(curve, quantity, curve.exchanges)).collect(),
                levels: first.and_then(|row| row.of(quantity).target).into_iter().collect(),
                span: Span::LossCurve,
            }
        })
    });
    panels.collect()
}

/// A panel for each quantity: the rows of a table over its columns, whose labels are numbers.
pub(super) fn by_column(table: &Table, x: &'static str) -> Vec<Panel> {
    let numbers: Vec<Option<f64>> = table
        .columns
        .iter()
        .map(|label| label.split(' ').next().and_then(|number| number.parse().ok()))
        .collect();
    let panel = |quantity| {
        let lines = table.rows.iter().map(|row| {
            let cells = row.cells.first().map_or(&[][..], Vec::as_slice).iter();
            let points = numbers
                .iter()
                .zip(cells)
                .filter_map(|(x, cell)| Some(((*x)?, cell.as_ref()?.rmse(quantity).mean)));
            PlotLine { label: row.label.replace(['`', '*'], ""), points: points.collect() }
        });
        let (caption, y) = (name(quantity).to_owned(), unit(quantity));
        Panel { caption, x, y, lines: lines.collect(), levels: Vec::new(), span: Span::Whole }
    };
    QUANTITIES.map(panel).into()
}

/// A panel for each link and quantity: the truth and all estimates over time.
pub(super) fn over_time(all: &[Labelled]) -> Vec<Panel> {
    let Some(first) = all.first() else { return Vec::new() };
    let panels = first.series.iter().enumerate().flat_map(|(place, link)| {
        QUANTITIES.map(|quantity| {
            let drawn = |label: &str, values: &[f64]| PlotLine {
                label: label.to_owned(),
                points: link.minutes.iter().copied().zip(values.iter().copied()).collect(),
            };
            let mut lines = vec![drawn("truth", &link.of(quantity)[0])];
            lines.extend(all.iter().filter_map(|one| {
                Some(drawn(&one.label, &one.series.get(place)?.of(quantity)[1]))
            }));
            let with = if link.has_loop { "with a loop" } else { "without a loop" };
            Panel {
                caption: format!("{}, link {} {with}", name(quantity), link.link),
                x: "minutes",
                y: quantity.unit(),
                lines,
                levels: Vec::new(),
                span: Span::Whole,
            }
        })
    });
    panels.collect()
}

fn line(curve: &Curve, quantity: Quantity, step: usize) -> PlotLine {
    let points = curve.mean(quantity).into_iter();
    PlotLine {
        label: curve.label.replace('`', ""),
        points: points.map(|(epoch, rmse)| ((epoch * step) as f64, rmse)).collect(),
    }
}

fn name(quantity: Quantity) -> &'static str {
    quantity.pick("Density", "Flow")
}

fn unit(quantity: Quantity) -> &'static str {
    quantity.pick("test RMSE, veh/km/lane", "test RMSE, veh/min/lane")
}
