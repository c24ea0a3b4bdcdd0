#![no_main]

use sealed::plain::{PlainGuest, PlainHost};
use sealed::{Agreement, Answerer, BlockId, Coefficients, Grid, Guest, Host, Matrix, MagnitudeBound};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    let agreement = Agreement { width: 2, grid, most_rows: 50, most_blocks: 3 };
    let mut guest = PlainGuest::new(agreement).expect("a guest");
    let mut host = PlainHost::new(agreement).expect("a host");
    host.store(&guest.upload(BlockId(1), &[5, -5]).expect("an upload")).expect("room");
    let _ = host.store(bytes);
    let _ = guest.answer(bytes);
    let _ = guest.unmask(bytes);
    if let Ok(size) = guest.coefficients_size(bytes) {
        let _ = guest.multiply_masked(bytes, &vec![7; size.products * size.terms.min(100)], None);
    }
    let matrix = Matrix { rows: 1, blocks: &[BlockId(1)], values: &[1.0, 2.0] };
    let question = host.ask(&matrix).expect("a question");
    let _ = host.open(bytes);
    // Exchanges have random numbers: with the right one, too.
    let mut bytes = bytes.to_vec();
    if let Some(exchange) = bytes.get_mut(4..12) {
        exchange.copy_from_slice(&question[4..12]);
    }
    if let Ok(products) = host.open(&bytes) {
        assert!(products.iter().all(|product| product.is_finite()));
    }
    let part = Coefficients { terms: 2, values: &[1.0, 2.0] };
    let scale = MagnitudeBound::of(&agreement, &part).and_then(|reach| reach.scale()).expect("a scale");
    let (request, kept) = host.encrypt_coefficients(&part, scale, true).expect("a request");
    if let Some(exchange) = bytes.get_mut(4..12) {
        exchange.copy_from_slice(&request[4..12]);
    }
    if let Ok(shares) = host.accept_masked(&kept, &bytes) {
        let _ = host.mask_gradient(&[0.0], scale, &[shares]);
    }
});
