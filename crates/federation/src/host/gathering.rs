//! How the host gathers its guests, and from where they go on.

use std::collections::BTreeMap;

use protocol::message::parts::{HeldSteps, MAX_CHECKPOINTS, PartError};
use protocol::message::{
    Hello, MissedRounds, PROTOCOL, Resume, ResumeState, StopReason, ToGuest, Welcome,
};
use protocol::party::{Attempt, Now, PartyId, Round};
use protocol::plan::Plan;

use super::committing::CommitmentRegistry;
use super::{
    AbsencePolicy, Event, Furthest, Host, HostCheckpoint, RunRecord, Running, Stage, ToGuestOutbox,
    write_card,
};
use crate::error::{PartyError, agree, same_subject};
use crate::model::HostModel;
use crate::schedule::{SampleSchedule, Samples};
use crate::store::Store;
use crate::timing::lasted;

impl<M: HostModel, S: Store> Host<M, S> {
    /// After a start: what the checkpoints belong to must be what was asked for.
    pub(super) fn continue_run(&mut self, now: Now) -> Result<(), PartyError> {
        let Some(card) = self.card.clone() else { return Ok(()) };
        let plan = Plan { exchanges: card.plan.exchanges, ..self.settings.plan.clone() };
        if (&plan, &self.settings.terms) != (&card.plan, &card.terms) {
            let found = "a run with another plan, network or clock";
            let error = PartError::new("checkpoints", found, "the same, or a new folder");
            return Err(PartyError::misuse(error));
        }
        same_subject(&card.subject, &self.settings.subject)?;
        if card.finished.is_some() {
            self.running = Some(self.build(&card)?);
            if let Some(&newest) = self.store.rounds()?.last() {
                self.load(newest)?;
            }
            self.stage = Stage::Finishing(now.monotonic);
        }
        Ok(())
    }

    pub(super) fn hello(
        &mut self,
        now: Now,
        from: &PartyId,
        hello: Hello,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if self.sessions.get(from).is_none_or(|guest| guest.is_stale(&hello)) {
            return Ok(());
        }
        self.check_hello(from, &hello)?;
        if self.has_lost_checkpoints(now, from, &hello, out)? {
            return Ok(());
        }
        let resume_state = hello.resume_state.clone();
        self.recommit(from, &hello);
        self.forget_parts(from, hello.session);
        if let Some(guest) = self.sessions.get_mut(from) {
            guest.greet(hello);
        }
        self.events.push(Event::Joined(from.clone()));
        match self.stage {
            Stage::Gathering(_) => {
                if self.sessions.values().all(|guest| guest.hello.is_some()) {
                    return self.begin(now, out);
                }
                Ok(())
            }
            Stage::Training => self.rejoin(now, from, &resume_state, out),
            Stage::Closing(_) | Stage::Finishing(_) => {
                self.rejoin_late(now, from, &resume_state, out)
            }
            Stage::Finished | Stage::Stopped(_) => Ok(()),
        }
    }

    fn check_hello(&self, from: &PartyId, hello: &Hello) -> Result<(), PartyError> {
        if hello.party != *from {
            let what = format!("it calls itself `{}`", hello.party);
            return Err(PartyError::misbehaved(from, what));
        }
        if hello.session == 0 || hello.resume_state.checkpoints.len() > MAX_CHECKPOINTS {
            return Err(PartyError::misbehaved(from, "its greeting is out of bounds"));
        }
        agree(from, (hello.protocol, PROTOCOL), &hello.terms, &self.settings.terms)?;
        let incompatible = |what, found: String, expected: String| {
            Err(PartyError::PeerIncompatible { party: from.clone(), what, found, expected })
        };
        let width = self.settings.guests.get(from).copied().unwrap_or(0);
        if hello.width != width {
            let what = "numbers of an embedding";
            return incompatible(what, hello.width.to_string(), width.to_string());
        }
        self.check_measures(from, &hello.offer, &hello.held)?;
        let Some(card) = &self.card else {
            return match hello.resume_state.run {
                Some(run) => {
                    let found = format!("checkpoints of run {run}");
                    incompatible("run", found, "a new folder for a new run".to_owned())
                }
                None => Ok(()),
            };
        };
        if let Some(run) = hello.resume_state.run.filter(|run| *run != card.run) {
            return incompatible("run", run.to_string(), card.run.to_string());
        }
        let samples = self.settings.samples.filter(|step| card.aligned.contains(step));
        match samples.all().find(|sample| !hello.held.contains(sample.last)) {
            Some(sample) => incompatible(
                "steps held",
                format!("no step {}", sample.last.0),
                "all that the run began with".to_owned(),
            ),
            None => Ok(()),
        }
    }

    pub(super) fn gather_on(
        &mut self,
        now: Now,
        since: std::time::Duration,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let timing = self.settings.timing;
        let missing = |guest: &super::GuestSession| guest.hello.is_none();
        if lasted(since, now.monotonic, timing.limit) {
            let anyone = self.sessions.values().any(|guest| guest.hello.is_some());
            if self.settings.absent == AbsencePolicy::Skip && anyone {
                return self.begin(now, out);
            }
            if let Some((party, guest)) = self.sessions.iter().find(|(_, guest)| missing(guest)) {
                let seconds = now.monotonic.saturating_sub(since).as_secs_f64();
                let (party, reason) = (party.clone(), guest.reason.clone());
                return Err(PartyError::Absent { party, seconds, reason });
            }
        }
        let due: Vec<PartyId> = self
            .sessions
            .iter()
            .filter(|(_, guest)| {
                missing(guest) && lasted(guest.asked, now.monotonic, timing.resend)
            })
            .map(|(party, _)| party.clone())
            .collect();
        due.iter().try_for_each(|party| self.request_hello(now, party, out))
    }

    pub(super) fn request_hello(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if let Some(guest) = self.sessions.get_mut(party) {
            guest.asked = now.monotonic;
        }
        self.say(now, party, ToGuest::HelloRequest, out)
    }

    /// Someone has lost its memory: all must say where they stand, to find a common round.
    pub(super) fn gather_again(
        &mut self,
        now: Now,
        newcomer: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        // Nobody can hold the run for ever by losing its memory again and again.
        let Furthest { reached, returns, .. } = self.furthest;
        if returns > 0 && lasted(reached, now.monotonic, self.settings.timing.limit) {
            let seconds = now.monotonic.saturating_sub(reached).as_secs_f64();
            let reason = format!("it came back without its memory {returns} times");
            let (party, reason) = (newcomer.clone(), Some(StopReason::other(reason)));
            return Err(PartyError::Absent { party, seconds, reason });
        }
        self.furthest.returns += 1;
        self.stage = Stage::Gathering(now.monotonic);
        if let Some(running) = &mut self.running {
            running.open = None;
            running.closed = None;
        }
        let mut others = Vec::new();
        for (party, guest) in &mut self.sessions {
            if party != newcomer {
                guest.hello = None;
                others.push(party.clone());
            }
        }
        if others.is_empty() {
            return self.begin(now, out);
        }
        others.iter().try_for_each(|party| self.request_hello(now, party, out))
    }

    /// All that will come are here: a new attempt, from the last round that all have kept.
    pub(super) fn begin(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        let mut card = match self.card.take() {
            Some(card) => card,
            None => self.align()?,
        };
        card.attempt = card.attempt.next();
        write_card(&mut self.store, &card)?;
        let attempt = card.attempt;
        let live = self.running.is_some();
        if !live {
            self.running = Some(self.build(&card)?);
        }
        self.card = Some(card);
        let resume = if self.settings.absent == AbsencePolicy::Skip {
            if let Some(&newest) = self.store.rounds()?.last().filter(|_| !live) {
                self.load(newest)?;
            }
            None
        } else {
            let round = self.common_round()?;
            let lost = self.store.rounds()?.last().copied().unwrap_or_default().max(self.round());
            if round == Round::START && lost > round {
                self.events.push(Event::Restarted(lost));
            }
            self.load(round)?;
            self.store.forget_after(round)?;
            Some(Resume::AtRound(round))
        };
        self.stage = Stage::Training;
        self.events.push(Event::Begun(attempt, self.round()));
        let here: Vec<PartyId> = self
            .sessions
            .iter()
            .filter(|(_, guest)| guest.hello.is_some())
            .map(|(p, _)| p.clone())
            .collect();
        for party in here {
            let resume_state = self.sessions.get(&party).and_then(|guest| guest.hello.as_ref());
            let resume_state =
                resume_state.map(|hello| hello.resume_state.clone()).unwrap_or_default();
            let resume = resume.unwrap_or_else(|| self.missed_by(&resume_state));
            self.welcome(now, &party, resume, out)?;
        }
        self.open_next(now, out)
    }

    /// What a guest has missed, under the policy `skip`.
    pub(super) fn missed_by(&self, resume_state: &ResumeState) -> Resume {
        let attempt = self.card.as_ref().map(|card| card.attempt);
        let live =
            resume_state.in_memory.filter(|(its, _)| Some(*its) == attempt).map(|(_, round)| round);
        let knows = live.or(resume_state.checkpoints.last().copied()).unwrap_or_default();
        let schedule = self.running.as_ref().map(|running| &running.schedule);
        Resume::NewestWeights(MissedRounds {
            round: self.round(),
            exchanges: schedule.map_or(0, SampleSchedule::exchanges),
            best: schedule.and_then(SampleSchedule::best_round).is_some_and(|best| best > knows),
        })
    }

    /// The last round that the host and all guests have kept; round 0 nobody can lose.
    fn common_round(&self) -> Result<Round, PartyError> {
        let mut common = self.store.rounds()?;
        for guest in self.sessions.values() {
            let kept = guest.hello.as_ref().map(|hello| hello.resume_state.checkpoints.as_slice());
            let kept = kept.unwrap_or_default();
            common.retain(|round| kept.contains(round));
        }
        Ok(common.last().copied().unwrap_or(Round::START))
    }

    /// A new run: the samples that all hold.
    fn align(&self) -> Result<RunRecord, PartyError> {
        let held: Vec<_> =
            self.sessions.values().filter_map(|guest| guest.hello.as_ref()).collect();
        let samples =
            self.settings.samples.filter(|step| held.iter().all(|hello| hello.held.contains(step)));
        let segment = self.settings.plan.segment as usize;
        let taken = samples.in_segments(segment);
        for (what, part) in [("train", &taken.train), ("validation", &taken.validation)] {
            if part.is_empty() {
                let found = format!("no {what} sample that all parties hold");
                let expected = match segment {
                    1 => "at least one".to_owned(),
                    _ => format!("at least {segment} steps in a row"),
                };
                return Err(PartyError::misuse(PartError::new("samples", found, expected)));
            }
        }
        let mut all: Vec<_> = samples.all().map(|sample| sample.last).collect();
        all.sort_unstable();
        all.dedup();
        let aligned = HeldSteps::of(all).map_err(PartyError::misuse)?;
        let exchanges = taken.train.len().div_ceil(self.settings.plan.batch as usize);
        Ok(RunRecord {
            run: self.settings.run,
            attempt: Attempt::default(),
            plan: Plan { exchanges: exchanges as u32, ..self.settings.plan.clone() },
            terms: self.settings.terms.clone(),
            subject: self.settings.subject.clone(),
            aligned,
            agreed: self.agree_on()?,
            commitments: BTreeMap::new(),
            finished: None,
        })
    }

    fn build(&mut self, card: &RunRecord) -> Result<Running<M>, PartyError> {
        let model = (self.make)(&card.plan, &card.agreed)?;
        let widths = model.widths();
        for (party, &width) in &self.settings.guests {
            let found = widths.get(party).copied();
            if found != Some(width as usize) {
                let found = format!("{found:?} for `{party}` in the model");
                let error = PartError::new("numbers of an embedding", found, width);
                return Err(PartyError::misuse(error));
            }
        }
        let samples: Samples = self.settings.samples.filter(|step| card.aligned.contains(step));
        let registry = CommitmentRegistry::of(&card.plan, &samples);
        let schedule = SampleSchedule::new(samples, self.settings.order(&card.agreed.layouts));
        Ok(Running {
            initial: model.save()?,
            feedback: BTreeMap::new(),
            beginning: schedule.progress().clone(),
            model,
            schedule,
            done: Round::START,
            trained: None,
            open: None,
            closed: None,
            sealed: BTreeMap::new(),
            registry,
        })
    }

    /// Goes to the state after a round.
    fn load(&mut self, round: Round) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if round == Round::START {
            running.model.restore(&running.initial)?;
            running.feedback.clear();
            running.schedule.restore(running.beginning.clone());
            running.trained = None;
        } else {
            let bytes = self.store.get(round)?;
            let (kept, feedback, model) = HostCheckpoint::parse(&bytes)?;
            running.model.restore(model)?;
            running.feedback = feedback;
            running.schedule.restore(kept.progress);
            running.trained = kept.trained;
        }
        running.done = round;
        running.open = None;
        running.closed = None;
        Ok(())
    }

    pub(super) fn welcome(
        &mut self,
        now: Now,
        party: &PartyId,
        resume: Resume,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(guest)) = (&self.card, self.sessions.get_mut(party)) else {
            return Ok(());
        };
        let session = guest.session;
        guest.welcome = Some((session, card.attempt, resume));
        guest.spoke = false;
        guest.kept = None;
        let welcome = Welcome {
            protocol: PROTOCOL,
            software: self.settings.software.clone(),
            session,
            run: card.run,
            attempt: card.attempt,
            terms: card.terms.clone(),
            plan: Plan { shares: card.shares_of(party), ..card.plan.clone() },
            resume,
        };
        self.say(now, party, ToGuest::Welcome(Box::new(welcome)), out)
    }
}
