//! Density over time, a panel for each link that was chosen, or for the first target links.

use std::path::Path;

use anyhow::{Result, ensure};
use plotters::prelude::*;
use sensing::FeatureTable;
use traffic::{LinkId, Network, Seconds};

use super::{Shown, with_path};

/// Panels of one picture: more would not be legible.
const MOST_PANELS: usize = 12;
const PANEL_HEIGHT: u32 = 110;

pub(super) fn draw(
    path: &Path,
    network: &Network,
    step: Seconds,
    truth: &FeatureTable,
    chosen: &[LinkId],
) -> Result<Shown> {
    let steps: Vec<i64> = truth.held.iter().map(|step| step.0).collect();
    ensure!(!steps.is_empty(), "nothing to draw: no steps");
    let minute = |at: usize| steps[at] as f64 * step.get() / 60.0;
    let smooth = truth.smooth_states(network, step);
    let mut links = if chosen.is_empty() { network.targets() } else { chosen.to_vec() };
    let of = links.len();
    links.truncate(MOST_PANELS);
    let highest = links
        .iter()
        .flat_map(|link| smooth.iter().skip(link.index()).step_by(truth.links))
        .map(|state| state.density.get())
        .fold(10.0, f64::max);

    let height = PANEL_HEIGHT * links.len() as u32 + 60;
    let root = SVGBackend::new(path, (1200, height)).into_drawing_area();
    with_path(path, root.fill(&WHITE))?;
    let title = format!("Density on {}, veh/km/lane, 60 s mean", network.name());
    let panels =
        with_path(path, root.titled(&title, ("sans-serif", 22)))?.split_evenly((links.len(), 1));
    for (panel, &link) in panels.iter().zip(&links) {
        let mut chart = with_path(
            path,
            ChartBuilder::on(panel)
                .margin_left(20)
                .margin_right(20)
                .x_label_area_size(22)
                .y_label_area_size(80)
                .build_cartesian_2d(minute(0)..minute(steps.len() - 1) + 1e-6, 0.0..highest),
        )?;
        with_path(
            path,
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.12))
                .y_labels(3)
                .x_labels(14)
                .y_desc(network.link(link).name.clone())
                .x_label_formatter(&|minute| format!("{minute:.0} min"))
                .y_label_formatter(&|density| format!("{density:.0}"))
                .label_style(("sans-serif", 12))
                .draw(),
        )?;
        // A line for each recording: never across a gap.
        let mut at = 0;
        for range in truth.held.ranges() {
            let length = (range.last.0 - range.first.0 + 1) as usize;
            let points = (at..at + length)
                .map(|at| (minute(at), smooth[at * truth.links + link.index()].density.get()));
            with_path(path, chart.draw_series(LineSeries::new(points, RGBColor(30, 90, 140))))?;
            at += length;
        }
    }
    with_path(path, root.present())?;
    Ok(Shown { links: links.len(), of })
}
