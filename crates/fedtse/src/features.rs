//! `fedtse features`: link-time features of a dataset.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use experiments::data::features::{FeatureOptions, FleetErrors, make_stored};
use sensing::FeaturesManifest;
use serde_json::json;

/// Turn trajectories into link-time features, per fleet
///
/// Writes the folder `features` into the dataset: totals of travel time and distance per link and
/// step, and per cell and sub-step, for each fleet and for all vehicles; loop counts; turns; trips;
/// targets raw and smooth.
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse features data/corridor --rates 20,40,60,80 --seed 1")]
pub(crate) struct FeaturesArguments {
    /// The dataset
    folder: PathBuf,
    #[command(flatten)]
    options: FeatureOptions,
}

pub(crate) fn run(arguments: &FeaturesArguments, json: bool) -> Result<()> {
    let made = make_stored(&arguments.folder, &arguments.options)?;
    if json {
        println!("{}", json!(made));
    } else {
        print_summary(&arguments.folder, &made.features);
        print_scale_up(&made.scale_up);
    }
    Ok(())
}

fn print_summary(folder: &Path, manifest: &FeaturesManifest) {
    let report = &manifest.report;
    println!(
        "{}: {} complete steps of {} s in {} range(s), {} fleets, loops counted by {}",
        folder.join("features").display(),
        manifest.held.len(),
        manifest.step_s.get(),
        manifest.held.ranges().len(),
        manifest.fleets.len(),
        manifest.loops
    );
    let relative = |a: f64, b: f64| if b == 0.0 { 0.0 } else { ((a - b) / b).abs() };
    println!(
        "trajectories: {:.0} vehicle-seconds, {:.0} m; boxes differ by {:.1e} and {:.1e} relative",
        report.trajectory_time_s,
        report.trajectory_distance_m,
        relative(report.box_time_s, report.trajectory_time_s),
        relative(report.box_distance_m, report.trajectory_distance_m)
    );
    println!("tracks broken: {} by gaps, {} by jumps", report.gaps, report.jumps);
}

/// The table of scale-up errors.
pub(crate) fn print_scale_up(errors: &[FleetErrors]) {
    if errors.is_empty() {
        return;
    }
    println!("\nscale-up (fleet totals ÷ rate) on the target links, RMSE; in brackets what");
    println!("binomial sampling of vehicles explains");
    let widest = errors.iter().map(|row| row.fleet.chars().count()).max().unwrap_or(0).max(5);
    let (density, flow) = ("density veh/km/lane", "flow veh/min/lane");
    println!("{:<widest$} {:>6}   {density:>21}   {flow:>21}", "fleet", "rate");
    for FleetErrors { fleet, errors: row } in errors {
        println!(
            "{fleet:<widest$} {:>5.1}%   {:>11.2}  ({:>6.2})   {:>11.2}  ({:>6.2})",
            row.rate * 100.0,
            row.density_rmse,
            row.density_expected,
            row.flow_rmse,
            row.flow_expected
        );
    }
}
