//! Pictures of a dataset, as SVG.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::style::RGBColor;
use sensing::FeatureTable;
use traffic::{LinkId, Network, Seconds};

mod density_curves;
pub(crate) mod panels;
mod time_space;

/// Which minutes the time–space diagram shows.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first; the busiest span if absent.
    pub from_minute: Option<f64>,
    /// How many.
    pub minutes: f64,
}

/// How many links a picture shows, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub links: usize,
    pub of: usize,
}

/// Draws everything into a folder and returns the files, and what the curves show of the links.
pub fn draw(
    folder: &Path,
    network: &Network,
    step: Seconds,
    truth: &FeatureTable,
    along: &[LinkId],
    span: Span,
) -> Result<(Vec<PathBuf>, Shown)> {
    ensure!(
        span.minutes > 0.0 && span.minutes.is_finite(),
        "--minutes: found {}, expected more than 0",
        span.minutes
    );
    let chosen = along;
    let along = if along.is_empty() { busiest_way(network, truth) } else { along.to_vec() };
    let diagram = folder.join("time-space.svg");
    time_space::draw(&diagram, network, step, truth, &along, span)?;
    let curves = folder.join("density.svg");
    let shown = density_curves::draw(&curves, network, step, truth, chosen)?;
    Ok((vec![diagram, curves], shown))
}

/// From the busiest entry, always on along the busiest next link.
pub(crate) fn busiest_way(network: &Network, truth: &FeatureTable) -> Vec<LinkId> {
    let mut metres = vec![0.0; network.links().len()];
    for (at, totals) in truth.totals.iter().enumerate() {
        metres[at % truth.links] += totals.distance.get();
    }
    let flow = |id: LinkId| metres[id.index()] / network.link(id).length.get();
    let busiest = |links: &mut dyn Iterator<Item = LinkId>| {
        links.max_by(|&a, &b| flow(a).total_cmp(&flow(b)))
    };
    let start = busiest(&mut network.entries()).or_else(|| busiest(&mut network.link_ids()));
    let mut way: Vec<LinkId> = start.into_iter().collect();
    while let Some(&last) = way.last() {
        let next = network.outgoing(last).iter().map(|&turn| network.turn(turn).to);
        let mut fresh = next.filter(|link| !way.contains(link));
        match busiest(&mut fresh) {
            Some(next) if way.len() < 40 => way.push(next),
            _ => break,
        }
    }
    way
}

/// Colours from 0 (standing) to 1 (free): dark red over yellow to blue-green, told apart by
/// lightness too, so that colour-blind readers see the queues.
fn speed_colour(share: f64) -> RGBColor {
    const STOPS: [(f64, [f64; 3]); 5] = [
        (0.0, [94.0, 0.0, 30.0]),
        (0.25, [214.0, 68.0, 40.0]),
        (0.5, [253.0, 190.0, 90.0]),
        (0.75, [190.0, 225.0, 190.0]),
        (1.0, [40.0, 130.0, 150.0]),
    ];
    let share = share.clamp(0.0, 1.0);
    let upper = STOPS.iter().position(|&(at, _)| share <= at).unwrap_or(STOPS.len() - 1).max(1);
    let ((a, low), (b, high)) = (STOPS[upper - 1], STOPS[upper]);
    let part = (share - a) / (b - a);
    let [red, green, blue] = [0, 1, 2].map(|i| (low[i] + part * (high[i] - low[i])).round() as u8);
    RGBColor(red, green, blue)
}

/// The drawing library's errors, with the file they concern.
pub(crate) fn with_path<T, E: std::error::Error + Send + Sync>(
    path: &Path,
    result: Result<T, DrawingAreaErrorKind<E>>,
) -> Result<T> {
    result.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}
