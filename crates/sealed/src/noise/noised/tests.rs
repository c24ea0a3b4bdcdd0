use super::*;

#[test]
fn noise_is_drawn_once_and_comes_back_from_the_store() {
    let grid = NoisedVector::grid(0.0, 1.0, 0.1, 1 << 14).unwrap();
    let mut random = Randomness::insecure_from_seed(1);
    let vector = NoisedVector::draw(&[0.2; 500], (0.0, 1.0), grid, 0.1, &mut random).unwrap();
    assert_eq!(NoisedVector::decode(&vector.encode(), grid, 0.1).unwrap(), vector);
    // 500 draws: the mean has a standard deviation of 0.0045, the variance of 0.01·√(2/500) = 0.00063; five each.
    let values = vector.values();
    let mean = values.iter().sum::<f64>() / 500.0;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 500.0;
    assert!((mean - 0.2).abs() < 0.0225, "{mean}");
    assert!((variance - vector.variance()).abs() < 0.0032, "{variance}");
    assert!(!format!("{vector:?}").contains(&values[0].to_string()));
}

#[test]
fn values_are_clipped_before_noise_is_added() {
    let grid = NoisedVector::grid(0.0, 1.0, 0.01, 1 << 14).unwrap();
    let mut random = Randomness::insecure_from_seed(2);
    let vector =
        NoisedVector::draw(&[1e30, -1e30, 7.0], (0.0, 1.0), grid, 0.01, &mut random).unwrap();
    // Six σ is as far as the grid reaches.
    for (value, limit) in vector.values().iter().zip([1.0, 0.0, 1.0]) {
        assert!((value - limit).abs() <= 0.061, "{value}");
    }
    let bad = NoisedVector::draw(&[f64::NAN], (0.0, 1.0), grid, 0.01, &mut random);
    assert!(matches!(bad, Err(NoisedError::FixedPoint(FixedPointError::NotFinite { .. }))));
    let bad = NoisedVector::draw(&[0.5], (1.0, 0.0), grid, 0.01, &mut random);
    assert!(matches!(bad, Err(NoisedError::FixedPoint(FixedPointError::Range { .. }))));
}

#[test]
fn bad_bytes_are_refused() {
    let grid = Grid::new(0.0, 1.0, 100).unwrap();
    let vector = NoisedVector::without_noise(&[0.5, 1.0], grid).unwrap();
    let bytes = vector.encode();
    for length in 0..bytes.len() {
        let error = NoisedVector::decode(&bytes[..length], grid, 0.0).unwrap_err();
        assert!(matches!(error, DecodeError::Length { .. }), "{length} bytes: {error}");
    }
    let other = Grid::new(0.0, 2.0, 100).unwrap();
    let error = NoisedVector::decode(&bytes, other, 0.0).unwrap_err().to_string();
    assert!(error.starts_with("grid (centre, step, levels): found (0.5, 0.005, 100)"), "{error}");
    let mut off = bytes.clone();
    let last = off.len() - 4;
    off[last..].copy_from_slice(&101i32.to_le_bytes());
    let error = NoisedVector::decode(&off, grid, 0.0).unwrap_err().to_string();
    assert_eq!(error, "level: found 101, expected −100 to 100");
    let mut long = bytes.clone();
    long.push(0);
    let error = NoisedVector::decode(&long, grid, 0.0).unwrap_err().to_string();
    assert_eq!(error, "noised vector: found 1 bytes, expected 0");
    // The count comes after σ, centre, step and levels: 4 + 3·8 + 4 bytes.
    for count in [0, MOST_VALUES as u32 + 1, u32::MAX] {
        let mut bad = bytes.clone();
        bad[32..36].copy_from_slice(&count.to_le_bytes());
        let error = NoisedVector::decode(&bad, grid, 0.0).unwrap_err().to_string();
        assert_eq!(error, format!("values: found {count}, expected 1 to 16777216"));
    }
}

#[test]
fn without_noise_values_are_those_of_the_grid() {
    let grid = Grid::new(0.0, 10.0, 10).unwrap();
    let vector = NoisedVector::without_noise(&[0.0, 2.6, 9.8, 99.0], grid).unwrap();
    assert_eq!(vector.levels(), [-10, -5, 10, 10]);
    assert_eq!(vector.values(), [0.0, 2.5, 10.0, 10.0]);
    assert_eq!(vector.variance(), 0.0);
    assert_eq!(format!("{vector:?}"), "NoisedVector(4 values, σ = 0, …)");
}

#[test]
fn the_grid_for_noise_reaches_six_deviations_beyond() {
    let grid = NoisedVector::grid(10.0, 20.0, 0.5, 100).unwrap();
    assert_eq!((grid.centre(), grid.step()), (15.0, 0.08));
    assert_eq!((grid.value(-100), grid.value(100)), (7.0, 23.0));
    // The noise that is drawn is σ rounded up to a root of a multiple of 2^-12 steps².
    let mut random = Randomness::insecure_from_seed(5);
    let vector = NoisedVector::draw(&[15.0], (10.0, 20.0), grid, 0.5, &mut random).unwrap();
    let excess = vector.variance() - 0.25;
    assert!((0.0..=0.08 * 0.08 / 4096.0).contains(&excess), "{excess}");
}

#[test]
fn noise_must_be_fine_enough_and_the_one_agreed() {
    let grid = Grid::new(0.0, 1.0, 50).unwrap();
    let mut random = Randomness::insecure_from_seed(3);
    let mut draw =
        |values: &[f64], sigma| NoisedVector::draw(values, (0.0, 1.0), grid, sigma, &mut random);
    // Steps of 0.01: 3.9 of them are too few, 4.1 are not; none is not asked for in this way.
    for sigma in [0.039, 0.001, 0.0] {
        let error = draw(&[0.5], sigma).unwrap_err();
        assert!(matches!(error, NoisedError::Coarse { .. }), "{sigma}: {error}");
    }
    let error = draw(&[0.5], f64::NAN).unwrap_err();
    assert!(matches!(error, NoisedError::Noise(NoiseError::Sigma { found }) if found.is_nan()));
    assert_eq!(draw(&[], 0.1).unwrap_err(), NoisedError::Count { found: 0 });
    assert_eq!(NoisedVector::without_noise(&[], grid), Err(NoisedError::Count { found: 0 }));
    // What was stored with less noise than is agreed now is not used.
    let vector = draw(&[0.5], 0.041).unwrap();
    let bytes = vector.encode();
    assert_eq!(NoisedVector::decode(&bytes, grid, 0.041).unwrap(), vector);
    for other in [0.05, 0.0, f64::NAN] {
        let error = NoisedVector::decode(&bytes, grid, other).unwrap_err().to_string();
        assert!(error.starts_with("sigma: found 0.04"), "{error}");
    }
    let bare = NoisedVector::without_noise(&[0.5], grid).unwrap();
    assert_eq!(NoisedVector::decode(&bare.encode(), grid, 0.0).unwrap(), bare);
    let error = NoisedVector::decode(&bare.encode(), grid, 0.041).unwrap_err().to_string();
    assert!(error.starts_with("sigma: found 0, expected 0.041"), "{error}");
}
