//! Brings ledgers to the disk now and then, and at the end.

use std::time::Duration;

use protocol::ledger::Ledger;
use protocol::party::Now;

use crate::error::PartyError;
use crate::session::timing::lasted;

/// No line waits longer than this to be brought to the disk.
const EVERY: Duration = Duration::from_secs(10);

/// See the [module](self).
pub(super) struct LedgerSync {
    last: Duration,
}

impl LedgerSync {
    pub(super) fn from(now: Now) -> Self {
        Self { last: now.monotonic }
    }

    pub(super) fn tick(&mut self, ledger: &mut Ledger, now: Now) -> Result<(), PartyError> {
        if !lasted(self.last, now.monotonic, EVERY) {
            return Ok(());
        }
        self.last = now.monotonic;
        if ledger.unsynced() > 0 {
            ledger.sync()?;
        }
        Ok(())
    }

    /// Why a party ends: as it is, unless all was well but for the disk.
    pub(super) fn at_the_end(&self, ledger: &mut Ledger, error: PartyError) -> PartyError {
        match (ledger.sync(), error) {
            (Err(failed), PartyError::Stopped { .. }) => failed.into(),
            (_, error) => error,
        }
    }
}
