//! Who may be connected at a time.
//!
//! Strangers, who have not shown a certificate of the list yet, have some places between them; a new
//! one takes the place of the one that has held its own for longest: a crowd at the door can make a
//! guest try again, but those who stand there do not keep it out. Guests have places of their own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::party::PartyId;
use tokio::sync::watch;

/// Connections of one guest: one that is open, and one before it that may not know yet that it is broken.
const EACH_GUEST: usize = 2;

/// See the [module](self).
pub(super) struct Places {
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

/// The place of one connection, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    who: Option<PartyId>,
    taken: watch::Receiver<()>,
}

impl Places {
    /// With so many for strangers.
    pub fn new(strangers: usize) -> Arc<Self> {
        let held = Mutex::default();
        Arc::new(Self { strangers: strangers.max(1), held, count: watch::Sender::new(0) })
    }

    /// A stranger comes.
    pub fn enter(self: &Arc<Self>) -> Place {
        let mut held = self.held();
        held.next += 1;
        let number = held.next;
        let taken = held.hold(None, number, self.strangers);
        self.count.send_replace(held.len());
        Place { places: self.clone(), number, who: None, taken }
    }

    /// Waits until all have left.
    pub async fn all_left(&self) {
        // The sender is ours: it cannot be gone.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Gives a place, the oldest one's if all are taken.
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

impl Place {
    /// The stranger is a guest: it has a place of its own from here on.
    pub fn admit(&mut self, guest: &PartyId) {
        let mut held = self.places.held();
        held.leave(&self.who, self.number);
        self.who = Some(guest.clone());
        self.taken = held.hold(self.who.clone(), self.number, EACH_GUEST);
    }

    /// Waits until somebody else takes this place.
    pub async fn taken(&mut self) {
        while self.taken.changed().await.is_ok() {}
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        held.leave(&self.who, self.number);
        let left = held.len();
        self.places.count.send_replace(left);
    }
}

#[cfg(test)]
mod tests;
