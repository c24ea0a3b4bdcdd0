//! What every result says of itself: what it is, by what it was made, and what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use super::datasets::Facts;
use super::job::{Record, Settings};
use super::plan::{Range, TablePlan};
use super::program::Program;
use super::scene::Scene;

/// See the [module](self).
#[derive(Serialize)]
pub(super) struct ResultHeader {
    pub table: &'static str,
    pub title: &'static str,
    /// A small version, to see that the program works: its numbers mean nothing.
    pub quick: bool,
    pub made: Made,
    pub settings: Settings,
    /// What the datasets differ by.
    #[serde(skip)]
    pub seeds: &'static str,
    pub demand_seeds: Vec<u64>,
    pub training_seeds: Vec<u64>,
    pub datasets: Vec<Facts>,
    /// Jobs that are not in it because they have not been run.
    pub unfinished: Vec<String>,
    pub notes: Vec<String>,
}

/// By what a result was made.
#[derive(Serialize)]
pub(super) struct Made {
    pub command: String,
    pub programs: Vec<Program>,
    pub peers: Vec<String>,
    /// The day, UTC.
    pub date: String,
}

impl ResultHeader {
    pub(super) fn new(
        plan: &TablePlan,
        range: &Range,
        settings: &Settings,
        records: &BTreeMap<String, Record>,
        (command, date): (String, String),
        quick: bool,
    ) -> Self {
        let peers: BTreeSet<String> = records.values().filter_map(|one| one.peer.clone()).collect();
        let datasets: BTreeMap<(u64, Scene), Facts> =
            records.values().map(|one| (one.job.data(), one.dataset.clone())).collect();
        let jobs = plan.jobs(range).into_iter().map(|job| job.name());
        let programs: BTreeSet<Program> = records.values().map(|one| one.program.clone()).collect();
        Self {
            table: plan.name,
            title: plan.title,
            quick,
            made: Made {
                command,
                programs: programs.into_iter().collect(),
                peers: peers.into_iter().collect(),
                date,
            },
            settings: settings.clone(),
            seeds: plan.seeds,
            demand_seeds: range.seeds.clone(),
            training_seeds: range.training_seeds.clone(),
            datasets: datasets.into_values().collect(),
            unfinished: jobs.filter(|name| !records.contains_key(name)).collect(),
            notes: plan.notes.iter().map(ToString::to_string).collect(),
        }
    }

    /// Title, and by what it was made, as Markdown.
    pub(super) fn text(&self) -> String {
        let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let mut text = format!("# {}\n\n", self.title);
        if self.quick {
            text +=
                "**Quick version: it shows that the program works. Its numbers mean nothing.**\n\n";
        }
        let commits: Vec<String> =
            self.made.programs.iter().map(|one| one.commit.clone()).collect();
        let _ = write!(
            text,
            "Made on {} by `{}`, commit {}; {} {}, training seeds {}",
            self.made.date,
            self.made.command,
            commits.join(", "),
            self.seeds,
            list(&self.demand_seeds),
            list(&self.training_seeds)
        );
        if let Some(version) = self.datasets.first().and_then(|facts| facts.source.get("sumo")) {
            let _ = write!(text, "; SUMO {version}");
        }
        for peer in &self.made.peers {
            let _ = write!(text, "; {}", peer.split(',').next().unwrap_or(peer));
        }
        text + ".\n"
    }

    /// Whether anything is missing, as Markdown.
    pub(super) fn missing(&self) -> String {
        if self.unfinished.is_empty() {
            return String::new();
        }
        format!(
            "\n**{} jobs have not been run: the table is not complete.** A number in brackets says how\nmany {} a value has, where it is not all {}.\n",
            self.unfinished.len(),
            self.seeds,
            self.demand_seeds.len()
        )
    }

    /// The notes, as Markdown.
    pub(super) fn remarks(&self) -> String {
        self.notes.iter().fold("\n## Notes\n\n".to_owned(), |text, note| text + "- " + note + "\n")
    }
}
