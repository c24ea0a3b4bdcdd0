//! Trained parties live, as processes over mutual TLS, where the host learns sums over guests alone: its estimates are those of the
//! model on the recording itself, and nothing but masked totals leaves a guest.

mod common;
mod live_parties;
mod parties;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::{ok, refused, text};
use live_parties::{LiveWorld, Sender};
use parties::{GUESTS, wait_for};
use sensing::{Column, ColumnKind, TableReader};
use serde_json::Value;

type States = Vec<(String, f64, f64)>;

/// Density and flow by a model that one process has trained on the guests' fleets together, to the last bit.
fn of_one_process(world: &LiveWorld) -> BTreeMap<i64, States> {
    let [data, model, out] = ["data", "one-process", "estimates.parquet"].map(|at| world.path(at));
    let (data, model, out) = (text(&data), text(&model), text(&out));
    let train = ["train", "--data", data, "--method", "fedtse", "--fleets", "guest-1,guest-2"];
    let how = ["--privacy", "aggregate", "--target", "raw", "--epochs", "2", "--out", model];
    ok(&[&train[..], &how].concat());
    ok(&["estimate", "--model", model, "--data", data, "--out", out]);
    let mut table = TableReader::open(out.as_ref()).expect("a table");
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
            let states: &mut States = steps.entry(numbers[row]).or_default();
            states.push((links[row].clone(), k[row], q[row]));
        }
    }
    steps
}

fn states(estimate: &Value) -> States {
    let state = |link: &Value| {
        let number = |name: &str| link[name].as_f64().expect("a number");
        (link["link"].as_str().expect("a name").to_owned(), number("density"), number("flow"))
    };
    estimate["links"].as_array().expect("links").iter().map(state).collect()
}

/// Kinds of messages that have left a guest, by its ledger.
fn released(world: &LiveWorld, party: &str) -> BTreeSet<String> {
    let ledger = fs::read_to_string(world.path(party).join("run/ledger.jsonl")).expect("a ledger");
    let kind = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line");
        line["kind"].as_str().expect("a kind").to_owned()
    };
    ledger.lines().map(kind).collect()
}

#[test]
fn live_estimates_of_a_sum_are_those_of_the_recording_and_only_masked_totals_leave_guests() {
    let world = LiveWorld::of_sums(None);
    let expected = of_one_process(&world);
    let mut city = world.start("city");
    let [mut a, mut b] = ["fleet-a", "fleet-b"].map(|name| world.start(name));
    let mut senders: BTreeMap<&str, Sender> =
        ["city", "fleet-a", "fleet-b"].map(|name| (name, world.sender(name))).into();
    let events = world.events();
    wait_for(&mut [], || world.waited_for("fleet-a") && world.waited_for("fleet-b"));
    for _ in 0..14 {
        senders.values_mut().for_each(Sender::step);
        world.wait_for_settled(&senders["city"], &events);
    }
    let first = events.all();
    assert!(first.len() >= 4, "{}", first.len());
    for estimate in &first {
        assert_eq!(estimate["complete"], true, "{estimate}");
        let step = estimate["step"].as_i64().expect("a step");
        assert_eq!(states(estimate), expected[&step], "step {step}");
    }

    // Over one of two guests there is no sum: the last one stands in its place for a while, and the estimate says that nobody is in.
    b.kill();
    wait_for(&mut [], || !world.waited_for("fleet-b"));
    for _ in 0..3 {
        for name in ["city", "fleet-a"] {
            senders.get_mut(name).expect("a sender").step();
        }
        world.wait_for_settled(&senders["city"], &events);
    }
    let without = events.all().split_off(first.len());
    assert!(without.len() >= 2, "{}", without.len());
    for estimate in &without[without.len() - 2..] {
        assert_eq!(estimate["complete"], false);
        assert_ne!(estimate["participants"]["fleet-a"], "in");
        assert_eq!(estimate["participants"]["fleet-b"], "absent");
    }
    assert!(city.log().contains("no sum over guests"), "{}", city.log());

    // It is back under another key: when a window is whole again, estimates are those without a break.
    let welcomes = world.welcomes("fleet-b");
    let mut b = world.start("fleet-b");
    senders.insert("fleet-b", world.sender_from("fleet-b", senders["city"].reached()));
    wait_for(&mut [], || world.welcomes("fleet-b") > welcomes);
    // Nobody waits for it before it has sent a step in time.
    let reached = senders["city"].reached();
    senders.get_mut("fleet-b").expect("a sender").to(reached + 60.0);
    wait_for(&mut [], || world.waited_for("fleet-b"));
    for _ in 0..25 {
        senders.values_mut().for_each(Sender::step);
        world.wait_for_settled(&senders["city"], &events);
    }
    let again = events.all();
    for estimate in &again[again.len() - 3..] {
        let step = estimate["step"].as_i64().expect("a step");
        assert_eq!(estimate["complete"], true, "{estimate}");
        assert_eq!(states(estimate), expected[&step], "step {step}");
    }
    for party in [&mut a, &mut b, &mut city] {
        party.terminate();
        assert!(party.wait().success(), "{}", party.log());
    }
    let allowed = [
        "countersigned",
        "heartbeat",
        "leave",
        "ledger-head",
        "mask-seeds",
        "masked-totals",
        "sum-agreed",
        "sum-hello",
    ];
    for guest in GUESTS {
        let kinds = released(&world, guest);
        let other = kinds.iter().find(|kind| !allowed.contains(&kind.as_str()));
        assert!(other.is_none() && kinds.contains("masked-totals"), "{guest}: {kinds:?}");
        let path = world.path(guest).join("run/ledger.jsonl");
        ok(&["audit", "ledger", text(&path), "--party", guest]);
    }
}

/// With noise: what is summed live is what was summed in training, and no other noise is drawn. Without the file of noise, or that of
/// participants, a guest does not start.
#[test]
fn live_sums_keep_to_the_noise_and_the_participants_of_their_training() {
    let world = LiveWorld::of_sums(Some("[noise]\nepsilon = 8.0\n"));
    let noise = |name: &str| {
        let number = if name == "fleet-a" { 1 } else { 2 };
        world.path(&format!("{name}/data/noise/guest-{number}.noise"))
    };
    let drawn = GUESTS.map(|name| fs::read(noise(name)).expect("noise"));
    let runs = [(); 2].map(|()| {
        let mut parties = ["city", "fleet-a", "fleet-b"].map(|name| world.start(name));
        let mut senders = ["city", "fleet-a", "fleet-b"].map(|name| world.sender(name));
        let events = world.events();
        wait_for(&mut [], || world.waited_for("fleet-a") && world.waited_for("fleet-b"));
        for _ in 0..13 {
            senders.iter_mut().for_each(Sender::step);
            world.wait_for_settled(&senders[0], &events);
        }
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
    assert!(runs[0].len() >= 3, "{}", runs[0].len());
    assert_eq!(runs[0], runs[1]);
    assert_eq!(drawn, GUESTS.map(|name| fs::read(noise(name)).expect("noise")));

    let config = world.path("fleet-a/live.toml");
    let whole = fs::read_to_string(&config).expect("a configuration");
    let without = |line: &str| {
        fs::write(&config, whole.replace(line, "")).expect("a file");
        refused(&["live", "guest", "--config", text(&config)])
    };
    let error = without("sums = \"data/sums\"\n");
    assert!(error.contains("model.sums: found none"), "{error}");
    let error = without("noise = \"data/noise\"\n");
    assert!(error.contains("noise: found no folder"), "{error}");
}
