//! As much of a result's file, as `fedtse reproduce` writes it, as the page shows.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::reproduce::Labelled;
pub(super) use crate::reproduce::Quantity;

pub(super) const QUANTITIES: [Quantity; 2] = [Quantity::Density, Quantity::Flow];

/// See the [module](self).
#[derive(Deserialize)]
pub(super) struct ResultFile {
    pub table: String,
    pub title: String,
    pub quick: bool,
    pub made: Made,
    pub demand_seeds: Vec<u64>,
    pub unfinished: Vec<String>,
    pub notes: Vec<String>,
    #[serde(default)]
    pub targets: Vec<String>,
    #[serde(default)]
    pub columns: Vec<String>,
    #[serde(default)]
    pub rows: Vec<TableRow>,
    #[serde(default)]
    pub paper: Vec<PaperRow>,
    #[serde(default)]
    pub curves: Vec<Curve>,
    #[serde(default)]
    pub rounds: Vec<Rounds>,
    #[serde(default)]
    pub series: Vec<Labelled>,
}

#[derive(Deserialize)]
pub(super) struct Made {
    pub command: String,
    pub programs: Vec<Program>,
    pub date: String,
}

#[derive(Deserialize)]
pub(super) struct Program {
    pub commit: String,
}

#[derive(Deserialize)]
pub(super) struct TableRow {
    pub label: String,
    pub cells: Vec<Vec<Option<Cell>>>,
}

#[derive(Deserialize)]
pub(super) struct Cell {
    pub demand_seeds: Vec<u64>,
    pub density: Spreads,
    pub flow: Spreads,
}

#[derive(Deserialize)]
pub(super) struct Spreads {
    pub rmse: SeedStatistics,
}

#[derive(Deserialize)]
pub(super) struct SeedStatistics {
    pub mean: f64,
    pub deviation: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct PaperRow {
    pub label: String,
    pub rmse: [Vec<Option<f64>>; 2],
}

#[derive(Deserialize)]
pub(super) struct Curve {
    pub label: String,
    pub rate: u32,
    pub exchanges: usize,
    pub runs: Vec<TrainingCurve>,
}

#[derive(Deserialize)]
pub(super) struct TrainingCurve {
    pub density: Vec<f64>,
    pub flow: Vec<f64>,
}

#[derive(Deserialize)]
pub(super) struct Rounds {
    pub label: String,
    pub density: Reached,
    pub flow: Reached,
}

#[derive(Deserialize)]
pub(super) struct Reached {
    pub target: Option<f64>,
    pub rounds: Option<f64>,
    pub share: Option<f64>,
    pub end: Option<f64>,
}

impl ResultFile {
    /// None if the folder has no such file.
    pub(super) fn read(folder: &Path, name: &str) -> Result<Option<Self>> {
        let path = folder.join(format!("{name}.json"));
        let named = || path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(named),
        };
        serde_json::from_str(&text).map(Some).with_context(named)
    }
}

impl PaperRow {
    pub(super) fn of(&self, quantity: Quantity) -> &[Option<f64>] {
        let [density, flow] = &self.rmse;
        if quantity == Quantity::Density { density } else { flow }
    }
}

impl Cell {
    pub(super) fn of(&self, quantity: Quantity) -> &SeedStatistics {
        if quantity == Quantity::Density { &self.density.rmse } else { &self.flow.rmse }
    }
}

impl Curve {
    /// Over trainings, for as long as all of them lasted.
    pub(super) fn mean(&self, quantity: Quantity) -> Vec<f64> {
        let of = |run: &TrainingCurve| -> Vec<f64> {
            if quantity == Quantity::Density { run.density.clone() } else { run.flow.clone() }
        };
        let all: Vec<Vec<f64>> = self.runs.iter().map(of).collect();
        let epochs = all.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |epoch: usize| all.iter().map(|one| one[epoch]).sum::<f64>() / all.len() as f64;
        (0..epochs).map(mean).collect()
    }
}

impl Rounds {
    pub(super) fn of(&self, quantity: Quantity) -> &Reached {
        if quantity == Quantity::Density { &self.density } else { &self.flow }
    }
}
