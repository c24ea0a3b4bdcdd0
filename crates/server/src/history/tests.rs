//! The same tests for every store: what is stored is there, unchanged, until it is deleted.

use std::collections::BTreeMap;

use traffic::{LinkState, VehPerKmLane, VehPerMinLane};

use super::embedded::{decode, encode};
use super::*;
use crate::estimate::{LinkInterval, Participation};

/// Set by `scripts/with_postgres.sh`: a database for tests.
const POSTGRES: &str = "FEDTSE_TEST_POSTGRES";
/// Set by `make test`: a test that skips itself proves nothing.
const REQUIRE: &str = "FEDTSE_REQUIRE_POSTGRES";

fn info() -> SeriesInfo {
    let network = traffic::corridor().expect("the corridor");
    SeriesInfo {
        network_hash: network_hash(&network),
        network: Arc::new(network),
        step_s: 10.0,
        target: Target::Smooth,
        guests: vec!["fleet-a".into(), "fleet-b".into()],
        interval: Some(90),
    }
}

/// Different for each step and link, with numbers that have no short decimal form.
fn estimate(info: &SeriesInfo, step: i64, whole: bool) -> Estimate {
    let number = |link: usize, what: f64| (step as f64 + 0.1) * (link as f64 + 1.0) / 3.0 + what;
    let states = (0..info.network.links().len()).map(|link| LinkState {
        density: VehPerKmLane::new(number(link, 0.0)),
        flow: VehPerMinLane::new(if link == 3 { 0.0 } else { number(link, 0.5) }),
    });
    let states: Vec<LinkState> = states.collect();
    let interval = |state: &LinkState| LinkInterval {
        density: [state.density.get() / 2.0, state.density.get() * 2.0],
        flow: [0.0, state.flow.get() + 1.0 / 3.0],
    };
    let how = if whole { Participation::In } else { Participation::Absent };
    Estimate {
        step: Step(step),
        made_s: 1.7e9 + step as f64 / 3.0,
        latency_s: 5.0 + 1.0 / 3.0,
        participants: BTreeMap::from([
            ("fleet-a".to_owned(), Participation::In),
            ("fleet-b".to_owned(), how),
        ]),
        intervals: whole.then(|| states.iter().map(interval).collect()),
        states,
    }
}

/// Opens a store repeatedly, as a restarted host does.
type Reopen<'a> = &'a dyn Fn(&SeriesInfo) -> Result<Arc<dyn History>, HistoryError>;

fn all(history: &dyn History, from: i64, to: i64) -> Vec<Estimate> {
    let mut found = Vec::new();
    let visit = &mut |estimate| {
        found.push(estimate);
        true
    };
    history.for_each(Step(from), Step(to), visit).expect("the past");
    found
}

fn suite(reopen: Reopen<'_>) {
    let info = info();
    let range = |first, last| StepRange { first: Step(first), last: Step(last) };
    let estimates: Vec<Estimate> =
        [-2, -1, 0, 5, 6, 7, 8].map(|step| estimate(&info, step, step % 2 == 0)).into();
    let history = reopen(&info).expect("a store");
    assert_eq!(history.ranges().expect("the past"), []);
    assert_eq!(history.get(Step(5)).expect("the past"), None);
    for estimate in &estimates {
        history.store(estimate).expect("room");
    }
    // Another one of the same step takes its place, and a host that is started again has them all.
    let mut again = estimates[4].clone();
    again.latency_s = 9.0;
    again.intervals = None;
    history.store(&again).expect("room");
    drop(history);
    let history = reopen(&info).expect("the store again");
    let mut expected = estimates.clone();
    expected[4] = again;
    assert_eq!(all(&*history, i64::MIN, i64::MAX), expected);
    assert_eq!(history.ranges().expect("the past"), [range(-2, 0), range(5, 8)]);
    assert_eq!(history.get(Step(5)).expect("the past").as_ref(), Some(&expected[3]));
    assert_eq!(history.get(Step(4)).expect("the past"), None);

    // A span has its ends, and a visitor who has seen enough is not shown more.
    assert_eq!(all(&*history, 0, 6), expected[2..5]);
    assert_eq!(all(&*history, 1, 4), []);
    let mut seen = 0;
    let visit = &mut |_| {
        seen += 1;
        seen < 2
    };
    history.for_each(Step(-9), Step(9), visit).expect("the past");
    assert_eq!(seen, 2);

    // One link is that link of all links.
    let of_link = history.link_series(3, Step(-1), Step(7)).expect("the past");
    let whole = all(&*history, -1, 7);
    assert_eq!(of_link.len(), whole.len());
    for (step, estimate) in of_link.iter().zip(&whole) {
        assert_eq!((step.step, &step.participants), (estimate.step, &estimate.participants));
        assert_eq!(Some(step.link), estimate.links().nth(3));
    }
    assert!(history.link_series(3, Step(1), Step(4)).expect("the past").is_empty());

    // Forgotten is what lies before a step, and nothing else.
    assert_eq!(history.delete_before(Step(6)).expect("the past"), 4);
    assert_eq!(history.delete_before(Step(6)).expect("the past"), 0);
    assert_eq!(all(&*history, i64::MIN, i64::MAX), expected[4..]);

    // Another network does not fit; the same one with another guest does.
    let mut other = info.clone();
    other.network_hash = "sha256:other".into();
    drop(history);
    let error = reopen(&other).err().expect("another network");
    assert!(format!("{error}").contains("expected sha256:other and 10 s"), "{error}");
    let mut grown = info.clone();
    grown.guests.push("fleet-c".into());
    assert_eq!(reopen(&grown).expect("the store").ranges().expect("the past").len(), 1);
}

#[test]
fn the_embedded_store_keeps_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    suite(&|info| open("history", folder.path(), info));
    let (history, found) = open_existing(folder.path().join("history").to_str().unwrap()).unwrap();
    assert_eq!((&found.network_hash, found.step_s), (&info().network_hash, 10.0));
    assert_eq!(found.guests.len(), 3);
    assert_eq!(all(&*history, 0, 100).len(), 3);
    // One process at a time.
    let error = open("history", folder.path(), &info()).err().unwrap().to_string();
    assert!(error.contains("is open in another process"), "{error}");
}

#[test]
fn postgresql_keeps_what_it_is_given() {
    let Ok(url) = std::env::var(POSTGRES) else {
        assert!(std::env::var(REQUIRE).is_err(), "{POSTGRES}: not set, expected a database's URL");
        eprintln!("no {POSTGRES}: nothing is tested; see scripts/with_postgres.sh");
        return;
    };
    let url = format!("{url}#suite_{}", std::process::id());
    suite(&|info| open(&url, Path::new(""), info));
    let (history, found) = open_existing(&url).unwrap();
    assert_eq!(found.network.links().len(), info().network.links().len());
    // More than are read at once.
    for step in 10..200 {
        history.store(&estimate(&info(), step, true)).unwrap();
    }
    assert_eq!(all(&*history, 10, 199).len(), 190);
    let error = open(&format!("{url}\"; DROP"), Path::new(""), &info()).err().unwrap().to_string();
    assert!(error.contains("expected a to z, 0 to 9 and _"), "{error}");
}

#[test]
fn a_damaged_record_is_an_error_and_nothing_worse() {
    let info = info();
    for whole in [true, false] {
        let estimate = estimate(&info, 7, whole);
        let bytes = encode(&estimate).unwrap();
        assert_eq!(decode(Step(7), &bytes).unwrap(), estimate);
        for length in 0..bytes.len() {
            assert!(decode(Step(7), &bytes[..length]).is_err(), "cut to {length} bytes");
        }
        // A changed byte may mean other numbers, but never a panic nor a number that is none.
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            if let Ok(found) = decode(Step(7), &damaged) {
                assert!(found.states.iter().all(|state| state.density.get().is_finite()));
            }
        }
    }
}
