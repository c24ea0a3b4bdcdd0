//! Host and guest of a federation that learns sums over guests alone, as [`federation::sums`] drives them.
//!
//! The host trains [`Method::centralised`](crate::Method::centralised) on the sum, by itself: the same as
//! [`TrainOptions::fit`](crate::TrainOptions::fit) with all guests in this process, bit for bit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use estimator::artifact::{DataSpec, PARTY_FORMAT, SummedGuest, SummedHost};
use estimator::data::{FleetRows, FleetSum, SumColumns, SumLayout, Timeline};
use estimator::{FleetData, GuestFeatures, PartyFile, Study};
use federation::ModelFailure;
use federation::sums::{BlockSum, SumRows};
use indicatif::ProgressBar;
use protocol::message::parts::{HeldSteps, StepRange, Text};
use protocol::message::sums::{Block, SumPlan, SumTerms};
use protocol::{MeasurementKind, PartyId, RunId};
use sealed::aggregate::FixedPoint;
use sensing::part_name;
use traffic::Step;

use super::contribution::Contribution;
use super::policy::PrivacyContext;
use super::privacy::Mode;
use crate::aggregate::{JOINED, check_noise, columns, fixed_point};
use crate::error::{Context, Result, TrainingError, ensure};
use crate::fingerprint::run_fingerprint;
use crate::task::{Fitted, TrainOptions, Watch};

/// What the host brings: its loops, ground truth if there is any, and what it trains on the sum.
pub struct SumHostPart {
    options: TrainOptions,
    study: Study,
    layout: SumLayout,
    columns: SumColumns,
    folds: u16,
}

impl SumHostPart {
    /// Reads the host's data for a federated method.
    ///
    /// # Errors
    /// If they do not fit the method.
    pub fn read(folder: &Path, options: TrainOptions) -> Result<Self> {
        let centralised = options.method.centralised();
        let centralised = centralised.context("method: expected a federated one")?;
        ensure!(options.federation.is_summed(), "fusion: found concatenate, expected sum");
        options.method.check_target(options.target)?;
        let study = match Study::open_fleets(folder, &[]) {
            Ok(study) => study,
            Err(_) if !options.method.learns_from_truth() => Study::without_truth(folder)?,
            Err(error) => return Err(error.into()),
        };
        let study = study.windowed(options.recipe.window())?;
        let folds = centralised.folds().unwrap_or(1);
        let columns = columns(centralised);
        let layout = SumLayout::new(study.timeline(), folds, columns);
        Ok(Self { options, study, layout, columns, folds: folds as u16 })
    }

    /// What is summed.
    pub fn plan(&self) -> SumPlan {
        let span = self.study.train_span();
        SumPlan {
            terms: terms(self.study.timeline()),
            folds: self.folds,
            cells: self.layout.cells() as u32,
            movements: self.columns.movements,
            queues: self.columns.queues,
            width: self.layout.width() as u32,
            training: StepRange { first: span.start().0, last: span.end().0 },
        }
    }

    /// The steps that it has.
    pub fn held(&self) -> Result<HeldSteps> {
        held(self.study.timeline())
    }

    /// What sums that are kept belong to.
    pub fn fingerprint(&self, guests: &[String]) -> Result<Text> {
        let timeline = self.study.timeline();
        let width = self.layout.width();
        run_fingerprint(&(guests, timeline.network_hash(), timeline.windows(), self.folds, width))
    }

    /// What it is to train.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// Trains on sums, keeps the model in a folder if one is given, and estimates the test part. Gives the study that it was trained on.
    pub fn fit(
        self,
        sums: &[BlockSum],
        guests: &[String],
        keep: Option<(&Path, &PartyId, RunId)>,
        bar: &ProgressBar,
    ) -> Result<(Study, TrainOptions, Fitted)> {
        let mut held = sensing::HeldSteps::default();
        sums.iter().flat_map(|sum| sum.block.steps()).for_each(|step| held.push(step));
        let same = held.iter().eq(self.study.timeline().steps());
        let study = if same { self.study } else { self.study.holding(held)? };
        let (width, number) = (self.layout.width(), fixed_point()?);
        let mut sum = FleetSum::new(self.layout, study.timeline());
        if self.options.federation.privacy.privacy == Some(Mode::AggregateNoise) {
            sum = sum.with_noise();
        }
        for block in sums {
            let rows = number.decode(block.guests, &block.words)?;
            rows.chunks(width).try_for_each(|row| sum.push(row))?;
        }
        let summed = sum.finish(JOINED, None)?;
        if let Some((folder, name, run)) = keep {
            let timeline = study.timeline();
            let part = SummedHost { common: DataSpec::of(timeline), whole: summed.whole };
            let file = party_file(name, run, timeline, part);
            file.write_without_weights(folder, timeline.network())?;
        }
        let keep = keep.map(|(folder, ..)| folder);
        let study = study.with_fleets(summed);
        let folds = usize::from(self.folds);
        let names = guests.iter().map(|guest| match folds {
            1 => vec![guest.clone()],
            _ => (1..=folds).map(|part| part_name(guest, part, folds)).collect(),
        });
        let (windows, watch) = (study.split().test.clone(), Watch::default());
        let keep = (names.collect(), keep);
        let fitted = self.options.fit_summed(&study, &windows, watch, keep, bar)?;
        Ok((study, self.options, fitted))
    }
}

/// What a guest brings: its fleet, or the folds of its own fleet, under its policy.
pub struct SumGuestPart {
    folder: PathBuf,
    fleets: Vec<FleetData>,
    measures: BTreeSet<MeasurementKind>,
    privacy: PrivacyContext,
    ready: Option<(FleetRows, FixedPoint)>,
    /// Where it keeps what it needs live, and its name.
    keep: Option<(PathBuf, PartyId)>,
}

impl SumGuestPart {
    /// Reads a fleet, or its folds.
    ///
    /// # Errors
    /// If they cannot be read, or its policy cannot be kept to.
    pub fn read(
        folder: &Path,
        fleets: &[String],
        measures: &BTreeSet<MeasurementKind>,
        privacy: &PrivacyContext,
    ) -> Result<Self> {
        let fleets = fleets.iter().map(|fleet| FleetData::open(folder, fleet));
        let fleets = fleets.collect::<Result<Vec<_>, _>>()?;
        ensure!(!fleets.is_empty(), "fleets: found none, expected at least one");
        let (folder, measures) = (folder.to_owned(), measures.clone());
        Ok(Self { folder, fleets, measures, privacy: privacy.clone(), ready: None, keep: None })
    }

    /// The same, which keeps what a live guest of this name needs in `model` in the folder of a run.
    pub fn keeping(self, run: &Path, name: &PartyId) -> Self {
        Self { keep: Some((run.join("model"), name.clone())), ..self }
    }

    /// What all members must agree on.
    pub fn terms(&self) -> SumTerms {
        terms(self.fleets[0].timeline())
    }

    /// The steps that it has.
    pub fn held(&self) -> Result<HeldSteps> {
        held(self.fleets[0].timeline())
    }

    /// Parts of its fleet.
    pub fn folds(&self) -> u16 {
        u16::try_from(self.fleets.len()).unwrap_or(u16::MAX)
    }

    /// The fewest guests of a sum that it adds to.
    pub fn least(&self) -> usize {
        self.privacy.policy.least_participants()
    }

    /// Writes what it needs live; nothing of folds, which are no live fleets.
    fn keep_for_live(&self, run: RunId) -> Result<()> {
        let (Some((folder, name)), Some((rows, _)), [fleet]) =
            (&self.keep, &self.ready, &self.fleets[..])
        else {
            return Ok(());
        };
        let (timeline, (rate, usual)) = (fleet.timeline(), rows.size());
        let columns = SumColumns { cells: rows.layout().cells() > 0, ..SumColumns::default() };
        let (common, fleet) = (DataSpec::of(timeline), fleet.name().to_owned());
        let part = SummedGuest { common, fleet, rate, usual, columns };
        let file = party_file(name, run, timeline, part);
        file.write_without_weights(folder, timeline.network())?;
        self.privacy.policy.write(folder)
    }

    fn rows_for(&self, plan: &SumPlan) -> Result<FleetRows> {
        let (found, expected) = (self.fleets.len(), usize::from(plan.folds));
        ensure!(found == expected, "folds of the fleet: found {found}, the host sums {expected}");
        let SumPlan { cells, movements, queues, .. } = *plan;
        let columns = SumColumns { cells: cells > 0, movements, queues };
        let kinds: BTreeSet<MeasurementKind> =
            queues.then_some(MeasurementKind::Queues).into_iter().collect();
        let allowed = self.privacy.policy.kinds.as_ref().unwrap_or(&self.measures);
        ensure!(
            !queues
                || (self.measures.contains(&MeasurementKind::Queues) && kinds.is_subset(allowed)),
            "measures: the host sums queues, found none that this guest gives"
        );
        let features = match columns.cells {
            true => GuestFeatures::TotalsAndCells,
            false => GuestFeatures::Totals,
        };
        let own = self.fleets.clone();
        let own = Contribution::of(&self.folder, own, features, &kinds, &self.privacy)?;
        let Contribution { fleets, unclipped, mut tables } = own;
        check_noise(&self.privacy.policy, columns, fleets.len())?;
        let fleets = unclipped.map_or(fleets, |fleet| vec![fleet]);
        let layout = SumLayout::new(fleets[0].timeline(), fleets.len(), columns);
        let (found, expected) = (layout.width(), plan.width as usize);
        ensure!(found == expected, "numbers of a row: found {found}, the host sums {expected}");
        let training = Step(plan.training.first)..=Step(plan.training.last);
        let queues = tables.remove(&MeasurementKind::Queues);
        Ok(FleetRows::new(layout, fleets, queues, &training)?)
    }
}

impl SumRows for SumGuestPart {
    fn prepare(&mut self, plan: &SumPlan) -> Result<(), ModelFailure> {
        let ready = self.rows_for(plan).and_then(|rows| Ok((rows, fixed_point()?)));
        self.ready = Some(ready.map_err(|error| ModelFailure(told(&error)))?);
        Ok(())
    }

    fn rows(&mut self, block: Block) -> Result<Vec<u64>, ModelFailure> {
        let ready = self.ready.as_ref();
        let (rows, number) = ready.ok_or_else(|| ModelFailure("rows before a plan".to_owned()))?;
        let mut numbers = Vec::new();
        for step in block.steps() {
            rows.write(step, &mut numbers);
        }
        number.encode(&numbers).map_err(|error| ModelFailure(error.to_string()))
    }

    fn finish(&mut self, run: RunId) -> Result<(), ModelFailure> {
        self.keep_for_live(run).map_err(|error| ModelFailure(told(&error)))
    }
}

fn party_file<P>(name: &PartyId, run: RunId, timeline: &Timeline, part: P) -> PartyFile<P> {
    PartyFile {
        format: PARTY_FORMAT.into(),
        run: run.to_string(),
        name: name.to_string(),
        steps: timeline.step_spec(),
        part,
    }
}

fn told(error: &TrainingError) -> String {
    match error {
        TrainingError::In { place, source } => format!("{place}: {}", told(source)),
        other => other.to_string(),
    }
}

fn terms(timeline: &Arc<Timeline>) -> SumTerms {
    let network_hash = Text::of(timeline.network_hash());
    SumTerms { network_hash, step_s: timeline.step().get(), run: None }
}

fn held(timeline: &Arc<Timeline>) -> Result<HeldSteps> {
    Ok(HeldSteps::of(timeline.steps())?)
}
