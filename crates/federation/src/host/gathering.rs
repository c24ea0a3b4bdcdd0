//! How the host gathers its guests, and from where they go on.

use std::collections::BTreeMap;

use protocol::message::parts::{HeldSteps, MAX_KEPT, PartError, Text};
use protocol::message::{Hello, Missed, PROTOCOL, Resume, Standing, ToGuest, Welcome};
use protocol::party::{Attempt, Now, PartyId, Round};
use protocol::plan::Plan;

use super::committing::Committers;
use super::{Absent, Card, Event, Furthest, Host, Kept, Running, Stage, ToGuestOutbox, write_card};
use crate::course::{Course, Samples};
use crate::error::{PartyError, agree, same_subject};
use crate::model::HostModel;
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
        if self.seats.get(from).is_none_or(|seat| seat.is_stale(&hello)) {
            return Ok(());
        }
        self.check_hello(from, &hello)?;
        if self.has_lost_checkpoints(now, from, &hello, out)? {
            return Ok(());
        }
        let standing = hello.standing.clone();
        self.recommit(from, &hello);
        self.forget_parts(from, hello.session);
        if let Some(seat) = self.seats.get_mut(from) {
            seat.greet(hello);
        }
        self.events.push(Event::Joined(from.clone()));
        match self.stage {
            Stage::Gathering(_) => {
                if self.seats.values().all(|seat| seat.hello.is_some()) {
                    return self.begin(now, out);
                }
                Ok(())
            }
            Stage::Training => self.rejoin(now, from, &standing, out),
            Stage::Closing(_) | Stage::Finishing(_) => self.rejoin_late(now, from, &standing, out),
            Stage::Finished | Stage::Stopped(_) => Ok(()),
        }
    }

    fn check_hello(&self, from: &PartyId, hello: &Hello) -> Result<(), PartyError> {
        if hello.party != *from {
            let what = format!("it calls itself `{}`", hello.party);
            return Err(PartyError::misbehaved(from, what));
        }
        if hello.session == 0 || hello.standing.kept.len() > MAX_KEPT {
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
        self.check_measures(from, &hello.measures, &hello.held)?;
        let Some(card) = &self.card else {
            return match hello.standing.run {
                Some(run) => {
                    let found = format!("checkpoints of run {run}");
                    incompatible("run", found, "a new folder for a new run".to_owned())
                }
                None => Ok(()),
            };
        };
        if let Some(run) = hello.standing.run.filter(|run| *run != card.run) {
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
        let missing = |seat: &super::Seat| seat.hello.is_none();
        if lasted(since, now.monotonic, timing.limit) {
            let anyone = self.seats.values().any(|seat| seat.hello.is_some());
            if self.settings.absent == Absent::Skip && anyone {
                return self.begin(now, out);
            }
            if let Some((party, seat)) = self.seats.iter().find(|(_, seat)| missing(seat)) {
                let seconds = now.monotonic.saturating_sub(since).as_secs_f64();
                let (party, reason) = (party.clone(), seat.reason.clone());
                return Err(PartyError::Absent { party, seconds, reason });
            }
        }
        let due: Vec<PartyId> = self
            .seats
            .iter()
            .filter(|(_, seat)| missing(seat) && lasted(seat.asked, now.monotonic, timing.resend))
            .map(|(party, _)| party.clone())
            .collect();
        due.iter().try_for_each(|party| self.call(now, party, out))
    }

    pub(super) fn call(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if let Some(seat) = self.seats.get_mut(party) {
            seat.asked = now.monotonic;
        }
        self.say(now, party, ToGuest::Call, out)
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
            let (party, reason) = (newcomer.clone(), Some(Text::of(reason)));
            return Err(PartyError::Absent { party, seconds, reason });
        }
        self.furthest.returns += 1;
        self.stage = Stage::Gathering(now.monotonic);
        if let Some(running) = &mut self.running {
            running.open = None;
            running.settled = None;
        }
        let mut others = Vec::new();
        for (party, seat) in &mut self.seats {
            if party != newcomer {
                seat.hello = None;
                others.push(party.clone());
            }
        }
        if others.is_empty() {
            return self.begin(now, out);
        }
        others.iter().try_for_each(|party| self.call(now, party, out))
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
        let resume = if self.settings.absent == Absent::Skip {
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
            Some(Resume::Exactly(round))
        };
        self.stage = Stage::Training;
        self.events.push(Event::Begun(attempt, self.round()));
        let here: Vec<PartyId> = self
            .seats
            .iter()
            .filter(|(_, seat)| seat.hello.is_some())
            .map(|(p, _)| p.clone())
            .collect();
        for party in here {
            let standing = self.seats.get(&party).and_then(|seat| seat.hello.as_ref());
            let standing = standing.map(|hello| hello.standing.clone()).unwrap_or_default();
            let resume = resume.unwrap_or_else(|| self.missed_by(&standing));
            self.welcome(now, &party, resume, out)?;
        }
        self.open_next(now, out)
    }

    /// What a guest has missed, under the policy `skip`.
    pub(super) fn missed_by(&self, standing: &Standing) -> Resume {
        let attempt = self.card.as_ref().map(|card| card.attempt);
        let live = standing.live.filter(|(its, _)| Some(*its) == attempt).map(|(_, round)| round);
        let knows = live.or(standing.kept.last().copied()).unwrap_or_default();
        let course = self.running.as_ref().map(|running| &running.course);
        Resume::AsYouAre(Missed {
            round: self.round(),
            exchanges: course.map_or(0, Course::exchanges),
            best: course.and_then(Course::best_round).is_some_and(|best| best > knows),
        })
    }

    /// The last round that the host and all guests have kept; round 0 nobody can lose.
    fn common_round(&self) -> Result<Round, PartyError> {
        let mut common = self.store.rounds()?;
        for seat in self.seats.values() {
            let kept = seat.hello.as_ref().map(|hello| hello.standing.kept.as_slice());
            let kept = kept.unwrap_or_default();
            common.retain(|round| kept.contains(round));
        }
        Ok(common.last().copied().unwrap_or(Round::START))
    }

    /// A new run: the samples that all hold.
    fn align(&self) -> Result<Card, PartyError> {
        let held: Vec<_> = self.seats.values().filter_map(|seat| seat.hello.as_ref()).collect();
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
        Ok(Card {
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

    fn build(&mut self, card: &Card) -> Result<Running<M>, PartyError> {
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
        let committers = Committers::of(&card.plan, &samples);
        let course = Course::new(samples, self.settings.order(&card.agreed.layouts));
        Ok(Running {
            initial: model.save()?,
            feedback: BTreeMap::new(),
            beginning: course.progress().clone(),
            model,
            course,
            done: Round::START,
            trained: None,
            open: None,
            settled: None,
            sealed: BTreeMap::new(),
            committers,
        })
    }

    /// Goes to the state after a round.
    fn load(&mut self, round: Round) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if round == Round::START {
            running.model.restore(&running.initial)?;
            running.feedback.clear();
            running.course.restore(running.beginning.clone());
            running.trained = None;
        } else {
            let bytes = self.store.get(round)?;
            let (kept, feedback, model) = Kept::parse(&bytes)?;
            running.model.restore(model)?;
            running.feedback = feedback;
            running.course.restore(kept.progress);
            running.trained = kept.trained;
        }
        running.done = round;
        running.open = None;
        running.settled = None;
        Ok(())
    }

    pub(super) fn welcome(
        &mut self,
        now: Now,
        party: &PartyId,
        resume: Resume,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(seat)) = (&self.card, self.seats.get_mut(party)) else {
            return Ok(());
        };
        let session = seat.session;
        seat.welcome = Some((session, card.attempt, resume));
        seat.spoke = false;
        seat.kept = None;
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
