#![no_main]

use std::cell::RefCell;

use sealed::rlwe::message::{
    Answer, Grant, Loan, PublicKey, Question, Relay, SharedGrant, Upload,
};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Answerer, BlockId, BlockProducts, Grid, Guest, Host, Matrix, Reach,
};

const WIDTH: usize = 18;
const ROWS: usize = 500;

thread_local! {
    static PARTIES: RefCell<(RlweGuest, RlweHost)> = RefCell::new(parties());
}

fn agreement() -> Agreement {
    let grid = Grid::new(0.0, 1.0, 1 << 14).expect("a grid");
    Agreement { width: WIDTH, grid, most_rows: ROWS, most_blocks: 2 }
}

fn parties() -> (RlweGuest, RlweHost) {
    let agreement = agreement();
    let mut guest = RlweGuest::new(agreement, &KeySeed::from_bytes([7; 32])).expect("a guest");
    let mut host = RlweHost::new(agreement, &guest.opening()).expect("a host");
    host.store(&guest.upload(BlockId(0), &[1; WIDTH]).expect("an upload")).expect("room");
    (guest, host)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Most messages are larger than what is tried here: what is missing is zeros.
    let sizes = [
        bytes.len(),
        153_660,
        153_668,
        size_of_products(bytes, 16, &[455]),
        size_of_products(bytes, 20, &[455]),
        size_of_products(bytes, 16, &[8192]),
        size_of_products(bytes, 20, &[455, 8192]),
    ];
    for size in sizes {
        let mut bytes = bytes.to_vec();
        bytes.resize(size, 0);
        if let Ok(key) = PublicKey::decode(&bytes) {
            assert_eq!(key.encode(), bytes);
        }
        if let Ok(upload) = Upload::decode(&bytes) {
            assert_eq!(upload.encode(), bytes);
        }
        PARTIES.with_borrow_mut(|(guest, host)| {
            if let Ok(question) = Question::decode(&bytes, WIDTH, ROWS) {
                assert_eq!(question.encode(), bytes);
                guest.answer(&bytes).expect("what can be read is answered");
            }
            if let Ok(grant) = Grant::decode(&bytes, WIDTH, ROWS) {
                assert_eq!(grant.encode(), bytes);
                let products = guest.take(&bytes).expect("what can be read is taken");
                assert!(products.iter().all(|product| product.is_finite()));
            }
            if let Ok(grant) = SharedGrant::decode(&bytes, WIDTH, ROWS) {
                assert_eq!(grant.encode(), bytes);
                let products = guest.take(&bytes).expect("what can be read is taken");
                assert!(products.iter().all(|product| product.is_finite()));
            }
            if let Ok(loan) = Loan::decode(&bytes, WIDTH, ROWS) {
                assert_eq!(loan.encode(), bytes);
                let relay = guest.relay(&bytes, &guest.opening()).expect("what can be read is lent");
                assert_eq!(Relay::decode(&relay, ROWS).expect("a relay").encode(), relay);
            }
            if let Ok(relay) = Relay::decode(&bytes, ROWS) {
                assert_eq!(relay.encode(), bytes);
                // As for answers, below.
                let mut bytes = bytes.clone();
                let (coefficients, offsets) = ([1.0; 3 * WIDTH], [0.0; 3]);
                let products = BlockProducts {
                    rows: 3,
                    blocks: &[BlockId(0)],
                    coefficients: &coefficients,
                    offsets: &offsets,
                };
                let agreement = agreement();
                let scale = Reach::of(&agreement, &products).and_then(|reach| reach.scale());
                let scale = scale.expect("a scale");
                let (loan, kept) = host.lend(&products, scale).expect("a loan");
                bytes[4..12].copy_from_slice(&loan[4..12]);
                if let Ok(lent) = host.accept(&kept, &bytes) {
                    let grant = host.grant_with(&products, scale, &[lent]).expect("a grant");
                    guest.take(&grant).expect("our own bytes");
                }
            }
            if let Ok(answer) = Answer::decode(&bytes, ROWS) {
                assert_eq!(answer.encode(), bytes);
                let matrix = Matrix { rows: 3, blocks: &[BlockId(0)], values: &[1.0; 3 * WIDTH] };
                // Exchanges have random numbers: answers to three rows get the right one.
                let mut bytes = bytes.clone();
                if bytes[12] == 3 {
                    let question = host.ask(&matrix).expect("a question");
                    bytes[4..12].copy_from_slice(&question[4..12]);
                }
                if let Ok(products) = host.open(&bytes) {
                    assert!(products.iter().all(|product| product.is_finite()));
                }
            }
        });
    }
});

/// The size that a question or grant with this number of rows must have, in parts with so many rows a polynomial.
fn size_of_products(bytes: &[u8], head: usize, parts: &[usize]) -> usize {
    let rows = bytes.get(12..14).map_or(1, |rows| u16::from_le_bytes([rows[0], rows[1]]));
    let rows = usize::from(rows).min(ROWS);
    let poly = |rows: usize| 51_200 + (rows * 50).div_ceil(8);
    let part = |each: &usize| {
        let (full, rest) = (rows / each, rows % each);
        full * poly(*each) + if rest > 0 { poly(rest) } else { 0 }
    };
    head + parts.iter().map(part).sum::<usize>()
}
