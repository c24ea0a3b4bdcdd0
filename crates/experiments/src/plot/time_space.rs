//! Speed over time and distance along a chain of links.

use std::path::Path;

use anyhow::{Result, ensure};
use plotters::prelude::*;
use sensing::FeatureTable;
use traffic::{LinkId, Network, Seconds};

use super::{Span, speed_colour, with_path};

/// Cells of a link: what the features have, or the whole link.
struct Grid {
    cells: usize,
    sub_steps: usize,
}

pub(super) fn draw(
    path: &Path,
    network: &Network,
    step: Seconds,
    truth: &FeatureTable,
    along: &[LinkId],
    span: Span,
) -> Result<()> {
    let steps: Vec<i64> = truth.held.iter().map(|step| step.0).collect();
    ensure!(!steps.is_empty() && !along.is_empty(), "nothing to draw: no steps or no links");
    let minutes = |step_number: i64| step_number as f64 * step.get() / 60.0;
    let from = span.from_minute.unwrap_or_else(|| busiest_minute(step, truth, &steps, along, span));
    let shown: Vec<usize> = (0..steps.len())
        .filter(|&at| minutes(steps[at]) >= from && minutes(steps[at]) < from + span.minutes)
        .collect();
    ensure!(
        !shown.is_empty(),
        "no steps between minute {from:.0} and {:.0}; the data have minutes {:.0} to {:.0}",
        from + span.minutes,
        minutes(steps[0]),
        minutes(steps[steps.len() - 1])
    );
    let total: f64 = along.iter().map(|&link| network.link(link).length.get()).sum();
    let fastest = along.iter().map(|&link| network.link(link).speed.get()).fold(1.0, f64::max);

    let root = SVGBackend::new(path, (1200, 620)).into_drawing_area();
    with_path(path, root.fill(&WHITE))?;
    let (main, legend) = root.split_horizontally(1090);
    let mut chart = with_path(
        path,
        ChartBuilder::on(&main)
            .caption(format!("Speed along {}", network.name()), ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(45)
            .y_label_area_size(110)
            .build_cartesian_2d(from..from + span.minutes, 0.0..total),
    )?;
    with_path(
        path,
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc("minutes")
            .x_label_formatter(&|minute| format!("{minute:.0}"))
            .y_labels(0)
            .label_style(("sans-serif", 14))
            .draw(),
    )?;
    let grid = grid(truth);
    let rectangles = rectangles(network, truth, &steps, &shown, along, &grid, step, fastest);
    with_path(path, chart.draw_series(rectangles))?;

    // Names of the links beside their stretch, and a line at each stop line.
    let mut start = 0.0;
    for &link in along {
        let end = start + network.link(link).length.get();
        let line = PathElement::new([(from, end), (from + span.minutes, end)], BLACK.mix(0.35));
        with_path(path, chart.draw_series([line]))?;
        let (x, y) = chart.backend_coord(&(from, (start + end) / 2.0));
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        with_path(
            path,
            root.draw(&Text::new(network.link(link).name.clone(), (x - 90, y - 7), style)),
        )?;
        start = end;
    }
    draw_legend(path, &legend, fastest)?;
    with_path(path, root.present())
}

fn grid(truth: &FeatureTable) -> Grid {
    // Sub-steps are not stored apart from cells; the paper's two are the usual case.
    match truth.cell_count {
        0 => Grid { cells: 1, sub_steps: 1 },
        count if count % 2 == 0 => Grid { cells: count / 2, sub_steps: 2 },
        count => Grid { cells: count, sub_steps: 1 },
    }
}

#[expect(clippy::too_many_arguments, reason = "all of them describe one picture")]
fn rectangles(
    network: &Network,
    truth: &FeatureTable,
    steps: &[i64],
    shown: &[usize],
    along: &[LinkId],
    grid: &Grid,
    step: Seconds,
    fastest: f64,
) -> Vec<Rectangle<(f64, f64)>> {
    let sub_minutes = step.get() / 60.0 / grid.sub_steps as f64;
    let mut rectangles = Vec::new();
    let mut start = 0.0;
    for &link in along {
        let cell_length = network.link(link).length.get() / grid.cells as f64;
        for cell in 0..grid.cells {
            let y0 = start + cell as f64 * cell_length;
            // Neighbours in time of the same colour become one rectangle: a third of the file.
            let mut run: Option<(f64, f64, RGBColor)> = None;
            let mut flush = |run: Option<(f64, f64, RGBColor)>| {
                if let Some((x0, x1, colour)) = run {
                    rectangles
                        .push(Rectangle::new([(x0, y0), (x1, y0 + cell_length)], colour.filled()));
                }
            };
            for &at in shown {
                for sub_step in 0..grid.sub_steps {
                    let x0 = steps[at] as f64 * step.get() / 60.0 + sub_step as f64 * sub_minutes;
                    let speed = cell_speed(truth, at, link, sub_step, cell, grid);
                    let colour = speed.map(|speed| quantised(speed / fastest));
                    match (&mut run, colour) {
                        (Some((_, x1, before)), Some(colour))
                            if *before == colour && (x0 - *x1).abs() < 1e-9 =>
                        {
                            *x1 = x0 + sub_minutes;
                        }
                        (_, colour) => {
                            flush(run.take());
                            run = colour.map(|colour| (x0, x0 + sub_minutes, colour));
                        }
                    }
                }
            }
            flush(run);
        }
        start += network.link(link).length.get();
    }
    rectangles
}

fn quantised(share: f64) -> RGBColor {
    speed_colour((share * 24.0).round() / 24.0)
}

fn cell_speed(
    truth: &FeatureTable,
    at: usize,
    link: LinkId,
    sub_step: usize,
    cell: usize,
    grid: &Grid,
) -> Option<f64> {
    let row = at * truth.links + link.index();
    if truth.cell_count == 0 {
        return truth.totals[row].speed().map(|speed| speed.get());
    }
    let block = &truth.cells[row * 2 * truth.cell_count..][..2 * truth.cell_count];
    let index = sub_step * grid.cells + cell;
    let (seconds, metres) = (block[index], block[truth.cell_count + index]);
    (seconds > 0.0).then(|| f64::from(metres / seconds))
}

/// The span with the most vehicle-seconds on the chain.
fn busiest_minute(
    step: Seconds,
    truth: &FeatureTable,
    steps: &[i64],
    along: &[LinkId],
    span: Span,
) -> f64 {
    let seconds: Vec<f64> = (0..steps.len())
        .map(|at| {
            along.iter().map(|link| truth.totals[at * truth.links + link.index()].time.get()).sum()
        })
        .collect();
    let window = ((span.minutes * 60.0 / step.get()) as usize).clamp(1, steps.len());
    let mut sum: f64 = seconds[..window].iter().sum();
    let (mut best, mut first) = (sum, 0);
    for at in window..steps.len() {
        sum += seconds[at] - seconds[at - window];
        if sum > best {
            (best, first) = (sum, at + 1 - window);
        }
    }
    steps[first] as f64 * step.get() / 60.0
}

fn draw_legend(
    path: &Path,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    fastest: f64,
) -> Result<()> {
    let style = ("sans-serif", 13).into_font().color(&BLACK);
    with_path(path, area.draw(&Text::new("m/s", (10, 40), style.clone())))?;
    for part in 0..24 {
        let y = 60 + (23 - part) * 18;
        let colour = speed_colour(f64::from(part) / 23.0);
        with_path(path, area.draw(&Rectangle::new([(10, y), (30, y + 18)], colour.filled())))?;
    }
    for (share, y) in [(1.0, 60), (0.5, 269), (0.0, 479)] {
        let label = format!("{:.1}", share * fastest);
        with_path(path, area.draw(&Text::new(label, (36, y), style.clone())))?;
    }
    Ok(())
}
