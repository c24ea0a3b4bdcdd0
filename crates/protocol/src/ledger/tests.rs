use std::io::Write as _;

use proptest::prelude::*;
use traffic::{FleetView, Step, Window};

use super::*;
use crate::message::measurements::Measurements;
use crate::message::parts::{Embedding, Values};
use crate::message::sealed::{Fingerprint, Sealed};
use crate::message::{Exchange, Purpose, ToHost};
use crate::party::{Attempt, RunId};

fn guest() -> PartyId {
    PartyId::new("fleet-a").expect("a name")
}

fn host() -> PartyId {
    PartyId::new("host").expect("a name")
}

fn embedding(round: u64, samples: usize) -> ToHost {
    let values = Values::new(2, vec![round as f32; 2 * samples]).expect("finite");
    ToHost::Embedding {
        exchange: Exchange { run: RunId(1), attempt: Attempt(1), round: Round(round) },
        purpose: Purpose::Train,
        embedding: Embedding(values),
    }
}

fn written(messages: usize) -> Vec<u8> {
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &guest()).expect("an empty ledger");
    for round in 0..messages {
        ledger.release(Now::default(), &host(), embedding(round as u64, 3)).expect("memory");
    }
    sink.bytes()
}

fn check(bytes: &[u8]) -> Result<Audit, LedgerError> {
    audit(bytes, std::path::Path::new("test"), &guest())
}

#[test]
fn an_audit_counts_what_left() {
    let audit = check(&written(5)).unwrap();
    assert_eq!((audit.messages, audit.rounds), (5, Some((Round(0), Round(4)))));
    let tally = audit.tallies[&(host(), "embedding".to_owned())];
    assert_eq!((tally.messages, tally.numbers), (5, 5 * 6));
    // 6 numbers of 4 bytes each, and a little that says which round they belong to.
    assert!((5 * 24..5 * 64).contains(&tally.bytes), "{tally:?}");
    assert_eq!(check(b"").unwrap().messages, 0);
}

/// Budgets are by step, and outlive restarts; products of which no line says what they are of are not forgotten.
#[test]
fn products_are_charged_to_the_steps_that_they_are_of() {
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &guest()).unwrap();
    let products = |rows| ToHost::Products {
        exchange: Exchange { run: RunId(1), attempt: Attempt(1), round: Round(1) },
        size: [rows, 20],
        answer: Sealed::new(vec![1]).unwrap(),
    };
    let samples = |steps: std::ops::Range<i64>| -> Vec<Window> {
        steps.map(|step| Window { last: Step(step), view: FleetView(0) }).collect()
    };
    let about = |steps, products| QueriedSteps::of(&samples(steps), 10, products);
    let mut release = |rows, about| {
        ledger.release_products(Now::default(), &host(), products(rows), about).unwrap();
    };
    release(3, about(5..7, 60));
    release(4, about(6..8, 80));
    release(2, None);
    let bytes = sink.bytes();
    let again = Ledger::in_memory(&sink, &guest()).unwrap();
    for queries in [ledger.queries(), again.queries(), &check(&bytes).unwrap().queries] {
        assert_eq!((queries.most(), queries.unplaced()), (Some((6, 7.0)), 40));
        let of = |steps| queries.most_with(&samples(steps), about(0..2, 20).as_ref());
        assert_eq!((of(5..6), of(7..9), of(0..9), of(0..3)), (4.0, 5.0, 8.0, 1.0));
    }
    // Steps beyond all time are not taken for ranges.
    let forged = String::from_utf8(bytes).unwrap().replacen("[[5,6]]", "[[6,5]]", 1);
    let error = check(forged.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 1: steps: found none"), "{error}");
}

/// What is said again leaves again, but tells nothing new: budgets count it once, after a restart too.
#[test]
fn what_is_said_again_counts_once() {
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &guest()).unwrap();
    ledger.release(Now::default(), &host(), embedding(7, 3)).unwrap();
    ledger.release_again(Now::default(), &host(), embedding(7, 3)).unwrap();
    assert_eq!((ledger.len(), ledger.numbers("embedding")), (2, 6));
    let tally = check(&sink.bytes()).unwrap().tallies[&(host(), "embedding".to_owned())];
    assert_eq!((tally.messages, tally.numbers), (2, 6));
    drop(ledger);
    assert_eq!(Ledger::in_memory(&sink, &guest()).unwrap().numbers("embedding"), 6);
}

/// Fleets compare keys: a guest's own, and those that it was handed as others'.
#[test]
fn keys_are_written_down() {
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &guest()).unwrap();
    let ToHost::Embedding { exchange, .. } = embedding(7, 3) else { unreachable!() };
    let opening = Sealed::new(vec![1, 2, 3]).unwrap();
    let (to, key) = (PartyId::new("fleet-b").unwrap(), Fingerprint::of(&opening));
    // SHA-256 of the bytes 1, 2, 3.
    let fingerprint = "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81".to_owned();
    let relay = ToHost::MaskedProducts {
        exchange,
        recipient: to.clone(),
        key,
        size: [4, 5],
        products: opening.clone(),
    };
    for message in [ToHost::PublicKey { exchange, key: opening }, relay] {
        ledger.release(Now::default(), &host(), message).unwrap();
    }
    let audit = check(&sink.bytes()).unwrap();
    let keys = [None, Some(to)].map(|of| UsedKey { of, fingerprint: fingerprint.clone() });
    assert_eq!(audit.keys, keys.into());
    assert_eq!(audit.tallies[&(host(), "masked-products".to_owned())].numbers, 20);
}

/// Measurements are a kind of their own: values and weights.
#[test]
fn measurements_are_counted_apart() {
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &guest()).unwrap();
    ledger.release(Now::default(), &host(), embedding(7, 3)).unwrap();
    let ToHost::Embedding { exchange, purpose, .. } = embedding(7, 3) else { unreachable!() };
    let measurements = Measurements::new(4, vec![1.5; 12], vec![2.5; 12]).unwrap();
    let measured = ToHost::Measurements { exchange, purpose, measurements };
    ledger.release(Now::default(), &host(), measured).unwrap();
    let audit = check(&sink.bytes()).unwrap();
    assert_eq!(audit.rounds, Some((Round(7), Round(7))));
    let tally = audit.tallies[&(host(), "measurements".to_owned())];
    assert_eq!((tally.messages, tally.numbers), (1, 2 * 3 * 4));
    // 24 numbers of 4 bytes each, and a little that says which round they belong to.
    assert!((96..96 + 40).contains(&tally.bytes), "{tally:?}");
}

#[test]
fn the_ledger_of_another_party_is_refused() {
    let error = audit(written(1).as_slice(), std::path::Path::new("x"), &host()).unwrap_err();
    assert!(matches!(error, LedgerError::Broken { line: 1, .. }), "{error}");
}

#[test]
fn a_ledger_of_an_earlier_format_is_refused_by_name() {
    let beginning = |format| data_encoding::HEXLOWER.encode(&entry::beginning(&guest(), format));
    let old = String::from_utf8(written(1)).unwrap();
    let old = old.replace(&beginning(entry::FORMAT), &beginning(1));
    let error = check(old.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 1: format: found 1, expected 2"), "{error}");
}

#[test]
fn a_file_goes_on_after_a_torn_line_and_keeps_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let mut ledger = Ledger::open(&path, &guest()).unwrap();
    ledger.release(Now::default(), &host(), embedding(1, 1)).unwrap();
    assert!(matches!(Ledger::open(&path, &guest()), Err(LedgerError::InUse { .. })));
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"{"sequence":2,"time"#).unwrap();
    assert_eq!(audit_file(&path, &guest()).unwrap().torn, 19);
    let mut ledger = Ledger::open(&path, &guest()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    ledger.release(Now::default(), &host(), embedding(2, 1)).unwrap();
    assert_eq!(ledger.len(), 2);
    drop(ledger);
    assert_eq!(audit_file(&path, &guest()).unwrap().messages, 2);
}

/// Where power failed, a file may end with zeros instead of its last lines.
#[test]
fn zeros_at_the_end_are_a_torn_line() {
    let whole = written(3);
    let second = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for (kept, zeros) in [(whole.len(), 5), (whole.len(), 1_000_000), (second + 20, 7), (0, 4096)] {
        let mut bytes = whole[..kept].to_vec();
        bytes.resize(kept + zeros, 0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        std::fs::write(&path, &bytes).unwrap();
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let audit = audit_file(&path, &guest()).unwrap();
        let end = whole[..kept].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        assert_eq!((audit.messages, audit.torn), (lines, (bytes.len() - end) as u64));
        let mut ledger = Ledger::open(&path, &guest()).unwrap();
        ledger.release(Now::default(), &host(), embedding(9, 1)).unwrap();
        drop(ledger);
        assert_eq!(audit_file(&path, &guest()).unwrap().messages, lines + 1);
    }
    // Zeros in the middle are damage, and not cut off.
    let mut bytes = whole.clone();
    bytes.extend([0; 100]);
    bytes.extend(&whole);
    assert!(check(&bytes).is_err());
    let mut bytes = whole.clone();
    bytes.resize(whole.len() + 100_000, 0);
    bytes.push(b'x');
    assert!(check(&bytes).is_err());
}

proptest! {
    /// Any change of any byte but in a torn end is found.
    #[test]
    fn a_changed_byte_is_found(place in 0usize..10_000, change in 1u8..=255) {
        let mut bytes = written(4);
        let whole = check(&bytes).unwrap();
        let place = place % bytes.len();
        bytes[place] ^= change;
        let last_line = 1 + bytes[..bytes.len() - 1].iter().rposition(|&b| b == b'\n').unwrap_or(0);
        match check(&bytes) {
            Err(_) => {}
            // The end of the last line: a torn line, which is said. The last line itself: no later
            // line vouches for it, but the head does.
            Ok(audit) => prop_assert!(place >= last_line && audit.head != whole.head),
        }
    }

    /// A line that is removed, doubled or moved is found.
    #[test]
    fn lines_in_another_order_are_found(from in 0usize..6, to in 0usize..6, how in 0..3) {
        let bytes = written(6);
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        let line = lines[from];
        match how {
            0 if from < 5 => { lines.remove(from); }
            1 => lines.insert(to, line),
            2 if from != to => { lines.remove(from); lines.insert(to, line); }
            _ => return Ok(()),
        }
        prop_assert!(check(&lines.concat()).is_err());
    }

    /// After a crash at any byte the ledger goes on, whole.
    #[test]
    fn a_ledger_torn_anywhere_can_be_continued(length in 0usize..10_000) {
        let mut bytes = written(4);
        bytes.truncate(length % (bytes.len() + 1));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        std::fs::write(&path, &bytes).unwrap();
        let lines = bytes.iter().filter(|&&b| b == b'\n').count() as u64;
        let mut ledger = Ledger::open(&path, &guest()).unwrap();
        prop_assert_eq!(ledger.len(), lines);
        ledger.release(Now::default(), &host(), embedding(9, 1)).unwrap();
        drop(ledger);
        prop_assert_eq!(audit_file(&path, &guest()).unwrap().messages, lines + 1);
    }
}
