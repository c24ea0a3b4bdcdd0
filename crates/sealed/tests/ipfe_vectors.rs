//! Version 2 of the encodings of functional encryption, fixed by vectors as in `vectors.rs`.

use std::path::Path;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sealed::ipfe::message::{Answer, PublicKey, Question, Upload};
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::{Agreement, Answerer, BlockId, Grid, Guest, Host, Matrix, Randomness};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Vector {
    version: u8,
    note: String,
    authority_seed: u64,
    guest_seed: u64,
    host_seed: u64,
    levels: Vec<i32>,
    matrix: Vec<f64>,
    public_key: String,
    upload: String,
    question: String,
    answer: String,
    products: Vec<f64>,
}

#[test]
fn version_2_has_these_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/ipfe-2.json");
    if std::env::var_os("SEALED_WRITE_VECTORS").is_some() {
        let vector =
            made([1, 2, 3], vec![2048, -3, 0, 7], vec![1.0, 0.0, 0.5, 0.0, -0.25, 0.75, 0.0, 1.0]);
        std::fs::write(&path, serde_json::to_string_pretty(&vector).unwrap() + "\n").unwrap();
    }
    let vector: Vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let Vector { authority_seed, guest_seed, host_seed, ref levels, ref matrix, .. } = vector;
    let seeds = [authority_seed, guest_seed, host_seed];
    assert_eq!(made(seeds, levels.clone(), matrix.clone()), vector);
    // Each flipped bit of a message makes another message or none, never the same.
    type Encode = fn(&[u8]) -> Option<Vec<u8>>;
    let all: [(&str, Encode); 4] = [
        (&vector.public_key, |bytes| Some(PublicKey::decode(bytes).ok()?.encode())),
        (&vector.upload, |bytes| Some(Upload::decode(bytes).ok()?.encode())),
        (&vector.question, |bytes| Some(Question::decode(bytes, 4, 10).ok()?.encode())),
        (&vector.answer, |bytes| Some(Answer::decode(bytes, 10).ok()?.encode())),
    ];
    for (hex, again) in all {
        let sound = HEXLOWER.decode(hex.as_bytes()).unwrap();
        assert_eq!(again(&sound).as_ref(), Some(&sound));
        for bit in 0..8 * sound.len() {
            let mut changed = sound.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(again(&changed).is_none_or(|again| again == changed), "bit {bit}");
        }
    }
}

fn made(seeds: [u64; 3], levels: Vec<i32>, matrix: Vec<f64>) -> Vector {
    let grid = Grid::new(0.0, 1.0, 2048).expect("a grid");
    let agreement = Agreement { width: levels.len(), grid, most_rows: 10, most_blocks: 1 };
    let random = Randomness::insecure_from_seed;
    let [authority_seed, guest_seed, host_seed] = seeds;
    let mut authority =
        Authority::with_randomness(agreement, &mut random(authority_seed)).expect("keys");
    let public_key = authority.public_key();
    let mut guest =
        IpfeGuest::with_randomness(agreement, &public_key, random(guest_seed)).expect("a guest");
    let table = Arc::new(LogarithmTable::new(10).expect("a table"));
    let mut host = IpfeHost::with_randomness(agreement, &public_key, table, random(host_seed))
        .expect("a host");
    let upload = guest.upload(BlockId(5), &levels).expect("an upload");
    let block = host.store(&upload).expect("room");
    let rows = matrix.len() / levels.len();
    let question =
        host.ask(&Matrix { rows, blocks: &[block], values: &matrix }).expect("a question");
    let answer = authority.answer(&question).expect("keys");
    let products = host.open(&answer).expect("products");
    Vector {
        version: 2,
        note: "seeds are those of Randomness::insecure_from_seed; range 0 to 1, 2048 levels, a table of 2^10".into(),
        authority_seed,
        guest_seed,
        host_seed,
        public_key: HEXLOWER.encode(&public_key),
        upload: HEXLOWER.encode(&upload),
        question: HEXLOWER.encode(&question),
        answer: HEXLOWER.encode(&answer),
        levels,
        matrix,
        products,
    }
}
