//! Guests that are at fault, and what the host does about them.

use super::*;

fn embedding(session: u64, step: i64, number: f32) -> ToHost {
    let embedding = Embedding(Values::new(1, vec![number]).expect("values"));
    ToHost::Live(FromLiveGuest::Embedding { session, step: Step(step), embedding })
}

#[test]
fn a_number_that_no_model_makes_is_refused_and_estimates_go_on() {
    for number in [LARGEST.next_up(), -3e38] {
        let mut host = host(&["a", "b"]);
        let (mut a, mut b) = (guest("a", 1), guest("b", 2));
        join(&mut host, &mut a, "a", at(0));
        join(&mut host, &mut b, "b", at(0));
        let answers = host.handle(at(0), &party("a"), embedding(1, 0, number));
        assert!(matches!(answers[0].1.message(), ToGuest::Refuse { .. }), "{number}");
        host.open(at(0), Step(0), 0);
        send(&mut host, &mut b, "b", 10, 0);
        let made = estimates(&mut host);
        assert_eq!(made[0].guests[&party("a")], Participation::Absent);
        assert_eq!(made[0].guests[&party("b")], Participation::In);
        assert!(host.ended().is_none());
    }
    let mut host = host(&["a"]);
    let mut a = guest("a", 1);
    join(&mut host, &mut a, "a", at(0));
    host.handle(at(0), &party("a"), embedding(1, 0, -LARGEST));
    host.open(at(0), Step(0), 0);
    assert_eq!(estimates(&mut host)[0].guests[&party("a")], Participation::In);
}

#[test]
fn embeddings_that_no_numbers_come_out_of_are_left_out_and_named() {
    let mut host = host(&["a", "b", "c"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    host.open(at(0), Step(0), 0);
    host.handle(at(0), &party("a"), embedding(1, 0, OVER));
    send(&mut host, &mut b, "b", 0, 0);
    let made = estimates(&mut host);
    assert_eq!(made[0].estimate, BTreeMap::new());
    let expected = [
        (party("a"), Participation::Unusable),
        (party("b"), Participation::Unusable),
        (party("c"), Participation::Absent),
    ];
    assert_eq!(made[0].guests, BTreeMap::from(expected));
    assert_eq!(b.counts(), GuestCounts { sent: 1, missed: 1, ..GuestCounts::default() });
    assert!(host.seats(at(0)).all(|(_, _, counts)| (counts.taken, counts.missed) == (0, 1)));
    // The host's own numbers may be at fault as well: no estimate, and the next one is made.
    for (step, own) in [(1, NOTHING), (2, 0)] {
        send(&mut host, &mut a, "a", 0, step);
        send(&mut host, &mut b, "b", 0, step);
        host.open(at(0), Step(step), own);
    }
    let events = host.take_events();
    assert!(matches!(events[0], LiveEvent::Unestimated(Step(1))), "{events:?}");
    let LiveEvent::Estimated(two) = &events[1] else { unreachable!("an estimate: {events:?}") };
    assert_eq!((two.step, two.estimate.len()), (Step(2), 2));
    assert!(host.ended().is_none());
}
