//! How a guest joins a run, or continues one.

use std::collections::BTreeSet;

use protocol::message::measurements::{MeasurementKind, names};
use protocol::message::sealed::Scheme;
use protocol::message::{MissedRounds, Resume, Welcome};
use protocol::party::{Attempt, Round};
use protocol::plan::Plan;

use super::run::{Run, RunRecord, write_record};
use super::training::Training;
use super::{GuestContext, GuestEvent};
use crate::error::PartyError;
use crate::model::GuestModel;
use crate::store::Store;

impl<M, S: Store> GuestContext<M, S> {
    /// A guest gives only what it has announced.
    pub(super) fn check_measurements(&self, plan: &Plan) -> Result<(), PartyError> {
        let announced: BTreeSet<MeasurementKind> = self.settings.measures.layout.kinds().collect();
        let missing: Vec<_> = plan.measured.difference(&announced).copied().collect();
        let without_shares =
            plan.measured.contains(&MeasurementKind::HeldOut) && plan.shares.is_none();
        let in_the_clear = self.settings.sharing.sealed_only
            && !plan.measured.is_empty()
            && plan.sealing.is_none_or(|sealing| sealing.scheme == Scheme::Plain);
        let keyed = plan.sealing.is_some_and(|sealing| sealing.is_keyed());
        let what = if keyed && self.keys.is_none() {
            "it asks for products with keys of an authority, and this guest has none (section key-authority of its configuration)"
                .to_owned()
        } else if keyed && self.settings.sharing.most_products.is_some() {
            "it asks for products with keys of an authority, which this guest could not count (policy: most-products)"
                .to_owned()
        } else if in_the_clear {
            "it asks for measurements in the clear, and this guest gives encrypted ones alone"
                .to_owned()
        } else if without_shares {
            "it asks for what is held out, and does not tell this guest's share".to_owned()
        } else if !missing.is_empty() {
            let missing = names(missing);
            format!("it asks for measurements that were not announced: {missing}")
        } else {
            return Ok(());
        };
        Err(PartyError::misbehaved(&self.settings.host, what))
    }

    /// Checkpoints of one run are never overwritten by another's.
    pub(super) fn check_same_run(
        &self,
        welcome: &Welcome,
        record: &RunRecord,
    ) -> Result<(), PartyError> {
        let incompatible = |what, found: String, expected: String| PartyError::PeerIncompatible {
            party: self.settings.host.clone(),
            what,
            found,
            expected,
        };
        if record.run != welcome.run {
            let expected = format!("{}, whose checkpoints are here; or a new folder", record.run);
            return Err(incompatible("run", welcome.run.to_string(), expected));
        }
        if record.plan != welcome.plan {
            let found = "another one than when the run began".to_owned();
            return Err(incompatible("plan", found, "the same".to_owned()));
        }
        Ok(())
    }
}

impl<M: GuestModel, S: Store> GuestContext<M, S> {
    /// Joins a run; the record alone if the host takes this guest for one with another past.
    pub(super) fn begin(
        &mut self,
        record: Option<RunRecord>,
        welcome: Welcome,
    ) -> Result<Result<Training<M>, RunRecord>, PartyError> {
        let Welcome { run, attempt, plan, resume, .. } = welcome;
        let record = match record {
            Some(record) => record,
            None => {
                let subject = self.settings.subject.clone();
                let record = RunRecord { run, plan, subject, blinding: None, finished: None };
                write_record(&mut self.store, &record)?;
                record
            }
        };
        let record = self.with_seed(record)?;
        let stored = self.store.rounds()?;
        if let Resume::AtRound(round) = resume
            && round != Round::START
            && !stored.contains(&round)
        {
            self.say_hello(Some(&record), None)?;
            return Ok(Err(record));
        }
        let model = (self.make)(&record.plan)?;
        let (found, expected) = (model.width(), self.settings.width as usize);
        if found != expected {
            let what = "numbers of an embedding";
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(PartyError::Misuse { what, found, expected });
        }
        let layout = self.settings.measures.layout.of(&record.plan.measured);
        let mut run = Run::new(record, attempt, layout, model)?;
        if let (Resume::NewestWeights(_), Some(&newest)) = (resume, stored.last()) {
            run.restore(&self.store.get(newest)?)?;
        }
        let mut training = Training::new(run);
        training.begin_attempt(self, attempt, resume)?;
        Ok(Ok(training))
    }
}

impl<M: GuestModel> Training<M> {
    /// The host welcomes this guest while it takes part.
    pub(super) fn welcome<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        attempt: Attempt,
        resume: Resume,
    ) -> Result<(), PartyError> {
        if attempt > self.run.attempt {
            return self.begin_attempt(context, attempt, resume);
        }
        match resume {
            // The same attempt; under the policy `skip` perhaps some rounds later.
            Resume::NewestWeights(missed)
                if attempt == self.run.attempt && missed.round > self.run.done =>
            {
                self.catch_up(context, missed)
            }
            _ => Ok(()),
        }
    }

    /// Continues in a new attempt from where the host says.
    fn begin_attempt<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        attempt: Attempt,
        resume: Resume,
    ) -> Result<(), PartyError> {
        let run = &mut self.run;
        match resume {
            Resume::AtRound(Round::START) => run.begin_anew()?,
            Resume::AtRound(round) if context.store.rounds()?.contains(&round) => {
                run.restore(&context.store.get(round)?)?;
            }
            // It was taken for a guest with another past: say again where this one stands.
            Resume::AtRound(_) => {
                return context.say_hello(Some(&run.record), Some((run.attempt, run.done)));
            }
            Resume::NewestWeights(_) => {}
        }
        run.attempt = attempt;
        // What it had begun, in memory or before this start.
        let begun = self.open.as_ref().map_or(run.done, |open| open.exchange.round);
        let furthest = begun.max(context.before.take().unwrap_or_default());
        match resume {
            Resume::AtRound(round) => {
                context.store.forget_after(round)?;
                self.run.done = round;
                self.close_all();
            }
            Resume::NewestWeights(missed) => self.catch_up(context, missed)?,
        }
        let round = self.run.done;
        let furthest = furthest.max(round);
        context.events.push(GuestEvent::Begun { attempt, round, furthest });
        Ok(())
    }

    /// Goes on with its weights after rounds that were done without it.
    fn catch_up<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        missed: MissedRounds,
    ) -> Result<(), PartyError> {
        self.run.model.skip_to(missed.exchanges);
        self.run.done = missed.round;
        self.close_all();
        if missed.best {
            self.run.model.keep_best();
            context.store.put(missed.round, &self.run.save()?)?;
        }
        Ok(())
    }
}
