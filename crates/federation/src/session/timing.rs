//! How long parties wait for each other.

use std::time::Duration;

use protocol::message::parts::PartError;

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

impl Timing {
    /// Refuses times that do not go together.
    pub fn check(&self) -> Result<(), PartError> {
        let Timing { resend, heartbeat, silence, limit } = *self;
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let below = |field, found: Duration, most: Duration, what: &str| {
            if !found.is_zero() && found < most {
                return Ok(());
            }
            let expected = format!("more than 0 and less than {what}, {}", seconds(most));
            Err(PartError::new(field, seconds(found), expected))
        };
        below("heartbeat", heartbeat, silence, "silence")?;
        below("resend", resend, silence, "silence")?;
        below("silence", silence, limit, "limit")
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A sign of life that comes less often than silence is judged would make everyone absent.
    #[test]
    fn times_that_do_not_go_together_are_refused_by_name() {
        let usual = Timing::default();
        assert_eq!(usual.check(), Ok(()));
        let wrong = [
            (Timing { heartbeat: usual.silence, ..usual }, "heartbeat: found 60 s"),
            (Timing { heartbeat: Duration::ZERO, ..usual }, "heartbeat: found 0 s"),
            (Timing { resend: 2 * usual.silence, ..usual }, "resend: found 120 s"),
            (Timing { silence: usual.limit, ..usual }, "less than limit, 1800 s"),
            (Timing { limit: Duration::ZERO, ..usual }, "silence: found 60 s"),
        ];
        for (timing, expected) in wrong {
            let error = timing.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
