//! Host and guests under one mock clock, with lost, late, doubled and reordered messages.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use traffic::Step;

mod faults;
mod upkeep;

use super::*;
use crate::model::{Embeddings, ModelFailure};
use crate::session::timing::Timing;
use protocol::ledger::{Ledger, MemorySink, Released};
use protocol::message::live::{FromLiveGuest, LiveHello, LiveTerms};
use protocol::message::parts::{Embedding, Text, Values};
use protocol::message::{Departure, PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId, RunId};

const DEADLINE: u64 = 500;
const SILENCE: u64 = 3000;
const OVER: f32 = -77.0;
const NOTHING: i64 = -1;

fn at(ms: u64) -> Now {
    Now { monotonic: Duration::from_millis(ms), unix: Duration::from_millis(ms) }
}

fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

fn timing() -> Timing {
    Timing {
        resend: Duration::from_millis(1000),
        heartbeat: Duration::from_millis(1000),
        silence: Duration::from_millis(SILENCE),
        limit: Duration::from_millis(20_000),
    }
}

fn terms() -> LiveTerms {
    LiveTerms { run: RunId(7), network_hash: Text::of("sha256:1"), step_s: 10.0, window: 9 }
}

/// Says which embeddings an estimate was made of.
struct Recorder;

impl LiveModel for Recorder {
    type Own = i64;
    type Estimate = BTreeMap<String, f32>;

    fn estimate(
        &mut self,
        own: &i64,
        embeddings: &Embeddings,
    ) -> Result<Option<Self::Estimate>, ModelFailure> {
        let there = embeddings.iter().filter_map(|(party, embedding)| {
            Some((party.to_string(), embedding.as_ref()?.0.as_slice()[0]))
        });
        let there: BTreeMap<String, f32> = there.collect();
        // A head that runs over, if it is given this or has nothing of its own.
        let over = *own == NOTHING || there.values().any(|number| *number == OVER);
        Ok((!over).then_some(there))
    }
}

fn ledger(name: &str) -> Ledger {
    Ledger::in_memory(&MemorySink::default(), &party(name)).expect("a ledger")
}

fn host(guests: &[&str]) -> LiveHost<Recorder> {
    let settings = LiveHostSettings {
        party: party("city"),
        guests: guests.iter().map(|guest| (party(guest), 1)).collect(),
        software: Text::of("test"),
        terms: terms(),
        deadline: Duration::from_millis(DEADLINE),
        timing: timing(),
    };
    LiveHost::new(settings, Recorder, ledger("city"), at(0))
}

fn guest(name: &str, session: u64) -> LiveGuest {
    let settings = LiveGuestSettings {
        party: party(name),
        host: party("city"),
        software: Text::of("test"),
        session,
        terms: terms(),
        width: 1,
        timing: timing(),
    };
    LiveGuest::new(settings, ledger(name), at(0))
}

/// Carries all that is said between a host and a guest until nothing more is.
fn talk(
    host: &mut LiveHost<Recorder>,
    guest: &mut LiveGuest,
    name: &str,
    now: Now,
    said: Vec<Released<ToHost>>,
) {
    let mut said = said;
    while !said.is_empty() {
        let mut answers = Vec::new();
        for message in said {
            answers.extend(host.handle(now, &party(name), message.into_message()));
        }
        let heard = answers.into_iter().filter(|message| *message.recipient() == party(name));
        said = heard.flat_map(|answer| guest.handle(now, answer.into_message())).collect();
    }
}

fn join(host: &mut LiveHost<Recorder>, guest: &mut LiveGuest, name: &str, now: Now) {
    host.connection(now, &party(name), true);
    let hello = guest.connected(now);
    talk(host, guest, name, now, hello);
    assert!(guest.is_live());
}

fn send(host: &mut LiveHost<Recorder>, guest: &mut LiveGuest, name: &str, ms: u64, step: i64) {
    let said = guest.embedding(at(ms), Step(step), vec![step as f32]);
    talk(host, guest, name, at(ms), said);
}

fn estimates(host: &mut LiveHost<Recorder>) -> Vec<Estimated<BTreeMap<String, f32>>> {
    let estimated = |event| match event {
        LiveEvent::Estimated(estimated) => Some(estimated),
        _ => None,
    };
    host.take_events().into_iter().filter_map(estimated).collect()
}

#[test]
fn a_step_is_settled_as_soon_as_all_are_in() {
    let mut host = host(&["a", "b"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    // One is there before the step opens, one after.
    send(&mut host, &mut a, "a", 10, 5);
    host.open(at(20), Step(5), 0);
    assert!(estimates(&mut host).is_empty() && host.is_waiting());
    send(&mut host, &mut b, "b", 30, 5);
    let made = estimates(&mut host);
    let [five] = &made[..] else { unreachable!("one estimate: {made:?}") };
    assert_eq!((five.step, five.waited), (Step(5), Duration::from_millis(10)));
    assert_eq!(five.estimate, BTreeMap::from([("a".into(), 5.0), ("b".into(), 5.0)]));
    assert!(five.guests.values().all(|guest| *guest == Participation::In));
    // What is said about it reaches whoever speaks next.
    assert_eq!(b.counts(), GuestCounts { sent: 1, taken: 1, ..GuestCounts::default() });
}

#[test]
fn the_deadline_settles_without_those_who_are_late_and_says_so() {
    let mut host = host(&["a", "b", "c"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    host.open(at(100), Step(1), 0);
    send(&mut host, &mut a, "a", 200, 1);
    host.tick(at(100 + DEADLINE - 1));
    assert!(estimates(&mut host).is_empty());
    host.tick(at(100 + DEADLINE));
    let made = estimates(&mut host);
    assert_eq!(made.len(), 1);
    let expected = [
        (party("a"), Participation::In),
        (party("b"), Participation::Late),
        (party("c"), Participation::Absent),
    ];
    assert_eq!(made[0].guests, BTreeMap::from(expected));
    assert_eq!(made[0].estimate, BTreeMap::from([("a".into(), 1.0)]));
    // It comes after all: too late, and once more.
    send(&mut host, &mut b, "b", 700, 1);
    let counts: BTreeMap<_, _> =
        host.sessions(at(700)).map(|(party, _, counts)| (party.to_string(), counts)).collect();
    assert_eq!((counts["b"].late, counts["b"].missed, counts["a"].taken), (1, 1, 1));
    assert!(estimates(&mut host).is_empty());
}

#[test]
fn doubled_and_reordered_messages_change_nothing() {
    let mut host = host(&["a"]);
    let mut a = guest("a", 1);
    join(&mut host, &mut a, "a", at(0));
    let first = a.embedding(at(0), Step(1), vec![1.0]).remove(0).into_message();
    let second = a.embedding(at(0), Step(2), vec![2.0]).remove(0).into_message();
    // The second step comes first, and both come twice.
    for message in [&second, &first, &second, &first] {
        host.handle(at(10), &party("a"), message.clone());
    }
    host.open(at(20), Step(1), 0);
    host.open(at(21), Step(2), 0);
    let made = estimates(&mut host);
    let steps: Vec<_> = made.iter().map(|made| (made.step.0, made.estimate["a"])).collect();
    assert_eq!(steps, [(1, 1.0), (2, 2.0)]);
    host.handle(at(30), &party("a"), first);
    let (_, _, counts) = host.sessions(at(30)).next().expect("a guest");
    assert_eq!((counts.taken, counts.duplicate, counts.late), (2, 2, 1));
    // The same step does not open twice.
    assert!(host.open(at(40), Step(2), 0).is_empty() && estimates(&mut host).is_empty());
}

#[test]
fn a_guest_that_keeps_missing_is_not_waited_for_until_it_is_back() {
    let mut host = host(&["a", "b"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    let mut waited = Vec::new();
    for step in 0..6 {
        let ms = 1000 * (step as u64 + 1);
        // A sign of life, but no embedding: its window is not whole, say.
        host.handle(at(ms), &party("b"), ToHost::Heartbeat);
        send(&mut host, &mut a, "a", ms, step);
        host.open(at(ms), Step(step), 0);
        host.tick(at(ms + DEADLINE));
        waited.extend(estimates(&mut host).iter().map(|made| made.waited.as_millis() as u64));
    }
    assert_eq!(waited, [DEADLINE, DEADLINE, DEADLINE, 0, 0, 0]);
    // Back, and waited for again.
    send(&mut host, &mut b, "b", 7000, 6);
    host.open(at(7000), Step(6), 0);
    assert!(estimates(&mut host).is_empty());
    send(&mut host, &mut a, "a", 7010, 6);
    let made = estimates(&mut host);
    assert!(made[0].guests.values().all(|guest| *guest == Participation::In));
}

#[test]
fn estimates_go_on_without_a_guest_that_is_gone_and_with_it_when_it_returns() {
    let mut host = host(&["a", "b"]);
    let (mut a, mut b) = (guest("a", 1), guest("b", 2));
    join(&mut host, &mut a, "a", at(0));
    join(&mut host, &mut b, "b", at(0));
    host.open(at(0), Step(0), 0);
    send(&mut host, &mut a, "a", 10, 0);
    // Its connection breaks: nobody waits for the deadline.
    host.connection(at(20), &party("b"), false);
    let made = estimates(&mut host);
    assert_eq!(made[0].waited, Duration::from_millis(20));
    assert_eq!(made[0].guests[&party("b")], Participation::Absent);
    // A new process of the same name; what the old one had sent is not its own.
    let mut b = guest("b", 3);
    join(&mut host, &mut b, "b", at(30));
    let old = FromLiveGuest::Embedding {
        session: 2,
        step: Step(1),
        embedding: Embedding(Values::new(1, vec![-1.0]).expect("values")),
    };
    host.handle(at(40), &party("b"), ToHost::Live(old));
    // It has a window to fill first, for which nobody waits.
    send(&mut host, &mut a, "a", 45, 1);
    host.open(at(45), Step(1), 0);
    assert_eq!(estimates(&mut host)[0].guests[&party("b")], Participation::Late);
    send(&mut host, &mut b, "b", 50, 2);
    host.open(at(50), Step(2), 0);
    send(&mut host, &mut a, "a", 60, 2);
    let made = estimates(&mut host);
    assert_eq!(made[0].estimate, BTreeMap::from([("a".into(), 2.0), ("b".into(), 2.0)]));
    // One that says nothing for long is absent although its connection stands.
    host.open(at(60 + SILENCE), Step(3), 0);
    let made = estimates(&mut host);
    assert!(made[0].guests.values().all(|guest| *guest == Participation::Absent), "{made:?}");
}

#[test]
fn who_does_not_fit_is_told_why_and_estimates_go_on() {
    type Change = fn(&mut LiveHello);
    let changes: [(Change, &str); 5] = [
        (|hello| hello.terms.run = RunId(8), "run that it was trained in"),
        (|hello| hello.terms.network_hash = Text::of("sha256:2"), "network hash"),
        (|hello| hello.width = 2, "numbers of an embedding"),
        (|hello| hello.protocol = PROTOCOL + 1, "version of the messages"),
        (|hello| hello.party = PartyId::new("b").expect("a name"), "calls itself"),
    ];
    for (change, reason) in changes {
        let mut host = host(&["a", "b"]);
        let mut hello = LiveHello {
            protocol: PROTOCOL,
            software: Text::of("test"),
            party: party("a"),
            session: 1,
            terms: terms(),
            width: 1,
        };
        change(&mut hello);
        let hello = ToHost::Live(FromLiveGuest::Hello(Box::new(hello)));
        let answers = host.handle(at(0), &party("a"), hello);
        let [answer] = &answers[..] else { unreachable!("one answer") };
        let ToGuest::Refuse { reason: told, .. } = answer.message() else {
            unreachable!("refused: {answer:?}")
        };
        assert!(told.text.as_str().contains(reason), "{told}");
        let mut a = guest("a", 1);
        a.handle(at(0), answer.message().clone());
        assert!(a.ended().is_some());
        host.open(at(0), Step(0), 0);
        assert_eq!(estimates(&mut host).len(), 1);
    }
    let mut host = host(&["a"]);
    let answers = host.handle(at(0), &party("stranger"), ToHost::Heartbeat);
    assert!(matches!(answers[0].message(), ToGuest::Refuse { .. }));
    // An embedding of another size is a fault of its guest, not of the host.
    let mut a = guest("a", 1);
    join(&mut host, &mut a, "a", at(0));
    let values = Values::new(2, vec![1.0, 2.0]).expect("values");
    let wrong =
        FromLiveGuest::Embedding { session: 1, step: Step(0), embedding: Embedding(values) };
    let answers = host.handle(at(0), &party("a"), ToHost::Live(wrong));
    assert!(matches!(answers[0].message(), ToGuest::Refuse { .. }));
    assert!(host.ended().is_none());
}

#[test]
fn a_guest_sends_nothing_that_nobody_can_use() {
    let mut a = guest("a", 1);
    assert!(a.embedding(at(0), Step(1), vec![1.0]).is_empty(), "not welcomed yet");
    let mut host = host(&["a"]);
    join(&mut host, &mut a, "a", at(0));
    host.open(at(0), Step(5), 0);
    for message in host.tick(at(DEADLINE)) {
        a.handle(at(DEADLINE), message.into_message());
    }
    assert_eq!(a.newest_settled(), Some(Step(5)));
    assert!(a.embedding(at(600), Step(5), vec![1.0]).is_empty(), "settled already");
    assert_eq!(a.embedding(at(600), Step(6), vec![1.0]).len(), 1);
    assert!(a.embedding(at(600), Step(6), vec![1.0]).is_empty(), "sent already");
    let expected = GuestCounts { sent: 1, unsent: 3, taken: 0, missed: 1 };
    assert_eq!(a.counts(), expected);
    // Its ledger has a line for each message: two greetings at most, and the embedding.
    assert_eq!(a.ledger().len(), 2);
    a.stop(at(700), Text::of("enough"));
    assert!(a.embedding(at(800), Step(7), vec![1.0]).is_empty());
}

#[test]
fn nobody_waits_for_ever() {
    let mut a = guest("a", 1);
    assert_eq!(a.tick(at(0)).len(), 1, "it greets");
    assert!(a.tick(at(999)).is_empty());
    assert_eq!(a.tick(at(1000)).len(), 1, "it greets again");
    a.tick(at(20_000));
    assert!(matches!(a.ended(), Some(crate::PartyError::HostSilent { .. })));
    let mut host = host(&["a"]);
    let goodbye = ToHost::Leave { session: 9, departure: Departure::Stopped };
    assert!(host.handle(at(0), &party("a"), goodbye).is_empty(), "a stranger's goodbye is no news");
    host.stop(at(0), Text::of("enough"));
    assert!(host.ended().is_some() && host.open(at(1), Step(1), 0).is_empty());
}

proptest! {
    /// Whatever arrives, and in whatever order: steps are settled in order, each once, no later than
    /// their deadline, and only with embeddings of their own.
    #[test]
    fn steps_are_settled_in_order_and_once(
        events in prop::collection::vec((0..4_usize, 0..12_i64, 0..400_u64), 1..120)
    ) {
        let mut host = host(&["a", "b"]);
        let mut guests = [guest("a", 1), guest("b", 2)];
        let names = ["a", "b"];
        for (guest, name) in guests.iter_mut().zip(names) {
            join(&mut host, guest, name, at(0));
        }
        let (mut now, mut opened, mut last) = (0, 0, -1);
        let mut open_since = BTreeMap::new();
        for (kind, number, pause) in events {
            now += pause;
            match kind {
                0 | 1 => {
                    let embedding = FromLiveGuest::Embedding {
                        session: kind as u64 + 1,
                        step: Step(opened - 3 + number % 6),
                        embedding: Embedding(
                            Values::new(1, vec![(opened - 3 + number % 6) as f32]).expect("values"),
                        ),
                    };
                    host.handle(at(now), &party(names[kind]), ToHost::Live(embedding));
                }
                2 => {
                    open_since.insert(opened, now);
                    host.open(at(now), Step(opened), 0);
                    opened += 1;
                }
                _ => {
                    host.connection(at(now), &party(names[(number % 2) as usize]), number % 3 > 0);
                }
            }
            host.tick(at(now));
            for made in estimates(&mut host) {
                prop_assert_eq!(made.step.0, last + 1);
                last = made.step.0;
                prop_assert!(made.estimate.values().all(|value| *value == last as f32));
                for (guest, participation) in &made.guests {
                    let used = made.estimate.contains_key(guest.as_str());
                    prop_assert_eq!(used, *participation == Participation::In);
                }
            }
            let overdue = (last + 1..opened).find(|step| now - open_since[step] >= DEADLINE);
            prop_assert_eq!(overdue, None);
        }
        let held = host.sessions(at(now)).map(|(_, _, counts)| counts.taken + counts.missed);
        prop_assert!(held.into_iter().all(|settled| settled as i64 == last + 1));
    }
}
