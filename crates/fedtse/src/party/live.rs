//! Live estimation by trained parties: `fedtse live host` and `fedtse live guest`.
//!
//! ```text
//! records ──► features of the closed step ──► window ──► sub-model ──► embedding ──► host
//!                                                          host: loops, embeddings ──► estimate
//!                                                                └─► HTTP: JSON, server-sent events
//! ```
//!
//! The same features, windows and models as in training; [`federation::live`] says who waits for whom.

mod board;
mod borders;
mod feed;
mod guest;
mod guest_config;
mod guest_feed;
mod host;
mod host_config;
mod host_feed;
mod latencies;
pub(crate) mod pace;

mod records;

use anyhow::Context;
use anyhow::Result;
use clap::{Args, Subcommand};
use estimator::PartyFile;
use protocol::RunId;
use protocol::message::live::LiveTerms;
use protocol::message::parts::Text;

pub use guest::join_live;
pub use host::lead_live;

/// Estimate live, step by step, with parties that were trained by `fedtse host` and `fedtse guest`
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse live host --example > live.toml\n  fedtse live host --config live.toml"
)]
pub(crate) struct LiveArguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    Host(host::LiveHostArguments),
    Guest(guest::LiveGuestArguments),
}

pub(crate) fn run(arguments: &LiveArguments, json: bool) -> Result<()> {
    match &arguments.role {
        Role::Host(arguments) => host::run(arguments, json),
        Role::Guest(arguments) => guest::run(arguments, json),
    }
}

/// What a trained party and its peers must agree on.
fn terms<P>(file: &PartyFile<P>, network_hash: &str, window: usize) -> Result<LiveTerms> {
    let run = u64::from_str_radix(&file.run, 16)
        .with_context(|| format!("party.json: run: found {:?}, expected 16 digits", file.run))?;
    Ok(LiveTerms {
        run: RunId(run),
        network_hash: Text::of(network_hash),
        step_s: file.steps.step_s,
        window: window as u32,
    })
}
