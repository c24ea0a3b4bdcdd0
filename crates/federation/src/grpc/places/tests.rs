//! Who keeps a place, and who loses it.

use super::*;

fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

/// Whether somebody else has taken it.
fn is_taken(place: &Place) -> bool {
    place.taken.has_changed().is_err()
}

#[test]
fn a_stranger_takes_the_place_of_the_oldest_stranger() {
    let places = Places::new(2);
    let [a, b, c] = [places.enter(), places.enter(), places.enter()];
    assert_eq!([&a, &b, &c].map(is_taken), [true, false, false]);
    // A place that is free again is taken first.
    drop(b);
    let d = places.enter();
    assert_eq!([&c, &d].map(is_taken), [false, false]);
}

#[test]
fn strangers_cannot_take_the_place_of_a_guest() {
    let places = Places::new(2);
    let mut guest = places.enter();
    guest.admit(&party("a"));
    let strangers: Vec<Place> = (0..100).map(|_| places.enter()).collect();
    assert!(!is_taken(&guest));
    assert_eq!(strangers.iter().filter(|stranger| !is_taken(stranger)).count(), 2);
}

#[test]
fn a_guest_holds_no_more_than_its_own_places() {
    let places = Places::new(9);
    let admitted = |name: &str| {
        let mut place = places.enter();
        place.admit(&party(name));
        place
    };
    let others = admitted("b");
    let own: Vec<Place> = (0..5).map(|_| admitted("a")).collect();
    let kept: Vec<bool> = own.iter().map(|place| !is_taken(place)).collect();
    assert_eq!(kept, [false, false, false, true, true]);
    assert!(!is_taken(&others));
}

#[tokio::test]
async fn the_last_one_to_leave_is_noticed() {
    let places = Places::new(1);
    let mut first = places.enter();
    let second = places.enter();
    first.taken().await;
    drop((first, second));
    places.all_left().await;
    assert_eq!(*places.count.borrow(), 0);
}
