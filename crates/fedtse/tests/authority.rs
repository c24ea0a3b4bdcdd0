//! The key authority as a process, with host and guest of functional encryption in the test.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use federation::grpc::Identity;
use federation::grpc::dial::HostAddress;
use federation::grpc::identity::read_certificates;
use fedtse::key_authority::KeyAuthority;
use protocol::PartyId;
use sealed::ipfe::{IpfeGuest, IpfeHost, LogarithmTable};
use sealed::{Agreement, BlockId, Grid, Guest, Host, Matrix};
use serde_json::Value;

use common::{ok, refused, text};

const WIDTH: usize = 6;

/// A running authority, killed when the test is over.
struct Running {
    child: Child,
    address: String,
    issued: u64,
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
    Running { child, address, issued: said["issued"].as_u64().expect("a number") }
}

fn dial(running: &Running, certs: &Path, name: &str) -> KeyAuthority {
    let file = |end: &str| certs.join(format!("{name}.{end}"));
    let identity = Identity::read(&file("pem"), &file("key")).expect("an identity");
    let roots = read_certificates(&certs.join("authority.pem")).expect("the authority");
    let address = HostAddress::new(&running.address, None).expect("an address");
    let keys = PartyId::new("keys").expect("a name");
    KeyAuthority::dial(&address, &keys, identity, &roots).expect("a connection")
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
    let example = ok(&["authority", "--example"]);
    let changed = example
        .replace("0.0.0.0:7444", "127.0.0.1:0")
        .replace("width = 18 ", "width = 6 ")
        .replace("most-keys = 9 ", "most-keys = 4 ");
    std::fs::write(&config, &changed).unwrap();

    let running = start(&config);
    assert_eq!(running.issued, 0);
    let mut fleet = dial(&running, &certs, "fleet-a");
    let public_key = fleet.public_key().unwrap();
    let mut city = dial(&running, &certs, "city-keys");
    assert_eq!(city.public_key().unwrap(), public_key);

    let grid = Grid::new(0.0, 1.0, 2048).unwrap();
    let agreement = Agreement { width: WIDTH, grid, most_rows: 64, most_blocks: 2 };
    let mut guest = IpfeGuest::new(agreement, &public_key).unwrap();
    let table = Arc::new(LogarithmTable::new(12).unwrap());
    let mut host = IpfeHost::new(agreement, &public_key, table).unwrap();
    let levels = [-2048, 2048, 0, 17, -1000, 3];
    let block = host.store(&guest.upload(BlockId(1), &levels).unwrap()).unwrap();
    let rows = [[1.0, -2.0, 0.5, 0.0, 3.0, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]];
    let matrix = |rows: &[f64]| -> (usize, Vec<f64>) { (rows.len() / WIDTH, rows.to_vec()) };
    let (count, values) = matrix(&rows.concat());
    let question = host.ask(&Matrix { rows: count, blocks: &[block], values: &values }).unwrap();
    // A guest could read everything with keys of its own.
    let error = fleet.keys(question.clone()).unwrap_err().to_string();
    assert!(error.contains("expected one of the host alone"), "{error}");
    let products = host.open(&city.keys(question.clone()).unwrap()).unwrap();
    for (row, product) in rows.iter().zip(&products) {
        let exact: f64 = row.iter().zip(levels).map(|(a, level)| a * grid.value(level)).sum();
        // Weights of some hundreds for the largest entry, rounded by half.
        assert!((product - exact).abs() < 0.05, "{product} {exact}");
    }
    // The folder is in use.
    assert!(refused(&["authority", "--config", text(&config)]).contains("another authority"));

    // After the end of the process, however sudden: the same key, and two of four rows have keys.
    drop(running);
    let running = start(&config);
    assert_eq!(running.issued, 2);
    let mut city = dial(&running, &certs, "city-keys");
    assert_eq!(city.public_key().unwrap(), public_key);
    let (count, values) = matrix(&(0..3 * WIDTH).map(|i| (i * i % 7) as f64).collect::<Vec<_>>());
    let question = host.ask(&Matrix { rows: count, blocks: &[block], values: &values }).unwrap();
    let error = city.keys(question).unwrap_err().to_string();
    assert!(error.contains("found 3 new rows beside 2 rows with keys"), "{error}");

    std::fs::write(&config, changed.replace("width = 6 ", "width = 7 ")).unwrap();
    drop(running);
    let other = refused(&["authority", "--config", text(&config)]);
    assert!(other.contains("values of a block: found 6, expected 7"), "{other}");
}
