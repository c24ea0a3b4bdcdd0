#![no_main]

use std::cell::RefCell;

use sealed::rlwe::message::{Answer, MaskedGradient, EncryptedCoefficients, PublicKey, Question, MaskedProducts, Upload};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Answerer, BlockId, Coefficients, Grid, Guest, Host, CoefficientsSize, Matrix, MagnitudeBound, Scale,
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
    let mut host = RlweHost::new(agreement, &guest.public_key()).expect("a host");
    host.store(&guest.upload(BlockId(0), &[1; WIDTH]).expect("an upload")).expect("room");
    (guest, host)
}

/// Three products of two values each.
fn three() -> (Coefficients<'static>, Scale) {
    let part = Coefficients { terms: 2, values: &[1.0; 6] };
    let scale = MagnitudeBound::of(&agreement(), &part).and_then(|reach| reach.scale());
    (part, scale.expect("a scale"))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Most messages are larger than what is tried here: what is missing is zeros.
    let products = small(bytes, 12);
    let sizes = [
        bytes.len(),
        153_660,
        153_668,
        size_of_question(bytes),
        EncryptedCoefficients::size(products, small(bytes, 16).min(4)),
        20 + 2 * 51_200,
        20 + 3 * 51_200 + 50,
        24 + 5 * products,
        24 + 5 * products + 51_250,
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
            if let Ok(request) = EncryptedCoefficients::decode(&bytes, ROWS) {
                assert_eq!(request.encode(), bytes);
                let CoefficientsSize { products, terms } = guest.coefficients_size(&bytes).expect("its size");
                let (levels, opening) = (vec![5; products * terms], guest.public_key());
                let reply = guest.multiply_masked(&bytes, &levels, Some(&opening));
                let reply = reply.expect("what can be read is shares");
                assert_eq!(MaskedProducts::decode(&reply, ROWS).expect("a reply").encode(), reply);
            }
            if let Ok(reply) = MaskedProducts::decode(&bytes, ROWS) {
                assert_eq!(reply.encode(), bytes);
                // As for answers, below; the reply is another guest's if it has a seed.
                let mut bytes = bytes.clone();
                let (part, scale) = three();
                let own = bytes[16] == 0;
                let (request, kept) = host.encrypt_coefficients(&part, scale, own).expect("a request");
                bytes[4..12].copy_from_slice(&request[4..12]);
                if let Ok(shares) = host.accept_masked(&kept, &bytes) {
                    let gradient = host.mask_gradient(&[0.0; 3], scale, &[shares]).expect("a grant");
                    // What encrypts no seed is refused, and so is the mask of encrypted coefficients that was never relayed.
                    let _ = guest.unmask(&gradient);
                }
            }
            if let Ok(gradient) = MaskedGradient::decode(&bytes, ROWS) {
                assert_eq!(gradient.encode(), bytes);
                if let Ok(products) = guest.unmask(&bytes) {
                    assert!(products.iter().all(|product| product.is_finite()));
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

/// A number of the message that says how much follows, as far as it is tried here.
fn small(bytes: &[u8], at: usize) -> usize {
    let number = bytes.get(at..at + 2).map_or(1, |pair| u16::from_le_bytes([pair[0], pair[1]]));
    usize::from(number).min(ROWS)
}

/// The size that a question with this number of rows must have: 455 rows fit a polynomial.
fn size_of_question(bytes: &[u8]) -> usize {
    let rows = small(bytes, 12);
    let poly = |rows: usize| if rows > 0 { 51_200 + (rows * 50).div_ceil(8) } else { 0 };
    16 + rows / 455 * poly(455) + poly(rows % 455)
}
