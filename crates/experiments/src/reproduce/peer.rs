//! Gradient boosting by scikit-learn: a peer, run as a program of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use estimator::{Errors, Score, TargetKind};
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::program::sha256;

/// What gradient boosting sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Boosting {
    /// Gradient boosting on loop counts alone
    BoostingN,
    /// Gradient boosting on loop counts and the fleet's totals
    Boosting,
}

/// Where `make peers` installs Python, and the script, from the project's folder.
const PYTHON: &str = ".venv-peers/bin/python";
const SCRIPT: &str = "scripts/peer_gbm.py";

/// An installed peer.
pub(super) struct Peer {
    python: PathBuf,
    script: PathBuf,
    script_hash: String,
}

/// One line of the script's output.
#[derive(Deserialize)]
struct PeerScore {
    quantity: String,
    rmse: f64,
    mae: f64,
    peer: String,
}

impl Peer {
    /// Looks in this folder and those above it.
    pub(super) fn find() -> Result<Self> {
        let here = std::env::current_dir().context("this folder")?;
        let root = here
            .ancestors()
            .find(|folder| folder.join(PYTHON).is_file() && folder.join(SCRIPT).is_file())
            .with_context(|| {
                format!(
                    "gradient boosting: found no {PYTHON} with {SCRIPT} in {} or above; `make peers` in the project's folder installs it",
                    here.display()
                )
            })?;
        let script = root.join(SCRIPT);
        let text = std::fs::read(&script).with_context(|| script.display().to_string())?;
        Ok(Self { python: root.join(PYTHON), script, script_hash: sha256(&[&text]) })
    }

    /// Runs a job on some threads; returns its score, and what made it.
    pub(super) fn run(
        &self,
        boosting: Boosting,
        job: &Job,
        data: &Path,
        threads: usize,
    ) -> Result<(Score, String)> {
        let mut command = Command::new(&self.python);
        command.arg(&self.script).arg(data).args(["--part", "test", "--json"]);
        command.env("OMP_NUM_THREADS", threads.to_string());
        match boosting {
            Boosting::BoostingN => command.args(["--rates", ""]),
            Boosting::Boosting => {
                let rate = job.rate.context("gradient boosting: a job without a rate")?;
                command.args(["--without-tse-n", "--rates", &rate.to_string()])
            }
        };
        let target = match job.target {
            TargetKind::Raw => "raw",
            TargetKind::Smooth => "smooth",
        };
        command.args(["--target", target]);
        if let Some(samples) = job.samples {
            command.args(["--samples", &samples.to_string()]);
        }
        let output = command.output().with_context(|| self.python.display().to_string())?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}: {}: {}",
            self.script.display(),
            output.status,
            error.lines().last().unwrap_or("said nothing")
        );
        let text = String::from_utf8(output.stdout).context("output of gradient boosting")?;
        let (score, version) = scores(&text)
            .with_context(|| format!("{}: unexpected output", self.script.display()))?;
        Ok((score, format!("{version}, {SCRIPT} {}", self.script_hash)))
    }
}

/// Reads one line of density and one of flow.
fn scores(text: &str) -> Result<(Score, String)> {
    let lines: Vec<PeerScore> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("JSON lines")?;
    let errors = |quantity: &str| -> Result<Errors> {
        let mut of = lines.iter().filter(|line| line.quantity == quantity);
        let line = of.next().with_context(|| format!("expected a line of {quantity}"))?;
        ensure!(of.next().is_none(), "expected one line of {quantity}, found more");
        let good = |error: f64| error.is_finite() && error >= 0.0;
        ensure!(good(line.rmse) && good(line.mae), "{quantity}: errors are not finite");
        Ok(Errors { rmse: line.rmse, mae: line.mae })
    };
    let score = Score { density: errors("density")?, flow: errors("flow")? };
    Ok((score, lines.first().map(|line| line.peer.clone()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_or_refused() {
        let line = |quantity: &str, rmse: &str| {
            format!(
                "{{\"quantity\":\"{quantity}\",\"rmse\":{rmse},\"mae\":1.0,\"peer\":\"p 1\"}}\n"
            )
        };
        let both = line("density", "2.5") + &line("flow", "0.5");
        let (score, peer) = scores(&both).unwrap();
        assert_eq!((score.density.rmse, score.flow.rmse, peer.as_str()), (2.5, 0.5, "p 1"));
        for bad in [
            String::new(),
            line("density", "2.5"),
            both.clone() + &line("flow", "0.5"),
            line("density", "-1") + &line("flow", "0.5"),
            "no JSON".into(),
        ] {
            assert!(scores(&bad).is_err(), "{bad}");
        }
    }
}
