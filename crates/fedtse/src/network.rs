//! `fedtse network`: makes, checks and changes network files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use experiments::data::network_edits::{EditedNetwork, NetworkEdit};
use serde_json::json;
use traffic::{GridPlan, Metres, Network, corridor, grid, network_hash, write_network};

/// Make, check or change a network file
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse network grid --rows 10 --columns 10 --out city.toml\n  fedtse network check city.toml\n  fedtse network edit data/city --loops 10% --targets E3,E4"
)]
pub(crate) struct NetworkArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The corridor of the paper: 17 links, 7 signals
    Corridor {
        /// Where to write it; the standard output if absent
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// A grid city of any size
    Grid {
        /// Junctions from south to north
        #[arg(long, default_value_t = 5)]
        rows: usize,
        /// Junctions from west to east
        #[arg(long, default_value_t = 5)]
        columns: usize,
        /// Metres between junctions
        #[arg(long, default_value_t = 150.0)]
        block: f64,
        /// Lanes of each direction
        #[arg(long, default_value_t = 2)]
        lanes: u8,
        /// A loop on every n-th link, 0 for none
        #[arg(long, default_value_t = 5)]
        loop_every: usize,
        /// Where to write it; the standard output if absent
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Read a network file and say what is in it
    Check {
        /// The file
        file: PathBuf,
    },
    /// Change loops, signals and targets of a network file, or of a dataset and its network alike
    ///
    /// Links and turns stay as they are: data lie on them. When the loops of a dataset change, its features,
    /// which count at them, are deleted.
    #[command(
        after_help = "Examples:\n  fedtse network edit data/city --loops 10% --targets E3,E4\n  fedtse network edit data/city --net city.net.xml --additional signals.add.xml\n  fedtse network edit data/city --from edited.toml"
    )]
    Edit(NetworkEdit),
}

pub(crate) fn run(arguments: &NetworkArguments, json: bool) -> Result<()> {
    match &arguments.what {
        What::Corridor { out } => write(&corridor()?, out.as_deref(), json),
        What::Grid { rows, columns, block, lanes, loop_every, out } => {
            let plan = GridPlan {
                rows: *rows,
                columns: *columns,
                block: Metres::new(*block),
                lanes: *lanes,
                loop_every: *loop_every,
            };
            write(&grid(plan)?, out.as_deref(), json)
        }
        What::Check { file } => {
            describe(&sensing::read_network(file)?, json);
            Ok(())
        }
        What::Edit(edit) => {
            let EditedNetwork { network, features_deleted } = edit.run()?;
            describe(&network, json);
            if features_deleted && !json {
                let folder = edit.path.display();
                println!(
                    "  features deleted, since they count at the loops: make them anew with `fedtse features {folder}`"
                );
            }
            Ok(())
        }
    }
}

/// Writes a network file, or prints it.
pub(crate) fn write(network: &Network, out: Option<&Path>, json: bool) -> Result<()> {
    match out {
        None => print!("{}", write_network(network)),
        Some(path) => {
            durable::write(path, write_network(network))?;
            describe(network, json);
        }
    }
    Ok(())
}

fn describe(network: &Network, json: bool) {
    let kilometres: f64 = network.links().iter().map(|link| link.length.get() / 1000.0).sum();
    let (entries, exits) = (network.entries().count(), network.exits().count());
    let hash = network_hash(network);
    if json {
        let summary = json!({
            "name": network.name(),
            "links": network.links().len(),
            "turns": network.turns().len(),
            "signals": network.signals().len(),
            "loops": network.loops().len(),
            "entries": entries,
            "exits": exits,
            "kilometres": kilometres,
            "hash": hash,
        });
        println!("{summary}");
        return;
    }
    println!("{}", network.name());
    println!(
        "  {} links ({kilometres:.1} km), {} turns, {entries} entries, {exits} exits",
        network.links().len(),
        network.turns().len(),
    );
    println!("  {} signals, {} loops", network.signals().len(), network.loops().len());
    println!("  {hash}");
}
