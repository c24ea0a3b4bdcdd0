//! A guest that adds its totals of each step to a sum over guests, as soon as it can.

use protocol::ledger::Ledger;
use protocol::message::ToGuest;
use protocol::message::live::FromLiveHost;
use protocol::message::parts::Text;
use protocol::message::sums::SumPlan;
use protocol::party::{Now, PartyId};
use traffic::Step;

use super::guest::GuestCounts;
use super::ledger_sync::LedgerSync;
use crate::error::PartyError;
use crate::session::host::ToHostOutbox;
use crate::session::timing::Timing;
use crate::sums::{SumGuest, SumTrust};

/// What a guest is told by those who run it.
pub struct LiveSumGuestSettings {
    /// Its name.
    pub party: PartyId,
    /// The host's.
    pub host: PartyId,
    /// Version of its software, for logs.
    pub software: Text,
    /// Drawn anew at each start; not 0.
    pub session: u64,
    /// What it adds to, and no other: the steps of the training do not matter.
    pub plan: SumPlan,
    /// The fewest participants of a sum that it adds to.
    pub least: usize,
    /// How long it waits.
    pub timing: Timing,
}

/// A guest of sums, live: see the module. What it does in a sum is what it does in training.
pub struct LiveSumGuest {
    guest: SumGuest,
    counts: GuestCounts,
    /// The newest step that the host has settled.
    settled: Option<Step>,
    ledger_sync: LedgerSync,
    /// Why it has ended.
    ended: Option<PartyError>,
}

impl LiveSumGuest {
    /// A guest that is about to join: [`tick`](Self::tick) makes it speak.
    ///
    /// # Errors
    /// If it cannot draw or sign a key.
    pub fn new(
        settings: LiveSumGuestSettings,
        trust: SumTrust,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        Ok(Self {
            guest: SumGuest::live(settings, trust, ledger, now)?,
            counts: GuestCounts::default(),
            settled: None,
            ledger_sync: LedgerSync::from(now),
            ended: None,
        })
    }

    /// The connection to the host is new: nobody there may know this guest.
    pub fn connected(&mut self, now: Now) -> ToHostOutbox {
        let out = self.guest.connected(now);
        self.end_turn(out)
    }

    /// Totals of its own, as words. They leave only masked, and only if the host may still use them.
    pub fn totals(&mut self, now: Now, step: Step, words: Vec<u64>) -> ToHostOutbox {
        let late = self.settled.is_some_and(|settled| step <= settled);
        let (out, sent) = match late {
            true => (Vec::new(), false),
            false => self.guest.add(now, step, words),
        };
        *(if sent { &mut self.counts.sent } else { &mut self.counts.unsent }) += 1;
        self.end_turn(out)
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> ToHostOutbox {
        let out = match message {
            ToGuest::Live(FromLiveHost::StepEstimated { step, taken }) => {
                // Said twice, or an older one that was overtaken.
                if self.settled.is_none_or(|settled| step > settled) {
                    self.settled = Some(step);
                    self.guest.forget_to(step);
                    *(if taken { &mut self.counts.taken } else { &mut self.counts.missed }) += 1;
                }
                self.guest.handle(now, ToGuest::Heartbeat)
            }
            message => self.guest.handle(now, message),
        };
        self.end_turn(out)
    }

    /// Lets time pass: introduces itself again if nobody answers, and gives up after the limit.
    pub fn tick(&mut self, now: Now) -> ToHostOutbox {
        let out = self.guest.tick(now);
        let out = self.end_turn(out);
        if self.ended.is_none()
            && let Err(error) = self.ledger_sync.tick(self.guest.ledger_mut(), now)
        {
            self.ended = Some(error);
        }
        out
    }

    /// Takes part no longer, because someone says so.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToHostOutbox {
        let out = self.guest.stop(now, reason);
        self.end_turn(out)
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        self.ended.as_ref()
    }

    /// Whether it is in a group that adds up.
    pub fn is_live(&self) -> bool {
        self.ended.is_none() && self.guest.is_member()
    }

    /// Members of that group.
    pub fn members(&self) -> usize {
        self.guest.group().map_or(0, |group| group.members.as_slice().len())
    }

    /// What became of its steps.
    pub fn counts(&self) -> GuestCounts {
        self.counts
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.guest.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.guest.ledger_mut()
    }

    fn end_turn(&mut self, out: ToHostOutbox) -> ToHostOutbox {
        if self.ended.is_none()
            && let Some(error) = self.guest.take_stopped()
        {
            self.ended = Some(self.ledger_sync.at_the_end(self.guest.ledger_mut(), error));
        }
        out
    }
}
