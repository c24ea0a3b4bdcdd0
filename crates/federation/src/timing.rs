//! How long parties wait for each other.

use std::time::Duration;

/// The patience of a party. No party ever waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A message that was not answered is sent again after this long.
    pub resend: Duration,
    /// A party that has nothing to say says so this often.
    pub heartbeat: Duration,
    /// A guest that is silent for this long is absent.
    pub silence: Duration,
    /// A party gives up after this long.
    pub limit: Duration,
}

impl Default for Timing {
    /// For parties in different houses: minutes for a restart, not for a lost packet.
    fn default() -> Self {
        Self {
            resend: Duration::from_secs(10),
            heartbeat: Duration::from_secs(5),
            silence: Duration::from_secs(60),
            limit: Duration::from_secs(1800),
        }
    }
}

/// Whether something that began then has lasted this long.
pub(crate) fn lasted(since: Duration, now: Duration, long: Duration) -> bool {
    now.saturating_sub(since) >= long
}
