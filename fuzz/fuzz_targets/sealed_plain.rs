#![no_main]

use sealed::plain::{PlainGuest, PlainHost};
use sealed::{Agreement, Answerer, BlockId, Grid, Guest, Host, Matrix};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    let agreement = Agreement { width: 2, grid, most_rows: 50, most_blocks: 3 };
    let mut guest = PlainGuest::new(agreement).expect("a guest");
    let mut host = PlainHost::new(agreement).expect("a host");
    host.store(&guest.upload(BlockId(1), &[5, -5]).expect("an upload")).expect("room");
    let _ = host.store(bytes);
    let _ = guest.answer(bytes);
    let _ = guest.take(bytes);
    host.ask(&Matrix { rows: 1, blocks: &[BlockId(1)], values: &[1.0, 2.0] }).expect("a question");
    let _ = host.open(bytes);
});
