//! Host and guest of a model of a sum over guests, live, as [`federation::live`] drives them.

use std::path::Path;
use std::sync::Arc;

use estimator::artifact::{ModelFile, SummedGuest, SummedHost};
use estimator::data::{FleetRows, LiveSum, StepSpec, SumLayout};
use estimator::{Asked, PartyFile, SavedEstimator, TargetKind};
use federation::live::SumEstimate;
use protocol::RunId;
use protocol::message::parts::{StepRange, Text};
use protocol::message::sums::{SumPlan, SumTerms};
use sealed::aggregate::FixedPoint;
use sensing::FleetFeatures;
use traffic::{LinkId, LinkState, Network, Step};

use super::contribution::LiveContribution;
use super::policy::{Policy, PolicyFile};
use crate::aggregate::{JOINED, fixed_point};
use crate::error::{Context, Result, bail, ensure};

/// The host's loops, the sum over guests, and its model.
pub struct LiveSumHostPart {
    window: LiveSum,
    model: SavedEstimator,
    number: FixedPoint,
    links: Vec<LinkId>,
    target: TargetKind,
    guests: Vec<String>,
    steps: StepSpec,
    network: Arc<Network>,
    plan: SumPlan,
    /// The last sum, and steps since that had none.
    last: Option<(Vec<f64>, usize)>,
}

impl LiveSumHostPart {
    /// Whether a folder holds the model of a sum.
    pub fn is_in(folder: &Path) -> bool {
        PartyFile::<SummedHost>::is_in(folder)
    }

    /// Reads the folder of a trained host.
    ///
    /// # Errors
    /// If it cannot be read, or its model needs more than whole fleets in a window.
    pub fn read(folder: &Path) -> Result<Self> {
        let (file, network) = PartyFile::<SummedHost>::read_without_weights(folder)?;
        let model = ModelFile::read(folder)?;
        let columns =
            model.sum.context("model.json: found a model of fleets, expected one of a sum")?;
        let in_window = file.part.common.window;
        let window = LiveSum::new(&network, (&file.steps, in_window), columns, file.part.whole);
        let mut guests = Vec::new();
        for own in &model.fleets {
            let [guest] = &own[..] else {
                bail!(
                    "model: found one of fleets in {} folds, expected one of whole fleets, as of fedtse, fedtse-cell or fedtse-pi: live sums have no folds",
                    own.len()
                );
            };
            guests.push(guest.clone());
        }
        let loaded = model.load(folder, &window.observed())?;
        ensure!(
            matches!(loaded, SavedEstimator::Neural(_)),
            "model: found one that needs more than a window, expected that of fedtse, fedtse-cell or fedtse-pi"
        );
        let terms = terms(&file.run, &file.part.common.network_hash, &file.steps)?;
        let plan = plan(terms, window.layout());
        let links = network.link_ids().collect();
        let (number, target, steps) = (fixed_point()?, model.target, file.steps);
        let (model, last) = (loaded, None);
        Ok(Self { window, model, number, links, target, guests, steps, network, plan, last })
    }

    /// What is summed.
    pub fn plan(&self) -> &SumPlan {
        &self.plan
    }

    /// The guests that were summed in training.
    pub fn guests(&self) -> &[String] {
        &self.guests
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How features are made.
    pub fn steps(&self) -> StepSpec {
        self.steps
    }

    /// What it estimates.
    pub fn target(&self) -> TargetKind {
        self.target
    }

    /// Estimates all links in the window that ends with a step. In the place of a sum that is missing, or that no guests can have, stands
    /// the last one, for as many steps as a window has.
    ///
    /// # Errors
    /// If the model cannot be used.
    pub fn estimate(
        &mut self,
        step: Step,
        counts: &[Option<u32>],
        sum: Option<(usize, &[u64])>,
    ) -> Result<SumEstimate<Vec<LinkState>>> {
        let row = sum.map(|(guests, words)| self.number.decode(guests, words)).transpose();
        let spoiled = row.is_err();
        match (row.unwrap_or_default(), &mut self.last) {
            (Some(row), last) => *last = Some((row, 0)),
            (None, Some((_, missing))) => *missing += 1,
            (None, None) => {}
        }
        let row = self.last.as_ref().filter(|(_, missing)| *missing <= self.window.steps());
        let whole = self.window.push(step, counts, row.map(|(row, _)| &row[..]))?;
        if spoiled {
            return Ok(SumEstimate::NotFinite);
        }
        if !whole {
            return Ok(SumEstimate::NoWindow);
        }
        let asked = Asked { target: self.target, links: &self.links, windows: &[step] };
        let named = [vec![JOINED.to_owned()]];
        let (states, _) = self.model.estimate(&self.window.observed(), &named, &asked)?;
        let finite =
            |state: &LinkState| state.density.get().is_finite() && state.flow.get().is_finite();
        Ok(match states.iter().all(finite) {
            true => SumEstimate::Estimate(states),
            false => SumEstimate::NotFinite,
        })
    }
}

/// A guest's fleet as what it adds to sums, under its policy.
pub struct LiveSumGuestPart {
    contribution: LiveContribution,
    rows: FleetRows,
    number: FixedPoint,
    plan: SumPlan,
    least: usize,
}

impl LiveSumGuestPart {
    /// Of a guest whose training has left this file in a folder, under that policy or one of its own.
    ///
    /// # Errors
    /// If a policy cannot be kept.
    pub fn open(
        (folder, file, network): (&Path, &PartyFile<SummedGuest>, &Arc<Network>),
        own: Option<PolicyFile>,
        noise_folder: Option<&Path>,
    ) -> Result<Self> {
        let trained = Policy::of_trained(folder)?;
        let policy = own.map_or_else(|| trained.clone(), |own| own.over(&trained));
        let contribution =
            LiveContribution::of_sum((file, network), (&policy, &trained), noise_folder)?;
        let SummedGuest { common, rate, usual, columns, .. } = &file.part;
        let rows = FleetRows::live(Arc::clone(network), &file.steps, *columns, (*rate, *usual));
        let plan = plan(terms(&file.run, &common.network_hash, &file.steps)?, rows.layout());
        let (number, least) = (fixed_point()?, policy.least_participants());
        Ok(Self { contribution, rows, number, plan, least })
    }

    /// What it adds to.
    pub fn plan(&self) -> &SumPlan {
        &self.plan
    }

    /// The fewest guests of a sum that it adds to.
    pub fn least(&self) -> usize {
        self.least
    }

    /// A step's totals as words of fixed point, as far as the policy allows.
    ///
    /// # Errors
    /// If noise cannot be kept, or a total is beyond the fixed point.
    pub fn words(&mut self, step: Step, features: &FleetFeatures) -> Result<Vec<u64>> {
        let own = self.contribution.of_step(step, features)?;
        Ok(self.number.encode(&self.rows.row_of(step, &own))?)
    }
}

fn plan(terms: SumTerms, layout: SumLayout) -> SumPlan {
    SumPlan {
        terms,
        folds: 1,
        cells: layout.cells() as u32,
        movements: false,
        queues: false,
        width: layout.width() as u32,
        // Nothing is trained on.
        training: StepRange { first: 0, last: 0 },
    }
}

fn terms(run: &str, network_hash: &str, steps: &StepSpec) -> Result<SumTerms> {
    let number = u64::from_str_radix(run, 16);
    let run =
        number.ok().with_context(|| format!("sum.json: run: found {run:?}, expected 16 digits"))?;
    let network_hash = Text::of(network_hash);
    Ok(SumTerms { network_hash, step_s: steps.step_s, run: Some(RunId(run)) })
}
