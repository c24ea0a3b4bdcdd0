//! What a live host knows of a guest that sends a `T` for each step: an embedding, or masked totals.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use traffic::Step;

use super::{MAX_AHEAD, PATIENT_STEPS, Participation};
use crate::session::timing::lasted;

/// What became of a guest's embeddings, or of its masked totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveGuestCounts {
    /// Estimated with.
    pub taken: u64,
    /// Steps that were estimated without one.
    pub missed: u64,
    /// Came after their step was settled.
    pub late: u64,
    /// Came twice.
    pub duplicate: u64,
    /// Pushed out by others before their step opened.
    pub dropped: u64,
    /// Came from a session that is not the guest's.
    pub strange: u64,
}

/// See the [module](self).
pub(super) struct LiveGuestState<T> {
    pub connected: bool,
    /// The session that was welcomed on this connection.
    pub session: Option<u64>,
    /// The last one that was.
    last: u64,
    /// When a hello on this connection was last looked at.
    pub greeted: Option<Duration>,
    /// When it was last told that it is refused, on this connection.
    pub refused: Option<Duration>,
    pub counts: LiveGuestCounts,
    /// Embeddings whose steps are not settled.
    ahead: BTreeMap<Step, T>,
    /// Steps missed in a row, since an embedding was last in time.
    missed: u32,
}

/// What becomes of an embedding that arrives.
pub(super) enum Placed {
    Waits,
    Late,
    Duplicate,
}

impl<T> Default for LiveGuestState<T> {
    fn default() -> Self {
        let (ahead, counts) = (BTreeMap::new(), LiveGuestCounts::default());
        let (session, greeted, refused) = (None, None, None);
        Self { connected: false, session, last: 0, greeted, refused, counts, ahead, missed: 0 }
    }
}

impl<T> LiveGuestState<T> {
    /// Its connection has come or gone: whoever connects introduces itself, whoever has gone is not waited for.
    pub(super) fn connection(&mut self, connected: bool) {
        self.connected = connected;
        (self.session, self.greeted, self.refused) = (None, None, None);
    }

    /// A session begins, or goes on over another connection; what another has sent is not its own.
    /// Whoever joins while estimates are made has a window to fill first: nobody waits for that.
    pub(super) fn join(&mut self, session: u64, under_way: bool) {
        self.session = Some(session);
        if std::mem::replace(&mut self.last, session) != session {
            self.ahead.clear();
            self.missed = if under_way { PATIENT_STEPS } else { 0 };
        }
    }

    /// Whether the guest is connected, welcomed and not silent.
    pub(super) fn is_present(&self, heard: Duration, now: Duration, silence: Duration) -> bool {
        self.connected && self.session.is_some() && !lasted(heard, now, silence)
    }

    /// Whether a step waits for it.
    pub(super) fn is_waited_for(&self, heard: Duration, now: Duration, silence: Duration) -> bool {
        self.is_present(heard, now, silence) && self.missed < PATIENT_STEPS
    }

    /// Whether its embedding of a step is there.
    pub(super) fn has(&self, step: Step) -> bool {
        self.ahead.contains_key(&step)
    }

    /// Whether it has gone on to later steps: what it has not sent by then will not come.
    pub(super) fn is_past(&self, step: Step) -> bool {
        self.ahead.last_key_value().is_some_and(|(newest, _)| *newest > step)
    }

    /// Keeps an embedding until its step is settled. One that comes after that may still be `prompt`:
    /// within the deadline, and only not waited for.
    pub(super) fn place(
        &mut self,
        step: Step,
        contributed: T,
        settled: Option<Step>,
        prompt: bool,
    ) -> Placed {
        if settled.is_some_and(|settled| step <= settled) {
            self.counts.late += 1;
            // One that is late each time would have every step wait in vain.
            if prompt {
                self.missed = 0;
            }
            return Placed::Late;
        }
        if self.has(step) {
            self.counts.duplicate += 1;
            return Placed::Duplicate;
        }
        self.missed = 0;
        // Its records have gone back: what is far ahead is not of these times.
        let far = self.ahead.split_off(&Step(step.0.saturating_add(1 + MAX_AHEAD as i64)));
        self.counts.dropped += far.len() as u64;
        self.ahead.insert(step, contributed);
        if self.ahead.len() > MAX_AHEAD {
            self.ahead.pop_first();
            self.counts.dropped += 1;
        }
        Placed::Waits
    }

    /// Forgets what waits for its steps: it is of no use any more.
    pub(super) fn forget(&mut self) {
        self.ahead.clear();
    }

    /// Hands out the embedding of a step that is settled now, and forgets older ones.
    pub(super) fn take(&mut self, step: Step) -> Option<T> {
        let later = self.ahead.split_off(&Step(step.0.saturating_add(1)));
        std::mem::replace(&mut self.ahead, later).remove(&step)
    }

    /// A step has been settled, and so did this guest take part.
    pub(super) fn settled(&mut self, participation: Participation) {
        match participation {
            Participation::In => self.counts.taken += 1,
            _ => self.counts.missed += 1,
        }
        self.missed = match participation {
            Participation::Late => self.missed.saturating_add(1),
            Participation::In | Participation::Absent | Participation::Unusable => 0,
        };
    }
}
