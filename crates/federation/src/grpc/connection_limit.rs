//! How many connections may be open at a time.
//!
//! Peers that have not shown an accepted certificate yet share some slots; a new one takes the slot of the one that has
//! held its own for longest. So a crowd of strangers can make a guest try again, but cannot keep it out. Guests have slots
//! of their own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::party::PartyId;
use tokio::sync::watch;

/// Connections of one guest: one that is open, and one before it that may not know yet that it is broken.
const EACH_GUEST: usize = 2;

/// See the [module](self).
pub(super) struct ConnectionLimit {
    strangers: usize,
    held: Mutex<Held>,
    /// How many are held.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Held {
    next: u64,
    /// The oldest first; strangers under no name.
    by: BTreeMap<Option<PartyId>, VecDeque<(u64, watch::Sender<()>)>>,
}

/// The slot of one connection, until it is dropped.
pub(super) struct Slot {
    slots: Arc<ConnectionLimit>,
    number: u64,
    who: Option<PartyId>,
    taken: watch::Receiver<()>,
}

impl ConnectionLimit {
    /// With so many for strangers.
    pub(super) fn new(strangers: usize) -> Arc<Self> {
        let held = Mutex::default();
        Arc::new(Self { strangers: strangers.max(1), held, count: watch::Sender::new(0) })
    }

    /// A stranger comes.
    pub(super) fn enter(self: &Arc<Self>) -> Slot {
        let mut held = self.held();
        held.next += 1;
        let number = held.next;
        let taken = held.hold(None, number, self.strangers);
        self.count.send_replace(held.len());
        Slot { slots: self.clone(), number, who: None, taken }
    }

    /// Waits until all have left.
    pub(super) async fn all_left(&self) {
        // The sender is ours: it cannot be gone.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Gives a slot, the oldest one's if all are taken.
    fn hold(&mut self, who: Option<PartyId>, number: u64, most: usize) -> watch::Receiver<()> {
        let (holder, taken) = watch::channel(());
        let those = self.by.entry(who).or_default();
        those.push_back((number, holder));
        if those.len() > most {
            those.pop_front();
        }
        taken
    }

    fn leave(&mut self, who: &Option<PartyId>, number: u64) {
        if let Some(those) = self.by.get_mut(who) {
            those.retain(|(held, _)| *held != number);
            if those.is_empty() {
                self.by.remove(who);
            }
        }
    }

    fn len(&self) -> usize {
        self.by.values().map(VecDeque::len).sum()
    }
}

impl Slot {
    /// The stranger is a guest: it has a slot of its own from here on.
    pub(super) fn admit(&mut self, guest: &PartyId) {
        let mut held = self.slots.held();
        held.leave(&self.who, self.number);
        self.who = Some(guest.clone());
        self.taken = held.hold(self.who.clone(), self.number, EACH_GUEST);
    }

    /// Waits until somebody else takes this slot.
    pub(super) async fn taken(&mut self) {
        while self.taken.changed().await.is_ok() {}
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        held.leave(&self.who, self.number);
        let left = held.len();
        self.slots.count.send_replace(left);
    }
}

#[cfg(test)]
mod tests;
