//! Host and guests as processes on one machine: the same weights as in one process, whatever
//! happens to the processes and whoever connects to the port.

mod common;
mod parties;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::PartyId;
use protocol::ledger::audit_file;

use common::{ok, ok_json, refused, text};
use parties::{A_FEW_ROUNDS, A_FEW_WORDS, Choice, Party, World, finish, wait_for};

/// What a guest logs when the host has answered.
const CONNECTED: &str = "connected host";

#[test]
fn processes_end_with_the_weights_of_one_process() {
    let world = World::new(&Choice { local_updates: 2, ..Choice::default() });
    let rehearsed = world.rehearse();
    assert_eq!(rehearsed.weights.values().collect::<BTreeSet<_>>().len(), 3);
    // The host is well when all guests are there.
    let mut parties = vec![world.start("city"), world.start("fleet-a")];
    let waiting = "waiting for other parties\n";
    wait_for(&mut parties, || world.health().as_deref() == Some(waiting));
    world.gate.allow(A_FEW_ROUNDS);
    parties.push(world.start("fleet-b"));
    wait_for(&mut parties, || {
        // On a slow machine what may pass was said before the host could hear it: a few words more, far
        // fewer than the run needs.
        if world.gate.holds() {
            world.gate.allow(A_FEW_WORDS);
        }
        world.health().as_deref() == Some("ok\n")
    });
    world.gate.open();
    assert_eq!(finish(parties), rehearsed.weights);
    // A party that has finished is finished when it is started again.
    let again = world.start("fleet-a").report();
    assert_eq!(again["weights"].to_string(), rehearsed.weights["fleet-a"]);
    // Every party has a ledger of what left it.
    for party in ["city", "fleet-a", "fleet-b"] {
        let ledger = std::fs::read_to_string(world.path(party).join("run/ledger.jsonl")).unwrap();
        let kind = if party == "city" { "\"gradient\"" } else { "\"embedding\"" };
        assert!(ledger.lines().filter(|line| line.contains(kind)).count() > 3, "{party}");
    }
}

/// Without ground truth anywhere: guests hold out folds of their fleets and tell the host, as processes as
/// in one process; their ledgers say so.
#[test]
fn a_host_without_ground_truth_learns_from_what_guests_hold_out() {
    let world = World::new(&Choice { epochs: 1, ..Choice::default() });
    world.hold_out();
    let rehearsed = world.rehearse();
    world.gate.open();
    assert_eq!(finish(world.start_all()), rehearsed.weights);
    for guest in ["fleet-a", "fleet-b"] {
        let ledger = std::fs::read_to_string(world.path(guest).join("run/ledger.jsonl")).unwrap();
        let count = |kind: &str| ledger.lines().filter(|line| line.contains(kind)).count();
        // Estimates are embedded, not measured.
        assert!(count("\"measurements\"") > 3, "{guest}");
        assert!(count("\"measurements\"") < count("\"embedding\""), "{guest}");
    }
}

/// Unless it is said otherwise, measurements cross sealed and with noise that each guest keeps with its data: over the
/// network as in one process, since encryption changes no product.
#[test]
fn measurements_are_sealed_and_have_noise_unless_it_is_said_otherwise() {
    let world = World::new(&Choice { epochs: 1, ..Choice::default() });
    world.seal();
    let rehearsed = world.rehearse();
    world.gate.open();
    assert_eq!(finish(world.start_all()), rehearsed.weights);
    for (guest, fleet) in [("fleet-a", "guest-1"), ("fleet-b", "guest-2")] {
        let ledger = std::fs::read_to_string(world.path(guest).join("run/ledger.jsonl")).unwrap();
        let count = |kind: &str| ledger.lines().filter(|line| line.contains(kind)).count();
        assert!(count("\"upload\"") > 3 && count("\"products\"") > 3, "{guest}");
        // What it contributes to the other guest's gradient it encrypts with the key that the other one's ledger has.
        assert!(count("\"masked-products\"") > 3, "{guest}");
        let other = if guest == "fleet-a" { "fleet-b" } else { "fleet-a" };
        let keys = |party: &str, of: Option<&str>| {
            let file = world.path(party).join("run/ledger.jsonl");
            let audit = audit_file(&file, &PartyId::new(party).unwrap()).unwrap();
            let keys =
                audit.keys.into_iter().filter(|key| key.of.as_ref().map(PartyId::as_str) == of);
            keys.map(|key| key.fingerprint).collect::<Vec<_>>()
        };
        let (used, own) = (keys(guest, Some(other)), keys(other, None));
        assert!(!used.is_empty() && used.iter().all(|key| own.contains(key)), "{used:?} {own:?}");
        // Each exchange that trains has its own.
        assert!(own.len() >= used.len() && used.len() > 1, "{used:?} {own:?}");
        assert_eq!(count("\"measurements\""), 0, "{guest}");
        assert!(world.path(guest).join(format!("data/noise/{fleet}.noise")).exists(), "{guest}");
    }
}

/// Products that a message has no room for cross in several messages: the weights are the same, bit for bit.
#[test]
fn products_cross_the_network_in_parts() {
    let world = World::new(&Choice { epochs: 1, ..Choice::default() });
    world.seal();
    let rehearsed = world.rehearse();
    // 17 links with 4 numbers each: of a gradient, one sample at a time.
    let method = "method = \"pi-v\"";
    world.change("city", method, &format!("{method}\nmost-rows = 67"));
    let host = world.config("city");
    let error = refused(&[
        "rehearse",
        "--host",
        text(&host),
        "--guest",
        text(&world.config("fleet-a")),
        "--guest",
        text(&world.config("fleet-b")),
    ]);
    assert!(
        error.contains("found messages of 67 products (`most-rows`), expected room"),
        "{error}"
    );
    world.change("city", "most-rows = 67", "most-rows = 68");
    world.gate.open();
    assert_eq!(finish(world.start_all()), rehearsed.weights);
    let ledger = std::fs::read_to_string(world.path("fleet-a").join("run/ledger.jsonl")).unwrap();
    let count = |kind: &str| ledger.lines().filter(|line| line.contains(kind)).count();
    // Three exchanges train, of 32 samples each: one gradient of its own and one of the other guest's for each sample, and more
    // than one query.
    let (exchanges, masked) = (count("\"embedding\""), count("\"masked-products\""));
    assert!(masked >= 2 * 32 && count("\"products\"") > exchanges, "{masked} {exchanges}");
}

/// Guests that commit to their data over the network train the same weights, and both sides have written down the same
/// commitments.
#[test]
fn guests_commit_to_their_data_over_the_network() {
    let world = World::new(&Choice { epochs: 1, ..Choice::default() });
    world.seal();
    let rehearsed = world.rehearse();
    let method = "method = \"pi-v\"";
    world.change("city", method, &format!("{method}\ncommitments = \"noised\""));
    world.gate.open();
    assert_eq!(finish(world.start_all()), rehearsed.weights);
    let committed = |party: &str| {
        let file = world.path(party).join("run/ledger.jsonl");
        audit_file(&file, &PartyId::new(party).unwrap()).unwrap().committed
    };
    let (host, accepted) = (PartyId::new("city").unwrap(), committed("city"));
    assert_eq!(accepted.len(), 2);
    for (guest, digest) in accepted {
        assert_eq!(committed(guest.as_str()).get(&host), Some(&digest));
    }
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file");
        }
    }
}

#[test]
fn strangers_and_noise_do_not_disturb_a_run() {
    let world = World::new(&Choice::default());
    let rehearsed = world.rehearse();
    let parties = world.start_and_hold();

    // Noise at the port.
    for noise in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 2, 0, 1], &[0xff; 100_000]] {
        let mut stream = TcpStream::connect(("127.0.0.1", world.port())).unwrap();
        // The host may hang up while we speak.
        let _ = stream.write_all(noise);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let _ = stream.read(&mut [0; 100]);
    }

    // A guest of another federation, one that is not in the list, and one with another's name in its list.
    let dial = |name: &str, certificate: &std::path::Path, key: &std::path::Path| {
        let folder = world.path(&format!("stranger-{name}"));
        std::fs::create_dir_all(folder.join("certs")).unwrap();
        // Data of its own: the true guest's are in use by its count of products.
        copy_folder(&world.path("fleet-a/data"), &folder.join("data"));
        let config = std::fs::read_to_string(world.config("fleet-a")).unwrap();
        let config = config
            .replace("certs/fleet-a.pem", text(certificate))
            .replace("certs/fleet-a.key", text(key))
            .replace("certs/authority.pem", text(&world.path("certs/authority.pem")))
            .replace("\"data\"", &format!("{:?}", folder.join("data")));
        let file = folder.join("config.toml");
        std::fs::write(&file, config).unwrap();
        let mut guest = Party::start(name, &file, &folder.join("log"));
        let status = guest.wait();
        assert_eq!(status.code(), Some(1), "{}", guest.log());
        guest.log()
    };
    let other = world.path("other-authority");
    ok(&["certs", "init", "--out", text(&other)]);
    ok(&["certs", "guest", "--authority", text(&other), "--name", "fleet-a"]);
    let log = dial("other", &other.join("fleet-a.pem"), &other.join("fleet-a.key"));
    assert!(log.contains("the host refuses our certificate"), "{log}");
    let certs = world.path("certs");
    ok(&["certs", "guest", "--authority", text(&certs), "--name", "fleet-c"]);
    let log = dial("unlisted", &certs.join("fleet-c.pem"), &certs.join("fleet-c.key"));
    assert!(log.contains("`fleet-c` is not in the host's list of guests"), "{log}");
    let twin = world.path("twin");
    ok(&["certs", "guest", "--authority", text(&certs), "--name", "fleet-a", "--out", text(&twin)]);
    let log = dial("twin", &twin.join("fleet-a.pem"), &twin.join("fleet-a.key"));
    assert!(log.contains("is not in the host's list of guests"), "{log}");

    world.gate.open();
    assert_eq!(finish(parties), rehearsed.weights);
}

#[test]
fn a_guest_that_is_revoked_is_cut_off_and_may_come_back() {
    let world = World::new(&Choice::default());
    let rehearsed = world.rehearse();
    let mut parties = world.start_and_hold();
    world.accept(&["fleet-b"]);
    let mut revoked = parties.remove(1);
    assert_eq!(revoked.wait().code(), Some(1));
    assert!(revoked.log().contains("not in the host's list of guests"), "{}", revoked.log());
    world.accept(&parties::GUESTS);
    // The host looks at its list twice a second: until then the guest is refused.
    let mut back = world.start("fleet-a");
    wait_for(&mut parties, || {
        if !back.running() {
            back = world.start("fleet-a");
        }
        back.log().matches(CONNECTED).count() >= 2
    });
    parties.push(back);
    world.gate.open();
    assert_eq!(finish(parties), rehearsed.weights);
}

/// `kill -9` of any party at random moments, with checkpoints by time. All logs say what was lost and from where training
/// resumes, and ledgers have no more than that. FEDTSE_KILLS=50 for the long version.
#[test]
fn killed_parties_come_back_and_end_with_the_same_weights() {
    let kills: u64 = std::env::var("FEDTSE_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let checkpoints = "checkpoint-s = 0.1";
    let world = World::new(&Choice { epochs: 60, checkpoints, ..Choice::default() });
    let rehearsed = world.rehearse();
    // However fast the machine: the last rounds come after the last kill.
    world.gate.allow(A_FEW_ROUNDS);
    let mut parties = world.start_all();
    let mut random = 7u64;
    let mut draw = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for kill in 1..=kills {
        let round = kill * rehearsed.rounds / (kills + 1);
        wait_for(&mut parties, || {
            let reached = world.round().is_some_and(|now| now >= round);
            if !reached && world.gate.holds() {
                world.gate.allow(A_FEW_ROUNDS);
            }
            reached
        });
        std::thread::sleep(Duration::from_millis(draw(100)));
        let victim = draw(3) as usize;
        parties[victim].kill();
        std::thread::sleep(Duration::from_millis(draw(500)));
        let name = parties[victim].name.clone();
        parties[victim] = world.start(&name);
    }
    world.gate.open();
    assert_eq!(finish(parties), rehearsed.weights);
    let log = |party: &str| std::fs::read_to_string(world.path(&format!("{party}.log"))).unwrap();
    let repeated = |log: &str| -> u64 {
        let fields = log.split_whitespace().filter_map(|word| word.strip_prefix("repeated="));
        fields.map(|rounds| rounds.parse::<u64>().unwrap()).sum()
    };
    let host = log("city");
    let tells =
        |log: &str| log.contains("training resumes") || log.contains("training begins anew");
    assert!(tells(&host), "{host}");
    for guest in parties::GUESTS {
        assert!(tells(&log(guest)), "{}", log(guest));
        let ledger = std::fs::read_to_string(world.path(guest).join("run/ledger.jsonl")).unwrap();
        let embeddings = ledger.lines().filter(|line| {
            line.contains("\"kind\":\"embedding\"") && !line.contains("\"again\":true")
        });
        let (found, most) = (embeddings.count() as u64, rehearsed.rounds + repeated(&host));
        assert!(found <= most, "{guest}: {found} embeddings, expected at most {most}");
    }
}

#[test]
fn asked_to_end_they_say_goodbye_and_go_on_later() {
    let world = World::new(&Choice { epochs: 8, ..Choice::default() });
    let rehearsed = world.rehearse();
    let mut parties = world.start_and_hold();
    // A guest that leaves is waited for.
    let guest = parties.remove(1);
    guest.terminate();
    let report = guest.report();
    assert!(report["stopped"].as_str().unwrap().contains("SIGTERM"), "{report}");
    parties.push(world.start("fleet-a"));
    let log = world.path("fleet-a.log");
    wait_for(&mut parties, || {
        std::fs::read_to_string(&log).unwrap().matches(CONNECTED).count() >= 2
    });
    world.gate.allow(A_FEW_ROUNDS);
    world.wait_until_held(&mut parties);
    // A host that leaves tells its guests.
    parties[0].terminate();
    let host = parties.remove(0).report();
    assert!(host["stopped"].as_str().unwrap().contains("SIGTERM"), "{host}");
    for mut guest in parties {
        assert_eq!(guest.wait().code(), Some(1));
        let log = guest.log();
        // Its last word may be lost like any other; then the guest gives up by itself.
        let heard = log.contains("the host has stopped") || log.contains("no word from the host");
        assert!(heard, "{log}");
    }
    world.gate.open();
    assert_eq!(finish(world.start_all()), rehearsed.weights);
}

#[test]
fn wrong_configurations_are_refused_by_name_and_line() {
    let world = World::new(&Choice::default());
    let host = world.config("city");
    let right = std::fs::read_to_string(&host).unwrap();
    for (from, to, expected) in [
        ("epochs =", "epoks =", "unknown field `epoks`"),
        ("target = \"raw\"", "target = \"rough\"", "unknown variant `rough`"),
        ("resend_s = 0.3", "resend_s = -1", "patience.resend_s: found -1"),
        ("certs/city.pem", "certs/nobody.pem", "nobody.pem: No such file"),
        ("certs/city.", "../fleet-a/certs/fleet-a.", "expected one of a Host"),
        ("guests.toml", "data/network.toml", "network.toml: TOML parse error"),
        ("epochs = 3", "epochs = 0", "epochs: found 0"),
        ("fleet-a]", "\"../fleet-a\"]", "name of a party"),
    ] {
        let wrong = right.replace(from, to);
        assert_ne!(wrong, right, "{from}");
        std::fs::write(&host, wrong).unwrap();
        let error = refused(&["host", "--config", text(&host)]);
        assert!(error.contains(expected), "{to}: {error}");
    }
    for role in ["host", "guest"] {
        let example = ok(&[role, "--example"]);
        let file = world.path("example.toml");
        std::fs::write(&file, &example).unwrap();
        let error = refused(&[role, "--config", text(&file)]);
        assert!(error.contains(".pem: No such file"), "{error}");
    }
}

#[test]
fn certificates_are_made_shown_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("certs");
    ok(&["certs", "init", "--out", text(&certs)]);
    assert!(refused(&["certs", "init", "--out", text(&certs)]).contains("is there already"));
    let guest = ["certs", "guest", "--authority", text(&certs), "--name", "fleet-a"];
    let shown = ok_json(&guest);
    assert!(refused(&guest).contains("is there already"));
    let again = ok_json(&["certs", "show", text(&certs.join("fleet-a.pem"))]);
    assert_eq!(shown, again);
    assert_eq!((&again[0]["role"], &again[0]["name"]), (&"guest".into(), &"fleet-a".into()));
    let days = again[0]["valid_until"].as_i64().unwrap() - again[0]["valid_from"].as_i64().unwrap();
    // A year, and an hour for clocks that differ.
    assert_eq!(days, 365 * 86_400 + 3600);
    #[cfg(unix)]
    for key in ["authority.key", "fleet-a.key"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(certs.join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    let nameless = ["certs", "guest", "--authority", text(&certs), "--name", "a/b"];
    assert!(refused(&nameless).contains("name of a party"));
}
