use super::*;

#[test]
fn noise_is_drawn_once_and_comes_back_from_the_store() {
    let grid = NoisedVector::grid(0.0, 1.0, 0.1, 1 << 14).unwrap();
    let mut random = Randomness::from_seed_for_tests(1);
    let vector = NoisedVector::draw(&[0.2; 500], (0.0, 1.0), grid, 0.1, &mut random).unwrap();
    assert_eq!(NoisedVector::decode(&vector.encode(), grid).unwrap(), vector);
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
    let mut random = Randomness::from_seed_for_tests(2);
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
        assert!(NoisedVector::decode(&bytes[..length], grid).is_err(), "{length} bytes");
    }
    let other = Grid::new(0.0, 2.0, 100).unwrap();
    let error = NoisedVector::decode(&bytes, other).unwrap_err().to_string();
    assert!(error.starts_with("grid (centre, step, levels): found (0.5, 0.005, 100)"), "{error}");
    let mut off = bytes.clone();
    let last = off.len() - 4;
    off[last..].copy_from_slice(&101i32.to_le_bytes());
    let error = NoisedVector::decode(&off, grid).unwrap_err().to_string();
    assert_eq!(error, "level: found found level 101, expected −100 to 100, expected on the grid");
    let mut long = bytes.clone();
    long.push(0);
    assert!(NoisedVector::decode(&long, grid).is_err());
}
