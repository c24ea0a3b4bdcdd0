//! `fedtse inspect`: what is in a dataset.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sensing::{Dataset, FeaturePlan, FeatureTable, Features, Fleets, Recording};
use serde::Serialize;
use serde_json::json;
use traffic::{Network, Seconds, network_hash};

use experiments::data::features::{self};
use experiments::link_table::{LinkRow, link_rows, render, render_beside};
use experiments::plot;

/// Show what is in a dataset: a table of links, coverage, gaps; and pictures
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse inspect data/corridor\n  fedtse inspect data/corridor --plot pictures\n  fedtse inspect data/builtin --beside data/sumo"
)]
pub(crate) struct InspectArguments {
    /// The dataset; features are made if it has none
    folder: PathBuf,
    /// Another dataset of the same network, to show side by side
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Write a time–space speed diagram and density curves as SVG into this folder
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Links of the pictures, in order; if absent, the busiest way through the network, and the first target links
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, requires = "plot")]
    along: Vec<String>,
    /// First minute of the time–space diagram; the busiest span if absent
    #[arg(long, requires = "plot")]
    from_minute: Option<f64>,
    /// Minutes that the time–space diagram shows
    #[arg(long, requires = "plot", default_value_t = 60.0)]
    minutes: f64,
}

/// How much of the traffic a fleet sees.
#[derive(Serialize)]
struct Coverage {
    fleet: String,
    rate: f64,
    /// Share of all vehicle-seconds.
    time_share: f64,
    /// Share of the link-steps with any vehicle where it has one.
    box_share: f64,
}

struct View {
    dataset: Dataset,
    step: Seconds,
    truth: FeatureTable,
    rows: Vec<LinkRow>,
    coverage: Vec<Coverage>,
    scale_up: Vec<features::FleetErrors>,
}

pub(crate) fn run(arguments: &InspectArguments, json: bool) -> Result<()> {
    let view = View::open(&arguments.folder)?;
    if let Some(other) = &arguments.beside {
        return beside(&view, &View::open(other)?, json);
    }
    let network = view.dataset.network();
    let (plots, shown) = match &arguments.plot {
        None => (Vec::new(), None),
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
            let along = named_links(network, &arguments.along)?;
            let span =
                plot::Span { from_minute: arguments.from_minute, minutes: arguments.minutes };
            let (plots, shown) = plot::draw(folder, network, view.step, &view.truth, &along, span)?;
            (plots, Some(shown).filter(|shown| shown.links < shown.of))
        }
    };
    if json {
        let manifest = view.dataset.manifest();
        let value = json!({
            "dataset": manifest,
            "links": view.rows,
            "coverage": view.coverage,
            "gaps": gaps(&manifest.recordings),
            "scale_up": view.scale_up,
            "plots": plots,
        });
        println!("{value}");
        return Ok(());
    }
    view.print();
    for plot in &plots {
        println!("wrote {}", plot.display());
    }
    if let Some(plot::Shown { links, of }) = shown {
        println!("density.svg shows the first {links} of {of} links; choose others with --along");
    }
    Ok(())
}

impl View {
    fn open(folder: &Path) -> Result<Self> {
        let dataset = Dataset::open(folder)?;
        if !folder.join("features").join("manifest.json").exists() {
            let fleets = Fleets::nested(&[0.2, 0.4, 0.6, 0.8], 1)?;
            features::make(&dataset, FeaturePlan::paper(fleets), Seconds::new(f64::NEG_INFINITY))?;
        }
        let stored = Features::open(folder, dataset.network())?;
        let step = stored.manifest().step_s;
        let truth = stored.all()?;
        let rows = link_rows(dataset.network(), step, &truth);
        let mut coverage = Vec::new();
        for fleet in &stored.manifest().fleets {
            coverage.push(cover(&fleet.name, fleet.rate, &truth, &stored.fleet(&fleet.name)?));
        }
        let scale_up = features::scale_up(&stored, dataset.network(), &truth)?;
        Ok(Self { dataset, step, truth, rows, coverage, scale_up })
    }

    fn print(&self) {
        let manifest = self.dataset.manifest();
        let source: Vec<String> =
            manifest.source.iter().map(|(key, value)| format!("{key} {value}")).collect();
        println!("{} ({})", self.dataset.folder().display(), source.join(", "));
        println!(
            "{} vehicles, {} positions, {} complete steps of {} s",
            manifest.vehicles,
            manifest.samples,
            self.truth.held.len(),
            self.step.get()
        );
        for recording in &manifest.recordings {
            println!(
                "recording from {} to {} ({:.1} min)",
                recording.begin,
                recording.end,
                (recording.end - recording.begin).get() / 60.0
            );
        }
        for gap in gaps(&manifest.recordings) {
            println!("gap of {:.0} s after {} s", gap.seconds, gap.after_s);
        }
        println!("\n{}", render(&self.rows));
        println!(
            "coverage: share of vehicle-seconds, and of the link-steps with traffic, that a fleet sees"
        );
        for row in &self.coverage {
            println!(
                "  {:<10} {:>5.1} %  {:>5.1} %",
                row.fleet,
                100.0 * row.time_share,
                100.0 * row.box_share
            );
        }
        crate::features::print_scale_up(&self.scale_up);
    }
}

fn cover(name: &str, rate: f64, truth: &FeatureTable, fleet: &FeatureTable) -> Coverage {
    let seconds =
        |table: &FeatureTable| -> f64 { table.totals.iter().map(|totals| totals.time.get()).sum() };
    let busy = |table: &FeatureTable| {
        table.totals.iter().filter(|totals| totals.time > Seconds::ZERO).count().max(1) as f64
    };
    Coverage {
        fleet: name.into(),
        rate,
        time_share: seconds(fleet) / seconds(truth).max(f64::MIN_POSITIVE),
        box_share: busy(fleet) / busy(truth),
    }
}

#[derive(Serialize)]
struct Gap {
    after_s: f64,
    seconds: f64,
}

fn gaps(recordings: &[Recording]) -> Vec<Gap> {
    recordings
        .windows(2)
        .map(|pair| Gap {
            after_s: pair[0].end.get(),
            seconds: (pair[1].begin - pair[0].end).get(),
        })
        .collect()
}

fn named_links(network: &Network, names: &[String]) -> Result<Vec<traffic::LinkId>> {
    let links = names.iter().map(|name| {
        network
            .link_named(name)
            .with_context(|| format!("--along: found \"{name}\", expected a link of the network"))
    });
    links.collect()
}

fn beside(a: &View, b: &View, json: bool) -> Result<()> {
    let hashes = [a, b].map(|view| network_hash(view.dataset.network()));
    ensure!(
        hashes[0] == hashes[1],
        "{}: network hash: found {}, expected {} as in {}",
        b.dataset.folder().display(),
        hashes[1],
        hashes[0],
        a.dataset.folder().display()
    );
    if json {
        println!("{}", json!({ "first": a.rows, "second": b.rows }));
        return Ok(());
    }
    let name = |view: &View| {
        let world = view.dataset.manifest().source.get("world").cloned();
        world.unwrap_or_else(|| view.dataset.folder().display().to_string())
    };
    print!("{}", render_beside([&name(a), &name(b)], [&a.rows, &b.rows]));
    println!(
        "mean ± standard deviation over {} and {} steps",
        a.truth.held.len(),
        b.truth.held.len()
    );
    Ok(())
}
