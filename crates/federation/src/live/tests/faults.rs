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
        assert!(matches!(answers[0].message(), ToGuest::Refuse { .. }), "{number}");
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
    assert!(host.sessions(at(0)).all(|(_, _, counts)| (counts.taken, counts.missed) == (0, 1)));
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

#[test]
fn a_guest_that_is_always_late_does_not_slow_down_the_others() {
    let mut host = host(&["a", "b"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    let mut waited = Vec::new();
    let mut step_with_b_after = |host: &mut LiveHost<Recorder>, step: i64, ms: u64| {
        let opens = 2000 * (step as u64 + 1);
        host.open(at(opens), Step(step), 0);
        send(host, &mut a, "a", opens, step);
        host.tick(at(opens + ms.min(DEADLINE)));
        host.handle(at(opens + ms), &party("b"), embedding(2, step, 0.0));
        waited.extend(estimates(host).iter().map(|made| made.waited.as_millis() as u64));
    };
    for step in 0..6 {
        step_with_b_after(&mut host, step, DEADLINE + 1);
    }
    // In time again, though nobody waits for it: from the next step on it is waited for.
    step_with_b_after(&mut host, 6, 40);
    step_with_b_after(&mut host, 7, 40);
    assert_eq!(waited, [DEADLINE, DEADLINE, DEADLINE, 0, 0, 0, 0, 40]);
}

#[test]
fn whoever_never_stops_greeting_is_answered_now_and_then() {
    let greeting = |width| {
        let hello = LiveHello {
            protocol: PROTOCOL,
            software: Text::of("test"),
            party: party("a"),
            session: 1,
            terms: terms(),
            width,
        };
        ToHost::Live(FromLiveGuest::Hello(Box::new(hello)))
    };
    // Welcomed, refused for what it says, and for who it is.
    for (from, message) in [("a", greeting(1)), ("a", greeting(2)), ("x", ToHost::Heartbeat)] {
        let mut host = host(&["a"]);
        let mut answers = 0;
        for ms in 0..2500 {
            answers += host.handle(at(ms), &party(from), message.clone()).len();
        }
        // At 0, 1000 and 2000 ms.
        assert_eq!((answers, host.ledger().len()), (3, 3), "{from}");
        assert!(host.take_events().len() <= 3);
    }
    // A new connection is a new beginning.
    let mut host = host(&["a"]);
    for session in [1, 2, 3] {
        let mut a = guest("a", session);
        join(&mut host, &mut a, "a", at(0));
    }
}
