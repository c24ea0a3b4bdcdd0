//! Runs jobs, several at a time, each with its share of the cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use estimator::artifact::{Coverage, IntervalsError};
use estimator::{Architecture, Estimates, Intervals, Study, score};
use indicatif::ProgressBar;
use sensing::Split;
use traffic::Step;

use super::datasets::{Datasets, Source};
use super::job::{Absent, Estimator, Job, JobFolder, Moment, Record, Settings};
use super::peer::Peer;
use super::program::Program;
use super::series;
use training::{
    FederationOptions, Fitted, GuestOptions, PhysicsOptions, RecipeOptions, TrainOptions,
};

/// What jobs need to run.
pub(super) struct Workshop<'a> {
    pub settings: &'a Settings,
    pub datasets: &'a Datasets,
    pub program: &'a Program,
    pub peer: Option<&'a Peer>,
    pub command: &'a str,
    pub folder: &'a JobFolder,
}

/// A job that could not be done.
pub(super) struct Failure {
    pub job: Job,
    pub error: anyhow::Error,
}

impl Workshop<'_> {
    /// Runs all jobs, `at_once` at a time, in order; returns those that failed. Each job's file is
    /// there as soon as it is done.
    pub(super) fn run_all(
        &self,
        jobs: &[Job],
        at_once: usize,
        cores: usize,
    ) -> Result<Vec<Failure>> {
        let bar = progress::bar("jobs", jobs.iter().map(Job::weight).sum());
        let threads = (cores / at_once).max(1);
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let watched = progress::observer();
        let run = |job: &Job| {
            progress::observed_by(watched.as_ref(), || {
                progress::check_stop()?;
                self.run(job, threads)
            })
        };
        let pools = (0..at_once.min(jobs.len()))
            .map(|_| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
        let pools = pools.collect::<Result<Vec<_>, _>>().context("threads")?;
        std::thread::scope(|scope| {
            for pool in &pools {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let number = next.load(Ordering::Relaxed).min(jobs.len());
                        bar.set_message(format!("{number}/{} {}", jobs.len(), job.name()));
                        // One that panics must not end the others.
                        let run = || pool.install(|| run(job));
                        let done = catch_unwind(AssertUnwindSafe(run));
                        if let Err(error) = done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                            let text = crate::error_chain(&error);
                            if progress::check_stop().is_ok() {
                                // What cannot be kept is still told at the end.
                                let _ = self.folder.write_failure(job, &text);
                            }
                            let mut failures =
                                failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            failures.push(Failure { job: *job, error });
                        }
                        bar.inc(job.weight());
                    }
                });
            }
        });
        bar.finish_and_clear();
        Ok(failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn run(&self, job: &Job, threads: usize) -> Result<()> {
        let begun = Instant::now();
        let dataset = self
            .datasets
            .get(&job.data())
            .with_context(|| format!("demand seed {}: no dataset", job.demand_seed))?;
        let (settings, program) = (self.settings.clone(), self.program.clone());
        let mut record = Record::new(*job, settings, dataset.facts.clone(), program);
        record.command = self.command.to_owned();
        match job.estimator {
            Estimator::Own(method) => {
                let mut task = TrainOptions {
                    method,
                    architecture: job.architecture.unwrap_or(Architecture::Link),
                    target: job.target,
                    seed: job.training_seed.unwrap_or(0),
                    epochs: self.settings.epochs,
                    learning_rate: None,
                    recipe: RecipeOptions::default(),
                    guest: GuestOptions::default(),
                    federation: FederationOptions::clear(),
                    physics: PhysicsOptions::default(),
                };
                job.variant.apply(&mut task);
                let mut study = study(&dataset.folder, job, &task)?;
                if self.settings.world == Source::Pneuma {
                    study = study.by_recording()?;
                }
                fit(&task, &study, &mut record)?;
            }
            Estimator::Peer(boosting) => {
                let peer = self.peer.context("gradient boosting is not installed")?;
                let (score, made_by) = peer.run(boosting, job, &dataset.folder, threads)?;
                record.score = score;
                record.peer = Some(made_by);
            }
        }
        record.seconds = begun.elapsed().as_secs_f64();
        self.folder.write(&record)
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> anyhow::Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    anyhow!("panicked: {}", text.unwrap_or("without a word"))
}

/// The windows of a job. Those who see no fleet open any: they do not read it.
fn study(folder: &Path, job: &Job, task: &TrainOptions) -> Result<Study> {
    let fleets = task.fleets(f64::from(job.rate.unwrap_or(20)));
    let fleets: Vec<&str> = fleets.iter().map(String::as_str).collect();
    let study = Study::open_fleets(folder, &fleets)?;
    match (job.samples, job.variant.labels) {
        (Some(samples), _) => Ok(study.with_samples(samples)?),
        (None, Some(share)) if job.estimator.learns_from_truth() => {
            Ok(study.with_label_share(share.into()))
        }
        _ => Ok(study),
    }
}

fn fit(task: &TrainOptions, study: &Study, record: &mut Record) -> Result<()> {
    let Split { validation, test, .. } = study.split();
    let windows = [&validation[..], &test[..]].concat();
    let watch = record.job.variant.watch();
    let fitted = task.fit(study, &windows, watch, None, &ProgressBar::hidden())?;
    let scored = |estimates: &Estimates| {
        let (judged, tested) = estimates.split_at(validation.len() * study.targets().len());
        Moment {
            validation: score(study, task.target, validation, judged),
            test: score(study, task.target, test, tested),
        }
    };
    let end = scored(&fitted.estimates);
    record.intervals = coverage(task, study, &fitted)?;
    (record.validation, record.score) = (Some(end.validation), end.test);
    record.curve = fitted.by_epoch.iter().map(scored).collect();
    record.absent = fitted
        .absent
        .into_iter()
        .map(|(guest, estimates)| Absent { guest, score: scored(&estimates).test })
        .collect();
    if record.job.variant.series {
        let tested = &fitted.estimates[validation.len() * study.targets().len()..];
        record.series = series::of_links(study, task.target, test, tested);
    }
    record.own_estimate = fitted
        .estimated_errors
        .and_then(|errors| errors.rmse.into_iter().collect::<Option<Vec<f64>>>())
        .and_then(|errors| errors.try_into().ok());
    if let Some(training) = fitted.training {
        record.best_epoch = training.best_epoch;
        record.epochs = Some(training.history.len());
        record.exchanges = Some(training.exchanges);
        (record.rounds, record.bytes) = (training.rounds, training.bytes);
    }
    Ok(())
}

/// How often intervals hold the truth of the test part. They come from the validation part: from what held-out folds tell of its errors,
/// or from its errors on the target links where truth is learned from. None of a method that has no intervals.
fn coverage(task: &TrainOptions, study: &Study, fitted: &Fitted) -> Result<Vec<Coverage>> {
    let (Split { validation, test, .. }, targets) = (study.split(), study.targets());
    let truths = |windows: &[Step]| -> Estimates {
        let of_window =
            |&step| targets.iter().map(move |&link| study.target(task.target, step, link));
        windows.iter().flat_map(of_window).collect()
    };
    let (judged, tested) = fitted.estimates.split_at(validation.len() * targets.len());
    let (made, places): (_, Vec<usize>) = match &fitted.known_errors {
        Some(errors) => {
            (Intervals::of_errors(errors), targets.iter().map(|link| link.index()).collect())
        }
        None if task.method.learns_from_truth() => {
            let made = Intervals::calibrate(judged, &truths(validation), targets.len());
            (made, (0..targets.len()).collect())
        }
        None => return Ok(Vec::new()),
    };
    match made {
        Err(IntervalsError::TooFew { .. }) => Ok(Vec::new()),
        made => Ok(Coverage::measure(&made?, &places, tested, &truths(test))?),
    }
}
