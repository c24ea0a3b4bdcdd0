#![no_main]

use sealed::committed::Commitments;
use sealed::ipfe::Authority;
use sealed::{Agreement, Grid};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let known = include_bytes!("../seeds/sealed_committed/commitments");
    let known = Commitments::decode(known).expect("commitments to −3 and 5");
    let _ = known.check_range((-5, 5), b"day 1", bytes);
    // No other product can be opened.
    assert!(known.check_product(&[1, 2], 8, bytes).is_err());
    let _ = known.check_product(&[1, 2], 7, bytes);
    if let Ok(commitments) = Commitments::decode(bytes) {
        assert_eq!(bytes.len(), 8 + 32 * commitments.len());
    }
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    let agreement = Agreement { width: 3, grid, most_rows: 4, most_blocks: 1 };
    if let Ok(authority) = Authority::restore(agreement, bytes) {
        assert!(authority.issued() < 3);
    }
});
