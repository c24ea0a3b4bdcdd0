//! Learning curves, as SVG.

use std::path::Path;

use anyhow::Result;
use estimator::Epoch;
use plotters::prelude::*;

use crate::plot::with_path;

/// Training and validation loss over epochs, on a logarithmic scale.
pub(super) fn draw(path: &Path, history: &[Epoch]) -> Result<()> {
    let losses = || history.iter().flat_map(|epoch| [epoch.train, epoch.validation]);
    // The axis suits a logarithm, also where a loss is zero or all are equal.
    let highest = losses().fold(1e-6, f64::max) * 1.1;
    let lowest = losses().fold(highest, f64::min).max(highest * 1e-6) * 0.9;
    let root = SVGBackend::new(path, (800, 480)).into_drawing_area();
    with_path(path, root.fill(&WHITE))?;
    let mut chart = with_path(
        path,
        ChartBuilder::on(&root)
            .caption("Loss over epochs", ("sans-serif", 22))
            .margin(15)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..history.len() as f64 + 0.5, (lowest..highest).log_scale()),
    )?;
    with_path(
        path,
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc("epoch")
            .y_desc("loss, scaled targets")
            .x_label_formatter(&|epoch| format!("{epoch:.0}"))
            .label_style(("sans-serif", 13))
            .draw(),
    )?;
    type Pick = fn(&Epoch) -> f64;
    let curves: [(&str, Pick, RGBColor); 2] = [
        ("training", |epoch| epoch.train, RGBColor(30, 90, 140)),
        ("validation", |epoch| epoch.validation, RGBColor(214, 68, 40)),
    ];
    for (name, pick, colour) in curves {
        let points = history.iter().map(|epoch| (epoch.number as f64, pick(epoch).max(lowest)));
        with_path(path, chart.draw_series(LineSeries::new(points, colour.stroke_width(2))))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    with_path(
        path,
        chart.configure_series_labels().border_style(BLACK.mix(0.2)).background_style(WHITE).draw(),
    )?;
    with_path(path, root.present())
}
