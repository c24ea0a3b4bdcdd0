//! How a guest joins, goes on after a break, and ends.

use std::collections::BTreeSet;

use protocol::message::measurements::{MeasurementKind, names};
use protocol::message::sealed::Scheme;
use protocol::message::{
    Departure, Hello, MissedRounds, PROTOCOL, Resume, ResumeState, StopReason, ToHost, Welcome,
};
use protocol::party::{Attempt, Now, Round, RunId};
use protocol::plan::{Plan, Summary};

use super::{Guest, RunRecord, Running, Stage, ToHostOutbox, write_card};
use crate::error::{PartyError, agree};
use crate::model::GuestModel;
use crate::store::Store;

impl<M: GuestModel, S: Store> Guest<M, S> {
    pub(super) fn greet(&mut self, now: Now, out: &mut ToHostOutbox) -> Result<(), PartyError> {
        if matches!(self.stage, Stage::Finished(_)) {
            return self.goodbye(now, Departure::Finished, out);
        }
        self.greeting += 1;
        let settings = &self.settings;
        let live = match self.stage {
            Stage::Training => self.running.as_ref().map(|run| (run.attempt, run.done)),
            _ => None,
        };
        let hello = Hello {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            party: settings.party.clone(),
            session: settings.session,
            greeting: self.greeting,
            terms: settings.terms.clone(),
            held: settings.held.clone(),
            width: settings.width,
            offer: settings.measures.clone(),
            resume_state: ResumeState {
                run: self.card.as_ref().map(|card| card.run),
                checkpoints: self.store.rounds()?,
                in_memory: live,
            },
        };
        self.say(now, ToHost::Hello(Box::new(hello)), out)
    }

    pub(super) fn welcome(
        &mut self,
        now: Now,
        welcome: Welcome,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let settings = &self.settings;
        // An answer to an earlier start of this guest, or to one that is over.
        if welcome.session != settings.session || matches!(self.stage, Stage::Finished(_)) {
            return Ok(());
        }
        let host = &settings.host;
        agree(host, (welcome.protocol, PROTOCOL), &welcome.terms, &settings.terms)?;
        welcome.plan.check().map_err(|error| {
            PartyError::misbehaved(host, format!("its plan is out of bounds: {error}"))
        })?;
        self.can_measure(&welcome.plan)?;
        self.can_commit(&welcome.plan)?;
        self.same_run(&welcome)?;
        let current = self.running.as_ref().filter(|_| matches!(self.stage, Stage::Training));
        match current.map(|running| running.attempt) {
            Some(attempt) if welcome.attempt < attempt => Ok(()),
            Some(attempt) if welcome.attempt == attempt => self.skip_to(welcome.resume),
            _ => self.begin(now, welcome, out),
        }
    }

    /// A guest gives only what it has announced.
    fn can_measure(&self, plan: &Plan) -> Result<(), PartyError> {
        let announced: BTreeSet<MeasurementKind> = self.settings.measures.layout.kinds().collect();
        let missing = plan.measured.difference(&announced).copied();
        let without_shares =
            plan.measured.contains(&MeasurementKind::HeldOut) && plan.shares.is_none();
        let in_the_clear = self.settings.sharing.sealed_only
            && !plan.measured.is_empty()
            && plan.sealing.is_none_or(|sealing| sealing.scheme == Scheme::Plain);
        if missing.clone().next().is_none() && !without_shares && !in_the_clear {
            return Ok(());
        }
        let what = match without_shares {
            _ if in_the_clear => {
                "it asks for measurements in the clear, and this guest gives sealed ones alone"
                    .to_owned()
            }
            true => "it asks for what is held out, and does not tell this guest's share".to_owned(),
            false => {
                format!("it asks for measurements that were not announced: {}", names(missing))
            }
        };
        Err(PartyError::misbehaved(&self.settings.host, what))
    }

    /// Checkpoints of one run are never overwritten by another's.
    fn same_run(&self, welcome: &Welcome) -> Result<(), PartyError> {
        let Some(card) = &self.card else { return Ok(()) };
        let incompatible = |what, found: String, expected: String| PartyError::PeerIncompatible {
            party: self.settings.host.clone(),
            what,
            found,
            expected,
        };
        if card.run != welcome.run {
            let expected = format!("{}, whose checkpoints are here; or a new folder", card.run);
            return Err(incompatible("run", welcome.run.to_string(), expected));
        }
        if card.plan != welcome.plan {
            let found = "another one than when the run began".to_owned();
            return Err(incompatible("plan", found, "the same".to_owned()));
        }
        Ok(())
    }

    /// The same attempt goes on; under the policy `skip` perhaps some rounds later.
    fn skip_to(&mut self, resume: Resume) -> Result<(), PartyError> {
        match (resume, &self.running) {
            (Resume::NewestWeights(missed), Some(running)) if missed.round > running.done => {
                self.catch_up(missed)
            }
            _ => Ok(()),
        }
    }

    /// Goes on with its weights after rounds that were done without it.
    fn catch_up(&mut self, missed: MissedRounds) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.model.skip_to(missed.exchanges);
        (running.done, running.open, running.early) = (missed.round, None, None);
        if missed.best {
            running.model.keep_best();
            self.store.put(missed.round, &running.save()?)?;
        }
        Ok(())
    }

    /// A new attempt.
    fn begin(
        &mut self,
        now: Now,
        welcome: Welcome,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let Welcome { run, attempt, plan, resume, .. } = welcome;
        if self.card.is_none() {
            let subject = self.settings.subject.clone();
            let card =
                RunRecord { run, plan: plan.clone(), subject, blinding: None, finished: None };
            write_card(&mut self.store, &card)?;
            self.card = Some(card);
        }
        self.store_seed()?;
        let kept = self.store.rounds()?;
        let fresh = self.running.is_none();
        let running = match &mut self.running {
            Some(running) => running,
            none => {
                let model = (self.make)(&plan)?;
                let (found, expected) = (model.width(), self.settings.width as usize);
                if found != expected {
                    let what = "numbers of an embedding";
                    let (found, expected) = (found.to_string(), expected.to_string());
                    return Err(PartyError::Misuse { what, found, expected });
                }
                let asked = self.settings.measures.layout.of(&plan.measured);
                none.insert(Running::new(run, attempt, plan, asked, model)?)
            }
        };
        let done = match resume {
            Resume::AtRound(Round::START) => {
                running.begin_anew()?;
                Round::START
            }
            Resume::AtRound(round) if kept.contains(&round) => {
                running.restore(&self.store.get(round)?)?;
                round
            }
            // It was taken for someone with another past: say again where this one stands.
            Resume::AtRound(_) => return self.greet(now, out),
            Resume::NewestWeights(missed) => {
                if let Some(&newest) = kept.last().filter(|_| fresh) {
                    running.restore(&self.store.get(newest)?)?;
                }
                missed.round
            }
        };
        if let Resume::AtRound(round) = resume {
            self.store.forget_after(round)?;
        }
        running.attempt = attempt;
        running.done = done;
        running.open = None;
        running.early = None;
        self.stage = Stage::Training;
        match resume {
            Resume::NewestWeights(missed) => self.catch_up(missed),
            Resume::AtRound(_) => Ok(()),
        }
    }

    pub(super) fn finish(
        &mut self,
        now: Now,
        run: RunId,
        attempt: Attempt,
        summary: Summary,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        if !matches!(self.stage, Stage::Finished(_)) {
            let ours = self.running.as_ref().filter(|_| matches!(self.stage, Stage::Training));
            let Some(running) =
                ours.filter(|running| (running.run, running.attempt) == (run, attempt))
            else {
                return Ok(());
            };
            // The end of the last exchange may be lost; if more is missing, the host must say what.
            if running.done.next() < summary.rounds {
                return self.greet(now, out);
            }
            if let Some(card) = &mut self.card {
                card.finished = Some(summary.clone());
                write_card(&mut self.store, card)?;
            }
            self.ledger.sync()?;
            self.stage = Stage::Finished(summary);
        }
        self.goodbye(now, Departure::Finished, out)
    }

    pub(super) fn refused(&mut self, session: u64, reason: StopReason) -> Result<(), PartyError> {
        let meant = session == 0 || session == self.settings.session;
        if meant && !matches!(self.stage, Stage::Finished(_)) {
            return Err(PartyError::HostStopped { reason });
        }
        Ok(())
    }
}
