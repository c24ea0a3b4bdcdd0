//! Writing features on a thread of its own, a few steps behind whoever makes them.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use super::loops::LoopSteps;
use super::write::FeatureWriter;
use crate::extract::StepFeatures;
use crate::table::TableError;

/// Steps that are handed over at a time: waking the other thread costs as much as making a few.
const BATCH_STEPS: usize = 64;
/// Batches that may wait.
const WAITING: usize = 2;

type Written<'n> = Result<FeatureWriter<'n>, TableError>;

/// A writer at work. It ends when this is dropped.
pub(super) struct WriteBehind<'scope, 'n> {
    batch: Vec<StepFeatures>,
    /// Nobody hears them once writing has failed.
    steps: SyncSender<Vec<StepFeatures>>,
    writer: ScopedJoinHandle<'scope, Written<'n>>,
}

impl<'scope, 'n: 'scope> WriteBehind<'scope, 'n> {
    /// Sets a writer to work, with the counts of sensors where there are any.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        writer: FeatureWriter<'n>,
        sensors: Option<&'n LoopSteps>,
    ) -> Self {
        let (steps, received) = sync_channel(WAITING);
        let writer = scope.spawn(move || write(writer, sensors, &received));
        Self { batch: Vec::with_capacity(BATCH_STEPS), steps, writer }
    }

    /// Writes a step, at some time.
    pub(super) fn step(&mut self, features: &StepFeatures) {
        self.batch.push(features.clone());
        if self.batch.len() == BATCH_STEPS {
            let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_STEPS));
            let _ = self.steps.send(batch);
        }
    }

    /// Waits until all steps are written and gives the writer back.
    pub(super) fn join(self) -> Written<'n> {
        let _ = self.steps.send(self.batch);
        drop(self.steps);
        self.writer.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn write<'n>(
    mut writer: FeatureWriter<'n>,
    sensors: Option<&LoopSteps>,
    steps: &Receiver<Vec<StepFeatures>>,
) -> Written<'n> {
    for batch in steps {
        for step in &batch {
            writer.step(step, sensors)?;
        }
    }
    Ok(writer)
}
