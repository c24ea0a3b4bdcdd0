//! A guest's session with its host.

use std::time::Duration;

use protocol::ledger::{Ledger, LedgerError, QueriedSteps, Released};
use protocol::message::key_authority::ToAuthority;
use protocol::message::{Departure, StopCode, StopReason, ToHost};
use protocol::party::{Now, PartyId};

use super::timing::{Timing, lasted};
use crate::error::PartyError;

/// Messages to the host.
pub type ToHostOutbox = Vec<Released<ToHost>>;

/// A guest's ledger and outbox, and when it and the host were last heard.
pub(crate) struct HostSession {
    pub host: PartyId,
    /// The number that the guest has drawn at its start.
    id: u64,
    timing: Timing,
    ledger: Ledger,
    now: Now,
    outbox: ToHostOutbox,
    heard: Duration,
    said: Option<Duration>,
}

impl HostSession {
    pub(crate) fn new(host: PartyId, id: u64, timing: Timing, ledger: Ledger, now: Now) -> Self {
        let (heard, outbox) = (now.monotonic, Vec::new());
        Self { host, id, timing, ledger, now, outbox, heard, said: None }
    }

    /// The guest is called at this time.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// What is to be sent.
    pub(crate) fn take_outbox(&mut self) -> ToHostOutbox {
        std::mem::take(&mut self.outbox)
    }

    pub(crate) fn now(&self) -> Duration {
        self.now.monotonic
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Takes note that the host was heard.
    pub(crate) fn hear(&mut self) {
        self.heard = self.now.monotonic;
    }

    /// Gives up on a host that was silent for too long.
    pub(crate) fn check_silence(&self) -> Result<(), PartyError> {
        if lasted(self.heard, self.now.monotonic, self.timing.limit) {
            let seconds = self.now.monotonic.saturating_sub(self.heard).as_secs_f64();
            return Err(PartyError::HostSilent { seconds });
        }
        Ok(())
    }

    /// Whether a hello that was not answered is to be sent again.
    pub(crate) fn resend_due(&self) -> bool {
        self.quiet_for(self.timing.resend)
    }

    /// Sends a sign of life if nothing else was sent for a while.
    pub(crate) fn heartbeat_if_due(&mut self) -> Result<(), LedgerError> {
        if self.quiet_for(self.timing.heartbeat) { self.say(ToHost::Heartbeat) } else { Ok(()) }
    }

    fn quiet_for(&self, long: Duration) -> bool {
        self.said.is_none_or(|said| lasted(said, self.now.monotonic, long))
    }

    /// Whether an answer that was given then may be given again: a small query must not cost a large answer each time.
    pub(crate) fn may_repeat(&self, answered: Duration) -> bool {
        lasted(answered, self.now.monotonic, self.timing.resend / 2)
    }

    pub(crate) fn say(&mut self, message: ToHost) -> Result<(), LedgerError> {
        let released = self.ledger.release(self.now, &self.host, message)?;
        self.send(released);
        Ok(())
    }

    /// Releases a message to a key authority.
    pub(crate) fn release(
        &mut self,
        to: &PartyId,
        message: ToAuthority,
    ) -> Result<Released<ToAuthority>, LedgerError> {
        self.ledger.release(self.now, to, message)
    }

    /// Sends what was sent before, with the same bytes.
    pub(crate) fn repeat(&mut self, message: ToHost) -> Result<(), LedgerError> {
        let released = self.ledger.release_again(self.now, &self.host, message)?;
        self.send(released);
        Ok(())
    }

    /// Sends products of measurements; the ledger counts which steps they are about.
    pub(crate) fn say_products(
        &mut self,
        message: ToHost,
        about: Option<QueriedSteps>,
    ) -> Result<(), LedgerError> {
        let released = self.ledger.release_products(self.now, &self.host, message, about)?;
        self.send(released);
        Ok(())
    }

    fn send(&mut self, released: Released<ToHost>) {
        self.outbox.push(released);
        self.said = Some(self.now.monotonic);
    }

    pub(crate) fn leave(&mut self, departure: Departure) -> Result<(), LedgerError> {
        self.say(ToHost::Leave { session: self.id, departure })
    }

    /// Leaves because of an error, unless the host knows of it. A ledger that cannot be written lets nothing out, not even
    /// this: the host will notice the silence.
    pub(crate) fn leave_on(&mut self, error: &PartyError) {
        let reason = match error {
            // The guest's own ledger is to say what it was accused of, whether or not anyone hears of it.
            PartyError::HostStopped { reason } if reason.code == StopCode::CommitmentMismatch => {
                reason.clone()
            }
            PartyError::HostStopped { .. } => return,
            error => error.for_peers(),
        };
        let _ = self.leave(Departure::Failed(reason));
    }

    /// What a refusal means to this guest; one to an earlier start of it means nothing.
    pub(crate) fn refused(&self, session: u64, reason: StopReason) -> Result<(), PartyError> {
        if session == 0 || session == self.id {
            return Err(PartyError::HostStopped { reason });
        }
        Ok(())
    }
}
