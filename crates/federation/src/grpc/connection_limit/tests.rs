//! Who keeps a slot, and who loses it.

use super::*;

fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

/// Whether somebody else has taken it.
fn is_taken(slot: &Slot) -> bool {
    slot.taken.has_changed().is_err()
}

#[test]
fn a_stranger_takes_the_place_of_the_oldest_stranger() {
    let slots = ConnectionLimit::new(2);
    let [a, b, c] = [slots.enter(), slots.enter(), slots.enter()];
    assert_eq!([&a, &b, &c].map(is_taken), [true, false, false]);
    // A slot that is free again is taken first.
    drop(b);
    let d = slots.enter();
    assert_eq!([&c, &d].map(is_taken), [false, false]);
}

#[test]
fn strangers_cannot_take_the_place_of_a_guest() {
    let slots = ConnectionLimit::new(2);
    let mut guest = slots.enter();
    guest.admit(&party("a"));
    let strangers: Vec<Slot> = (0..100).map(|_| slots.enter()).collect();
    assert!(!is_taken(&guest));
    assert_eq!(strangers.iter().filter(|stranger| !is_taken(stranger)).count(), 2);
}

#[test]
fn a_guest_holds_no_more_than_its_own_places() {
    let slots = ConnectionLimit::new(9);
    let admitted = |name: &str| {
        let mut slot = slots.enter();
        slot.admit(&party(name));
        slot
    };
    let others = admitted("b");
    let own: Vec<Slot> = (0..5).map(|_| admitted("a")).collect();
    let kept: Vec<bool> = own.iter().map(|slot| !is_taken(slot)).collect();
    assert_eq!(kept, [false, false, false, true, true]);
    assert!(!is_taken(&others));
}

#[tokio::test]
async fn the_last_one_to_leave_is_noticed() {
    let slots = ConnectionLimit::new(1);
    let mut first = slots.enter();
    let second = slots.enter();
    first.taken().await;
    drop((first, second));
    slots.all_left().await;
    assert_eq!(*slots.count.borrow(), 0);
}
