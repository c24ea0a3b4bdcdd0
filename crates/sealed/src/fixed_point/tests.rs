use proptest::prelude::*;

use super::*;

const LIMIT: i64 = (1 << 39) - 1;

#[test]
fn grids_are_symmetric_and_clip() {
    let grid = Grid::new(-1.0, 3.0, 100).unwrap();
    assert_eq!((grid.centre(), grid.step(), grid.levels()), (1.0, 0.02, 100));
    assert_eq!(grid.levels_of(&[-1.0, 1.0, 3.0, 99.0, -99.0]).unwrap(), [-100, 0, 100, 100, -100]);
    assert_eq!(grid.value(-100), -1.0);
    assert_eq!(grid.check(&[100, -100]), Ok(()));
    assert_eq!(grid.check(&[]), Ok(()));
    let error = grid.check(&[0, i32::MIN]).unwrap_err();
    assert_eq!(error, FixedPointError::OffGrid { found: i32::MIN, most: 100 });
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = grid.levels_of(&[0.0, bad]).unwrap_err().to_string();
        assert_eq!(error, format!("value: found {bad}, expected a finite number"));
    }
}

#[test]
fn the_nearest_level_is_at_most_half_a_step_away() {
    let grid = Grid::new(-2.0, 6.0, 8).unwrap();
    // Steps of a half: level k stands for 2 + k/2. Half way between two, away from the centre.
    let cases = [
        (2.2, 0),
        (2.25, 1),
        (1.75, -1),
        (1.76, 0),
        (5.74, 7),
        (5.75, 8),
        (1e300, 8),
        (-1e300, -8),
    ];
    for (value, level) in cases {
        assert_eq!(grid.level(value).unwrap(), level, "{value}");
    }
    for level in -8..=8 {
        assert_eq!(grid.level(grid.value(level)).unwrap(), level);
    }
    // The coarsest grid of all: its ends and its middle.
    let coarse = Grid::new(0.0, 2.0, 1).unwrap();
    assert_eq!(coarse.levels_of(&[-1.0, 0.4, 0.6, 1.4, 1.6]).unwrap(), [-1, -1, 0, 0, 1]);
}

#[test]
fn bad_grids_are_refused() {
    for (low, high, levels) in [
        (1.0, 0.0, 10),
        (0.0, 0.0, 10),
        (f64::NAN, 1.0, 10),
        (0.0, f64::INFINITY, 10),
        // Its steps would be subnormal numbers, which have fewer digits.
        (0.0, f64::MIN_POSITIVE, 10),
    ] {
        let error = Grid::new(low, high, levels).unwrap_err().to_string();
        let expected =
            format!("grid: found the range {low} to {high}, expected finite limits in this order");
        assert_eq!(error, expected);
    }
    for levels in [0, -1, i32::MIN, MOST_LEVELS + 1, i32::MAX] {
        let error = Grid::new(0.0, 1.0, levels).unwrap_err();
        assert_eq!(error, FixedPointError::Levels { found: levels, most: MOST_LEVELS });
    }
    // Halves are taken before sums, so the widest range is none too wide.
    let widest = Grid::new(-f64::MAX, f64::MAX, 10).unwrap();
    assert_eq!((widest.centre(), widest.step()), (0.0, f64::MAX / 10.0));
    assert_eq!(widest.levels_of(&[f64::MAX, -f64::MAX]).unwrap(), [10, -10]);
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
            assert_eq!(error, FixedPointError::NoPrecision { values: 10, levels: 100, limit });
        }
    }
    // The longest rows of all have room in lattice products: ⌊(2^39 − 1)/2^14⌋ − 2^21/2.
    let finest = Grid::new(0.0, 1.0, MOST_LEVELS).unwrap();
    let left = room(crate::product::MOST_COLUMNS, &finest, LIMIT);
    assert_eq!(left, Ok((1 << 25) - 1 - (1 << 20)));
}

#[test]
fn powers_of_two_bring_numbers_to_one() {
    for exponent in [-1022, -1000, -1, 0, 1, 52, 1022, 1023] {
        let power = libm::ldexp(1.0, exponent);
        for x in [power, power * 1.5, power * (2.0 - f64::EPSILON)] {
            let scaled = x * inverse_power(x);
            assert!((1.0..2.0).contains(&scaled), "2^{exponent}: {scaled}");
        }
    }
}

proptest! {
    /// Any value comes back as the nearest of its grid, or the nearer end.
    #[test]
    fn levels_stand_for_the_nearest_values(
        low in -1e6..1e6_f64,
        width in 1e-3..1e6_f64,
        levels in 1..=MOST_LEVELS,
        value in -2e6..2e6_f64,
    ) {
        let grid = Grid::new(low, low + width, levels).unwrap();
        let level = grid.level(value).unwrap();
        prop_assert_eq!(grid.check(&[level]), Ok(()));
        let inside = value.clamp(low, low + width);
        // Half a step, and roundings of numbers up to 3e6.
        prop_assert!((grid.value(level) - inside).abs() <= grid.step() / 2.0 + 1e-8);
    }

    /// Weights are whole, keep the room they have, and change their sign with the row's.
    #[test]
    fn weights_are_whole_and_odd(row in prop::collection::vec(-1e9..1e9_f64, 1..40)) {
        let grid = Grid::new(0.0, 1.0, 1 << 12).unwrap();
        let scale = RowScale::new(&row, &grid, LIMIT).unwrap();
        let negative: Vec<f64> = row.iter().map(|a| -a).collect();
        let other = RowScale::new(&negative, &grid, LIMIT).unwrap();
        for &a in &row {
            let weight = scale.weight(a);
            prop_assert_eq!(weight, weight.round());
            prop_assert_eq!(other.weight(-a), -weight);
            // What a weight stands for is the entry, to half a unit and its own rounding.
            prop_assert!((weight * scale.unit() - a).abs() <= scale.unit() * 0.500_1);
        }
        prop_assert_eq!(other.unit(), scale.unit());
    }

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
