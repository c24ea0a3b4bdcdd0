use std::sync::Arc;

use super::message::Question;
use super::*;
use crate::fixed_point::Grid;
use crate::product::{Agreement, AnsweredBy, Answerer, BlockId, Guest, Host, Matrix, SealedError};

fn agreement(width: usize) -> Agreement {
    let grid = Grid::new(0.0, 1.0, 1 << 11).expect("a grid");
    Agreement { width, grid, most_rows: 10, most_blocks: 2 }
}

fn parties(width: usize) -> (Authority, IpfeGuest, IpfeHost) {
    let mut random = Randomness::insecure_from_seed(1);
    let authority = Authority::with_randomness(agreement(width), &mut random)
        .expect("keys")
        .with_most_keys(width - 1)
        .expect("below the width");
    let key = authority.public_key();
    let guest = IpfeGuest::new(agreement(width), &key).expect("a guest");
    let table = Arc::new(LogarithmTable::new(12).expect("a table"));
    (authority, guest, IpfeHost::new(agreement(width), &key, table).expect("a host"))
}

#[test]
fn whole_numbers_of_any_size_are_scalars() {
    for x in [0, 1, -1, 7, -7, 1 << 48, -(1 << 62) - 1, 1 << 62, i64::MAX, i64::MIN + 1, i64::MIN] {
        let size = Scalar::from(x.unsigned_abs());
        assert_eq!(small_scalar(x), if x < 0 { -size } else { size }, "{x}");
    }
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
fn a_key_opens_every_block_so_keys_are_counted() {
    let width = 6;
    let (mut authority, mut guest, mut host) = parties(width);
    authority = authority.with_most_keys(3).unwrap();
    let blocks = [[5, 0, 0, 0, 0, 1], [7, 0, 0, 0, 0, 1]];
    for (id, levels) in blocks.iter().enumerate() {
        host.store(&guest.upload(BlockId(id as u64), levels).unwrap()).unwrap();
    }
    let ask = |host: &mut IpfeHost, values: &[f64]| {
        let rows = values.len() / width;
        host.ask(&Matrix { rows, blocks: &[BlockId(0)], values }).expect("a question")
    };
    let unit = |at: usize| (0..width).map(|i| f64::from(i == at)).collect::<Vec<f64>>();
    let question = ask(&mut host, &unit(0));
    let answer = authority.answer(&question).unwrap();
    // The key for a question about block 0 reads block 1 as well: that is why there is a limit.
    let weights = message::Question::decode(&question, width, 1).unwrap().weights;
    let keys = message::Answer::decode(&answer, 1).unwrap().keys;
    let other = guest.upload(BlockId(1), &blocks[1]).unwrap();
    let other = message::Upload::decode(&other).unwrap();
    let point = multiply::weighted_sum(&weights, &other.values)
        - keys[0][0] * other.heads[0]
        - keys[0][1] * other.heads[1];
    let table = LogarithmTable::new(12).unwrap();
    assert_eq!(table.logarithm(&point), Some(7 * i64::from(weights[0])));

    // The same row again is no new one, in one question or in two.
    authority.answer(&question).unwrap();
    authority.answer(&ask(&mut host, &[unit(1), unit(1), unit(0)].concat())).unwrap();
    assert_eq!(authority.issued(), 2);
    // All or nothing.
    let error = authority.answer(&ask(&mut host, &[unit(2), unit(3)].concat())).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("keys: found 2 new rows beside 2 rows with keys, expected at most 3"),
        "{error}"
    );
    authority.answer(&ask(&mut host, &unit(4))).unwrap();
    let error = authority.answer(&ask(&mut host, &unit(5))).unwrap_err();
    assert!(matches!(error, SealedError::Exhausted { new: 1, issued: 3, most: 3 }));

    let error = Authority::new(agreement(4)).unwrap().with_most_keys(4).unwrap_err().to_string();
    assert!(error.contains("found 4, expected"), "as many rows as values read all values: {error}");
    let mut usual = Authority::new(agreement(width)).unwrap();
    let rows: Vec<f64> = (0..4).flat_map(unit).collect();
    assert!(matches!(
        usual.answer(&ask(&mut host, &rows)),
        Err(SealedError::Exhausted { new: 4, issued: 0, most: 3 })
    ));
}

#[test]
fn hosts_without_room_for_their_rows_are_refused() {
    // 2^4 points reach 2^18, 128 levels of this grid: too few for rows of 20.
    let mut random = Randomness::insecure_from_seed(1);
    let authority = Authority::with_randomness(agreement(20), &mut random).unwrap();
    let table = Arc::new(LogarithmTable::new(4).unwrap());
    let error = IpfeHost::new(agreement(20), &authority.public_key(), table).unwrap_err();
    assert!(
        error.to_string().starts_with("row: found 20 values on a grid of 2048 levels"),
        "{error}"
    );
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
    assert!(matches!(guest.unmask(&[]), Err(SealedError::Unsupported(_))));

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
        let error = host.open(&answer[..length]).unwrap_err().to_string();
        assert!(error.starts_with("the peer sent no valid answer"), "{length} bytes: {error}");
    }
    host.open(&answer).unwrap();
    assert!(matches!(host.open(&answer), Err(SealedError::NoExchange)));

    let mut wrong = upload.clone();
    wrong[4 + 8 + 24..][..32].fill(0xFF);
    let error = host.store(&wrong).unwrap_err().to_string();
    assert!(error.contains("expected a canonical point"), "{error}");
    for length in 0..upload.len() {
        let error = host.store(&upload[..length]).unwrap_err().to_string();
        assert!(error.starts_with("the peer sent no valid upload"), "{length} bytes: {error}");
    }
}

#[test]
fn ciphertexts_differ_and_debug_output_is_redacted() {
    let (authority, mut guest, _) = parties(2);
    // The same levels twice: after the header, the block's name and the terms (4 + 8 + 24 bytes) no point of 32 bytes is
    // the same, nor are those of the equal levels in one upload.
    let uploads = [0, 1].map(|_| guest.upload(BlockId(1), &[5, 5]).expect("an upload"));
    assert_eq!(uploads[0][..36], uploads[1][..36]);
    let points: std::collections::HashSet<&[u8]> =
        uploads.iter().flat_map(|upload| upload[36..].chunks(32)).collect();
    assert_eq!(points.len(), 2 * (2 + 2), "two heads and two values each");
    assert_eq!(format!("{authority:?}"), "Authority(2 values, 0 keys issued, …)");
}

#[test]
fn a_stored_authority_goes_on_with_its_key_and_its_count() {
    let (width, mut random) = (6, Randomness::insecure_from_seed(11));
    let mut authority = Authority::with_randomness(agreement(width), &mut random).unwrap();
    let question = |rows: &[[i32; 6]]| {
        Question { exchange: 1, values: width, weights: rows.concat() }.encode()
    };
    let rows = [[1, 0, 0, 0, 0, 5], [0, 1, 0, 0, 0, 0]];
    let answer = authority.answer(&question(&rows)).unwrap();
    let state = authority.state();
    let mut restored = Authority::restore(agreement(width), &state).unwrap();
    assert_eq!((restored.public_key(), restored.issued()), (authority.public_key(), 2));
    assert_eq!(restored.state(), state);
    // Rows that had a key have the same one; of new ones there is one left of width/2.
    assert_eq!(restored.answer(&question(&rows)).unwrap(), answer);
    let two = [[7, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0]];
    assert!(matches!(
        restored.answer(&question(&two)),
        Err(SealedError::Exhausted { new: 2, issued: 2, most: 3 })
    ));
    restored.answer(&question(&two[..1])).unwrap();

    let refusal = |width, state: &[u8]| {
        let error = Authority::restore(agreement(width), state).unwrap_err();
        let what = "state of the authority";
        assert!(
            matches!(&error, SealedError::Misuse { what: found, .. } if *found == what),
            "{} bytes: {error:?}",
            state.len()
        );
        error.to_string()
    };
    for length in 0..state.len() {
        refusal(width, &state[..length]);
    }
    assert!(refusal(width + 1, &state).contains("found 6, expected 7"));
}
