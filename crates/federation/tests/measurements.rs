//! What host and guests agree on before guests measure, and what is refused.

#![allow(unreachable_pub)]

mod settings;
#[path = "simulation/toy.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod toy;

use std::collections::{BTreeSet, VecDeque};

use federation::guest::GuestSettings;
use federation::{
    AbsencePolicy, Event, Guest, GuestEnd, Host, HostEnd, HostSettings, MeasurementBounds,
    MemoryStore, PartyError, Timing,
};
use protocol::ledger::{MemorySink, Recorded, Released};
use protocol::message::parts::{Embedding, HeldSteps, Text, Values};
use protocol::message::{Departure, Exchange, Hello, PROTOCOL, Purpose, ResumeState, Welcome};
use protocol::{
    Ledger, MeasurementKind, MeasurementLayout, MeasurementOffer, Measurements, PartyId, Plan,
    RunId, ToGuest, ToHost, TrafficShares,
};
use traffic::{LinkId, MeasurementEntry, Quantity, Step};

use settings::{at, id, terms};
use toy::{ToyGuest, ToyHost, WIDTH, checkpoints, measured_plan, measures, viewed_samples};

type HostParty = Host<ToyHost, MemoryStore>;

fn new_host(store: MemoryStore, measurement_bounds: MeasurementBounds) -> HostParty {
    try_host(store, measurement_bounds, &["a"], AbsencePolicy::Wait).expect("a host")
}

fn try_host(
    store: MemoryStore,
    measurement_bounds: MeasurementBounds,
    guests: &[&str],
    absent: AbsencePolicy,
) -> Result<HostParty, PartyError> {
    let guests: Vec<PartyId> = guests.iter().map(|guest| id(guest)).collect();
    let settings = HostSettings {
        party: id("host"),
        guests: guests.iter().map(|guest| (guest.clone(), WIDTH as u32)).collect(),
        software: Text::of("test"),
        run: RunId(1),
        terms: terms(),
        subject: Text::of("test"),
        plan: measured_plan(),
        checkpoints: checkpoints(),
        measurement_bounds,
        samples: viewed_samples(),
        shuffle: false,
        patience: 5,
        absent,
        timing: Timing::default(),
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), &id("host")).expect("a ledger");
    let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(guests.clone())));
    Host::new(settings, make, store, ledger, at(0))
}

fn usual() -> MeasurementBounds {
    MeasurementBounds { links: 3, counted: Some(8.0) }
}

fn hello(measures: MeasurementOffer) -> ToHost {
    hello_of("a", 1, measures)
}

fn hello_of(party: &str, session: u64, measures: MeasurementOffer) -> ToHost {
    ToHost::Hello(Box::new(Hello {
        protocol: PROTOCOL,
        software: Text::of("test"),
        party: id(party),
        session,
        greeting: 1,
        terms: terms(),
        held: HeldSteps::of((0..10).map(Step)).expect("steps"),
        width: WIDTH as u32,
        offer: measures,
        resume_state: ResumeState::default(),
    }))
}

/// Why the host refuses a guest.
fn refusal(measures: MeasurementOffer, measurement_bounds: MeasurementBounds) -> String {
    let mut host = new_host(MemoryStore::default(), measurement_bounds);
    let out = host.handle(at(1), &id("a"), hello(measures));
    let told = out.iter().map(|message| message.message().kind()).collect::<Vec<_>>();
    assert_eq!(told, ["refuse"]);
    let refused = host.take_events().into_iter().find_map(|event| match event {
        Event::Refused(_, reason) => Some(reason.as_str().to_owned()),
        _ => None,
    });
    refused.expect("a reason")
}

fn without(kind: MeasurementKind) -> MeasurementLayout {
    let others: BTreeSet<MeasurementKind> =
        measures().layout.kinds().filter(|other| *other != kind).collect();
    measures().layout.of(&others)
}

#[test]
fn a_guest_that_does_not_measure_what_is_asked_for_is_refused() {
    let reason = refusal(
        MeasurementOffer { layout: without(MeasurementKind::Speeds), ..measures() },
        usual(),
    );
    assert!(reason.contains("measurements: found held-out, expected speeds, held-out"), "{reason}");
    let reason = refusal(MeasurementOffer::default(), usual());
    assert!(reason.contains("folds: found 0, expected 2 or more"), "{reason}");
    let reason = refusal(measures(), MeasurementBounds { links: 2, ..usual() });
    assert!(reason.contains("it measures link 2 of 2"), "{reason}");
}

#[test]
fn a_share_that_is_none_is_refused() {
    let reason = refusal(MeasurementOffer { passages: None, ..measures() }, usual());
    assert!(reason.contains("share of the traffic: found no number"), "{reason}");
    let reason = refusal(measures(), MeasurementBounds { counted: Some(1.0), ..usual() });
    assert!(reason.contains("expected some, and no more than these count: 1.000"), "{reason}");
    let reason = refusal(MeasurementOffer { passages: Some(0.0), ..measures() }, usual());
    assert!(reason.contains("share of the traffic"), "{reason}");
}

/// Where loops count nothing, a guest's stated share counts, and no other.
#[test]
fn a_stated_share_counts_where_loops_count_nothing() {
    let uncounted = || MeasurementBounds { counted: None, ..usual() };
    let reason = refusal(measures(), uncounted());
    assert!(reason.contains("share of the traffic: found none that it states"), "{reason}");
    let stated = || MeasurementOffer { stated: Some(0.3), ..measures() };
    let shares_of = |bounds: MeasurementBounds, offer: MeasurementOffer| {
        let mut host =
            try_host(MemoryStore::default(), bounds, &["a", "b"], AbsencePolicy::Wait).unwrap();
        host.handle(at(1), &id("a"), hello_of("a", 1, offer.clone()));
        let out = host.handle(at(1), &id("b"), hello_of("b", 2, offer));
        out.iter()
            .find_map(|message| match message.message() {
                ToGuest::Welcome(welcome) => welcome.plan.shares,
                _ => None,
            })
            .expect("shares")
    };
    let shares = |bounds| shares_of(bounds, stated());
    let found = shares(uncounted());
    assert_eq!((found.own, found.all), (0.3, 0.6));
    // By loops: two passages a step, of eight vehicles counted.
    let found = shares(usual());
    assert_eq!((found.own, found.all), (0.25, 0.5));
    // A fleet that passes no loop, or more often than they count.
    let found = shares_of(usual(), MeasurementOffer { passages: Some(0.0), ..stated() });
    assert_eq!((found.own, found.all), (0.3, 0.6));
    let found = shares(MeasurementBounds { counted: Some(1.0), ..usual() });
    assert_eq!((found.own, found.all), (0.3, 0.6));
}

/// Its share and the total, in the welcome; and the plan that asks.
#[test]
fn a_guest_hears_its_share() {
    let welcome = welcome(usual());
    assert_eq!(welcome.plan.shares, Some(TrafficShares { own: 0.25, all: 0.25 }));
    assert_eq!((welcome.plan.segment, &welcome.plan.measured), (2, &measured_plan().measured));
}

fn welcome(measurement_bounds: MeasurementBounds) -> Welcome {
    let mut host = new_host(MemoryStore::default(), measurement_bounds);
    let out = host.handle(at(1), &id("a"), hello(measures()));
    let ToGuest::Welcome(welcome) = out[0].message() else { unreachable!("{out:?}") };
    (**welcome).clone()
}

fn new_guest(measures: MeasurementOffer) -> Guest<ToyGuest, MemoryStore> {
    let settings = GuestSettings {
        party: id("a"),
        host: id("host"),
        software: Text::of("test"),
        session: 1,
        terms: terms(),
        subject: Text::of("test"),
        held: HeldSteps::of((0..10).map(Step)).expect("steps"),
        width: WIDTH as u32,
        measures,
        sharing: Default::default(),
        timing: Timing::default(),
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), &id("a")).expect("a ledger");
    let make = Box::new(|plan: &_| Ok(ToyGuest::new(&id("a"), plan)));
    Guest::new(settings, make, MemoryStore::default(), ledger, at(0)).expect("a guest")
}

/// A guest gives nothing that it has not announced, whatever the host says.
#[test]
fn a_host_that_asks_for_more_than_was_announced_gets_nothing() {
    let told = welcome(usual());
    let more = |plan: Plan| ToGuest::Welcome(Box::new(Welcome { plan, ..told.clone() }));
    let cases = [
        (
            MeasurementOffer { layout: without(MeasurementKind::HeldOut), ..measures() },
            told.plan.clone(),
            "held-out",
        ),
        (measures(), Plan { shares: None, ..told.plan.clone() }, "share"),
    ];
    for (measures, plan, expected) in cases {
        let mut guest = new_guest(measures);
        let out = guest.handle(at(1), more(plan));
        assert_eq!(out.iter().map(|m| m.message().kind()).collect::<Vec<_>>(), ["leave"]);
        let Some(GuestEnd::Stopped(PartyError::PeerMisbehaved { what, .. })) = guest.ended() else {
            unreachable!("it must stop")
        };
        assert!(what.contains(expected), "{what}");
    }
}

/// A guest embeds no view that its folds do not give.
#[test]
fn a_view_of_more_folds_than_there_are_is_refused() {
    let mut host = new_host(MemoryStore::default(), usual());
    let out = host.handle(at(1), &id("a"), hello(measures()));
    let mut guest = new_guest(MeasurementOffer { folds: 1, ..measures() });
    // Some rounds are of the first view; then comes one of the second.
    let mut to_guest: VecDeque<ToGuest> =
        out.into_iter().map(|message| message.into_message()).collect();
    let mut answered = 0;
    while let Some(message) = to_guest.pop_front() {
        for answer in guest.handle(at(1), message) {
            answered += usize::from(answer.message().kind() == "measurements");
            let out = host.handle(at(1), &id("a"), answer.into_message());
            to_guest.extend(out.into_iter().map(|message| message.into_message()));
        }
    }
    assert_eq!(answered, 2);
    let Some(GuestEnd::Stopped(PartyError::PeerMisbehaved { what, .. })) = guest.ended() else {
        unreachable!("{:?}", guest.ended())
    };
    assert!(what.contains("view 2 of a fleet of 1 folds"), "{what}");
}

fn asked() -> (HostParty, Exchange, usize) {
    let mut host = new_host(MemoryStore::default(), usual());
    let out = host.handle(at(1), &id("a"), hello(measures()));
    let asked = out.iter().find_map(|message| match message.message() {
        ToGuest::EmbeddingRequest { exchange, batch, .. } => {
            Some((*exchange, batch.samples().len()))
        }
        _ => None,
    });
    let (exchange, samples) = asked.expect("a query");
    (host, exchange, samples)
}

fn measured(exchange: Exchange, purpose: Purpose, samples: usize, entries: usize) -> ToHost {
    let ones = vec![1.0; samples * entries];
    let measurements = Measurements::new(entries, ones.clone(), ones).expect("measurements");
    ToHost::Measurements { exchange, purpose, measurements }
}

#[test]
fn measurements_of_another_shape_round_or_purpose_are_refused() {
    let (_, exchange, samples) = asked();
    let next = Exchange { round: exchange.round.next(), ..exchange };
    let wrong = [
        measured(exchange, Purpose::Train, samples + 1, 3),
        measured(exchange, Purpose::Train, samples, 2),
        measured(exchange, Purpose::Validate, samples, 3),
        measured(next, Purpose::Train, samples, 3),
    ];
    for message in wrong {
        let (mut host, ..) = asked();
        let out = host.handle(at(2), &id("a"), message);
        let told: Vec<_> = out.iter().map(|message| message.message().kind()).collect();
        assert_eq!(told, ["refuse"]);
    }
}

/// A round ends when embedding and measurements are there, in whichever order, and each counts once.
#[test]
fn a_round_ends_when_both_parts_of_the_answer_are_there() {
    let embedding = |exchange, samples| {
        let values = Values::new(WIDTH, vec![0.5; samples * WIDTH]).expect("values");
        ToHost::Embedding { exchange, purpose: Purpose::Train, embedding: Embedding(values) }
    };
    for measured_first in [false, true] {
        let (mut host, exchange, samples) = asked();
        let mut parts =
            [embedding(exchange, samples), measured(exchange, Purpose::Train, samples, 3)];
        if measured_first {
            parts.reverse();
        }
        let [first, second] = parts;
        assert!(host.handle(at(2), &id("a"), first.clone()).is_empty());
        assert!(host.handle(at(2), &id("a"), first).is_empty());
        let out = host.handle(at(2), &id("a"), second);
        let told: Vec<_> = out.iter().map(|message| message.message().kind()).collect();
        assert_eq!(told, ["gradient", "embedding-request"]);
    }
}

/// A run goes on only with the same entries.
#[test]
fn other_measurements_than_when_the_run_began_are_refused() {
    let store = MemoryStore::default();
    let mut host = new_host(store.clone(), usual());
    host.handle(at(1), &id("a"), hello(measures()));
    drop(host);
    let mut host = new_host(store, usual());
    let entry = MeasurementEntry { link: LinkId(2), quantity: Quantity::Density };
    let mut kinds: std::collections::BTreeMap<_, _> = measures().layout.into();
    kinds.insert(MeasurementKind::HeldOut, vec![entry]);
    let other =
        MeasurementOffer { layout: MeasurementLayout::new(kinds).expect("a layout"), ..measures() };
    host.handle(at(2), &id("a"), hello(other));
    let refused = host.take_events().into_iter().any(|event| {
        matches!(event, Event::Refused(_, why) if why.as_str().contains("when the run began"))
    });
    assert!(refused);
}

/// What the host asks next, of whomever.
fn query(out: &[Released<ToGuest>]) -> Option<(Exchange, Purpose, usize)> {
    out.iter().find_map(|message| match message.message() {
        ToGuest::EmbeddingRequest { exchange, purpose, batch, .. } => {
            Some((*exchange, *purpose, batch.samples().len()))
        }
        _ => None,
    })
}

fn embedded((exchange, purpose, samples): (Exchange, Purpose, usize)) -> ToHost {
    let values = Values::new(WIDTH, vec![0.5; samples * WIDTH]).expect("values");
    ToHost::Embedding { exchange, purpose, embedding: Embedding(values) }
}

/// Under `skip`, an epoch that was judged without what a guest measures is not the best one.
#[test]
fn an_epoch_judged_without_a_guest_that_measures_is_never_the_best() {
    let mut host =
        try_host(MemoryStore::default(), usual(), &["a", "b"], AbsencePolicy::Skip).unwrap();
    let mut out = host.handle(at(1), &id("a"), hello_of("a", 1, measures()));
    out.extend(host.handle(at(1), &id("b"), hello_of("b", 2, measures())));
    let mut settled = Vec::new();
    while let Some(asked @ (exchange, purpose, samples)) = query(&out) {
        let first_epoch = exchange.round.0 <= 4;
        let left = first_epoch && purpose == Purpose::Validate;
        out = Vec::new();
        for party in ["a", "b"] {
            if party == "b" && left {
                let departure = Departure::Stopped;
                out.extend(host.handle(at(2), &id("b"), ToHost::Leave { session: 2, departure }));
                continue;
            }
            out.extend(host.handle(at(2), &id(party), embedded(asked)));
            out.extend(host.handle(at(2), &id(party), measured(exchange, purpose, samples, 3)));
        }
        let ends = out.iter().filter_map(|message| match message.message() {
            ToGuest::ExchangeClosed { best, .. } if purpose == Purpose::Validate => Some(*best),
            _ => None,
        });
        settled.extend(ends.take(1));
        if left {
            out.extend(host.handle(at(3), &id("b"), hello_of("b", 3, measures())));
        }
    }
    let partial: Vec<bool> = host.history().iter().map(|epoch| epoch.partial).collect();
    assert_eq!(partial, [true, false]);
    assert_eq!(settled, [false, true]);
}

/// A host that does not count cannot tell shares: its own affair, and no guest's.
#[test]
fn a_host_without_loop_counts_does_not_begin() {
    for counted in [Some(0.0), Some(f64::NAN)] {
        let measurement_bounds = MeasurementBounds { counted, ..usual() };
        let error =
            try_host(MemoryStore::default(), measurement_bounds, &["a"], AbsencePolicy::Wait).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("vehicles that loops count"), "{error}");
    }
}

#[test]
fn shares_of_more_than_everyone_are_told_guest_by_guest() {
    let store = MemoryStore::default();
    let mut host = try_host(store, usual(), &["a", "b"], AbsencePolicy::Wait).unwrap();
    let most = || MeasurementOffer { passages: Some(5.0), ..measures() };
    host.handle(at(1), &id("a"), hello_of("a", 1, most()));
    host.handle(at(1), &id("b"), hello_of("b", 2, most()));
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it must stop") };
    let expected = "found 1.250 in all fleets (`a` 0.625, `b` 0.625), expected at most 1";
    assert!(error.to_string().contains(expected), "{error}");
}

/// Whoever sends what no road has is refused by name; the run goes on waiting for it.
#[test]
fn measurements_beyond_all_traffic_are_the_guests_affair() {
    // Two speeds and a flow.
    for (value, weight) in [([2e3, 1.0, 1.0], 1.0), ([1.0, 1.0, -2e6], 1.0), ([1.0; 3], 2e6)] {
        let (mut host, exchange, samples) = asked();
        let (values, weights) = (value.repeat(samples), vec![weight; 3 * samples]);
        let measurements = Measurements::new(3, values, weights).unwrap();
        let purpose = Purpose::Train;
        let message = ToHost::Measurements { exchange, purpose, measurements };
        let out = host.handle(at(2), &id("a"), message);
        let told: Vec<_> = out.iter().map(|message| message.message().kind()).collect();
        assert_eq!(told, ["refuse"]);
        let named = host.take_events().into_iter().any(|event| {
            matches!(event, Event::Refused(party, why)
                if party == id("a") && why.as_str().contains("expected at most"))
        });
        assert!(named && host.ended().is_none());
    }
}

/// A share is one of the same time: a guest that lacks steps in which the loops count, or has counted in
/// others, is refused and told why.
#[test]
fn shares_are_not_made_of_different_steps() {
    for held in [-1..10, 1..10] {
        let mut host = new_host(MemoryStore::default(), usual());
        let ToHost::Hello(mut greeting) = hello(measures()) else { unreachable!("a hello") };
        greeting.held = HeldSteps::of(held.map(Step)).unwrap();
        let out = host.handle(at(1), &id("a"), ToHost::Hello(greeting));
        let ToGuest::Refuse { reason, .. } = out[0].message() else { unreachable!("{out:?}") };
        assert!(reason.text.as_str().contains("1 that only one of us has, of 6"), "{reason}");
    }
}

/// A guest that comes back under `skip` may have older weights: its embedding from before does not go with
/// measurements from now.
#[test]
fn parts_of_an_answer_end_with_the_session() {
    let mut host =
        try_host(MemoryStore::default(), usual(), &["a", "b"], AbsencePolicy::Skip).unwrap();
    host.handle(at(1), &id("a"), hello_of("a", 1, measures()));
    let out = host.handle(at(1), &id("b"), hello_of("b", 2, measures()));
    let asked @ (exchange, purpose, samples) = query(&out).expect("a query");
    host.handle(at(2), &id("a"), embedded(asked));
    host.handle(at(2), &id("a"), measured(exchange, purpose, samples, 3));
    host.handle(at(2), &id("b"), embedded(asked));
    host.handle(at(3), &id("b"), hello_of("b", 3, measures()));
    let out = host.handle(at(3), &id("b"), measured(exchange, purpose, samples, 3));
    assert!(query(&out).is_none(), "{out:?}");
    let out = host.handle(at(3), &id("b"), embedded(asked));
    assert!(query(&out).is_some(), "{out:?}");
}

/// Who was not there when a run began hears that, and not that it has changed.
#[test]
fn a_guest_that_missed_the_beginning_hears_so() {
    let mut host =
        try_host(MemoryStore::default(), usual(), &["a", "b"], AbsencePolicy::Skip).unwrap();
    host.handle(at(1), &id("a"), hello_of("a", 1, measures()));
    let limit = Timing::default().limit.as_secs() + 2;
    let out = host.tick(at(limit));
    assert!(query(&out).is_some(), "{out:?}");
    let out = host.handle(at(limit), &id("b"), hello_of("b", 2, measures()));
    let ToGuest::Refuse { reason, .. } = out[0].message() else { unreachable!("{out:?}") };
    assert!(reason.text.as_str().contains("not there when measurements and shares"), "{reason}");
}

/// One number of passages, two turns, one exit, and of one link metres and seconds that were driven freely and metres and steps
/// in a queue.
#[test]
fn the_ledger_counts_what_a_greeting_tells_of_the_fleet() {
    assert_eq!(hello(measures()).shape(), [1 + 2 + 1 + 4]);
    assert!(hello(MeasurementOffer::default()).shape().is_empty());
}
