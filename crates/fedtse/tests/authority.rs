//! The key authority as a process: whom it answers, what it counts, and training with it over mutual TLS.

mod common;
mod parties;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use federation::grpc::Identity;
use federation::grpc::dial::HostAddress;
use federation::grpc::identity::read_certificates;
use federation::{KeyAuthority, KeyFailure};
use fedtse::key_authority::RemoteAuthority;
use protocol::ledger::{MemorySink, audit_file};
use protocol::message::key_authority::ToAuthority;
use protocol::{Ledger, Now, PartyId, Round};
use sealed::ipfe::public_key_request;
use sealed::keyed::{KeyedGuest, KeyedHost};
use sealed::rlwe::KeySeed;
use sealed::{Agreement, BlockId, Grid, Guest, Host, Matrix};
use serde_json::Value;

use common::{ok, refused, text};
use parties::{Choice, GUESTS, World, finish, free_port};

const WIDTH: usize = 6;

/// A running authority, killed when the test is over.
struct Running {
    child: Child,
    address: String,
    guests: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(config: &Path) -> Running {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fedtse"))
        .args(["authority", "--config", text(config), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    let address = said["listening"].as_str().expect("an address").to_owned();
    Running { child, address, guests: said["guests"].as_u64().expect("a number") }
}

fn named(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

/// A party that talks to an authority.
struct Asker {
    authority: RemoteAuthority,
    ledger: Ledger,
}

impl Asker {
    fn new(running: &Running, certs: &Path, name: &str) -> Self {
        let file = |end: &str| certs.join(format!("{name}.{end}"));
        let identity = Identity::read(&file("pem"), &file("key")).expect("an identity");
        let roots = read_certificates(&certs.join("authority.pem")).expect("the authority");
        let address = HostAddress::new(&running.address, None).expect("an address");
        let authority = RemoteAuthority::new(address, named("keys"), identity, &roots);
        let ledger = Ledger::in_memory(&MemorySink::default(), &named(name)).expect("a ledger");
        Self { authority: authority.expect("an authority"), ledger }
    }

    fn ask(&mut self, message: ToAuthority) -> Result<Vec<u8>, KeyFailure> {
        let message = self.ledger.release(Now::default(), &named("keys"), message);
        self.authority.ask(&message.expect("a line of the ledger"))
    }

    fn keys(&mut self, guest: &str, question: &[u8]) -> Result<Vec<u8>, KeyFailure> {
        let (guest, question) = (named(guest), question.to_vec());
        self.ask(ToAuthority::Keys { round: Round(1), guest, size: [1, WIDTH as u32], question })
    }
}

#[test]
fn an_authority_issues_keys_to_the_host_alone_and_counts_them_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("certs");
    ok(&["certs", "init", "--out", text(&certs)]);
    let party = ["--authority", text(&certs), "--name"];
    ok(&[&["certs", "host"][..], &party, &["keys", "--address", "127.0.0.1"]].concat());
    for guest in ["city-keys", "fleet-a"] {
        ok(&[&["certs", "guest"][..], &party, &[guest]].concat());
    }
    let config = folder.path().join("authority.toml");
    // The same port after a restart: parties dial it again.
    let listen = format!("127.0.0.1:{}", free_port());
    let example = ok(&["authority", "--example"]).replace("0.0.0.0:7444", &listen);
    std::fs::write(&config, example).unwrap();

    let running = start(&config);
    assert_eq!(running.guests, 0);
    let mut fleet = Asker::new(&running, &certs, "fleet-a");
    let mut city = Asker::new(&running, &certs, "city-keys");
    let grid = Grid::new(0.0, 1.0, 2048).unwrap();
    let agreement = Agreement { width: WIDTH, grid, most_rows: 64, most_blocks: 2 };
    let request = |agreement: &Agreement| {
        let request = public_key_request(agreement);
        ToAuthority::PublicKey { round: Round(1), request }
    };
    let public_key = fleet.ask(request(&agreement)).unwrap();
    let seed = KeySeed::from_os().unwrap();
    let mut guest = KeyedGuest::new(agreement, &public_key, &seed).unwrap();
    let mut host = KeyedHost::new(agreement, &guest.public_key()).unwrap();
    let levels = [-2048, 2048, 0, 17, -1000, 3];
    let block = host.store(&guest.upload(BlockId(1), &levels).unwrap()).unwrap();
    let rows = [[1.0, -2.0, 0.5, 0.0, 3.0, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]];
    let values = rows.concat();
    let question = host.ask(&Matrix { rows: 2, blocks: &[block], values: &values }).unwrap();
    // Who asks for what, and how much: the connection stays after a refusal.
    let error = fleet.keys("fleet-a", &question).unwrap_err().to_string();
    assert!(error.contains("`keys` refuses: found a question of `fleet-a`"), "{error}");
    let error = city.ask(request(&agreement)).unwrap_err().to_string();
    assert!(error.contains("expected a guest's"), "{error}");
    let wide = Agreement { width: (1 << 16) + 1, ..agreement };
    let error = fleet.ask(request(&wide)).unwrap_err().to_string();
    assert!(error.contains("values of a block: found 65537, expected 1 to 65536"), "{error}");
    let error = city.keys("fleet-a", &question[..40]).unwrap_err().to_string();
    assert!(error.contains("no valid question"), "{error}");
    let products = host.open(&city.keys("fleet-a", &question).unwrap()).unwrap();
    for (row, product) in rows.iter().zip(&products) {
        let exact: f64 = row.iter().zip(levels).map(|(a, level)| a * grid.value(level)).sum();
        // Weights sum to 2^34/2^11, each rounded by half at most, of values of at most 1/2 from the middle.
        let norm: f64 = row.iter().map(|a| a.abs()).sum();
        let most = norm * 0.5 * 0.5 * WIDTH as f64 / f64::from((1 << 23) - 3);
        assert!((product - exact).abs() <= most, "{product} {exact}");
    }
    // The folder is in use.
    assert!(refused(&["authority", "--config", text(&config)]).contains("another authority"));

    // After the end of the process, however sudden, parties dial again: the same keys, and two of three rows have some.
    drop(running);
    let left = folder.path().join("keys/fleet-a.state.a1B2c3.unfinished");
    std::fs::write(&left, b"half").unwrap();
    let running = start(&config);
    assert_eq!(running.guests, 1);
    assert!(!left.exists());
    let question = host.ask(&Matrix { rows: 2, blocks: &[block], values: &values }).unwrap();
    assert_eq!(host.open(&city.keys("fleet-a", &question).unwrap()).unwrap(), products);
    let more: Vec<f64> = (0..2 * WIDTH).map(|i| (i * i % 7) as f64).collect();
    let question = host.ask(&Matrix { rows: 2, blocks: &[block], values: &more }).unwrap();
    let error = city.keys("fleet-a", &question).unwrap_err().to_string();
    assert!(
        error.contains("found 2 new rows beside 2 rows with keys, expected at most 3"),
        "{error}"
    );
    // With a new public key, the one before opens nothing more.
    fleet.ask(request(&agreement)).unwrap();
    let question = host.ask(&Matrix { rows: 1, blocks: &[block], values: &more[..WIDTH] }).unwrap();
    let error = city.keys("fleet-a", &question).unwrap_err().to_string();
    assert!(error.contains("earlier ones get no more keys"), "{error}");
    drop(running);
}

/// An authority for a world, a party of its own.
fn authority_of(world: &World) -> (std::path::PathBuf, String) {
    world.certify("host", "keys", &["--address", "localhost"]);
    world.certify("guest", "city-keys", &[]);
    let (config, port) = (world.config("keys"), free_port());
    let text =
        ok(&["authority", "--example"]).replace("0.0.0.0:7444", &format!("127.0.0.1:{port}"));
    std::fs::write(&config, text).expect("a file");
    (config, format!("localhost:{port}"))
}

/// Host, two guests and authority, each a process: the weights are those of all in one process, the authority stops and comes
/// back in between, and its name stands in the ledgers of those who asked it.
#[test]
fn parties_train_with_an_authority_over_the_network() {
    let world = World::new(&Choice { epochs: 3, ..Choice::default() });
    world.seal();
    let (config, address) = authority_of(&world);
    let section = format!("[key-authority]\nname = \"keys\"\naddress = \"{address}\"\n");
    let own = "certificate = \"../city-keys/certs/city-keys.pem\"\nkey = \"../city-keys/certs/city-keys.key\"\n";
    let method = "method = \"pi-v\"";
    world.change("city", method, &format!("{method}\nscheme = \"ipfe\""));
    world.change("city", "batch = 32", "batch = 64\nwindow = 8");
    let error =
        refused(&["rehearse", "--host", text(&world.config("city")), "--guest", "none.toml"]);
    assert!(error.contains("found \"ipfe\" without a section key-authority"), "{error}");
    world.change("city", "[run]", &format!("{section}{own}[run]"));
    for guest in GUESTS {
        world.change(guest, "[run]", &format!("{section}[run]"));
        world.change(guest, "[model]\n", "[model]\nwindow = 8\n");
    }
    let rehearsed = world.rehearse();
    let authority = start(&config);
    let mut parties = world.start_and_hold();
    drop(authority);
    world.gate.open();
    let asks_again = || parties.iter().any(|party| party.log().contains("trying again"));
    let began = std::time::Instant::now();
    while !asks_again() {
        assert!(began.elapsed().as_secs() < 60, "nobody has noticed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let authority = start(&config);
    assert_eq!(authority.guests, 2);
    for party in &mut parties {
        assert!(party.running(), "{}: {}", party.name, party.log());
    }
    assert_eq!(finish(parties), rehearsed.weights);
    let ledger = |party: &str| {
        let file = world.path(party).join("run/ledger.jsonl");
        audit_file(&file, &named(party)).expect("a whole ledger");
        std::fs::read_to_string(file).expect("a ledger")
    };
    let count = |party: &str, kind: &str| {
        let of_kind = format!("\"kind\":\"{kind}\"");
        ledger(party).lines().filter(|line| line.contains(&of_kind)).count()
    };
    assert!(count("city", "function-keys-request") > 3);
    for guest in GUESTS {
        assert!(count(guest, "public-key-request") > 1, "{guest}");
        assert!(count(guest, "masked-products") > 1, "{guest}");
        assert_eq!(count(guest, "products"), 0, "{guest}");
    }
}

/// What functional encryption is not made for is refused before any work.
#[test]
fn combinations_that_are_not_supported_are_refused_before_work_starts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "20", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "most-products = 5.0\n").unwrap();
    let train = |method: &str, more: &[&str]| {
        let all = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        refused(&[&all[..], &["--scheme", "ipfe", "--epochs", "1"], more].concat())
    };
    for (method, more, expected) in [
        ("fedtse-pi", &["--privacy", "clear"][..], "--scheme: found ipfe with --privacy clear"),
        ("fedtse-pi", &["--commitments"], "--commitments: found with --scheme ipfe, expected rlwe"),
        ("fedtse-pi", &["--most-products", "3"], "--most-products: found a limit on products"),
        ("fedtse-pi", &["--policy", text(&policy)], "--policy: found a limit on products"),
        ("fedtse-pi-hf", &["--privacy", "sealed"], "--scheme: found ipfe with held-out folds"),
        ("fedtse", &[], "--scheme: found ipfe with measurements in the clear, or none"),
        (
            "fedtse-pi",
            &["--batch", "8"],
            "a key authority issues keys for half as many products as values",
        ),
        (
            "fedtse-pi",
            &["--arch", "paper"],
            "a key authority issues keys for half as many products as values",
        ),
    ] {
        let error = train(method, more);
        assert!(error.contains(expected), "{method} {more:?}: {error}");
    }
}

/// Trained with either scheme, errors agree: products differ by the rounding of weights alone, about a thousandth of a weight.
#[test]
fn a_training_ends_with_the_errors_of_lattice_encryption() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "60", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train = |scheme: &str| {
        let all = ["train", "--data", text(&data), "--method", "fedtse-pi", "--rate", "50"];
        let few = ["--epochs", "3", "--privacy", "sealed", "--scheme", scheme];
        common::ok_json(&[&all[..], &few].concat())[0]["score"].clone()
    };
    let (ipfe, rlwe) = (train("ipfe"), train("rlwe"));
    for quantity in ["density", "flow"] {
        let rmse = |score: &Value| score[quantity]["rmse"].as_f64().expect("an error");
        let (found, expected) = (rmse(&ipfe), rmse(&rlwe));
        assert!((found - expected).abs() < 0.01 * expected, "{quantity}: {found}, not {expected}");
    }
}
