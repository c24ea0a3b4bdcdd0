//! The privacy page: who can learn what in which mode, and what noise costs in accuracy.
//!
//! The table of modes says in words what SECURITY.md says; what attacks find is measured ([`super::attacks`]). The curve
//! is drawn from `privacy.json`, as `scripts/privacy_curve.py` writes it, where there is one.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::section::{Chart, ChartLine, Grid, GridRow, Section, Value};

/// The curve's name in a folder of results.
pub(super) const CURVE_FILE: &str = "privacy.json";

/// The table of modes.
pub(super) fn modes() -> Result<Section> {
    Ok(serde_json::from_str(include_str!("../../assets/report/modes.json"))?)
}

/// One training of the curve.
#[derive(Debug, Deserialize)]
struct Trained {
    mode: String,
    epochs: u32,
    head_units: u32,
    rate: f64,
    /// A number, or `inf` for the same without noise.
    epsilon: String,
    density: f64,
    flow: f64,
}

impl Trained {
    fn epsilon(&self) -> Result<f64> {
        let epsilon: f64 = self.epsilon.parse().with_context(|| {
            format!("epsilon: found {:?}, expected a number or inf", self.epsilon)
        })?;
        let errors = [self.density, self.flow];
        ensure!(
            epsilon > 0.0 && errors.iter().all(|error| error.is_finite() && *error >= 0.0),
            "{self:?}: expected an ε above 0 and errors that are numbers"
        );
        Ok(epsilon)
    }
}

/// Which error.
type Pick = fn(&Trained) -> f64;
const QUANTITIES: [(&str, &str, Pick); 2] =
    [("density", "veh/km/lane", |one| one.density), ("flow", "veh/min/lane", |one| one.flow)];

/// The curve of a folder of results, if there is one.
pub(super) fn curve(folder: &Path) -> Result<Option<Section>> {
    let path = folder.join(CURVE_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(&path).with_context(named)?;
    parse(&text).with_context(named)
}

fn parse(text: &str) -> Result<Option<Section>> {
    let all: Vec<Trained> = serde_json::from_str(text)?;
    let Some(first) = all.first() else { return Ok(None) };
    let alike = |one: &Trained| {
        (&one.mode, one.epochs, one.head_units) == (&first.mode, first.epochs, first.head_units)
    };
    ensure!(all.iter().all(alike), "found several modes, epochs or heads, expected one of each");
    let mut rates: Vec<f64> = all.iter().map(|one| one.rate).collect();
    let mut epsilons = all.iter().map(Trained::epsilon).collect::<Result<Vec<_>>>()?;
    for values in [&mut rates, &mut epsilons] {
        values.sort_by(f64::total_cmp);
        values.dedup();
    }
    let found = |rate: f64, epsilon: f64, pick: Pick| {
        let same = |one: &&Trained| one.rate == rate && one.epsilon().ok() == Some(epsilon);
        all.iter().find(same).map(pick)
    };
    let charts = QUANTITIES.map(|(name, unit, pick)| {
        let lines = rates.iter().map(|&rate| {
            let finite = epsilons.iter().filter(|epsilon| epsilon.is_finite());
            let points = finite.filter_map(|&epsilon| Some((epsilon, found(rate, epsilon, pick)?)));
            let label = format!("{rate} % of the vehicles");
            ChartLine { label, points: points.collect(), paper: false, shown: true }
        });
        Chart {
            caption: format!("RMSE of {name} by ε"),
            x: "ε".to_owned(),
            y: unit.to_owned(),
            lines: lines.filter(|line| line.points.len() > 1).collect(),
            levels: Vec::new(),
        }
    });
    let grids = QUANTITIES.map(|(name, unit, pick)| {
        let rows = epsilons.iter().map(|&epsilon| {
            let label = if epsilon.is_finite() {
                format!("ε = {epsilon}")
            } else {
                "without noise".to_owned()
            };
            let cells = rates.iter().map(|&rate| {
                found(rate, epsilon, pick)
                    .map_or_else(Value::default, |error| Value::plain(format!("{error:.2}")))
            });
            GridRow { label, paper: false, cells: cells.collect() }
        });
        Grid {
            caption: format!("RMSE of {name}, {unit}, by share of the vehicles"),
            columns: rates.iter().map(|rate| format!("{rate} %")).collect(),
            rows: rows.collect(),
        }
    });
    let Trained { mode, epochs, head_units, .. } = first;
    Ok(Some(Section {
        id: "epsilon".to_owned(),
        title: "What noise costs: FedTSE-PI by ε".to_owned(),
        short: "By ε".to_owned(),
        made: format!(
            "Made by scripts/privacy_curve.py --mode {mode} --epochs {epochs} --head-units {head_units}"
        ),
        warnings: Vec::new(),
        charts: charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect(),
        grids: grids.to_vec(),
        notes: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(rate: u32, epsilon: &str, density: f64) -> String {
        format!(
            r#"{{"mode":"noisy-clear","epochs":9,"head_units":4,"rate":{rate}.0,"epsilon":"{epsilon}","density":{density:?},"flow":2.0,"seconds":1.5}}"#
        )
    }

    #[test]
    fn a_curve_has_a_line_for_each_rate_and_its_numbers_in_a_grid() {
        let rows = [
            trained(20, "inf", 11.0),
            trained(20, "4", 15.5),
            trained(20, "1", 18.25),
            trained(80, "4", 9.0),
        ];
        let section = parse(&format!("[{}]", rows.join(","))).unwrap().unwrap();
        // Of a rate with a single number there is no line.
        let lines = &section.charts[0].lines;
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].points, [(1.0, 18.25), (4.0, 15.5)]);
        let texts: Vec<(&str, Vec<&str>)> = section.grids[0]
            .rows
            .iter()
            .map(|row| {
                (row.label.as_str(), row.cells.iter().map(|cell| cell.text.as_str()).collect())
            })
            .collect();
        let expected = [
            ("ε = 1", vec!["18.25", ""]),
            ("ε = 4", vec!["15.50", "9.00"]),
            ("without noise", vec!["11.00", ""]),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn without_a_curve_nothing_is_shown_and_a_wrong_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(curve(folder.path()).unwrap().is_none());
        assert!(parse("[]").unwrap().is_none());
        for wrong in [trained(20, "many", 1.0), trained(20, "-1", 1.0), trained(20, "1", -1.0)] {
            std::fs::write(folder.path().join(CURVE_FILE), format!("[{wrong}]")).unwrap();
            let error = format!("{:#}", curve(folder.path()).unwrap_err());
            assert!(error.contains("privacy.json"), "{error}");
        }
        let other = trained(20, "1", 1.0).replace("\"epochs\":9", "\"epochs\":8");
        assert!(parse(&format!("[{},{other}]", trained(20, "2", 1.0))).is_err());
    }

    #[test]
    fn every_mode_has_a_column() {
        let grid = &modes().unwrap().grids[0];
        assert!(grid.rows.iter().all(|row| row.cells.len() == grid.columns.len()));
        assert!(grid.rows.iter().flat_map(|row| &row.cells).all(|cell| !cell.text.is_empty()));
    }
}
