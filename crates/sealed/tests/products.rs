//! Products of all implementations against f64, over random and extreme inputs, through the traits alone.

use std::sync::Arc;

use proptest::prelude::*;
use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::plain::{PlainGuest, PlainHost};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, AnsweredBy, Answerer, BlockId, Coefficients, Grid, Guest, Host, MagnitudeBound,
    Matrix, Randomness, SealedError,
};

fn agreement(width: usize, levels: i32) -> Agreement {
    let grid = Grid::new(-0.25, 1.25, levels).expect("a grid");
    Agreement { width, grid, most_rows: 3000, most_blocks: 300 }
}

fn rlwe(width: usize) -> (RlweGuest, RlweHost) {
    let agreement = agreement(width, MOST_LEVELS);
    let guest = RlweGuest::new(agreement, &KeySeed::from_os().expect("a seed")).expect("a guest");
    let host = RlweHost::new(agreement, &guest.public_key()).expect("a host");
    (guest, host)
}

fn uniform(random: &mut Randomness) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

fn levels(count: usize, most: i32, random: &mut Randomness) -> Vec<i32> {
    (0..count).map(|_| random.below(2 * most as u128 + 1) as i32 - most).collect()
}

/// The stated bound: rounding each weight by half a unit, on values of the largest level.
fn bound(row: &[f64], grid: &Grid, limit: f64) -> f64 {
    let norm: f64 = row.iter().map(|a| a.abs()).sum();
    let (n, most) = (row.len() as f64, f64::from(grid.levels()));
    n / 2.0 * most * grid.step() * norm / (limit / most - n / 2.0 - 1.0) * 1.001 + 1e-12 * norm
}

fn check(grid: &Grid, values: &[f64], row: &[f64], found: f64, limit: f64) {
    let expected: f64 = row.iter().zip(values).map(|(a, u)| a * u).sum();
    let bound = bound(row, grid, limit);
    assert!((found - expected).abs() <= bound, "{found} {expected}: more than {bound} apart");
}

const RLWE_LIMIT: f64 = 549_755_813_887.0;

#[test]
fn thousands_of_products_equal_those_of_f64() {
    let mut random = Randomness::insecure_from_seed(1);
    // (width, rows, blocks): one polynomial and several, full and almost empty, one block and many.
    for (width, rows, blocks) in [
        (18, 1000, 20),
        (1, 3000, 4),
        (8192, 3, 1),
        (4097, 2, 2),
        (100, 81, 3),
        (100, 82, 9),
        (7, 1, 1),
    ] {
        let (mut guest, mut host) = rlwe(width);
        let grid = agreement(width, MOST_LEVELS).grid;
        let mut values = Vec::new();
        let blocks: Vec<BlockId> = (0..blocks).map(|i| BlockId(i * 7)).collect();
        for &block in &blocks {
            let levels = levels(width, MOST_LEVELS, &mut random);
            values.extend(levels.iter().map(|&level| grid.value(level)));
            assert_eq!(host.store(&guest.upload(block, &levels).unwrap()).unwrap(), block);
        }
        let columns = values.len();
        // Rows of all sizes, some with a few entries only.
        let matrix: Vec<f64> = (0..rows * columns)
            .map(|i| {
                let (row, size) = (i / columns, 10f64.powi((i / columns) as i32 % 41 - 20));
                let kept = row % 3 != 2 || i % 97 == 0;
                if kept { uniform(&mut random) * size } else { 0.0 }
            })
            .collect();
        let question = host.ask(&Matrix { rows, blocks: &blocks, values: &matrix }).unwrap();
        let products = host.open(&guest.answer(&question).unwrap()).unwrap();
        assert_eq!(products.len(), rows);
        for (row, found) in matrix.chunks_exact(columns).zip(products) {
            check(&grid, &values, row, found, RLWE_LIMIT);
        }
    }
}

#[test]
fn extreme_inputs_do_not_overflow() {
    let width = 18;
    let (mut guest, mut host) = rlwe(width);
    let grid = agreement(width, MOST_LEVELS).grid;
    let most = MOST_LEVELS;
    let blocks = [BlockId(0), BlockId(1), BlockId(2), BlockId(u64::MAX)];
    let alternating: Vec<i32> = (0..width).map(|i| if i % 2 == 0 { most } else { -most }).collect();
    let all = [vec![most; width], vec![-most; width], alternating, vec![0; width]];
    let mut values = Vec::new();
    for (&block, levels) in blocks.iter().zip(&all) {
        values.extend(levels.iter().map(|&level| grid.value(level)));
        host.store(&guest.upload(block, levels).unwrap()).unwrap();
    }
    let columns = values.len();
    let mut matrix = Vec::new();
    for size in [0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, f64::MIN_POSITIVE, 1e306] {
        matrix.extend(vec![size; columns]);
        // The sign of every value: the largest product there is.
        matrix.extend(values.iter().map(|u| size * (u - grid.centre()).signum()));
        let mut one = vec![0.0; columns];
        one[columns - 1] = size;
        matrix.extend(one);
        // One entry so large that all others round to zero.
        let mut spike = vec![size * 1e-30; columns];
        spike[3] = size;
        matrix.extend(spike);
    }
    let rows = matrix.len() / columns;
    let question = host.ask(&Matrix { rows, blocks: &blocks, values: &matrix }).unwrap();
    let products = host.open(&guest.answer(&question).unwrap()).unwrap();
    for (row, found) in matrix.chunks_exact(columns).zip(products) {
        check(&grid, &values, row, found, RLWE_LIMIT);
    }
}

proptest! {
    // Each case is an exchange of two megabytes.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_subset_of_blocks_in_any_order(
        width in 1usize..40,
        rows in 1usize..60,
        chosen in prop::collection::vec(0usize..6, 1..9),
        seed in any::<u64>(),
    ) {
        let mut random = Randomness::insecure_from_seed(seed);
        let (mut guest, mut host) = rlwe(width);
        let grid = agreement(width, MOST_LEVELS).grid;
        let blocks: Vec<Vec<i32>> =
            (0..6).map(|_| levels(width, MOST_LEVELS, &mut random)).collect();
        for (i, levels) in blocks.iter().enumerate() {
            host.store(&guest.upload(BlockId(i as u64), levels)?)?;
        }
        let ids: Vec<BlockId> = chosen.iter().map(|&i| BlockId(i as u64)).collect();
        let values: Vec<f64> = chosen
            .iter()
            .flat_map(|&i| blocks[i].iter().map(|&level| grid.value(level)))
            .collect();
        let matrix: Vec<f64> = (0..rows * values.len()).map(|_| uniform(&mut random)).collect();
        let question = host.ask(&Matrix { rows, blocks: &ids, values: &matrix })?;
        let products = host.open(&guest.answer(&question)?)?;
        for (row, found) in matrix.chunks_exact(values.len()).zip(products) {
            check(&grid, &values, row, found, RLWE_LIMIT);
        }
    }
}

/// Whoever answers questions.
type Answering<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Vec<u8>, SealedError>;

/// The same exchange by any implementation.
fn exchange(
    guest: &mut dyn Guest,
    host: &mut dyn Host,
    answer: Answering<'_>,
    upload: &[i32],
    matrix: &[f64],
) -> Result<Vec<f64>, SealedError> {
    let bytes = guest.upload(BlockId(1), upload)?;
    let block = host.store(&bytes)?;
    let rows = matrix.len() / upload.len();
    let question = host.ask(&Matrix { rows, blocks: &[block], values: matrix })?;
    host.open(&answer(&question)?)
}

#[test]
fn all_implementations_give_the_same() {
    let (width, most) = (10, 1 << 11);
    let agreement = agreement(width, most);
    let mut random = Randomness::insecure_from_seed(4);
    let upload = levels(width, most, &mut random);
    let matrix: Vec<f64> = (0..5 * width).map(|_| uniform(&mut random)).collect();

    let (mut guest, mut asker) =
        (PlainGuest::new(agreement).unwrap(), PlainGuest::new(agreement).unwrap());
    asker.upload(BlockId(1), &upload).unwrap();
    let mut host = PlainHost::new(agreement).unwrap();
    let mut answer = |question: &[u8]| asker.answer(question);
    let plain = exchange(&mut guest, &mut host, &mut answer, &upload, &matrix).unwrap();
    assert_eq!(host.answered_by(), AnsweredBy::Guest);

    let seed = KeySeed::from_os().unwrap();
    let mut guest = RlweGuest::new(agreement, &seed).unwrap();
    // The same keys after a restart.
    let mut again = RlweGuest::new(agreement, &KeySeed::from_bytes(seed.to_bytes())).unwrap();
    assert_eq!(guest.public_key(), again.public_key());
    let mut host = RlweHost::new(agreement, &guest.public_key()).unwrap();
    let mut answer = |question: &[u8]| again.answer(question);
    let rlwe = exchange(&mut guest, &mut host, &mut answer, &upload, &matrix).unwrap();

    let mut authority = Authority::new(agreement).unwrap();
    let mut guest = IpfeGuest::new(agreement, &authority.public_key()).unwrap();
    let table = Arc::new(LogarithmTable::new(14).expect("a table"));
    let limit = table.limit() as f64;
    let mut host = IpfeHost::new(agreement, &authority.public_key(), table).unwrap();
    let mut answer = |question: &[u8]| authority.answer(question);
    let ipfe = exchange(&mut guest, &mut host, &mut answer, &upload, &matrix).unwrap();

    for (i, row) in matrix.chunks_exact(width).enumerate() {
        assert!((rlwe[i] - plain[i]).abs() <= bound(row, &agreement.grid, RLWE_LIMIT));
        assert!((ipfe[i] - plain[i]).abs() <= bound(row, &agreement.grid, limit));
    }
}

/// A question, then a gradient, then the question's answer; and the answer to a question of an earlier process.
fn interleaved(
    guest: &mut dyn Guest,
    [earlier, host]: [&mut dyn Host; 2],
    answer: Answering<'_>,
) -> Result<(), SealedError> {
    let upload = guest.upload(BlockId(1), &[1, -2, 3, 100])?;
    let block = host.store(&upload)?;
    earlier.store(&upload)?;
    let values = [0.5, 1.0, -1.0, 0.25, 1.0, 0.0, 0.0, 0.0];
    let matrix = Matrix { rows: 2, blocks: &[block], values: &values };
    let late = answer(&earlier.ask(&matrix)?)?;
    let question = host.ask(&matrix)?;
    let part = Coefficients { terms: 4, values: &[1.0; 4] };
    let scale = MagnitudeBound::of(&agreement(4, 100), &part)?.scale()?;
    match host.encrypt_coefficients(&part, scale, true) {
        Ok((request, kept)) => {
            let shares = host
                .accept_masked(&kept, &guest.multiply_masked(&request, &[1, -2, 3, 100], None)?)?;
            let gradient = host.mask_gradient(&[0.0], scale, &[shares])?;
            assert_eq!(guest.unmask(&gradient)?.len(), 1);
        }
        Err(error) => assert!(matches!(error, SealedError::Unsupported(_)), "{error}"),
    }
    let error = host.open(&late).expect_err("an answer to another question").to_string();
    assert!(error.contains("exchange of the answer: found"), "{error}");
    let products = host.open(&answer(&question)?)?;
    let value = |level| agreement(4, 100).grid.value(level);
    // Far above the error of any of them, far below what another row would give.
    assert!((products[1] - value(1)).abs() < 1e-3, "{products:?}");
    assert!(matches!(host.open(&late), Err(SealedError::NoExchange)));
    Ok(())
}

#[test]
fn masked_gradients_and_late_answers_do_not_disturb_a_question() {
    let agreement = agreement(4, 100);
    let (mut guest, mut asker) =
        (PlainGuest::new(agreement).unwrap(), PlainGuest::new(agreement).unwrap());
    asker.upload(BlockId(1), &[1, -2, 3, 100]).unwrap();
    let (mut a, mut b) = (PlainHost::new(agreement).unwrap(), PlainHost::new(agreement).unwrap());
    interleaved(&mut guest, [&mut a, &mut b], &mut |question| asker.answer(question)).unwrap();

    let seed = KeySeed::from_os().unwrap();
    let mut guest = RlweGuest::new(agreement, &seed).unwrap();
    let mut asker = RlweGuest::new(agreement, &seed).unwrap();
    let [mut a, mut b] = [0, 1].map(|_| RlweHost::new(agreement, &guest.public_key()).unwrap());
    interleaved(&mut guest, [&mut a, &mut b], &mut |question| asker.answer(question)).unwrap();

    let mut authority = Authority::new(agreement).unwrap();
    let key = authority.public_key();
    let mut guest = IpfeGuest::new(agreement, &key).unwrap();
    let table = Arc::new(LogarithmTable::new(10).expect("a table"));
    let [mut a, mut b] = [0, 1].map(|_| IpfeHost::new(agreement, &key, table.clone()).unwrap());
    interleaved(&mut guest, [&mut a, &mut b], &mut |question| authority.answer(question)).unwrap();
}

#[test]
fn plain_answers_that_are_no_numbers_are_refused() {
    let agreement = agreement(4, 100);
    let mut guest = PlainGuest::new(agreement).unwrap();
    let mut host = PlainHost::new(agreement).unwrap();
    let block = host.store(&guest.upload(BlockId(1), &[1, -2, 3, 100]).unwrap()).unwrap();
    let matrix = Matrix { rows: 1, blocks: &[block], values: &[1.0; 4] };
    let answer = guest.answer(&host.ask(&matrix).unwrap()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut changed = answer.clone();
        let last = changed.len() - 8;
        changed[last..].copy_from_slice(&bad.to_le_bytes());
        let error = host.open(&changed).unwrap_err().to_string();
        assert!(error.ends_with("expected a finite one"), "{error}");
    }
    host.open(&answer).unwrap();
}

#[test]
fn many_rows_of_wide_blocks_are_worked_on_in_parts() {
    // Two rows to a polynomial: more polynomials than are worked on at once, and blocks that end within one.
    let (width, rows) = (4096, 47);
    let agreement = agreement(width, 100);
    let mut guest = RlweGuest::new(agreement, &KeySeed::from_os().unwrap()).unwrap();
    let mut host = RlweHost::new(agreement, &guest.public_key()).unwrap();
    let mut random = Randomness::insecure_from_seed(9);
    let mut level = || random.below(201) as i32 - 100;
    let levels: Vec<Vec<i32>> = (0..3).map(|_| (0..width).map(|_| level()).collect()).collect();
    let blocks: Vec<BlockId> = (0..3).map(BlockId).collect();
    for (&block, levels) in blocks.iter().zip(&levels) {
        host.store(&guest.upload(block, levels).unwrap()).unwrap();
    }
    let coefficients: Vec<f64> =
        (0..3 * rows * width).map(|_| random.below(2001) as f64 - 1000.0).collect();
    let value = |block: usize, j: usize| agreement.grid.value(levels[block][j]);
    // Weights sum to at most 2^25: each of 4096 is rounded by half in about 4096, so by 2^-13, times 1000.
    let tolerance = 4096.0 * 1000.0 / 8192.0;
    // 141 rows about the first block.
    let matrix = Matrix { rows: 3 * rows, blocks: &blocks[..1], values: &coefficients };
    let question = host.ask(&matrix).unwrap();
    let opened = host.open(&guest.answer(&question).unwrap()).unwrap();
    for (i, (row, opened)) in coefficients.chunks_exact(width).zip(&opened).enumerate() {
        let exact: f64 = row.iter().enumerate().map(|(j, a)| a * value(0, j)).sum();
        assert!((opened - exact).abs() < tolerance, "{i}: {opened} {exact}");
    }
}
