//! The host gathers its guests, and finds out from where all can continue.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::message::parts::{HeldSteps, PartError};
use protocol::message::{Resume, StopReason};
use protocol::party::{Attempt, PartyId, Round};
use protocol::plan::Plan;

use super::run::{Run, RunRecord};
use super::{Event, HostContext, Phase, Transition};
use crate::error::PartyError;
use crate::guest::write_record;
use crate::model::HostModel;
use crate::store::Store;

/// Waits until every guest has said where it stands.
pub(super) struct Gathering<M> {
    since: Duration,
    known: Known<M>,
}

/// What the host has of the run that its guests gather for.
pub(super) enum Known<M> {
    /// A new run.
    Nothing,
    /// The host has restarted.
    Stored(Box<RunRecord>),
    /// A guest has lost its memory.
    InMemory(Box<Run<M>>),
}

impl<M> Gathering<M> {
    pub(super) fn new(since: Duration, known: Known<M>) -> Self {
        Self { since, known }
    }

    pub(super) fn run(&self) -> Option<&Run<M>> {
        if let Known::InMemory(run) = &self.known { Some(run) } else { None }
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut Run<M>> {
        if let Known::InMemory(run) = &mut self.known { Some(run) } else { None }
    }

    pub(super) fn into_run(self) -> Option<Run<M>> {
        if let Known::InMemory(run) = self.known { Some(*run) } else { None }
    }

    pub(super) fn record(&self) -> Option<&RunRecord> {
        match &self.known {
            Known::Nothing => None,
            Known::Stored(record) => Some(record),
            Known::InMemory(run) => Some(&run.record),
        }
    }

    /// Asks those who have said nothing, until the limit.
    pub(super) fn tick<S: Store>(
        &self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        let guests = &mut context.guests;
        let missing = guests.those(|guest, _| guest.hello.is_none());
        if guests.lasted(self.since, guests.timing().limit) {
            let anyone = guests.iter().any(|(_, guest)| guest.hello.is_some());
            if context.skips() && anyone {
                return Ok(Transition::Begin);
            }
            if let Some(party) = missing.first() {
                return Err(context.absent_too_long(party, self.since));
            }
        }
        for party in &missing {
            if context.guests.resend_due(party) {
                context.guests.request_hello(party)?;
            }
        }
        Ok(Transition::Stay)
    }
}

impl<M: HostModel> Gathering<M> {
    /// A guest has lost its memory: all must say where they stand, to find a common round.
    pub(super) fn again<S: Store>(
        mut run: Run<M>,
        context: &mut HostContext<M, S>,
        newcomer: &PartyId,
    ) -> Result<(Phase<M>, Transition), PartyError> {
        // Nobody can hold the run for ever by losing its memory again and again.
        let (reached, returns) = (context.furthest.reached, context.furthest.returns);
        if returns > 0 && context.guests.lasted(reached, context.guests.timing().limit) {
            let seconds = context.guests.seconds_since(reached);
            let reason = format!("it came back without its memory {returns} times");
            let (party, reason) = (newcomer.clone(), Some(StopReason::other(reason)));
            return Err(PartyError::Absent { party, seconds, reason });
        }
        context.furthest.returns += 1;
        run.closed = None;
        let mut others = Vec::new();
        for (party, guest) in context.guests.iter_mut().filter(|(party, _)| *party != newcomer) {
            guest.hello = None;
            others.push(party.clone());
        }
        others.iter().try_for_each(|party| context.guests.request_hello(party))?;
        let next = if others.is_empty() { Transition::Begin } else { Transition::Stay };
        let gathering = Self::new(context.guests.now(), Known::InMemory(Box::new(run)));
        Ok((Phase::Gathering(gathering), next))
    }

    /// All that will come are here: a new attempt, from the last round that all have stored.
    pub(super) fn begin<S: Store>(
        self,
        context: &mut HostContext<M, S>,
    ) -> Result<Run<M>, PartyError> {
        let in_memory = matches!(self.known, Known::InMemory(_));
        // Of guests, what they have in memory of this run; of the host, the same or what its ledger says.
        let hellos = context.guests.iter().filter_map(|(_, guest)| guest.hello.as_ref());
        let reached = hellos.filter_map(|hello| hello.resume_state.in_memory);
        let reached = reached.map(|(_, round)| round).max().unwrap_or_default();
        let furthest = reached.max(context.before.take().unwrap_or_default());
        let mut run = match self.known {
            Known::InMemory(mut run) => {
                run.record.begin_attempt(context)?;
                *run
            }
            Known::Stored(mut record) => {
                record.begin_attempt(context)?;
                Run::new(*record, context)?
            }
            Known::Nothing => {
                let mut record = align(context)?;
                record.begin_attempt(context)?;
                Run::new(record, context)?
            }
        };
        // Of a run in memory, the round under way.
        let under_way = in_memory && run.schedule.next().is_some();
        let begun = if under_way { run.done.next() } else { run.done };
        let resume = if context.skips() {
            if let Some(&newest) = context.store.rounds()?.last().filter(|_| !in_memory) {
                run.load(newest, &context.store)?;
            }
            None
        } else {
            let round = common_round(context)?;
            let stored = context.store.rounds()?.last().copied().unwrap_or_default();
            let lost = stored.max(run.done);
            if round == Round::START && lost > round {
                context.events.push(Event::Restarted(lost));
            }
            run.load(round, &context.store)?;
            context.store.forget_after(round)?;
            Some(Resume::AtRound(round))
        };
        let (attempt, round) = (run.record.attempt, run.done);
        let furthest = furthest.max(begun).max(round);
        context.events.push(Event::Begun { attempt, round, furthest });
        let here: Vec<_> = context
            .guests
            .iter()
            .filter_map(|(party, guest)| Some((party.clone(), guest.hello.as_ref()?)))
            .map(|(party, hello)| {
                (party, resume.unwrap_or_else(|| run.missed_by(&hello.resume_state)))
            })
            .collect();
        for (party, resume) in here {
            context.welcome(&party, &run.record, resume)?;
        }
        Ok(run)
    }
}

impl RunRecord {
    fn begin_attempt<M, S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<(), PartyError> {
        self.attempt = self.attempt.next();
        Ok(write_record(&mut context.store, self)?)
    }
}

/// The last round that the host and all guests have stored; round 0 nobody can lose.
fn common_round<M, S: Store>(context: &HostContext<M, S>) -> Result<Round, PartyError> {
    let mut common = context.store.rounds()?;
    for (_, guest) in context.guests.iter() {
        let stored = guest.hello.as_ref().map(|hello| hello.resume_state.checkpoints.as_slice());
        let stored = stored.unwrap_or_default();
        common.retain(|round| stored.contains(round));
    }
    Ok(common.last().copied().unwrap_or(Round::START))
}

/// A new run: the samples that all hold.
fn align<M, S: Store>(context: &HostContext<M, S>) -> Result<RunRecord, PartyError> {
    let settings = &context.settings;
    let hellos: Vec<_> =
        context.guests.iter().filter_map(|(_, guest)| guest.hello.as_ref()).collect();
    let samples = settings.samples.filter(|step| hellos.iter().all(|h| h.held.contains(step)));
    let segment = settings.plan.segment as usize;
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
    let exchanges = taken.train.len().div_ceil(settings.plan.batch as usize);
    Ok(RunRecord {
        run: settings.run,
        attempt: Attempt::default(),
        plan: Plan { exchanges: exchanges as u32, ..settings.plan.clone() },
        terms: settings.terms.clone(),
        subject: settings.subject.clone(),
        aligned,
        agreed: context.agree_on()?,
        commitments: BTreeMap::new(),
        finished: None,
    })
}
