//! The host of a training on sums: gathers the guests, sums their totals block by block, and ends. It trains afterwards, by itself.
//!
//! What is summed is kept after some seconds: a host that starts again goes on from there. Guests keep nothing but the participants of
//! each step, and answer the same questions again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::ledger::Ledger;
use protocol::message::parts::{HeldSteps, MAX_STEPS, PartError, StepRange, Text};
use protocol::message::sums::{Block, FromSumGuest, FromSumHost, MAX_WORDS, SumHello, SumPlan};
use protocol::message::{Departure, StopReason, ToGuest, ToHost};
use protocol::party::{Now, PartyId, Round, RunId};
use serde::{Deserialize, Serialize};
use traffic::Step;

use super::credentials::Verifier;
use super::group::{check_hello, group_of, least_participants};
use super::open_block::{HostGroup, OpenBlock, Summed};
use crate::error::{PartyError, same_subject};
use crate::guest::{read_record, write_record};
use crate::host::AbsencePolicy;
use crate::session::GuestSessions;
use crate::session::guests::{ToGuestOutbox, is_due};
use crate::session::timing::Timing;
use crate::store::{Store, StoreError};

/// Words that are asked for at once, at most: 2 MiB of a guest.
const BLOCK_WORDS: usize = 1 << 18;
const _: () = assert!(BLOCK_WORDS <= MAX_WORDS);
/// Sums are kept this often.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// What the host is told by those who run it.
pub struct SumHostSettings {
    /// Its name.
    pub party: PartyId,
    /// The guests that must take part.
    pub guests: BTreeSet<PartyId>,
    /// Version of its software, for logs.
    pub software: Text,
    /// A number drawn for a new run; one that goes on keeps its own.
    pub run: RunId,
    /// Digest of what is summed for what: a folder with sums for something else is refused.
    pub subject: Text,
    /// What is summed.
    pub plan: SumPlan,
    /// The host's own steps; those that a guest lacks are left out.
    pub held: HeldSteps,
    /// What to do without a guest.
    pub absent: AbsencePolicy,
    /// How long it waits.
    pub timing: Timing,
    /// Checks what guests sign.
    pub verifier: Box<dyn Verifier>,
}

/// Something worth telling the people who run the host.
#[derive(Clone, Debug, PartialEq)]
pub enum SumEvent {
    /// A guest has joined.
    Joined(PartyId),
    /// A guest was refused.
    Refused(PartyId, Text),
    /// A guest is missed.
    Missed(PartyId),
    /// A guest has left.
    Left(PartyId, Departure),
    /// These add to the sum from here on.
    Grouped(Vec<PartyId>),
    /// A block is summed: so many of so many.
    Summed(usize, usize),
    /// A block was summed without some guests.
    Without(Block, Vec<PartyId>),
}

/// The sum of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSum {
    /// The steps.
    pub block: Block,
    /// Guests that are in it.
    pub guests: usize,
    /// `[step, number]`, modulo 2^64.
    pub words: Vec<u64>,
}

/// What sums belong to; kept beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SumRecord {
    run: RunId,
    subject: Text,
    /// The steps that all hold.
    held: HeldSteps,
    /// The participants of blocks that are not kept, by their first step, once they are settled: guests sign no others.
    settled: BTreeMap<i64, BTreeSet<PartyId>>,
}

/// The host, see the [module](self).
pub struct SumHost<S> {
    settings: SumHostSettings,
    store: S,
    guests: GuestSessions<GuestState>,
    phase: Phase,
    events: Vec<SumEvent>,
}

#[derive(Default)]
struct GuestState {
    hello: Option<SumHello>,
    /// Sessions before that: what comes of them is late.
    past: BTreeSet<u64>,
    greeted: Option<Duration>,
    present: bool,
    finished: bool,
    reason: Option<StopReason>,
}

enum Phase {
    /// Waits for all guests.
    Gathering(Gathering),
    Summing(Summing),
    /// Waits for the guests to confirm.
    Finishing(Sums, Duration),
    Finished(Sums),
    Stopped(PartyError),
    /// Between two phases.
    Changing,
}

struct Gathering {
    since: Duration,
    /// After a restart, or after a guest's.
    sums: Option<Sums>,
}

/// What is known of the run.
struct Sums {
    record: SumRecord,
    blocks: Vec<Block>,
    done: Vec<BlockSum>,
    kept: Duration,
}

struct Summing {
    sums: Sums,
    group: HostGroup,
    open: Box<OpenBlock>,
    /// Since when the open block waits for an answer.
    since: Duration,
}

impl<S: Store> SumHost<S> {
    /// A host that waits for its guests, or continues after a restart: [`tick`](Self::tick) makes it speak.
    pub fn new(
        settings: SumHostSettings,
        store: S,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        settings.timing.check().map_err(PartyError::misuse)?;
        if settings.guests.is_empty() {
            return Err(PartyError::misuse(PartError::new("guests", "none", "at least one")));
        }
        let width = settings.plan.width as usize;
        if !(1..=MAX_WORDS).contains(&width) {
            let expected = format!("1 to {MAX_WORDS}");
            return Err(PartyError::misuse(PartError::new("numbers of a row", width, expected)));
        }
        let began = now.monotonic;
        let record: Option<SumRecord> = read_record(&store)?;
        let sums = match record {
            None => None,
            Some(record) => {
                same_subject(&record.subject, &settings.subject)?;
                let blocks = blocks(&record.held, width)?;
                let done = match store.rounds()?.last() {
                    Some(&newest) => read_sums(&store.get(newest)?, &blocks, width)?,
                    None => Vec::new(),
                };
                Some(Sums { record, blocks, done, kept: began })
            }
        };
        let parties = settings.guests.iter().map(|party| (party.clone(), GuestState::default()));
        let guests = GuestSessions::new(ledger, settings.timing, now, parties, Some(began));
        let phase = match sums {
            Some(sums) if sums.done.len() == sums.blocks.len() => Phase::Finishing(sums, began),
            sums => Phase::Gathering(Gathering { since: began, sums }),
        };
        Ok(Self { settings, store, guests, phase, events: Vec::new() })
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> ToGuestOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        let done = self.dispatch(from, message);
        self.end_turn(done)
    }

    /// Lets time pass: what was not answered is asked again, and every wait ends.
    pub fn tick(&mut self, now: Now) -> ToGuestOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        let done = self.pass_time();
        self.end_turn(done)
    }

    /// Ends because someone says so. It can continue later.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToGuestOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        self.end_turn(Err(PartyError::Stopped { reason }))
    }

    /// Whether it has ended, well or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Finished(_) | Phase::Stopped(_))
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&PartyError> {
        match &self.phase {
            Phase::Stopped(error) => Some(error),
            _ => None,
        }
    }

    /// Its run and the sums of all blocks in the order of their steps, once it has finished.
    pub fn into_sums(self) -> Option<(RunId, Vec<BlockSum>)> {
        match self.phase {
            Phase::Finished(sums) => Some((sums.record.run, sums.done)),
            _ => None,
        }
    }

    /// Blocks that are summed, and all; none before the guests have gathered.
    pub fn progress(&self) -> Option<(usize, usize)> {
        let sums = match &self.phase {
            Phase::Gathering(Gathering { sums, .. }) => sums.as_ref()?,
            Phase::Summing(Summing { sums, .. })
            | Phase::Finishing(sums, _)
            | Phase::Finished(sums) => sums,
            Phase::Stopped(_) | Phase::Changing => return None,
        };
        Some((sums.done.len(), sums.blocks.len()))
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<SumEvent> {
        std::mem::take(&mut self.events)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.guests.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.guests.ledger_mut()
    }

    fn dispatch(&mut self, from: &PartyId, message: ToHost) -> Result<(), PartyError> {
        if !self.guests.hear(from)? {
            return Ok(());
        }
        match message {
            ToHost::Sum(FromSumGuest::Hello(hello)) => self.hello(from, *hello),
            ToHost::Sum(message) => self.answer(from, message),
            ToHost::Heartbeat => {
                if self.guests.get(from).is_some_and(|guest| !guest.present) {
                    self.guests.request_missing_hello(from)?;
                }
                Ok(())
            }
            ToHost::Leave { session, departure } => self.leave(from, session, departure),
            other => {
                let what = format!(
                    "it sent `{}`: it wants to concatenate embeddings, and this host learns sums alone (fusion = \"sum\" of both)",
                    other.kind()
                );
                Err(PartyError::misbehaved(from, what))
            }
        }
    }

    fn hello(&mut self, from: &PartyId, hello: SumHello) -> Result<(), PartyError> {
        let SumHostSettings { plan, verifier, .. } = &self.settings;
        check_hello(from, &hello, plan, &**verifier)?;
        let (now, every) = (self.guests.now(), self.settings.timing.resend / 4);
        let Some(guest) = self.guests.get_mut(from) else { return Ok(()) };
        // A guest cannot have others begin anew as often as it likes.
        if guest.past.contains(&hello.session) || !is_due(&mut guest.greeted, now, every) {
            return Ok(());
        }
        let known = guest.hello.as_ref().map(|hello| hello.session);
        guest.past.extend(known.filter(|known| *known != hello.session));
        let back = std::mem::replace(&mut guest.present, true);
        guest.reason = None;
        let same = known == Some(hello.session);
        guest.hello = Some(hello);
        self.guests.clear_asked(from);
        if !same || !back {
            self.events.push(SumEvent::Joined(from.clone()));
        }
        match &self.phase {
            Phase::Gathering(_) => self.begin_if_all(),
            Phase::Summing(summing) if same && summing.group.place(from).is_some() => {
                // It did not hear of the group, or was only away.
                let group = Box::new(summing.group.as_sent().clone());
                self.guests.say(from, ToGuest::Sum(FromSumHost::Group(group)))?;
                self.ask(false)
            }
            // Its key is another one now, or it was not among the members.
            Phase::Summing(_) => self.group_again(),
            Phase::Finishing(sums, _) => {
                let run = sums.record.run;
                if let Some(guest) = self.guests.get_mut(from) {
                    guest.finished = false;
                }
                self.guests.say(from, ToGuest::Sum(FromSumHost::Finish { run }))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn leave(
        &mut self,
        from: &PartyId,
        session: u64,
        departure: Departure,
    ) -> Result<(), PartyError> {
        let finishing = matches!(self.phase, Phase::Finishing(..));
        let Some(guest) = self.guests.get_mut(from) else { return Ok(()) };
        if guest.hello.as_ref().is_none_or(|hello| hello.session != session) {
            return Ok(());
        }
        if departure == Departure::Finished && !finishing {
            return Err(PartyError::misbehaved(from, "it has finished a run that has not ended"));
        }
        guest.finished = departure == Departure::Finished;
        guest.reason = match &departure {
            Departure::Failed(reason) => Some(reason.clone()),
            _ => None,
        };
        guest.present = false;
        if finishing {
            return self.finish_if_confirmed();
        }
        self.events.push(SumEvent::Left(from.clone(), departure));
        self.proceed_without(from)
    }

    /// A guest is gone, for now.
    fn proceed_without(&mut self, party: &PartyId) -> Result<(), PartyError> {
        if self.settings.absent == AbsencePolicy::Stop {
            return Err(self.absent(party, self.guests.heard(party)));
        }
        self.settle_if_all_are_in()
    }

    fn absent(&self, party: &PartyId, since: Duration) -> PartyError {
        let reason = self.guests.get(party).and_then(|guest| guest.reason.clone());
        let seconds = self.guests.seconds_since(since);
        PartyError::Absent { party: party.clone(), seconds, reason }
    }

    fn answer(&mut self, from: &PartyId, message: FromSumGuest) -> Result<(), PartyError> {
        if self.guests.get(from).is_none_or(|guest| !guest.present) {
            return Ok(self.guests.request_missing_hello(from)?);
        }
        let Phase::Summing(summing) = &mut self.phase else { return Ok(()) };
        let Some(place) = summing.group.place(from) else { return Ok(()) };
        let (id, open) = (summing.group.id(), summing.open.block());
        let (group, verifier) = (&summing.group, &*self.settings.verifier);
        match message {
            FromSumGuest::Masked { group: of, block, words } if (of, block) == (id, open) => {
                summing.open.masked(group, (from, place), words)?;
                self.settle_if_all_are_in()
            }
            FromSumGuest::Agreed { group: of, block, signature } if (of, block) == (id, open) => {
                let all = summing.open.agreed(group, (from, place), signature, verifier)?;
                self.ask(all)
            }
            FromSumGuest::Seeds { group: of, block, seeds } if (of, block) == (id, open) => {
                match summing.open.revealed(group, (from, place), seeds)? {
                    Some(summed) => self.summed(summed),
                    None => Ok(()),
                }
            }
            // Of another group or block: stale.
            _ => Ok(()),
        }
    }

    /// All guests are here: finds the steps that all hold.
    fn begin_if_all(&mut self) -> Result<(), PartyError> {
        let all = self.guests.iter().all(|(_, guest)| guest.present);
        if all { self.begin() } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<(), PartyError> {
        let phase = std::mem::replace(&mut self.phase, Phase::Changing);
        let Phase::Gathering(Gathering { sums, .. }) = phase else {
            self.phase = phase;
            return Ok(());
        };
        let sums = match sums {
            Some(sums) => sums,
            None => {
                let there = self.guests.iter().filter(|(_, guest)| guest.present);
                let hellos: Vec<&SumHello> =
                    there.filter_map(|(_, guest)| guest.hello.as_ref()).collect();
                let held = common(&self.settings.held, &hellos)?;
                let SumHostSettings { run, subject, plan, .. } = &self.settings;
                let blocks = blocks(&held, plan.width as usize)?;
                let (run, subject) = (*run, subject.clone());
                let record = SumRecord { run, subject, held, settled: BTreeMap::new() };
                write_record(&mut self.store, &record)?;
                Sums { record, blocks, done: Vec::new(), kept: self.guests.now() }
            }
        };
        self.sum_next(sums)
    }

    /// A member has come or come back with another key.
    fn group_again(&mut self) -> Result<(), PartyError> {
        let phase = std::mem::replace(&mut self.phase, Phase::Changing);
        let Phase::Summing(Summing { sums, .. }) = phase else {
            self.phase = phase;
            return Ok(());
        };
        self.sum_next(sums)
    }

    /// Forms a group of those who are here, for the blocks that are left.
    fn sum_next(&mut self, sums: Sums) -> Result<(), PartyError> {
        let (done, since) = (sums.done.len(), self.guests.now());
        let Some(&block) = sums.blocks.get(done) else { return self.enter_finishing(sums) };
        let there = self.guests.iter().filter(|(_, guest)| guest.present);
        let hellos = there.filter_map(|(_, guest)| guest.hello.as_ref());
        // Whoever does not hold all steps came later than the steps were chosen.
        let holds = |hello: &&SumHello| {
            sums.record.held.ranges().iter().all(|range| contains(&hello.held, range))
        };
        let members: Vec<&SumHello> = hellos.filter(holds).collect();
        if members.is_empty() {
            self.phase = Phase::Gathering(Gathering { since, sums: Some(sums) });
            return Ok(());
        }
        let SumHostSettings { plan, software, .. } = &self.settings;
        let names: Vec<PartyId> = members.iter().map(|hello| hello.party.clone()).collect();
        let group = group_of(members.into_iter(), (sums.record.run, plan, software))?;
        for party in &names {
            let group = Box::new(group.clone());
            self.guests.say(party, ToGuest::Sum(FromSumHost::Group(group)))?;
        }
        self.events.push(SumEvent::Grouped(names));
        let (group, open) = (HostGroup::new(group), Box::new(OpenBlock::new(block)));
        self.phase = Phase::Summing(Summing { sums, group, open, since });
        self.ask(true)
    }

    /// Asks members for what they have not answered: all of them, or those that were not asked for a while.
    fn ask(&mut self, anew: bool) -> Result<(), PartyError> {
        let Phase::Summing(Summing { group, open, .. }) = &self.phase else { return Ok(()) };
        let mut questions = Vec::new();
        for (place, party) in group.names().enumerate() {
            let present = self.guests.get(party).is_some_and(|guest| guest.present);
            let due = anew || self.guests.resend_due(party);
            if let (true, true, Some(question)) = (present, due, open.question(group, place)) {
                questions.push((party.clone(), question));
            }
        }
        for (party, question) in questions {
            self.guests.ask(&party, ToGuest::Sum(question))?;
        }
        Ok(())
    }

    /// Settles the participants once the totals of all members are there who must be waited for.
    fn settle_if_all_are_in(&mut self) -> Result<(), PartyError> {
        let skips = self.settings.absent == AbsencePolicy::Skip;
        let Phase::Summing(Summing { sums, group, open, since }) = &mut self.phase else {
            return Ok(());
        };
        if !open.is_masking() {
            return Ok(());
        }
        let guests = &self.guests;
        let there = group.names().enumerate().filter(|(place, _)| open.has_masked(*place));
        let there: BTreeSet<PartyId> = there.map(|(_, party)| party.clone()).collect();
        let missing = |party: &PartyId| {
            !there.contains(party) && guests.get(party).is_some_and(|guest| guest.present)
        };
        let first = open.block().first().0;
        let settled = sums.record.settled.get(&first);
        let ready = match settled {
            // Guests have signed these, and sign no others.
            Some(settled) => settled.is_subset(&there),
            None if skips => {
                let configured = self.settings.guests.len();
                !group.names().any(missing)
                    && there.len() >= least_participants(configured.max(group.len()))
            }
            None => there.len() == self.settings.guests.len(),
        };
        if !ready {
            return Ok(());
        }
        let participants = settled.cloned().unwrap_or(there);
        let names: Vec<PartyId> = group.names().cloned().collect();
        open.settle(|place| names.get(place).is_some_and(|name| participants.contains(name)))?;
        *since = guests.now();
        if settled.is_none() {
            sums.record.settled.insert(first, participants);
            write_record(&mut self.store, &sums.record)?;
        }
        self.ask(true)
    }

    fn summed(&mut self, summed: Summed) -> Result<(), PartyError> {
        let now = self.guests.now();
        let Phase::Summing(Summing { sums, open, since, .. }) = &mut self.phase else {
            return Ok(());
        };
        let block = open.block();
        let Summed { participants, words } = summed;
        let absent = self.settings.guests.iter().filter(|guest| !participants.contains(guest));
        let absent: Vec<PartyId> = absent.cloned().collect();
        sums.done.push(BlockSum { block, guests: participants.len(), words });
        let (done, all) = (sums.done.len(), sums.blocks.len());
        self.events.push(SumEvent::Summed(done, all));
        if !absent.is_empty() {
            self.events.push(SumEvent::Without(block, absent));
        }
        let last = done == all;
        // Without a guest that is gone for good a sum cannot be made again.
        let skips = self.settings.absent == AbsencePolicy::Skip;
        if last || skips || now.saturating_sub(sums.kept) >= KEEP_EVERY {
            self.store.put(Round(done as u64), &write_sums(&sums.done))?;
            self.guests.ledger_mut().sync()?;
            sums.kept = now;
            sums.record.settled.clear();
        }
        if last {
            let phase = std::mem::replace(&mut self.phase, Phase::Changing);
            let Phase::Summing(Summing { sums, .. }) = phase else { return Ok(()) };
            return self.enter_finishing(sums);
        }
        if let Some(&next) = sums.blocks.get(done) {
            (**open, *since) = (OpenBlock::new(next), now);
        }
        self.ask(true)
    }

    fn enter_finishing(&mut self, sums: Sums) -> Result<(), PartyError> {
        let (run, since) = (sums.record.run, self.guests.now());
        self.phase = Phase::Finishing(sums, since);
        for party in self.guests.those(|guest, _| guest.present) {
            self.guests.ask(&party, ToGuest::Sum(FromSumHost::Finish { run }))?;
        }
        self.finish_if_confirmed()
    }

    fn finish_if_confirmed(&mut self) -> Result<(), PartyError> {
        let waiting = self.guests.iter().any(|(_, guest)| guest.present && !guest.finished);
        if !waiting {
            self.end_finishing()?;
        }
        Ok(())
    }

    fn end_finishing(&mut self) -> Result<(), PartyError> {
        self.guests.ledger_mut().sync()?;
        match std::mem::replace(&mut self.phase, Phase::Changing) {
            Phase::Finishing(sums, _) => self.phase = Phase::Finished(sums),
            other => self.phase = other,
        }
        Ok(())
    }

    fn pass_time(&mut self) -> Result<(), PartyError> {
        self.guests.heartbeats(|guest, _| guest.present)?;
        // Who is silent is away.
        let silent = self.guests.those(|guest, _| guest.present);
        for party in silent {
            if self.guests.is_silent(&party) {
                if let Some(guest) = self.guests.get_mut(&party) {
                    guest.present = false;
                }
                self.events.push(SumEvent::Missed(party.clone()));
                if matches!(self.phase, Phase::Finishing(..)) {
                    self.finish_if_confirmed()?;
                } else {
                    self.proceed_without(&party)?;
                }
            }
        }
        let timing = self.settings.timing;
        match &self.phase {
            Phase::Gathering(Gathering { since, .. }) => {
                let since = *since;
                let missing = self.guests.those(|guest, _| !guest.present);
                let enough = self.settings.guests.len() - missing.len();
                let skips = self.settings.absent == AbsencePolicy::Skip
                    && self.guests.lasted(since, timing.silence)
                    && enough >= least_participants(self.settings.guests.len());
                if skips {
                    return self.begin();
                }
                self.give_up_after(&missing, since)?;
                for party in &missing {
                    if self.guests.resend_due(party) {
                        self.guests.request_hello(party)?;
                    }
                }
                Ok(())
            }
            Phase::Summing(Summing { group, open, since, sums, .. }) => {
                let since = *since;
                let settled = sums.record.settled.get(&open.block().first().0);
                let needed: Vec<PartyId> = match (open.participants(group), settled) {
                    (Some(participants), _) => participants.cloned().collect(),
                    (None, Some(settled)) => settled.iter().cloned().collect(),
                    (None, None) => self.settings.guests.iter().cloned().collect(),
                };
                let missing: Vec<PartyId> = needed
                    .into_iter()
                    .filter(|party| self.guests.get(party).is_some_and(|guest| !guest.present))
                    .collect();
                self.give_up_after(&missing, since)?;
                for party in self.guests.those(|guest, _| !guest.present) {
                    if self.guests.resend_due(&party) {
                        self.guests.request_hello(&party)?;
                    }
                }
                self.settle_if_all_are_in()?;
                self.ask(false)
            }
            Phase::Finishing(sums, since) => {
                let (run, since) = (sums.record.run, *since);
                if self.guests.lasted(since, timing.silence) {
                    return self.end_finishing();
                }
                for party in self.guests.those(|guest, _| guest.present && !guest.finished) {
                    if self.guests.resend_due(&party) {
                        self.guests.ask(&party, ToGuest::Sum(FromSumHost::Finish { run }))?;
                    }
                }
                Ok(())
            }
            Phase::Finished(_) | Phase::Stopped(_) | Phase::Changing => Ok(()),
        }
    }

    /// Nothing is waited for longer than the limit.
    fn give_up_after(&self, missing: &[PartyId], since: Duration) -> Result<(), PartyError> {
        match missing.first() {
            Some(party) if self.guests.lasted(since, self.settings.timing.limit) => {
                Err(self.absent(party, since))
            }
            _ => Ok(()),
        }
    }

    /// A guest's error ends that guest's session; any other error ends the host, and everyone is told.
    fn end_turn(&mut self, done: Result<(), PartyError>) -> ToGuestOutbox {
        let done = match done {
            Err(error) => match error.culprit().cloned() {
                Some(party) => self.refuse(&party, &error),
                None => Err(error),
            },
            Ok(()) => Ok(()),
        };
        if let Err(error) = done {
            let reason = error.for_peers();
            self.guests.refuse_all(|_| reason.clone());
            self.phase = Phase::Stopped(error);
        }
        self.guests.take_outbox()
    }

    fn refuse(&mut self, party: &PartyId, error: &PartyError) -> Result<(), PartyError> {
        let (reason, mut session) = (StopReason::other(error), 0);
        if let Some(guest) = self.guests.get_mut(party) {
            session = guest.hello.take().map_or(0, |hello| hello.session);
            guest.present = false;
            guest.reason = Some(reason.clone());
        }
        self.events.push(SumEvent::Refused(party.clone(), reason.text.clone()));
        self.guests.say(party, ToGuest::Refuse { session, reason })?;
        if matches!(self.phase, Phase::Finishing(..)) {
            return self.finish_if_confirmed();
        }
        self.proceed_without(party)
    }
}

fn contains(held: &HeldSteps, range: &StepRange) -> bool {
    held.ranges().iter().any(|own| own.first <= range.first && range.last <= own.last)
}

/// The steps that the host and all guests hold.
fn common(own: &HeldSteps, hellos: &[&SumHello]) -> Result<HeldSteps, PartyError> {
    let mut ranges = own.ranges().to_vec();
    for hello in hellos {
        ranges = intersect(&ranges, hello.held.ranges());
    }
    if ranges.is_empty() {
        let expected = "some that the host and all guests have features of";
        let error = PartError::new("steps that all parties hold", "none", expected);
        return Err(PartyError::misuse(error));
    }
    HeldSteps::new(ranges).map_err(PartyError::misuse)
}

fn intersect(a: &[StepRange], b: &[StepRange]) -> Vec<StepRange> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let (first, last) = (x.first.max(y.first), x.last.min(y.last));
        if first <= last {
            both.push(StepRange { first, last });
        }
        if x.last <= y.last {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

/// Runs of steps, cut into blocks.
fn blocks(held: &HeldSteps, width: usize) -> Result<Vec<Block>, PartyError> {
    let most = (BLOCK_WORDS / width).clamp(1, MAX_STEPS) as i64;
    let mut blocks = Vec::new();
    for range in held.ranges() {
        let mut first = range.first;
        while first <= range.last {
            let last = range.last.min(first + most - 1);
            blocks.push(Block::new(Step(first), Step(last)).map_err(PartyError::misuse)?);
            first = last + 1;
        }
    }
    Ok(blocks)
}

/// Of each block, its guests and its words.
fn write_sums(done: &[BlockSum]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for sum in done {
        bytes.extend((sum.guests as u64).to_le_bytes());
        bytes.extend(sum.words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}

fn read_sums(bytes: &[u8], blocks: &[Block], width: usize) -> Result<Vec<BlockSum>, PartyError> {
    let found = bytes.len();
    let wrong =
        move || StoreError::from(PartError::new("sums", found, "the bytes of whole blocks"));
    let (words, []) = bytes.as_chunks::<8>() else { return Err(wrong().into()) };
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let (mut done, mut blocks) = (Vec::new(), blocks.iter());
    while let Some(guests) = words.next() {
        let block = *blocks.next().ok_or_else(wrong)?;
        let sum: Vec<u64> = words.by_ref().take(block.count() * width).collect();
        if sum.len() < block.count() * width {
            return Err(wrong().into());
        }
        done.push(BlockSum { block, guests: guests as usize, words: sum });
    }
    Ok(done)
}
