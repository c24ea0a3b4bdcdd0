//! The host of a model of a sum over guests: collects masked totals of each step, has the participants take the masks off
//! their sum, then estimates.
//!
//! Of a step the participants are those whose masked totals are there when all are in, or half of the deadline has passed. What comes
//! later is of no use to anybody: nobody reveals its sender's own mask. A step without a sum by the deadline has none for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use protocol::ledger::Ledger;
use protocol::message::live::FromLiveHost;
use protocol::message::parts::Text;
use protocol::message::sums::{Block, FromSumGuest, FromSumHost, MaskedWords, SumHello, SumPlan};
use protocol::message::{StopReason, ToGuest, ToHost};
use protocol::party::{Now, PartyId, RunId};
use traffic::Step;

use super::estimate::{Estimated, LiveEvent, Participation};
use super::guest_state::{LiveGuestCounts, LiveGuestState, Placed};
use super::ledger_sync::LedgerSync;
use super::open_steps::{OpenStep, OpenSteps, WentBack};
use crate::error::PartyError;
use crate::model::ModelFailure;
use crate::session::GuestSessions;
use crate::session::guests::{ToGuestOutbox, is_due};
use crate::session::timing::Timing;
use crate::sums::Verifier;
use crate::sums::group::{check_hello, group_of, least_participants};
use crate::sums::open_block::{HostGroup, OpenBlock, Summed};

/// What the host is told by those who run it.
pub struct LiveSumHostSettings {
    /// Its name.
    pub party: PartyId,
    /// Its guests.
    pub guests: BTreeSet<PartyId>,
    /// Version of its software, for logs.
    pub software: Text,
    /// The run that its model is of.
    pub run: RunId,
    /// What is summed.
    pub plan: SumPlan,
    /// How long a step waits for its sum, from when it opens.
    pub deadline: Duration,
    /// The rest of its patience.
    pub timing: Timing,
    /// Checks what guests sign.
    pub verifier: Box<dyn Verifier>,
}

/// What a model makes of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum SumEstimate<E> {
    /// An estimate.
    Estimate(E),
    /// The window that ends with the step is not whole.
    NoWindow,
    /// Nothing: what comes out are no numbers.
    NotFinite,
}

/// The host's model: its own numbers and the sum over guests, step by step, to estimates.
pub trait LiveSumModel: Send {
    /// The host's own numbers of a step.
    type Own: Send;
    /// An estimate.
    type Estimate;

    /// Estimates the window that ends with a step: the next one that the host has data of. `sum`: over how many guests, and its words
    /// modulo 2^64.
    fn estimate(
        &mut self,
        step: Step,
        own: Self::Own,
        sum: Option<(usize, &[u64])>,
    ) -> Result<SumEstimate<Self::Estimate>, ModelFailure>;
}

/// The host, see the module.
pub struct LiveSumHost<M: LiveSumModel> {
    settings: LiveSumHostSettings,
    model: M,
    guests: GuestSessions<GuestState>,
    steps: OpenSteps<M::Own>,
    /// Whose masks cancel.
    group: Option<Arc<HostGroup>>,
    /// Of the first open step.
    agreement: Option<Agreement>,
    ledger_sync: LedgerSync,
    events: Vec<LiveEvent<M::Estimate>>,
    stopped: Option<PartyError>,
}

#[derive(Default)]
struct GuestState {
    live: LiveGuestState<MaskedWords>,
    hello: Option<SumHello>,
}

/// A step whose participants are settled, in the group in which they have masked.
struct Agreement {
    group: Arc<HostGroup>,
    open: OpenBlock,
}

impl Agreement {
    /// The one that a message belongs to, and its sender's place in it.
    fn of<'a>(
        agreement: &'a mut Option<Self>,
        from: &PartyId,
        (group, block): (u64, Block),
    ) -> Option<(&'a HostGroup, &'a mut OpenBlock, usize)> {
        let Self { group: agreed, open } = agreement.as_mut()?;
        let place = agreed.place(from)?;
        let same = (group, block) == (agreed.id(), open.block());
        same.then_some((&**agreed, open, place))
    }
}

impl<M: LiveSumModel> LiveSumHost<M> {
    /// A host without guests yet.
    pub fn new(settings: LiveSumHostSettings, model: M, ledger: Ledger, now: Now) -> Self {
        let parties = settings.guests.iter().map(|party| (party.clone(), GuestState::default()));
        let guests = GuestSessions::new(ledger, settings.timing, now, parties, None);
        Self {
            settings,
            model,
            guests,
            steps: OpenSteps::new(),
            group: None,
            agreement: None,
            ledger_sync: LedgerSync::from(now),
            events: Vec::new(),
            stopped: None,
        }
    }

    /// The host's own numbers of a step are there: it opens. Steps come in order; others are left out, and the first of them is an
    /// event.
    pub fn open(&mut self, now: Now, step: Step, own: M::Own) -> ToGuestOutbox {
        self.turn(now, |host| {
            if let Err(WentBack(newest)) = host.steps.push(step, own, now.monotonic) {
                let event = newest.map(|newest| LiveEvent::WentBack { step, newest });
                host.events.extend(event);
            }
            host.settle()
        })
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> ToGuestOutbox {
        self.turn(now, |host| host.dispatch(from, message))
    }

    /// A guest's connection has come or gone.
    pub fn connection(&mut self, now: Now, guest: &PartyId, connected: bool) -> ToGuestOutbox {
        self.turn(now, |host| {
            host.guests.note_connection(guest);
            if let Some(guest) = host.guests.get_mut(guest) {
                guest.live.connection(connected);
            }
            host.settle()
        })
    }

    /// Lets time pass: settles what is due.
    pub fn tick(&mut self, now: Now) -> ToGuestOutbox {
        self.turn(now, |host| {
            host.settle()?;
            host.ask(false)?;
            let silence = host.settings.timing.silence;
            host.guests
                .heartbeats(|guest, heard| guest.live.is_present(heard, now.monotonic, silence))?;
            host.ledger_sync.tick(host.guests.ledger_mut(), now)
        })
    }

    /// Ends because someone says so; guests are told.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToGuestOutbox {
        self.turn(now, |_| Err(PartyError::Stopped { reason }))
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        self.stopped.as_ref()
    }

    /// Whether steps wait for their guests.
    pub fn is_waiting(&self) -> bool {
        !self.steps.is_empty()
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<LiveEvent<M::Estimate>> {
        std::mem::take(&mut self.events)
    }

    /// Each guest: whether steps wait for it, and what became of its totals.
    pub fn sessions(&self, now: Now) -> impl Iterator<Item = (&PartyId, bool, LiveGuestCounts)> {
        let silence = self.settings.timing.silence;
        self.guests.iter().map(move |(party, guest)| {
            let heard = self.guests.heard(party);
            let waited_for = guest.live.is_waited_for(heard, now.monotonic, silence);
            (party, waited_for, guest.live.counts)
        })
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
            ToHost::Sum(FromSumGuest::Masked { group, block, words }) => {
                self.masked(from, group, block, words)
            }
            ToHost::Sum(FromSumGuest::Agreed { group: of, block, signature }) => {
                let Some((group, open, place)) =
                    Agreement::of(&mut self.agreement, from, (of, block))
                else {
                    return Ok(());
                };
                let verifier = &*self.settings.verifier;
                let all = open.agreed(group, (from, place), signature, verifier)?;
                if all { self.ask(true) } else { Ok(()) }
            }
            ToHost::Sum(FromSumGuest::Seeds { group: of, block, seeds }) => {
                let Some((group, open, place)) =
                    Agreement::of(&mut self.agreement, from, (of, block))
                else {
                    return Ok(());
                };
                let Some(summed) = open.revealed(group, (from, place), seeds)? else {
                    return Ok(());
                };
                self.estimate(Some(summed))?;
                self.settle()
            }
            ToHost::Heartbeat => {
                if self.guests.get(from).is_some_and(|guest| guest.live.session.is_none()) {
                    self.guests.request_missing_hello(from)?;
                }
                Ok(())
            }
            ToHost::Leave { session, departure } => {
                let guest = self.guests.get_mut(from);
                if let Some(guest) = guest.filter(|guest| guest.live.session == Some(session)) {
                    guest.live.session = None;
                    self.events.push(LiveEvent::Left(from.clone(), departure));
                }
                self.settle()
            }
            other => {
                let what = format!(
                    "it sent `{}`, and this host estimates live by sums over guests (fusion = \"sum\" of both)",
                    other.kind()
                );
                Err(PartyError::misbehaved(from, what))
            }
        }
    }

    fn hello(&mut self, from: &PartyId, hello: SumHello) -> Result<(), PartyError> {
        let (now, resend) = (self.guests.now(), self.settings.timing.resend);
        let guest = self.guests.get_mut(from);
        if !guest.is_some_and(|guest| is_due(&mut guest.live.greeted, now, resend)) {
            return Ok(());
        }
        let LiveSumHostSettings { plan, verifier, .. } = &self.settings;
        check_hello(from, &hello, plan, &**verifier)?;
        let under_way = self.steps.settled().is_some();
        let Some(guest) = self.guests.get_mut(from) else { return Ok(()) };
        let known = guest.hello.as_ref().filter(|known| known.session == hello.session);
        if known.is_some_and(|known| known.key != hello.key) {
            let what = "its key: found another one in the same session, expected the same";
            return Err(PartyError::misbehaved(from, what));
        }
        let known = known.is_some();
        // A transport without connections has nobody else to say so.
        guest.live.connected = true;
        if guest.live.session != Some(hello.session) {
            guest.live.join(hello.session, under_way);
            self.events.push(LiveEvent::Joined(from.clone()));
        }
        guest.hello = Some(hello);
        self.guests.clear_asked(from);
        match &self.group {
            // It may not have heard of the group, nor of what it was asked.
            Some(group) if known && group.place(from).is_some() => {
                let sent = Box::new(group.as_sent().clone());
                self.guests.say(from, ToGuest::Sum(FromSumHost::Group(sent)))?;
                self.ask(false)
            }
            _ => self.group_again(),
        }
    }

    /// Forms a group of those who are here, if they are enough for a sum. Totals that were masked in another are of no use in this one:
    /// guests send those of steps that are not settled again.
    fn group_again(&mut self) -> Result<(), PartyError> {
        let there = self.guests.iter().filter(|(_, guest)| guest.live.session.is_some());
        let members: Vec<&SumHello> = there.filter_map(|(_, guest)| guest.hello.as_ref()).collect();
        if members.len() < least_participants(self.settings.guests.len()) {
            self.group = None;
            return Ok(());
        }
        let names: Vec<PartyId> = members.iter().map(|hello| hello.party.clone()).collect();
        let LiveSumHostSettings { run, plan, software, .. } = &self.settings;
        let group = group_of(members.into_iter(), (*run, plan, software))?;
        for party in &names {
            let group = Box::new(group.clone());
            self.guests.say(party, ToGuest::Sum(FromSumHost::Group(group)))?;
        }
        self.guests.iter_mut().for_each(|(_, guest)| guest.live.forget());
        self.group = Some(Arc::new(HostGroup::new(group)));
        Ok(())
    }

    fn masked(
        &mut self,
        from: &PartyId,
        group: u64,
        block: Block,
        words: MaskedWords,
    ) -> Result<(), PartyError> {
        let width = self.settings.plan.width as usize;
        let (found, step) = ([block.count(), words.as_slice().len()], block.first());
        if found != [1, width] {
            let what = format!(
                "masked totals from step {}: found {found:?} steps and words, expected [1, {width}]",
                step.0
            );
            return Err(PartyError::misbehaved(from, what));
        }
        let current = self.group.as_ref().filter(|current| current.id() == group);
        let is_member = current.is_some_and(|current| current.place(from).is_some());
        let deadline = self.settings.deadline / 2;
        let prompt = self.steps.opened(step).is_some_and(|at| !self.guests.lasted(at, deadline));
        let agreed = self.agreement.as_ref().map(|agreement| agreement.open.block().first());
        let settled = agreed.or(self.steps.settled());
        let Some(guest) = self.guests.get_mut(from) else { return Ok(()) };
        if guest.live.session.is_none() || !is_member {
            guest.live.counts.strange += 1;
            if guest.live.session.is_none() {
                self.guests.request_missing_hello(from)?;
            }
            return Ok(());
        }
        match guest.live.place(step, words, settled, prompt) {
            Placed::Waits => self.settle(),
            Placed::Late | Placed::Duplicate => Ok(()),
        }
    }

    /// Settles steps in order, as long as the first one need not wait any longer.
    fn settle(&mut self) -> Result<(), PartyError> {
        while let Some((step, since)) = self.steps.front() {
            let deadline = self.settings.deadline;
            if self.agreement.is_some() {
                if !self.guests.lasted(since, deadline) {
                    return Ok(());
                }
                self.estimate(None)?;
                continue;
            }
            let (now, silence) = (self.guests.now(), self.settings.timing.silence);
            let over = self.guests.lasted(since, deadline / 2);
            let all_in = self.guests.iter().all(|(party, GuestState { live, .. })| {
                !live.is_waited_for(self.guests.heard(party), now, silence)
                    || live.has(step)
                    || live.is_past(step)
            });
            if !(over || all_in || self.steps.are_too_many()) {
                return Ok(());
            }
            if !self.agree(step)? {
                self.estimate(None)?;
            }
        }
        Ok(())
    }

    /// Settles the participants of the first open step, and has them sign. False if they are too few.
    fn agree(&mut self, step: Step) -> Result<bool, PartyError> {
        let Some(group) = self.group.as_ref().map(Arc::clone) else { return Ok(false) };
        let block = Block::new(step, step).map_err(PartyError::misuse)?;
        let (mut open, mut there) = (OpenBlock::new(block), 0);
        for (party, guest) in self.guests.iter_mut() {
            if let (Some(words), Some(place)) = (guest.live.take(step), group.place(party)) {
                open.masked(&group, (party, place), words)?;
                there += 1;
            }
        }
        if there < least_participants(self.settings.guests.len().max(group.len())) {
            return Ok(false);
        }
        open.settle(|_| true)?;
        self.agreement = Some(Agreement { group, open });
        self.ask(true)?;
        Ok(true)
    }

    /// Asks participants for what they have not answered: all of them, or those that were not asked for a while.
    fn ask(&mut self, anew: bool) -> Result<(), PartyError> {
        let Some(Agreement { group, open }) = &self.agreement else { return Ok(()) };
        let mut questions = Vec::new();
        for (place, party) in group.names().enumerate() {
            let here = self.guests.get(party).is_some_and(|guest| guest.live.session.is_some());
            let due = anew || self.guests.resend_due(party);
            if let (true, true, Some(question)) = (here, due, open.question(group, place)) {
                questions.push((party.clone(), question));
            }
        }
        for (party, question) in questions {
            self.guests.ask(&party, ToGuest::Sum(question))?;
        }
        Ok(())
    }

    /// The first open step is settled: with its sum, or without.
    fn estimate(&mut self, sum: Option<Summed>) -> Result<(), PartyError> {
        self.agreement = None;
        let Some(OpenStep { step, own, since }) = self.steps.settle() else { return Ok(()) };
        let (now, silence) = (self.guests.now(), self.settings.timing.silence);
        let words = sum.as_ref().map(|sum| (sum.participants.len(), &sum.words[..]));
        let made = self.model.estimate(step, own, words)?;
        let mut guests = BTreeMap::new();
        for (party, GuestState { live, .. }, heard) in self.guests.iter_heard() {
            live.take(step);
            let is_in = sum.as_ref().is_some_and(|sum| sum.participants.contains(party));
            let participation = match (is_in, &made) {
                (true, SumEstimate::NotFinite) => Participation::Unusable,
                (true, _) => Participation::In,
                (false, _) if live.is_present(heard, now, silence) => Participation::Late,
                (false, _) => Participation::Absent,
            };
            live.settled(participation);
            guests.insert(party.clone(), participation);
        }
        let told: Vec<(PartyId, bool)> = guests
            .iter()
            .filter(|(_, participation)| **participation != Participation::Absent)
            .map(|(party, participation)| (party.clone(), *participation == Participation::In))
            .collect();
        if sum.is_none() {
            self.events.push(LiveEvent::Unsummed(step));
        }
        let waited = now.saturating_sub(since);
        match made {
            SumEstimate::Estimate(estimate) => {
                let estimated = Estimated { step, estimate, waited, guests };
                self.events.push(LiveEvent::Estimated(estimated));
            }
            SumEstimate::NotFinite => self.events.push(LiveEvent::Unestimated(step)),
            SumEstimate::NoWindow => {}
        }
        for (party, taken) in told {
            let settled = ToGuest::Live(FromLiveHost::StepEstimated { step, taken });
            self.guests.say(&party, settled)?;
        }
        Ok(())
    }

    /// A guest's error ends that guest's session; any other error ends the host, and everyone is told.
    fn turn(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut Self) -> Result<(), PartyError>,
    ) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        let done = match act(self) {
            Err(error) => match error.culprit().cloned() {
                Some(party) => self.refuse(&party, StopReason::other(&error)),
                None => Err(error),
            },
            Ok(()) => Ok(()),
        };
        if let Err(error) = done {
            let reason = error.for_peers();
            self.guests.refuse_all(|_| reason.clone());
            self.stopped = Some(self.ledger_sync.at_the_end(self.guests.ledger_mut(), error));
        }
        self.guests.take_outbox()
    }

    fn refuse(&mut self, party: &PartyId, reason: StopReason) -> Result<(), PartyError> {
        let (now, resend) = (self.guests.now(), self.settings.timing.resend);
        let Some(guest) = self.guests.get_mut(party) else { return Ok(()) };
        (guest.live.session, guest.hello) = (None, None);
        guest.live.forget();
        // Each refusal is a line of the ledger and of the log: a guest cannot have them grow as it likes.
        if is_due(&mut guest.live.refused, now, resend) {
            self.events.push(LiveEvent::Refused(party.clone(), reason.text.clone()));
            self.guests.say(party, ToGuest::Refuse { session: 0, reason })?;
        }
        self.settle()
    }
}
