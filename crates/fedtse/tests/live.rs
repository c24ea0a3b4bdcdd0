//! Trained parties live, as processes: the estimates are those of the models on the recording itself,
//! whoever is stopped or killed in between, and whatever is wrong with the records.

mod common;
mod live_parties;
mod parties;

use std::collections::BTreeMap;
use std::fs;

use common::{ok, refused, text};
use live_parties::{LiveWorld, Sender};
use parties::wait_for;
use sensing::{Column, ColumnKind, TableReader};
use serde_json::Value;

/// Density and flow of each step and link, as `fedtse estimate` writes them: to the last bit.
fn offline(world: &LiveWorld) -> BTreeMap<i64, Vec<(String, f64, f64)>> {
    let out = world.path("estimates.parquet");
    let folders = ["city", "fleet-a", "fleet-b"].map(|name| world.path(name).join("run/model"));
    let mut arguments = vec!["estimate"];
    folders.iter().for_each(|folder| arguments.extend(["--party", text(folder)]));
    let data = world.path("data");
    ok(&[&arguments[..], &["--data", text(&data), "--out", text(&out)]].concat());
    let mut table = TableReader::open(&out).expect("a table");
    for (column, kind) in [
        ("step", ColumnKind::I64),
        ("link", ColumnKind::Text),
        ("density_veh_km_lane", ColumnKind::F64),
        ("flow_veh_min_lane", ColumnKind::F64),
    ] {
        table.want(column, kind).expect("a column");
    }
    let (mut columns, mut steps) = (Vec::new(), BTreeMap::new());
    while table.next_batch(4096, &mut columns).expect("rows") > 0 {
        let [Column::I64(numbers), Column::Text(links), Column::F64(k), Column::F64(q)] =
            &columns[..]
        else {
            unreachable!("four columns");
        };
        for row in 0..numbers.len() {
            let states: &mut Vec<_> = steps.entry(numbers[row]).or_default();
            states.push((links[row].clone(), k[row], q[row]));
        }
    }
    steps
}

fn states(estimate: &Value) -> Vec<(String, f64, f64)> {
    let state = |link: &Value| {
        let number = |name: &str| link[name].as_f64().expect("a number");
        (link["link"].as_str().expect("a name").to_owned(), number("density"), number("flow"))
    };
    estimate["links"].as_array().expect("links").iter().map(state).collect()
}

#[test]
fn live_estimates_are_those_of_the_recording_with_guests_coming_and_going() {
    let world = LiveWorld::new();
    let expected = offline(&world);
    let mut city = world.start("city");
    let [mut a, mut b] = ["fleet-a", "fleet-b"].map(|name| world.start(name));
    let mut senders: BTreeMap<&str, Sender> =
        ["city", "fleet-a", "fleet-b"].map(|name| (name, world.sender(name))).into();
    let events = world.events();

    // All are there: ten steps with both guests, whose windows fill first.
    wait_for(&mut [], || world.waited_for("fleet-a") && world.waited_for("fleet-b"));
    for _ in 0..19 {
        senders.values_mut().for_each(Sender::step);
        world.wait_for_settled(&senders["city"], &events);
    }
    let first = events.all();
    assert!(first.len() >= 10, "{}", first.len());
    for estimate in &first {
        assert_eq!(estimate["complete"], true, "{estimate}");
        let step = estimate["step"].as_i64().expect("a step");
        assert_eq!(states(estimate), expected[&step], "step {step}");
    }
    // The latest is what the stream has said, and older.
    let latest: Value = serde_json::from_str(&world.estimates().expect("an answer")).unwrap();
    let last = first.last().expect("an estimate");
    assert_eq!((&latest["step"], &latest["links"]), (&last["step"], &last["links"]));
    assert!(latest["age_s"].as_f64() >= last["age_s"].as_f64());

    // One is frozen, one is killed: estimates go on without them, and say so.
    a.freeze();
    b.kill();
    for _ in 0..5 {
        senders.get_mut("city").expect("a sender").step();
        world.wait_for_settled(&senders["city"], &events);
    }
    let without = events.all().split_off(first.len());
    assert_eq!(without.len(), 5);
    for estimate in &without {
        assert_eq!(estimate["complete"], false);
        assert_ne!(estimate["participants"]["fleet-a"], "in");
        assert_ne!(estimate["participants"]["fleet-b"], "in");
        let step = estimate["step"].as_i64().expect("a step");
        assert_ne!(states(estimate), expected[&step]);
    }
    assert_eq!(without.last().expect("an estimate")["participants"]["fleet-b"], "absent");

    // Both come back; the frozen one has kept its window, the killed one fills it again.
    a.thaw();
    let welcomes = world.welcomes("fleet-b");
    let mut b = world.start("fleet-b");
    senders.insert("fleet-b", world.sender_from("fleet-b", senders["city"].reached()));
    let behind = senders["city"].reached();
    senders.get_mut("fleet-a").expect("a sender").to(behind);
    wait_for(&mut [], || world.waited_for("fleet-a") && world.welcomes("fleet-b") > welcomes);
    // Nobody waits for a window that fills: it is told first, and then it is waited for.
    senders.get_mut("fleet-b").expect("a sender").to(behind + 150.0);
    wait_for(&mut [], || world.waited_for("fleet-b"));
    for _ in 0..25 {
        senders.values_mut().for_each(Sender::step);
        world.wait_for_settled(&senders["city"], &events);
        if events.all().last().is_some_and(|estimate| estimate["complete"] == true) {
            break;
        }
    }
    for _ in 0..3 {
        senders.values_mut().for_each(Sender::step);
        world.wait_for_settled(&senders["city"], &events);
    }
    let again = events.all();
    let back = &again[again.len() - 3..];
    for estimate in back {
        assert_eq!(estimate["complete"], true, "{estimate}");
        let step = estimate["step"].as_i64().expect("a step");
        assert_eq!(states(estimate), expected[&step], "step {step}");
    }
    // No step is missing from the first to the last.
    let steps: Vec<i64> =
        again.iter().map(|estimate| estimate["step"].as_i64().expect("a step")).collect();
    assert!(steps.windows(2).all(|pair| pair[1] == pair[0] + 1), "{steps:?}");
    assert_eq!(world.metric("fedtse_live_missed_steps_total"), Some(0.0));

    // A line that cannot be true is left out, counted and named.
    senders.get_mut("city").expect("a sender").say("nonsense");
    wait_for(&mut [], || city.log().contains("line ") && city.log().contains("found 1 fields"));
    wait_for(&mut [], || world.metric("fedtse_live_bad_lines_total") == Some(1.0));
    // Asked to end, they say goodbye.
    for party in [&mut a, &mut b, &mut city] {
        party.terminate();
        assert!(party.wait().success(), "{}", party.log());
    }
    // All that left a guest stands in its ledger: a line for each embedding that was taken.
    let ledger = fs::read_to_string(world.path("fleet-a/run/ledger.jsonl")).unwrap();
    let lines = ledger.lines().filter(|line| line.contains("\"live-embedding\"")).count();
    let taken = again.iter().filter(|estimate| estimate["participants"]["fleet-a"] == "in");
    assert!(lines >= taken.count());
    let path = world.path("fleet-a/run/ledger.jsonl");
    ok(&["audit", "ledger", text(&path), "--party", "fleet-a"]);
}

/// Under a policy with noise, what leaves a guest live is computed from the numbers that its training drew: none is drawn
/// besides, each estimate differs from that of exact data, and the same records give the same estimates another time. A live
/// guest without the file, or whose policy says otherwise than that of its training, does not start.
#[test]
fn live_guests_keep_to_the_policy_and_the_noise_of_their_training() {
    let world = LiveWorld::with(Some("[noise]\nepsilon = 8.0\n"));
    let exact = offline(&world);
    let noise = |name: &str| {
        let number = if name == "fleet-a" { 1 } else { 2 };
        world.path(&format!("{name}/data/noise/guest-{number}.noise"))
    };
    let drawn = ["fleet-a", "fleet-b"].map(|name| fs::read(noise(name)).expect("noise"));
    let runs = [(); 2].map(|()| {
        let mut parties = ["city", "fleet-a", "fleet-b"].map(|name| world.start(name));
        let mut senders = ["city", "fleet-a", "fleet-b"].map(|name| world.sender(name));
        let events = world.events();
        wait_for(&mut [], || world.waited_for("fleet-a") && world.waited_for("fleet-b"));
        for _ in 0..14 {
            senders.iter_mut().for_each(Sender::step);
            world.wait_for_settled(&senders[0], &events);
        }
        // The guests first: without the host they end with an error.
        for party in parties.iter_mut().rev() {
            party.terminate();
            assert!(party.wait().success(), "{}", party.log());
        }
        let states = |estimate: &Value| {
            assert_eq!(estimate["complete"], true, "{estimate}");
            (estimate["step"].as_i64().expect("a step"), states(estimate))
        };
        events.all().iter().map(states).collect::<BTreeMap<_, _>>()
    });
    assert!(runs[0].len() >= 5, "{}", runs[0].len());
    assert_eq!(runs[0], runs[1]);
    for (step, states) in &runs[0] {
        assert_ne!(*states, exact[step], "step {step}");
    }
    assert_eq!(drawn, ["fleet-a", "fleet-b"].map(|name| fs::read(noise(name)).expect("noise")));

    let config = world.path("fleet-a/live.toml");
    let started = || refused(&["live", "guest", "--config", text(&config)]);
    let kept = world.path("fleet-a/kept.noise");
    fs::rename(noise("fleet-a"), &kept).expect("a file");
    assert!(started().contains("guest-1.noise"));
    fs::rename(&kept, noise("fleet-a")).expect("a file");
    let policy = world.path("fleet-a/live-policy.toml");
    fs::write(&policy, "[noise]\nepsilon = 9.0\n").expect("a file");
    let whole = fs::read_to_string(&config).expect("a configuration");
    let under = "[model]\npolicy = \"live-policy.toml\"\n";
    fs::write(&config, whole.replace("[model]\n", under)).expect("a file");
    let error = started();
    assert!(error.contains("policy: found ε = 9") && error.contains("expected ε = 8"), "{error}");
}

#[test]
fn wrong_configurations_and_records_are_refused_by_name_and_line() {
    for role in ["host", "guest"] {
        let folder = tempfile::tempdir().unwrap();
        let example = ok(&["live", role, "--example"]);
        let file = folder.path().join("live.toml");
        fs::write(&file, &example).unwrap();
        let error = refused(&["live", role, "--config", text(&file)]);
        assert!(error.contains(".pem: No such file"), "{error}");
        fs::write(&file, example.replace("[records]", "[recods]")).unwrap();
        let error = refused(&["live", role, "--config", text(&file)]);
        assert!(error.contains("recods"), "{error}");
    }
    let error = refused(&["replay", "--data", "nowhere", "--loops", "--out", "udp:1"]);
    assert!(error.contains("--out: found \"udp:1\", expected - or tcp:HOST:PORT"), "{error}");
    let error = refused(&["replay", "--data", "nowhere", "--loops", "--speed-up=-1"]);
    assert!(error.contains("--speed-up"), "{error}");
}

#[test]
fn a_replay_is_the_recording_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "4", "--warm-up", "1", "--seed", "3", "--out", text(&data)]);
    ok(&["features", text(&data), "--guests", "40,60"]);
    let replay =
        |more: &[&str]| ok(&[&["replay", "--data", text(&data), "--speed-up", "0"], more].concat());
    let fleets = ["guest-1", "guest-2"].map(|fleet| replay(&["--fleet", fleet]));
    let seen = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1).filter(|line| !line.ends_with(",,,"));
        lines.map(str::to_owned).collect()
    };
    // The two fleets are all vehicles, and have none in common.
    let shown: Value = common::ok_json(&["inspect", text(&data)]);
    let samples = fleets.iter().map(|text| seen(text).len()).sum::<usize>();
    assert!(samples > 1000, "{shown}");
    let names = fleets.each_ref().map(|text| {
        let names = seen(text).into_iter().map(|line| line.split(',').nth(1).map(str::to_owned));
        names.collect::<std::collections::BTreeSet<_>>()
    });
    assert!(names[0].is_disjoint(&names[1]));
    // Times go on, and a piece of it is that piece of it.
    let piece = replay(&["--fleet", "guest-1", "--from", "100", "--to", "120"]);
    let within = |line: &&str| {
        let time: Option<f64> = line.split(',').next().and_then(|time| time.parse().ok());
        time.is_none_or(|time| (100.0..=120.0).contains(&time))
    };
    let expected: Vec<&str> = fleets[0].lines().filter(within).collect();
    assert_eq!(piece.lines().collect::<Vec<_>>(), expected);
    let loops = replay(&["--loops"]);
    assert!(loops.starts_with("loop,begin,end,count\n,,"), "{loops}");
    let unknown = refused(&["replay", "--data", text(&data), "--fleet", "guest-9"]);
    assert!(unknown.contains("guest-9") && unknown.contains("guest-1, guest-2"), "{unknown}");
}
