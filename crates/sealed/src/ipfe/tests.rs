use std::sync::Arc;

use super::*;
use crate::fixed_point::Grid;
use crate::product::{Agreement, AnsweredBy, Answerer, BlockId, Guest, Host, Matrix, SealedError};

fn agreement(width: usize) -> Agreement {
    let grid = Grid::new(0.0, 1.0, 1 << 11).expect("a grid");
    Agreement { width, grid, most_rows: 10, most_blocks: 2 }
}

fn parties(width: usize) -> (Authority, IpfeGuest, IpfeHost) {
    let mut random = Randomness::from_seed_for_tests(1);
    let authority = Authority::with_randomness(agreement(width), &mut random).expect("keys");
    let key = authority.public_key();
    let guest = IpfeGuest::new(agreement(width), &key).expect("a guest");
    let table = Arc::new(LogarithmTable::new(12));
    (authority, guest, IpfeHost::new(agreement(width), &key, table).expect("a host"))
}

#[test]
fn the_host_gets_the_products() {
    let width = 6;
    let (mut authority, mut guest, mut host) = parties(width);
    assert_eq!(host.answered_by(), AnsweredBy::Authority);
    let grid = agreement(width).grid;
    let levels = [-2048, 2048, 0, 17, -1000, 3];
    let block = host.store(&guest.upload(BlockId(7), &levels).unwrap()).unwrap();
    let rows = [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.3, -1.2, 2.0, 1e-3, 0.5, -0.9],
        [0.0; 6],
        [1e9, 1e9, -1e9, 1e9, 1e9, 1e9],
    ];
    let values: Vec<f64> = rows.iter().flatten().copied().collect();
    let question = host.ask(&Matrix { rows: 4, blocks: &[block], values: &values }).unwrap();
    let products = host.open(&authority.answer(&question).unwrap()).unwrap();
    assert_eq!(authority.issued(), 4);
    for (row, product) in rows.iter().zip(products) {
        let expected: f64 = row.iter().zip(levels).map(|(a, k)| a * grid.value(k)).sum();
        // Weights have at least 2^15/1.0 of the norm in 6 parts: half a unit each is 6·2^-16 of it.
        let norm: f64 = row.iter().map(|a| a.abs()).sum();
        assert!((product - expected).abs() <= 1e-4 * norm, "{product} {expected}");
    }
}

#[test]
fn misuse_and_bad_peers_are_refused() {
    let (mut authority, mut guest, mut host) = parties(3);
    let upload = guest.upload(BlockId(1), &[1, 2, 3]).unwrap();
    let block = host.store(&upload).unwrap();
    let ask = |host: &mut IpfeHost, blocks: &[BlockId]| {
        host.ask(&Matrix { rows: 1, blocks, values: &vec![1.0; 3 * blocks.len()] })
    };
    let error = ask(&mut host, &[block, block]).unwrap_err().to_string();
    assert!(error.starts_with("blocks of the matrix: found 2, expected 1"), "{error}");
    assert!(matches!(ask(&mut host, &[BlockId(9)]), Err(SealedError::Unknown(BlockId(9)))));
    assert!(matches!(host.open(&[]), Err(SealedError::NoExchange)));
    assert!(matches!(guest.take(&[]), Err(SealedError::Unsupported(_))));

    let question = ask(&mut host, &[block]).unwrap();
    let mut wide = question.clone();
    wide[4 + 8 + 4] = 4;
    let error = authority.answer(&wide).unwrap_err().to_string();
    assert!(error.contains("values of the question: found 4, expected 3"), "{error}");
    let answer = authority.answer(&question).unwrap();
    // A key of another row gives a point without a small logarithm.
    let mut wrong = answer.clone();
    wrong[16] ^= 1;
    let error = host.open(&wrong).unwrap_err().to_string();
    assert!(error.contains("product: found one that is larger"), "{error}");
    let mut wrong = answer.clone();
    wrong[16..48].fill(0xFF);
    let error = host.open(&wrong).unwrap_err().to_string();
    assert!(error.contains("expected a canonical scalar"), "{error}");
    for length in 0..answer.len() {
        assert!(host.open(&answer[..length]).is_err());
    }
    host.open(&answer).unwrap();
    assert!(matches!(host.open(&answer), Err(SealedError::NoExchange)));

    let mut wrong = upload.clone();
    wrong[4 + 8 + 24..][..32].fill(0xFF);
    let error = host.store(&wrong).unwrap_err().to_string();
    assert!(error.contains("expected a canonical point"), "{error}");
    for length in 0..upload.len() {
        assert!(host.store(&upload[..length]).is_err());
    }
}

#[test]
fn ciphertexts_differ_and_debug_output_is_redacted() {
    let (authority, mut guest, _) = parties(2);
    let [a, b] = [0, 1].map(|_| guest.upload(BlockId(1), &[5, 5]).expect("an upload"));
    assert_ne!(a, b);
    assert_eq!(format!("{authority:?}"), "Authority(2 values, 0 keys issued, …)");
}
