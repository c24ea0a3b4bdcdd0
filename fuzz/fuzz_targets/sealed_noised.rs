#![no_main]

use sealed::Grid;
use sealed::noise::NoisedVector;

/// Twenty steps of the grid, as in the seeds.
const SIGMA: f64 = 0.1;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    if let Ok(vector) = NoisedVector::decode(bytes, grid, SIGMA) {
        assert!(vector.values().iter().all(|value| (-1e-9..=1.0 + 1e-9).contains(value)));
        assert_eq!(vector.encode(), bytes);
    }
});
