//! Time that goes back, and ledgers that reach the disk.

use super::*;

fn placed(host: &mut LiveHost<Recorder>, guest: &mut LiveGuest, step: i64) -> usize {
    let said = guest.embedding(at(0), Step(step), vec![step as f32]);
    let sent = said.len();
    talk(host, guest, "a", at(0), said);
    sent
}

#[test]
fn own_data_that_go_back_open_nothing_and_the_host_says_so_once() {
    let mut host = host(&[]);
    for step in [5, 2, 3, 5, 6, 6] {
        host.open(at(0), Step(step), 0);
    }
    let said: Vec<_> = host
        .take_events()
        .into_iter()
        .map(|event| match event {
            LiveEvent::Estimated(made) => (made.step.0, None),
            LiveEvent::WentBack { step, newest } => (step.0, Some(newest.0)),
            other => unreachable!("{other:?}"),
        })
        .collect();
    assert_eq!(said, [(5, None), (2, Some(5)), (6, None), (6, Some(6))]);
}

#[test]
fn a_guest_whose_records_went_astray_is_in_again() {
    let mut host = host(&["a"]);
    let mut a = guest("a", 1);
    join(&mut host, &mut a, "a", at(0));
    // Far in the future, and back.
    for step in [1_000_000, 3, 4] {
        assert_eq!(placed(&mut host, &mut a, step), 1, "{step}");
    }
    for step in [3, 4, 5] {
        host.open(at(0), Step(step), 0);
    }
    let made = estimates(&mut host);
    assert_eq!(made.len(), 2, "the third one waits for the guest");
    assert!(made.iter().all(|made| made.guests[&party("a")] == Participation::In));
    assert_eq!(host.sessions(at(0)).next().expect("a guest").2.dropped, 1);
    // Another host begins anew, at an earlier time.
    let mut host = super::host(&["a"]);
    join(&mut host, &mut a, "a", at(0));
    assert_eq!(placed(&mut host, &mut a, 4), 1);
}

#[test]
fn ledgers_reach_the_disk_now_and_then_and_at_the_end() {
    let mut host = host(&["a"]);
    let mut a = guest("a", 1);
    join(&mut host, &mut a, "a", at(0));
    host.tick(at(9_999));
    a.tick(at(9_999));
    assert!(host.ledger().unsynced() > 0 && a.ledger().unsynced() > 0);
    host.tick(at(10_000));
    a.tick(at(10_000));
    assert_eq!((host.ledger().unsynced(), a.ledger().unsynced()), (0, 0));
    placed(&mut host, &mut a, 1);
    assert!(a.ledger().unsynced() > 0);
    host.stop(at(10_100), Text::of("enough"));
    a.stop(at(10_100), Text::of("enough"));
    assert!(host.ledger().len() > 1, "its goodbye");
    assert_eq!((host.ledger().unsynced(), a.ledger().unsynced()), (0, 0));
}
