//! Lines over a common kind of axis, in panels side by side.

use std::path::Path;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::with_path;

/// One panel.
pub(crate) struct Panel {
    /// Title above it.
    pub caption: String,
    /// Label of the horizontal axis.
    pub x: &'static str,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// Its curves.
    pub lines: Vec<PlotLine>,
    /// Heights that are marked in red.
    pub levels: Vec<f64>,
    /// How far it reaches.
    pub span: Span,
}

/// How far the axes of a panel reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// From the lowest point to a few times as high, over all x from 0.
    LossCurve,
    /// From 0 to the highest point, over the x that there are.
    Whole,
}

/// A line with its name.
pub(crate) struct PlotLine {
    /// Its name in the legend.
    pub label: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

const COLUMNS: usize = 2;
const SIZE: (u32, u32) = (560, 380);
/// A loss curve begins far off and would press the rest flat: what is higher than so many
/// times the lowest point is drawn at the upper edge.
const HIGHEST: f64 = 2.5;
/// Told apart by lightness too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(20, 60, 110),
    RGBColor(214, 110, 40),
    RGBColor(60, 150, 160),
    RGBColor(120, 40, 90),
    RGBColor(130, 170, 60),
    RGBColor(150, 150, 150),
    RGBColor(200, 60, 60),
    RGBColor(20, 20, 20),
];

/// Draws panels, two in a row.
pub(crate) fn draw(path: &Path, panels: &[Panel]) -> Result<()> {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let size = (SIZE.0 * COLUMNS as u32, SIZE.1 * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    with_path(path, root.fill(&WHITE))?;
    for (area, panel) in root.split_evenly((rows, COLUMNS)).iter().zip(panels) {
        draw_one(path, area, panel)?;
    }
    with_path(path, root.present())
}

fn draw_one(path: &Path, area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<()> {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let left = match panel.span {
        Span::LossCurve => 0.0,
        Span::Whole => points().map(|point| point.0).fold(right, f64::min),
    };
    let heights = || points().map(|point| point.1).chain(panel.levels.iter().copied());
    let lowest = heights().fold(f64::INFINITY, f64::min);
    let lowest = if lowest.is_finite() { lowest.max(1e-9) } else { 1.0 };
    let highest = heights().fold(lowest, f64::max);
    let (bottom, highest) = match panel.span {
        Span::LossCurve => (lowest * 0.95, highest.min(HIGHEST * lowest) * 1.02),
        Span::Whole => (0.0, highest * 1.05),
    };
    let mut chart = with_path(
        path,
        ChartBuilder::on(area)
            .caption(&panel.caption, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(58)
            .build_cartesian_2d(left..right * 1.01, bottom..highest),
    )?;
    with_path(
        path,
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(panel.x)
            .y_desc(panel.y)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .label_style(("sans-serif", 12))
            .draw(),
    )?;
    for &level in &panel.levels {
        let ends = [(left, level), (right, level)];
        with_path(path, chart.draw_series(LineSeries::new(ends, RED.stroke_width(1))))?;
    }
    for (line, &colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let points = line.points.iter().map(|&(x, y)| (x, y.min(highest)));
        with_path(path, chart.draw_series(LineSeries::new(points, colour.stroke_width(2))))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    with_path(
        path,
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(("sans-serif", 12))
            .border_style(BLACK.mix(0.2))
            .background_style(WHITE.mix(0.85))
            .draw(),
    )
}
