//! The per-link table: what traffic was on each link.

use std::fmt::Write as _;

use sensing::FeatureTable;
use serde::Serialize;
use traffic::{LinkId, Network, Seconds};

/// Mean, standard deviation and maximum over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepStatistics {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Maximum.
    pub max: f64,
}

impl StepStatistics {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        if count == 0.0 {
            return Self { mean: f64::NAN, sd: f64::NAN, max: f64::NAN };
        }
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.clone().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self { mean, sd: variance.sqrt(), max: values.fold(f64::NEG_INFINITY, f64::max) }
    }
}

/// What was on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// Its name.
    pub link: String,
    /// Whether it is scored.
    pub target: bool,
    /// Lanes.
    pub lanes: u8,
    /// Length.
    pub length_m: f64,
    /// Distance travelled over length: how often the link was driven along.
    pub vehicles: f64,
    /// veh/km/lane
    pub density: StepStatistics,
    /// veh/min/lane
    pub flow: StepStatistics,
    /// m/s, over the steps with a vehicle
    pub speed: StepStatistics,
    /// Share of steps with a vehicle.
    pub occupied: f64,
}

/// One row for each link of the network.
pub fn link_rows(network: &Network, step: Seconds, truth: &FeatureTable) -> Vec<LinkRow> {
    let states = truth.states(network, step);
    let targets = network.parts().targets.clone();
    let links = truth.links;
    network
        .link_ids()
        .map(|id: LinkId| {
            let link = network.link(id);
            let of_link = states.iter().skip(id.index()).step_by(links);
            let totals = truth.totals.iter().skip(id.index()).step_by(links);
            let metres: f64 = totals.map(|totals| totals.distance.get()).sum();
            let speeds = of_link.clone().filter_map(|state| state.speed());
            let steps = of_link.clone().count().max(1) as f64;
            LinkRow {
                link: link.name.clone(),
                target: targets.contains(&id),
                lanes: link.lanes,
                length_m: link.length.get(),
                vehicles: metres / link.length.get(),
                density: StepStatistics::of(of_link.clone().map(|state| state.density.get())),
                flow: StepStatistics::of(of_link.clone().map(|state| state.flow.get())),
                speed: StepStatistics::of(speeds.clone().map(|speed| speed.get())),
                occupied: speeds.count() as f64 / steps,
            }
        })
        .collect()
}

/// The rows as text.
pub fn render(rows: &[LinkRow]) -> String {
    let width = name_width(rows);
    let mut text = format!(
        "{:<width$} {:>5} {:>6} {:>8}   {:^20}   {:^20}   {:^13}\n",
        "link", "lanes", "m", "vehicles", "density veh/km/lane", "flow veh/min/lane", "speed m/s"
    );
    let _ = writeln!(
        text,
        "{:<width$} {:>5} {:>6} {:>8}   {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}   {:>6} {:>6}",
        "", "", "", "", "mean", "sd", "max", "mean", "sd", "max", "mean", "sd"
    );
    for row in rows {
        let name = if row.target { format!("{}*", row.link) } else { row.link.clone() };
        let _ = writeln!(
            text,
            "{name:<width$} {:>5} {:>6.0} {:>8.0}   {:>6.1} {:>6.1} {:>6.1}   {:>6.1} {:>6.1} {:>6.1}   {:>6.1} {:>6.1}",
            row.lanes,
            row.length_m,
            row.vehicles,
            row.density.mean,
            row.density.sd,
            row.density.max,
            row.flow.mean,
            row.flow.sd,
            row.flow.max,
            row.speed.mean,
            row.speed.sd
        );
    }
    if rows.iter().any(|row| row.target) {
        text += "* target link\n";
    }
    text
}

/// Two worlds side by side: mean ± standard deviation of each.
pub fn render_beside(names: [&str; 2], rows: [&[LinkRow]; 2]) -> String {
    let width = name_width(rows[0]);
    let mut text = format!(
        "{:<width$}   {:^27}   {:^23}   {:^23}\n",
        "link", "density veh/km/lane", "flow veh/min/lane", "speed m/s"
    );
    let short = names.map(|name| name.chars().take(11).collect::<String>());
    let _ = writeln!(
        text,
        "{:<width$}   {:>13} {:>13}   {:>11} {:>11}   {:>11} {:>11}",
        "", short[0], short[1], short[0], short[1], short[0], short[1]
    );
    let pair = |spread: &StepStatistics| format!("{:.1} ± {:.1}", spread.mean, spread.sd);
    for (a, b) in rows[0].iter().zip(rows[1]) {
        let _ = writeln!(
            text,
            "{:<width$}   {:>13} {:>13}   {:>11} {:>11}   {:>11} {:>11}",
            a.link,
            pair(&a.density),
            pair(&b.density),
            pair(&a.flow),
            pair(&b.flow),
            pair(&a.speed),
            pair(&b.speed)
        );
    }
    text
}

fn name_width(rows: &[LinkRow]) -> usize {
    rows.iter().map(|row| row.link.chars().count() + 1).max().unwrap_or(4).max(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_its_closed_form() {
        let spread = StepStatistics::of([1.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!((spread.mean, spread.max), (3.0, 6.0));
        // Squares of the deviations: 4 + 1 + 0 + 9 over 4.
        assert_eq!(spread.sd, 3.5f64.sqrt());
        assert!(StepStatistics::of(std::iter::empty()).mean.is_nan());
    }
}
