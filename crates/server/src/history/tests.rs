//! The same tests for every store: what is stored is there, unchanged, until it is deleted.

use std::collections::BTreeMap;

use traffic::{LinkState, VehPerKmLane, VehPerMinLane};

use super::embedded::{RecordHeader, encode};
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
    let range = |first, last| StepRange { first: Step(first), last: Step(last), every: 1 };
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

/// A head and the numbers behind it, as a store reads them.
fn decode(step: Step, head: &[u8], rows: &[u8]) -> Result<Estimate, HistoryError> {
    RecordHeader::read(head)?.0.estimate(step, rows)
}

#[test]
fn a_damaged_record_is_an_error_and_nothing_worse() {
    let info = info();
    for whole in [true, false] {
        let estimate = estimate(&info, 7, whole);
        let (head, blocks) = encode(&estimate).unwrap();
        let rows = blocks.concat();
        assert_eq!(decode(Step(7), &head, &rows).unwrap(), estimate);
        for length in 0..head.len() {
            assert!(decode(Step(7), &head[..length], &rows).is_err(), "cut to {length} bytes");
        }
        for length in 0..rows.len() {
            assert!(decode(Step(7), &head, &rows[..length]).is_err(), "cut to {length} bytes");
        }
        // A changed byte may mean other numbers, but never a panic nor a number that is none.
        for at in 0..head.len() + rows.len() {
            let (mut head, mut rows) = (head.clone(), rows.clone());
            match head.get_mut(at) {
                Some(byte) => *byte ^= 0xff,
                None => rows[at - head.len()] ^= 0xff,
            }
            if let Ok(found) = decode(Step(7), &head, &rows) {
                assert!(found.states.iter().all(|state| state.density.get().is_finite()));
            }
        }
    }
}

/// What a former version has written: the numbers behind the head, no blocks.
#[test]
fn estimates_of_the_first_version_are_still_read() {
    let info = info();
    let estimate = estimate(&info, 7, true);
    let (mut head, blocks) = encode(&estimate).unwrap();
    head[0] = 1;
    let (header, rows) = {
        head.extend(blocks.concat());
        RecordHeader::read(&head).unwrap()
    };
    assert_eq!(header.estimate(Step(7), rows).unwrap(), estimate);
    assert!(RecordHeader::read(&head[..head.len() - 1]).is_err());
}

#[test]
fn steps_at_equal_distances_are_one_range() {
    let joined = |steps: &[i64]| {
        let ranges = join_steps(steps.iter().map(|&step| Step(step)));
        ranges.iter().map(|r| (r.first.0, r.last.0, r.every)).collect::<Vec<_>>()
    };
    assert_eq!(joined(&[5, 11, 17, 18, 19, 20]), [(5, 17, 6), (18, 20, 1)]);
    assert_eq!(joined(&[5, 11, 17, 23, 30, 31]), [(5, 23, 6), (30, 31, 1)]);
    assert_eq!(joined(&[0, 1, 2, 9]), [(0, 2, 1), (9, 9, 1)]);
    assert_eq!(joined(&[0, 10_000, 10_001]), [(0, 0, 1), (10_000, 10_001, 1)]);
    let range = StepRange { first: Step(5), last: Step(23), every: 6 };
    for (from, to, count) in
        [(5, 23, 4), (6, 23, 3), (5, 22, 3), (12, 16, 0), (-9, 99, 4), (24, 99, 0)]
    {
        assert_eq!(range.count(Step(from), Step(to)), count, "{from} to {to}");
    }
}

/// Old steps become means of six; density and flow keep their sums over time, and newer steps stay as they are.
fn downsampled(history: &dyn History) {
    let info = info();
    let estimates: Vec<Estimate> = (3..40).map(|step| estimate(&info, step, step != 9)).collect();
    for estimate in &estimates {
        history.store(estimate).expect("room");
    }
    let rule = Downsampling { full_steps: 12, every: 6 };
    // Of steps before 24: groups that end with 5, 11, 17 and 23.
    assert_eq!(rule.apply(history, Step(39)).expect("the past"), 4);
    assert_eq!(rule.apply(history, Step(39)).expect("the past"), 0);
    let range = |first, last, every| StepRange { first: Step(first), last: Step(last), every };
    assert_eq!(history.ranges().expect("the past"), [range(5, 23, 6), range(24, 39, 1)]);
    assert_eq!(all(history, 24, 39), estimates[21..]);
    let mean = history.get(Step(11)).expect("the past").expect("a mean");
    for (link, state) in mean.states.iter().enumerate() {
        let of = |quantity: fn(&LinkState) -> f64| {
            estimates[3..9].iter().map(|estimate| quantity(&estimate.states[link])).sum::<f64>()
                / 6.0
        };
        let (density, flow) = (of(|state| state.density.get()), of(|state| state.flow.get()));
        // Sums in another order: within rounding.
        assert!((state.density.get() - density).abs() <= 1e-12 * density, "link {link}");
        assert!((state.flow.get() - flow).abs() <= 1e-12 * flow, "link {link}");
    }
    assert_eq!((mean.intervals, mean.made_s), (None, estimates[8].made_s));
    // One guest was missing in step 9.
    assert_eq!(mean.participants["fleet-b"], Participation::Absent);
    assert_eq!(mean.participants["fleet-a"], Participation::In);
    // The first group had three steps.
    let first = history.get(Step(5)).expect("the past").expect("a mean");
    let third =
        estimates[..3].iter().map(|estimate| estimate.states[0].density.get()).sum::<f64>() / 3.0;
    assert!((first.states[0].density.get() - third).abs() <= 1e-12 * third);
    assert_eq!(history.link_series(0, Step(0), Step(24)).expect("the past").len(), 5);
    let route = history.route_series(&[4, 0, 4], Step(5), Step(11)).expect("the past");
    assert_eq!(route.len(), 2);
    assert_eq!(route[1].1[0].state, mean.states[4]);
    assert_eq!((route[1].1[1].state, route[1].1[2].state), (mean.states[0], mean.states[4]));
}

#[test]
fn the_embedded_store_downsamples_old_steps() {
    let folder = tempfile::tempdir().unwrap();
    downsampled(&*open("history", folder.path(), &info()).unwrap());
}

#[test]
fn postgresql_downsamples_old_steps() {
    // Without a database `postgresql_keeps_what_it_is_given` says so.
    let Ok(url) = std::env::var(POSTGRES) else { return };
    let url = format!("{url}#coarse_{}", std::process::id());
    downsampled(&*open(&url, Path::new(""), &info()).unwrap());
}
