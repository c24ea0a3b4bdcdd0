//! The bottleneck's study: errors against the closed form as cells shrink, and a picture.
//!
//! ```sh
//! cargo run --release -p physics --example convergence -- docs/pictures/ctm-convergence.svg
//! ```

use std::error::Error;
use std::path::PathBuf;

use physics::{Bottleneck, cell_error};
use plotters::prelude::*;

const CELLS: [usize; 8] = [10, 20, 40, 80, 160, 320, 640, 1280];

fn main() -> Result<(), Box<dyn Error>> {
    let path: PathBuf =
        std::env::args().nth(1).ok_or("expected the file to draw, such as out.svg")?.into();
    let scene = Bottleneck::default();
    let length = scene.length.get();
    println!("cells  Δx (m)  error (vehicles)  order");
    let mut points: Vec<(f64, f64)> = Vec::new();
    for cells in CELLS {
        let error = cell_error(&scene, cells)?;
        let order = points.last().map(|&(_, before)| (before / error).log2());
        let order = order.map_or_else(String::new, |order| format!("{order:.2}"));
        println!("{cells:5}  {:6.1}  {error:16.4}  {order}", length / cells as f64);
        points.push((length / cells as f64, error));
    }
    let (mut x, mut y) = (0.0, 0.0);
    let (mut xx, mut xy) = (0.0, 0.0);
    for &(cell, error) in &points {
        let (a, b) = (cell.ln(), error.ln());
        (x, y, xx, xy) = (x + a, y + b, xx + a * a, xy + a * b);
    }
    let many = points.len() as f64;
    let slope = (many * xy - x * y) / (many * xx - x * x);
    println!("slope of log error over log Δx: {slope:.3}");
    draw(&path, &scene, &points, slope)?;
    println!("drawn: {}", path.display());
    Ok(())
}

fn draw(
    path: &std::path::Path,
    scene: &Bottleneck,
    points: &[(f64, f64)],
    slope: f64,
) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (1000, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(500);

    let mut chart = ChartBuilder::on(&left)
        .caption("queue behind a bottleneck", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..scene.length.get(), 0.0..scene.jam_density.get())?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("position (m)")
        .y_desc("density (veh/km/lane)")
        .draw()?;
    for (cells, colour) in [(10, RGBColor(214, 68, 40)), (40, RGBColor(40, 130, 150))] {
        let profile = scene.last_profile(cells)?;
        let width = scene.length.get() / cells as f64;
        let stairs = |values: Vec<f64>| {
            values.into_iter().enumerate().flat_map(move |(cell, density)| {
                let at = cell as f64 * width;
                [(at, density), (at + width, density)]
            })
        };
        chart
            .draw_series(LineSeries::new(stairs(profile.cells), colour.stroke_width(2)))?
            .label(format!("CTM, {cells} cells"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let tail = scene.length.get() - scene.tail_speed() * scene.until().get();
    let (arriving, queued) = scene.densities();
    let exact = [(0.0, arriving), (tail, arriving), (tail, queued), (scene.length.get(), queued)];
    chart
        .draw_series(LineSeries::new(exact, BLACK))?
        .label("LWR, exact")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK));
    chart
        .configure_series_labels()
        .border_style(BLACK.mix(0.2))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;

    let (finest, widest) = (points[points.len() - 1].0 * 0.8, points[0].0 * 1.25);
    let (least, most) = (points[points.len() - 1].1 * 0.7, points[0].1 * 1.4);
    let mut chart = ChartBuilder::on(&right)
        .caption(format!("error against cell length: order {slope:.2}"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d((finest..widest).log_scale(), (least..most).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("cell length (m)")
        .y_desc("mean L1 error (vehicles)")
        .light_line_style(TRANSPARENT)
        .draw()?;
    let first = points[0].1 / points[0].0;
    let line = points.iter().map(|&(cell, _)| (cell, first * cell));
    chart.draw_series(LineSeries::new(line, BLACK.mix(0.4)))?;
    let measured = RGBColor(214, 68, 40);
    chart.draw_series(LineSeries::new(points.iter().copied(), measured.stroke_width(2)))?;
    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, measured.filled())))?;
    area.present()?;
    Ok(())
}
