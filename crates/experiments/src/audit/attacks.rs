//! `fedtse audit attacks`: what host and guests could find out about each other, by trying.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use estimator::Architecture;
use sealed::noise::accounting::Budget;

mod fleet_noise;
mod gradients;
mod learned;
mod products;
mod reduction;
mod report;
mod scene;
mod sums;
mod training;
mod vehicles;
mod versions;

use fleet_noise::FleetNoise;
use report::{FORMAT, Report};
use scene::Scene;

/// Run attacks on what training sends, and print what they recover in each mode
///
/// Host and guest train on the dataset for a few rounds in this process; then each attack is given what its
/// adversary sees in each mode (`clear`, `noisy-clear`, `sealed`, `sealed+noise`), and compared with the trivial
/// guess. What they mean is in SECURITY.md and docs/sealed.md.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse audit attacks --data data/corridor --rate 20 --epsilon 4"
)]
pub(super) struct AttacksArguments {
    /// The dataset, with features
    #[arg(long)]
    data: PathBuf,
    /// Penetration rate of the guest's fleet in percent
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// Seed of first weights, order and the audit's noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// ε of the modes with noise
    #[arg(long, default_value_t = 4.0)]
    epsilon: f64,
    /// δ of the modes with noise
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// The most that a guest's measurement of one link in one step is to be hidden by, in percent of its range
    #[arg(long, default_value_t = 10.0, value_parser = percentage)]
    change: f64,
    /// Exchanges of training before the attacks
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    warm_up: u32,
    /// Exchanges in which the host asks about the same steps
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Trials with a vehicle, and as many without it
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    trials: u32,
    /// A page of the results, besides
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &AttacksArguments, json: bool) -> Result<()> {
    let report = make(arguments)?;
    let found = serde_json::to_string(&report)?;
    if let Some(page) = &arguments.html {
        crate::report::write_attacks(page, &found)?;
    }
    if json {
        println!("{found}");
    } else {
        report::print(&report);
    }
    Ok(())
}

/// Runs the attacks.
pub(super) fn make(arguments: &AttacksArguments) -> Result<Report> {
    let budget = Budget::new(arguments.epsilon, arguments.delta)?;
    let scene = Scene::open(&arguments.data, arguments.rate)?;
    let choices = products::Choices {
        seed: arguments.seed,
        warm_up: arguments.warm_up as usize,
        rounds: arguments.rounds as usize,
        budget,
        change: arguments.change / 100.0,
    };
    let noise = FleetNoise::new(scene.study.network(), budget)?;
    let mut attacks = Vec::new();
    let bar = progress::bar("attacks", 5);
    for architecture in [Architecture::Paper, Architecture::Link] {
        attacks.extend(products::attacks(&scene, architecture, &choices)?);
        bar.inc(1);
    }
    for architecture in [Architecture::Paper, Architecture::Link] {
        let (warm_up, seed) = (choices.warm_up, arguments.seed);
        attacks.extend(learned::attacks(&scene, architecture, &noise, warm_up, seed)?);
        bar.inc(1);
    }
    let trials = arguments.trials as usize;
    let study = &scene.study;
    attacks.push(vehicles::membership(&arguments.data, study, &noise, trials, arguments.seed)?);
    bar.finish_and_clear();
    Ok(Report {
        format: FORMAT,
        data: arguments.data.display().to_string(),
        rate: arguments.rate,
        seed: arguments.seed,
        epsilon: arguments.epsilon,
        delta: arguments.delta,
        attacks,
    })
}

fn percentage(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| *share > 0.0 && *share <= 100.0);
    share.ok_or_else(|| "expected a percentage, more than 0 and at most 100".to_owned())
}
