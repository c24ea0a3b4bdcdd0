//! The paper's figures of the course of training, as panels of lines.

use super::cells::Quantity;
use super::curves::Curve;
use super::rounds::Rounds;
use super::table::QUANTITIES;
use crate::plot::panels::{Line, Panel};

/// A panel for each rate and quantity, over epochs.
pub fn by_epoch(curves: &[Curve]) -> Vec<Panel> {
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
            }
        })
    });
    panels.collect()
}

/// A panel for each architecture and quantity, over rounds, with the target.
pub fn by_round(curves: &[Curve], rounds: &[Rounds]) -> Vec<Panel> {
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
            }
        })
    });
    panels.collect()
}

fn line(curve: &Curve, quantity: Quantity, step: usize) -> Line {
    let points = curve.mean(quantity).into_iter();
    Line {
        label: curve.label.replace('`', ""),
        points: points.map(|(epoch, rmse)| ((epoch * step) as f64, rmse)).collect(),
    }
}

fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Density => "Density",
        Quantity::Flow => "Flow",
    }
}

fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Density => "test RMSE, veh/km/lane",
        Quantity::Flow => "test RMSE, veh/min/lane",
    }
}
