//! The same tests for every store: whatever is kept is there, whole, until it is forgotten.

use std::collections::BTreeMap;

use estimator::LinkInterval;
use federation::live::Participation;
use traffic::{LinkState, VehPerKmLane, VehPerMinLane};

use super::codec::{decode, encode};
use super::*;

/// Set by `scripts/with_postgres.sh`: a database for tests.
const POSTGRES: &str = "FEDTSE_TEST_POSTGRES";
/// Set by `make test`: a test that skips itself proves nothing.
const REQUIRE: &str = "FEDTSE_REQUIRE_POSTGRES";

fn about() -> About {
    let network = traffic::corridor().expect("the corridor");
    About {
        network_hash: network_hash(&network),
        network: Arc::new(network),
        step_s: 10.0,
        target: TargetKind::Smooth,
        guests: vec!["fleet-a".into(), "fleet-b".into()],
        interval: Some(90),
    }
}

/// Different for each step and link, with numbers that have no short decimal form.
fn record(about: &About, step: i64, whole: bool) -> Record {
    let number = |link: usize, what: f64| (step as f64 + 0.1) * (link as f64 + 1.0) / 3.0 + what;
    let states = (0..about.network.links().len()).map(|link| LinkState {
        density: VehPerKmLane::new(number(link, 0.0)),
        flow: VehPerMinLane::new(if link == 3 { 0.0 } else { number(link, 0.5) }),
    });
    let states: Vec<LinkState> = states.collect();
    let interval = |state: &LinkState| LinkInterval {
        density: [state.density.get() / 2.0, state.density.get() * 2.0],
        flow: [0.0, state.flow.get() + 1.0 / 3.0],
    };
    let how = if whole { Participation::In } else { Participation::Absent };
    Record {
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

/// Opens a store again and again, as hosts that are started again do.
type Reopen<'a> = &'a dyn Fn(&About) -> Result<Arc<dyn History>>;

fn all(history: &dyn History, from: i64, to: i64) -> Vec<Record> {
    let mut found = Vec::new();
    let visit = &mut |record| {
        found.push(record);
        true
    };
    history.each(Step(from), Step(to), visit).expect("the past");
    found
}

fn suite(reopen: Reopen<'_>) {
    let about = about();
    let stretch = |first, last| Stretch { first: Step(first), last: Step(last) };
    let records: Vec<Record> =
        [-2, -1, 0, 5, 6, 7, 8].map(|step| record(&about, step, step % 2 == 0)).into();
    let history = reopen(&about).expect("a store");
    assert_eq!(history.stretches().expect("the past"), []);
    assert_eq!(history.at(Step(5)).expect("the past"), None);
    for record in &records {
        history.keep(record).expect("room");
    }
    // Another one of the same step takes its place, and a host that is started again has them all.
    let mut again = records[4].clone();
    again.latency_s = 9.0;
    again.intervals = None;
    history.keep(&again).expect("room");
    drop(history);
    let history = reopen(&about).expect("the store again");
    let mut expected = records.clone();
    expected[4] = again;
    assert_eq!(all(&*history, i64::MIN, i64::MAX), expected);
    assert_eq!(history.stretches().expect("the past"), [stretch(-2, 0), stretch(5, 8)]);
    assert_eq!(history.at(Step(5)).expect("the past").as_ref(), Some(&expected[3]));
    assert_eq!(history.at(Step(4)).expect("the past"), None);

    // A span has its ends, and a visitor who has seen enough is not shown more.
    assert_eq!(all(&*history, 0, 6), expected[2..5]);
    assert_eq!(all(&*history, 1, 4), []);
    let mut seen = 0;
    let visit = &mut |_| {
        seen += 1;
        seen < 2
    };
    history.each(Step(-9), Step(9), visit).expect("the past");
    assert_eq!(seen, 2);

    // One link is that link of all links.
    let of_link = history.link(3, Step(-1), Step(7)).expect("the past");
    let whole = all(&*history, -1, 7);
    assert_eq!(of_link.len(), whole.len());
    for (moment, record) in of_link.iter().zip(&whole) {
        assert_eq!((moment.step, &moment.participants), (record.step, &record.participants));
        assert_eq!(Some(moment.link), record.links().nth(3));
    }
    assert!(history.link(3, Step(1), Step(4)).expect("the past").is_empty());

    // Forgotten is what lies before a step, and nothing else.
    assert_eq!(history.forget(Step(6)).expect("the past"), 4);
    assert_eq!(history.forget(Step(6)).expect("the past"), 0);
    assert_eq!(all(&*history, i64::MIN, i64::MAX), expected[4..]);

    // Another network does not fit; the same one with another guest does.
    let mut other = about.clone();
    other.network_hash = "sha256:other".into();
    drop(history);
    let error = reopen(&other).err().expect("another network");
    assert!(format!("{error:#}").contains("expected sha256:other and 10 s"), "{error:#}");
    let mut grown = about.clone();
    grown.guests.push("fleet-c".into());
    assert_eq!(reopen(&grown).expect("the store").stretches().expect("the past").len(), 1);
}

#[test]
fn the_embedded_store_keeps_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    suite(&|about| open("history", folder.path(), about));
    let (history, found) = open_alone(folder.path().join("history").to_str().unwrap()).unwrap();
    assert_eq!((&found.network_hash, found.step_s), (&about().network_hash, 10.0));
    assert_eq!(found.guests.len(), 3);
    assert_eq!(all(&*history, 0, 100).len(), 3);
    // One process at a time.
    let error = open("history", folder.path(), &about()).err().unwrap().to_string();
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
    suite(&|about| open(&url, Path::new(""), about));
    let (history, found) = open_alone(&url).unwrap();
    assert_eq!(found.network.links().len(), about().network.links().len());
    // More than are read at once.
    for step in 10..200 {
        history.keep(&record(&about(), step, true)).unwrap();
    }
    assert_eq!(all(&*history, 10, 199).len(), 190);
    let error = open(&format!("{url}\"; DROP"), Path::new(""), &about()).err().unwrap().to_string();
    assert!(error.contains("expected a to z, 0 to 9 and _"), "{error}");
}

#[test]
fn a_damaged_record_is_an_error_and_nothing_worse() {
    let about = about();
    for whole in [true, false] {
        let record = record(&about, 7, whole);
        let bytes = encode(&record).unwrap();
        assert_eq!(decode(Step(7), &bytes).unwrap(), record);
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
