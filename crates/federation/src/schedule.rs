//! The course of a run: which samples each exchange takes, and what is known so far.
//!
//! ```text
//! epoch:  training batches, in an order drawn from seed and epoch ► validation blocks ► verdict
//! then:   blocks of samples to be estimated with the best weights
//! ```
//!
//! Everything follows from the settings and the progress, so a run that goes on after a break takes
//! the same samples as one that had none.

use estimator::{epoch_order, segments, whole_batch};
use protocol::message::Purpose;
use protocol::party::Round;
use serde::{Deserialize, Serialize};
use traffic::{Step, Window};

/// The samples of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// To learn from.
    pub train: Vec<Window>,
    /// To judge by.
    pub validation: Vec<Window>,
    /// To be estimated at the end.
    pub estimate: Vec<Window>,
}

impl Samples {
    /// Windows of whole fleets, by their last steps.
    pub fn whole(train: &[Step], validation: &[Step], estimate: &[Step]) -> Self {
        let whole = |steps: &[Step]| steps.iter().map(|&step| Window::whole(step)).collect();
        Self { train: whole(train), validation: whole(validation), estimate: whole(estimate) }
    }

    /// Those whose last steps a condition holds for.
    pub fn filter(&self, held: impl Fn(Step) -> bool) -> Samples {
        let those = |samples: &[Window]| {
            samples.iter().copied().filter(|sample| held(sample.last)).collect()
        };
        Samples {
            train: those(&self.train),
            validation: those(&self.validation),
            estimate: those(&self.estimate),
        }
    }

    /// Those to learn from and to judge by in segments of this many steps.
    pub fn in_segments(&self, length: usize) -> Samples {
        Samples {
            train: segments(&self.train, length),
            validation: segments(&self.validation, length),
            estimate: self.estimate.clone(),
        }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Window> + '_ {
        self.train.iter().chain(&self.validation).chain(&self.estimate).copied()
    }
}

/// How the samples are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Seed of the order.
    pub seed: u64,
    /// Whether the training part is shuffled in each epoch.
    pub shuffle: bool,
    /// Steps of a segment.
    pub segment: usize,
    /// Samples of a training batch: whole segments.
    pub batch: usize,
    /// Samples of a block that is validated or estimated together.
    pub block: usize,
    /// Passes over the training part, at most.
    pub epochs: u32,
    /// Epochs without a better validation loss after which training stops.
    pub patience: u32,
}

/// How an epoch went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochLosses {
    /// Its number, from 1.
    pub number: u32,
    /// Mean loss of its batches.
    pub train: f64,
    /// Loss of the validation part after it.
    pub validation: f64,
    /// Whether someone was away who was to measure for the validation: what is not measured is not in the
    /// loss, which cannot be compared with others.
    #[serde(default)]
    pub partial: bool,
}

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    part: Purpose,
    /// Samples of the part that are done.
    position: usize,
    batches: u32,
    train_total: f64,
    validation_total: f64,
    /// Batches of this epoch from which nothing could be learned.
    #[serde(default)]
    void: u32,
    /// Whether something was missing in this epoch's validation.
    #[serde(default)]
    partial: bool,
    history: Vec<EpochLosses>,
}

/// The course of a run: which samples each exchange takes.
#[derive(Clone, Debug)]
pub struct SampleSchedule {
    samples: Samples,
    order: Order,
    /// The training part in the order of the current epoch.
    current: Vec<Window>,
    progress: Progress,
}

/// What an exchange has led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleUpdate {
    /// An epoch ended, with weights that are the best so far.
    pub best: bool,
    /// Training has ended.
    pub trained: bool,
    /// An epoch ended.
    pub epoch: bool,
}

impl SampleSchedule {
    /// Before the first exchange.
    pub fn new(samples: Samples, order: Order) -> Self {
        let progress = Progress {
            part: Purpose::Train,
            position: 0,
            batches: 0,
            train_total: 0.0,
            validation_total: 0.0,
            void: 0,
            partial: false,
            history: Vec::new(),
        };
        let samples = samples.in_segments(order.segment);
        let mut course = Self { samples, order, current: Vec::new(), progress };
        course.draw();
        course
    }

    /// Goes to some progress of the same run.
    pub fn restore(&mut self, progress: Progress) {
        self.progress = progress;
        self.draw();
    }

    /// How far it has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The epochs so far.
    pub fn history(&self) -> &[EpochLosses] {
        &self.progress.history
    }

    /// The epoch with the least validation loss so far, of those that can be compared; the first of equals. With a patience of 0 the last one.
    /// If all epochs are over and none can be compared, the last one: some weights must be kept.
    pub fn best(&self) -> Option<EpochLosses> {
        if self.order.patience == 0 {
            return self.progress.history.last().copied();
        }
        let mut best: Option<EpochLosses> = None;
        for &epoch in self.progress.history.iter().filter(|epoch| !epoch.partial) {
            if best.is_none_or(|best| epoch.validation < best.validation) {
                best = Some(epoch);
            }
        }
        let last = self.progress.history.last().filter(|last| last.number >= self.order.epochs);
        best.or(last.copied())
    }

    /// Training exchanges done.
    pub fn exchanges(&self) -> u64 {
        let each = self.samples.train.len().div_ceil(self.order.batch.max(1)) as u64;
        self.progress.history.len() as u64 * each + u64::from(self.progress.batches)
    }

    /// The round that ended the best epoch so far: each exchange is one round.
    pub fn best_round(&self) -> Option<Round> {
        let blocks = |samples: &[Window], most: usize| samples.len().div_ceil(most.max(1)) as u64;
        let each = blocks(&self.samples.train, self.order.batch)
            + blocks(&self.samples.validation, self.block());
        self.best().map(|best| Round(u64::from(best.number) * each))
    }

    /// Sum of the validation losses of this epoch's blocks so far.
    pub fn validation_total(&self) -> f64 {
        self.progress.validation_total
    }

    /// What the next exchange takes; none if all is done.
    pub fn next(&self) -> Option<(Purpose, &[Window])> {
        let part = self.progress.part;
        let rest = self.part().get(self.progress.position..).unwrap_or_default();
        let most = match part {
            Purpose::Train => self.order.batch,
            Purpose::Validate | Purpose::Estimate => self.block(),
        };
        let taken = &rest[..rest.len().min(most.max(1))];
        (!taken.is_empty()).then_some((part, taken))
    }

    /// A training exchange is done; without a loss if there was nothing to learn from.
    pub fn learned(&mut self, loss: Option<f64>) {
        self.progress.batches += 1;
        self.progress.void += u32::from(loss.is_none());
        self.progress.train_total += loss.unwrap_or(0.0);
        self.advance();
        if self.next().is_none() {
            self.enter(Purpose::Validate);
        }
    }

    /// A validation exchange is done, with this sum of losses in the epoch so far; partial if something that
    /// was to be measured is not in it.
    pub fn validated(&mut self, total: f64, partial: bool) -> ScheduleUpdate {
        self.progress.validation_total = total;
        self.progress.partial |= partial;
        self.advance();
        if self.next().is_some() {
            return ScheduleUpdate::default();
        }
        let epoch = EpochLosses {
            number: self.progress.history.len() as u32 + 1,
            train: self.progress.train_total
                / f64::from((self.progress.batches - self.progress.void).max(1)),
            validation: total / self.samples.validation.len().max(1) as f64,
            partial: self.progress.partial,
        };
        self.progress.history.push(epoch);
        (self.progress.batches, self.progress.void) = (0, 0);
        self.progress.train_total = 0.0;
        self.progress.validation_total = 0.0;
        self.progress.partial = false;
        let best_epoch = self.best().map_or(0, |best| best.number);
        let best = best_epoch == epoch.number;
        let since = &self.progress.history[best_epoch as usize..];
        let worse = since.iter().filter(|epoch| !epoch.partial).count();
        let trained =
            epoch.number >= self.order.epochs || worse >= self.order.patience.max(1) as usize;
        self.enter(if trained { Purpose::Estimate } else { Purpose::Train });
        ScheduleUpdate { best, trained, epoch: true }
    }

    /// An exchange with estimates is done.
    pub fn estimated(&mut self) {
        self.advance();
    }

    /// Samples that are validated or estimated together: whole segments.
    fn block(&self) -> usize {
        whole_batch(self.order.block, self.order.segment)
    }

    fn part(&self) -> &[Window] {
        match self.progress.part {
            Purpose::Train => &self.current,
            Purpose::Validate => &self.samples.validation,
            Purpose::Estimate => &self.samples.estimate,
        }
    }

    fn advance(&mut self) {
        self.progress.position += self.next().map_or(0, |(_, samples)| samples.len());
    }

    fn enter(&mut self, part: Purpose) {
        self.progress.part = part;
        self.progress.position = 0;
        self.draw();
    }

    /// The order of the current epoch.
    fn draw(&mut self) {
        if self.progress.part == Purpose::Train {
            let (train, order) = (&self.samples.train, &self.order);
            let epoch = self.progress.history.len() as u64 + 1;
            self.current = match order.shuffle {
                true => epoch_order(train, order.segment, order.seed, epoch),
                false => train.clone(),
            };
        }
    }
}

#[cfg(test)]
mod tests;
