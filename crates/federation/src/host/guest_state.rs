//! What the host knows of a guest in training.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::message::{Hello, Resume, StopReason};
use protocol::party::{Attempt, Round};

/// Sessions that are remembered, to tell late hellos from new ones.
const SESSIONS: usize = 16;

/// See the [module](self).
#[derive(Default)]
pub(super) struct GuestState {
    /// Whether it is expected to answer.
    pub present: bool,
    /// Its last hello, if that still says where it stands.
    pub hello: Option<Hello>,
    /// The session of its last hello; 0 before the first.
    pub session: u64,
    /// The number of the last hello of each session: one that comes late or again is no news.
    hellos: VecDeque<(u64, u64)>,
    /// The welcome that it was sent last: its session, attempt and resumption.
    pub welcome: Option<(u64, Attempt, Resume)>,
    /// Whether it has spoken of a round since.
    pub spoke: bool,
    /// The last session in which it has spoken of a round.
    active: Option<u64>,
    /// The furthest round that it has answered in a session, and of which attempt.
    answered: Option<(u64, Attempt, Round)>,
    /// The last round of this attempt of which it is known to have a checkpoint.
    pub checkpoint: Option<Round>,
    /// It has said that it is done.
    pub finished: bool,
    /// Since when its hellos say that it has lost its checkpoints.
    pub doubted: Option<Duration>,
    /// Why it is not here.
    pub reason: Option<StopReason>,
}

impl GuestState {
    /// Whether a hello is not newer than the last one of its session, or from before the guest took part.
    pub(super) fn is_stale(&self, hello: &Hello) -> bool {
        if self.active == Some(hello.session) && hello.resume_state.in_memory.is_none() {
            return true;
        }
        // A guest that has answered a round had finished the one before: a hello from before that was overtaken on
        // its way.
        if let (Some((session, attempt, round)), Some((its, done))) =
            (self.answered, hello.resume_state.in_memory)
            && (session, attempt) == (hello.session, its)
            && done.next() < round
        {
            return true;
        }
        let known = self.hellos.iter().find(|(session, _)| *session == hello.session);
        known.is_some_and(|(_, number)| hello.greeting <= *number)
    }

    /// Takes note of a hello.
    pub(super) fn join(&mut self, hello: Hello) {
        self.session = hello.session;
        self.hellos.retain(|(session, _)| *session != hello.session);
        self.hellos.push_front((hello.session, hello.greeting));
        self.hellos.truncate(SESSIONS);
        self.hello = Some(hello);
        self.present = true;
        self.doubted = None;
        self.reason = None;
    }

    /// Takes note of a message about a round.
    pub(super) fn takes_part(&mut self) {
        self.present = true;
        self.spoke = true;
        self.active = Some(self.session);
        self.doubted = None;
    }

    /// Takes note of an embedding.
    pub(super) fn answers(&mut self, attempt: Attempt, round: Round) {
        let before =
            self.answered.filter(|(session, its, _)| (*session, *its) == (self.session, attempt));
        let furthest = before.map_or(round, |(_, _, furthest)| furthest.max(round));
        self.answered = Some((self.session, attempt, furthest));
    }

    /// Takes note of a welcome that it is sent.
    pub(super) fn is_welcomed(&mut self, attempt: Attempt, resume: Resume) {
        self.welcome = Some((self.session, attempt, resume));
        self.spoke = false;
        self.checkpoint = None;
    }

    /// It has left, or was refused.
    pub(super) fn is_gone(&mut self, reason: StopReason) {
        self.present = false;
        self.hello = None;
        self.reason = Some(reason);
    }
}
