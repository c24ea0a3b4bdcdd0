use proptest::prelude::*;

use super::*;

const LIMIT: i64 = (1 << 39) - 1;

#[test]
fn grids_are_symmetric_and_clip() {
    let grid = Grid::new(-1.0, 3.0, 100).unwrap();
    assert_eq!((grid.centre(), grid.step(), grid.levels()), (1.0, 0.02, 100));
    assert_eq!(grid.levels_of(&[-1.0, 1.0, 3.0, 99.0, -99.0]).unwrap(), [-100, 0, 100, 100, -100]);
    assert_eq!(grid.value(-100), -1.0);
    assert!(grid.check(&[100, -100]).is_ok());
    let error = grid.check(&[0, i32::MIN]).unwrap_err();
    assert_eq!(error, FixedPointError::OffGrid { found: i32::MIN, most: 100 });
    assert!(grid.level(f64::NAN).is_err());
}

#[test]
fn bad_grids_are_refused() {
    for (low, high, levels) in [
        (1.0, 0.0, 10),
        (0.0, 0.0, 10),
        (f64::NAN, 1.0, 10),
        (0.0, f64::INFINITY, 10),
        (0.0, 1.0, 0),
        (0.0, 1.0, MOST_LEVELS + 1),
    ] {
        assert!(Grid::new(low, high, levels).is_err(), "{low} {high} {levels}");
    }
    // Halves are taken before sums, so the widest range is none too wide.
    assert!(Grid::new(-f64::MAX, f64::MAX, 10).is_ok());
}

fn product(row: &[f64], levels: &[i32], grid: &Grid) -> f64 {
    let scale = RowScale::new(row, grid, LIMIT).expect("finite numbers");
    let weights: Vec<i64> = row.iter().map(|&a| scale.weight(a) as i64).collect();
    let most: i64 = weights.iter().map(|weight| weight.abs() * i64::from(grid.levels())).sum();
    assert!(most <= LIMIT, "the worst values overflow: {most}");
    scale.product(weights.iter().zip(levels).map(|(&weight, &k)| weight * i64::from(k)).sum())
}

#[test]
fn extreme_rows_neither_overflow_nor_vanish() {
    let grid = Grid::new(0.0, 1.0, MOST_LEVELS).unwrap();
    for a in [1.0, 1e300, 1.7e308, 1e-300, f64::MIN_POSITIVE, -1.7e308] {
        // One entry has all the room there is: 2^25 steps.
        let found = product(&[a], &[MOST_LEVELS], &grid);
        assert!((found / a - 1.0).abs() < 1e-7, "{a}: {found}");
        let found = product(&[a, 0.0], &[0, 3], &grid);
        assert!((found / (a * 0.5) - 1.0).abs() < 1e-7, "{a}: {found}");
    }
    // Zero and subnormal rows are zero.
    assert_eq!(product(&[0.0; 5], &[1; 5], &grid), 0.0);
    assert_eq!(product(&[f64::MIN_POSITIVE / 2.0; 5], &[1; 5], &grid), 0.0);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for place in 0..19 {
            let mut row = [1.0; 19];
            row[place] = bad;
            let error = RowScale::new(&row, &grid, LIMIT).unwrap_err();
            assert!(matches!(error, FixedPointError::NotFinite { what: "matrix", .. }));
        }
    }
}

#[test]
fn rows_without_room_are_refused() {
    let grid = Grid::new(0.0, 1.0, 100).unwrap();
    // 10 values need weights of 80 in all and 5 for rounding, times 100 levels.
    for (limit, sound) in [(8_500, true), (8_499, false), (500, false), (0, false)] {
        let found = RowScale::new(&[1.0; 10], &grid, limit);
        assert_eq!(found.is_ok(), sound, "{limit}");
        if let Err(error) = found {
            assert_eq!(error, FixedPointError::Room { values: 10, levels: 100, limit });
        }
    }
    // The longest rows of all have room in lattice products.
    assert!(
        room(crate::product::MOST_COLUMNS, &Grid::new(0.0, 1.0, MOST_LEVELS).unwrap(), LIMIT)
            .is_ok()
    );
}

proptest! {
    #[test]
    fn products_have_the_stated_error(
        pairs in prop::collection::vec((-1e3f64..1e3, -MOST_LEVELS..=MOST_LEVELS), 1..300),
        exponent in -200i32..200,
    ) {
        let grid = Grid::new(-0.3, 2.0, MOST_LEVELS).unwrap();
        let row: Vec<f64> = pairs.iter().map(|(a, _)| a * 10f64.powi(exponent)).collect();
        let levels: Vec<i32> = pairs.iter().map(|&(_, k)| k).collect();
        let expected: f64 = row.iter().zip(&levels).map(|(a, &k)| a * grid.value(k)).sum();
        let norm: f64 = row.iter().map(|a| a.abs()).sum();
        // n·levels/2 in units of 1/s, times step, with s from the module's formula; and f64's own rounding.
        let n = row.len() as f64;
        let room = (LIMIT / i64::from(MOST_LEVELS)) as f64 - n / 2.0 - 1.0;
        let bound = n / 2.0 * f64::from(MOST_LEVELS) * grid.step() * norm / room * 1.001
            + 1e-13 * norm;
        prop_assert!((product(&row, &levels, &grid) - expected).abs() <= bound);
    }
}
