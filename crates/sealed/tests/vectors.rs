//! Version 2 of the encodings, fixed by vectors: made again from the same seeds, every message must have the
//! same bytes. `SEALED_WRITE_VECTORS=1 cargo test -p sealed --test vectors` writes them anew, which a new
//! version of the encoding needs, or a host that spends its randomness otherwise, and nothing else does.

use std::path::Path;

use data_encoding::HEXLOWER;
use sealed::rlwe::message::{
    Answer, EncryptedCoefficients, MaskedGradient, MaskedProducts, PublicKey, Question, Upload,
};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Answerer, BlockId, Coefficients, Grid, Guest, Host, MagnitudeBound, Matrix,
    Randomness,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Vector {
    version: u8,
    note: String,
    key_seed: u64,
    guest_seed: u64,
    host_seed: u64,
    width: usize,
    range: [f64; 2],
    levels: i32,
    blocks: Vec<Vec<i32>>,
    rows: usize,
    matrix: Vec<f64>,
    /// The products that the guest computes for a recipient, which computes its own share, too.
    terms: usize,
    coefficients: Vec<f64>,
    measured_levels: Vec<i32>,
    offsets: Vec<f64>,
    recipient_key_seed: u64,
    recipient_guest_seed: u64,
    recipient_host_seed: u64,
    recipient_terms: usize,
    recipient_coefficients: Vec<f64>,
    recipient_levels: Vec<i32>,
    public_key_sha256: String,
    upload_sha256: Vec<String>,
    question_sha256: String,
    coefficients_sha256: String,
    masked_products_sha256: String,
    masked_gradient_sha256: String,
    answer: String,
    products: Vec<f64>,
    unmasked: Vec<f64>,
    refused: Vec<Refused>,
}

/// A change to one of the messages, and what the decoder must say.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Refused {
    message: String,
    /// Keep only so many bytes.
    cut: Option<usize>,
    /// Put these bytes (hexadecimal) at this place.
    at: usize,
    put: String,
    error: String,
}

struct Messages {
    public_key: Vec<u8>,
    uploads: Vec<Vec<u8>>,
    question: Vec<u8>,
    answer: Vec<u8>,
    request: Vec<u8>,
    reply: Vec<u8>,
    gradient: Vec<u8>,
    products: Vec<f64>,
    unmasked: Vec<f64>,
}

#[test]
fn version_2_has_these_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/rlwe-2.json");
    if std::env::var_os("SEALED_WRITE_VECTORS").is_some() {
        let vector = filled(inputs());
        std::fs::write(&path, serde_json::to_string_pretty(&vector).unwrap() + "\n").unwrap();
    }
    let vector: Vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let messages = run(&vector);
    assert_eq!(hash(&messages.public_key), vector.public_key_sha256);
    let uploads: Vec<String> = messages.uploads.iter().map(|bytes| hash(bytes)).collect();
    assert_eq!(uploads, vector.upload_sha256);
    assert_eq!(hash(&messages.question), vector.question_sha256);
    assert_eq!(hash(&messages.gradient), vector.masked_gradient_sha256);
    assert_eq!(hash(&messages.request), vector.coefficients_sha256);
    assert_eq!(hash(&messages.reply), vector.masked_products_sha256);
    assert_eq!(HEXLOWER.encode(&messages.answer), vector.answer);
    assert_eq!(messages.products, vector.products);
    assert_eq!(messages.unmasked, vector.unmasked);
    assert!(vector.refused.len() >= 10);
    for refused in &vector.refused {
        let error = decode_changed(&messages, &vector, refused);
        assert_eq!(error.as_deref(), Some(refused.error.as_str()), "{refused:?}");
    }
}

fn run(vector: &Vector) -> Messages {
    let grid = Grid::new(vector.range[0], vector.range[1], vector.levels).expect("a grid");
    let agreement = Agreement { width: vector.width, grid, most_rows: 100, most_blocks: 10 };
    let random = Randomness::insecure_from_seed;
    let key = KeySeed::drawn(&mut random(vector.key_seed));
    let mut guest =
        RlweGuest::with_randomness(agreement, &key, random(vector.guest_seed)).expect("a guest");
    let public_key = guest.public_key();
    let mut host = RlweHost::with_randomness(agreement, &public_key, random(vector.host_seed))
        .expect("a host");
    let blocks: Vec<BlockId> = (0..vector.blocks.len() as u64).map(BlockId).collect();
    let uploads: Vec<Vec<u8>> = blocks
        .iter()
        .zip(&vector.blocks)
        .map(|(&block, levels)| guest.upload(block, levels).expect("an upload"))
        .collect();
    for upload in &uploads {
        host.store(upload).expect("room");
    }
    let matrix = Matrix { rows: vector.rows, blocks: &blocks, values: &vector.matrix };
    let question = host.ask(&matrix).expect("a question");
    let answer = guest.answer(&question).expect("an answer");
    let products = host.open(&answer).expect("products");

    let key = KeySeed::drawn(&mut random(vector.recipient_key_seed));
    let recipient_random = random(vector.recipient_guest_seed);
    let mut recipient =
        RlweGuest::with_randomness(agreement, &key, recipient_random).expect("a guest");
    let random = random(vector.recipient_host_seed);
    let its_host = RlweHost::with_randomness(agreement, &recipient.public_key(), random);
    let mut its_host = its_host.expect("a host");
    let part = Coefficients { terms: vector.terms, values: &vector.coefficients };
    let own =
        Coefficients { terms: vector.recipient_terms, values: &vector.recipient_coefficients };
    let reach = MagnitudeBound::of(&agreement, &part).expect("a reach");
    let reach = reach.and(MagnitudeBound::of(&agreement, &own).expect("a reach"));
    let reach = reach.and(MagnitudeBound::of_offsets(&vector.offsets).expect("a reach"));
    let scale = reach.scale().expect("a scale");
    let (request, kept) = host.encrypt_coefficients(&part, scale, false).expect("a request");
    let reply = guest
        .multiply_masked(&request, &vector.measured_levels, Some(&recipient.public_key()))
        .expect("a reply");
    let shares = host.accept_masked(&kept, &reply).expect("what was asked for");
    let (own_request, kept) = its_host.encrypt_coefficients(&own, scale, true).expect("a request");
    let own_reply =
        recipient.multiply_masked(&own_request, &vector.recipient_levels, None).expect("a reply");
    let own = its_host.accept_masked(&kept, &own_reply).expect("what was asked for");
    let gradient =
        its_host.mask_gradient(&vector.offsets, scale, &[shares, own]).expect("a masked gradient");
    let unmasked = recipient.unmask(&gradient).expect("products");
    Messages { public_key, uploads, question, answer, request, reply, gradient, products, unmasked }
}

fn decode_changed(messages: &Messages, vector: &Vector, refused: &Refused) -> Option<String> {
    let bytes = match refused.message.as_str() {
        "public key" => &messages.public_key,
        "upload" => &messages.uploads[0],
        "question" => &messages.question,
        "answer" => &messages.answer,
        "coefficients" => &messages.request,
        "masked products" => &messages.reply,
        _ => &messages.gradient,
    };
    let mut bytes = bytes.clone();
    bytes.truncate(refused.cut.unwrap_or(usize::MAX));
    let put = HEXLOWER.decode(refused.put.as_bytes()).expect("hexadecimal");
    bytes.resize(bytes.len().max(refused.at + put.len()), 0);
    bytes[refused.at..refused.at + put.len()].copy_from_slice(&put);
    let error = match refused.message.as_str() {
        "public key" => PublicKey::decode(&bytes).err(),
        "upload" => Upload::decode(&bytes).err(),
        "question" => Question::decode(&bytes, vector.width, 100).err(),
        "answer" => Answer::decode(&bytes, 100).err(),
        "coefficients" => EncryptedCoefficients::decode(&bytes, 100).err(),
        "masked products" => MaskedProducts::decode(&bytes, 100).err(),
        _ => MaskedGradient::decode(&bytes, 100).err(),
    };
    error.map(|error| error.to_string())
}

fn inputs() -> Vector {
    let refuse = |message: &str, cut: Option<usize>, at: usize, put: &str| Refused {
        message: message.into(),
        cut,
        at,
        put: put.into(),
        error: String::new(),
    };
    Vector {
        version: 2,
        note: "seeds are those of Randomness::insecure_from_seed".into(),
        key_seed: 1,
        guest_seed: 2,
        host_seed: 3,
        width: 3,
        range: [0.0, 1.0],
        levels: 16384,
        blocks: vec![vec![16384, -16384, 0], vec![1, 2, -3]],
        rows: 4,
        matrix: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, -0.2, 0.3, -0.4, 0.5, -0.6]
            .into_iter()
            .chain([0.0; 6])
            .chain([1e-9, 2e-9, 3e-9, 4e9, 5e9, 6e9])
            .collect(),
        terms: 3,
        coefficients: vec![1.0, 2.0, 3.0, -0.5, 0.25, 8.0],
        measured_levels: vec![16384, -16384, 0, 1, 2, -3],
        offsets: vec![0.0, -7.5],
        recipient_key_seed: 4,
        recipient_guest_seed: 5,
        recipient_host_seed: 6,
        recipient_terms: 2,
        recipient_coefficients: vec![0.5, -2.0, 4.0, 0.0],
        recipient_levels: vec![-16384, 8192, 16384, 5],
        public_key_sha256: String::new(),
        upload_sha256: Vec::new(),
        question_sha256: String::new(),
        coefficients_sha256: String::new(),
        masked_products_sha256: String::new(),
        masked_gradient_sha256: String::new(),
        answer: String::new(),
        products: Vec::new(),
        unmasked: Vec::new(),
        refused: vec![
            refuse("public key", Some(3), 0, ""),
            refuse("public key", None, 0, "00"),
            refuse("public key", None, 2, "01"),
            refuse("public key", None, 4, "00000000"),
            refuse("upload", None, 12, "01200000"),
            refuse("upload", None, 3, "01"),
            refuse("upload", Some(153_667), 0, ""),
            refuse("upload", None, 153_668, "00"),
            refuse("upload", None, 68, "ffffffffffffff"),
            refuse("question", None, 12, "00000000"),
            refuse("question", None, 12, "65000000"),
            refuse("question", None, 12, "05000000"),
            refuse("question", None, 16, "ffffffffffff03"),
            refuse("answer", None, 12, "ffffffff"),
            refuse("answer", None, 12, "03000000"),
            refuse("masked gradient", None, 16, "e9030000"),
            refuse("masked gradient", None, 16, "27fcffff"),
            refuse("masked gradient", None, 16, "00000080"),
            refuse("masked gradient", None, 3, "05"),
            refuse("masked gradient", None, 20, "01010000"),
            refuse("masked gradient", None, 24, "ffffffffff"),
            refuse("masked gradient", Some(51_200), 0, ""),
            refuse("coefficients", None, 3, "03"),
            refuse("coefficients", None, 12, "00000000"),
            refuse("coefficients", None, 12, "65000000"),
            refuse("coefficients", None, 16, "00000000"),
            refuse("coefficients", None, 16, "81000000"),
            refuse("coefficients", None, 16, "04000000"),
            refuse("coefficients", Some(614_547), 0, ""),
            refuse("coefficients", None, 52, "ffffffffffffff"),
            refuse("masked products", None, 3, "06"),
            refuse("masked products", None, 12, "65000000"),
            refuse("masked products", None, 16, "00000000"),
            refuse("masked products", None, 16, "02000000"),
            refuse("masked products", None, 20, "ffffffffffff03"),
            refuse("masked products", Some(102_420), 0, ""),
        ],
    }
}

fn filled(mut vector: Vector) -> Vector {
    let messages = run(&vector);
    vector.public_key_sha256 = hash(&messages.public_key);
    vector.upload_sha256 = messages.uploads.iter().map(|bytes| hash(bytes)).collect();
    vector.question_sha256 = hash(&messages.question);
    vector.masked_gradient_sha256 = hash(&messages.gradient);
    vector.coefficients_sha256 = hash(&messages.request);
    vector.masked_products_sha256 = hash(&messages.reply);
    vector.answer = HEXLOWER.encode(&messages.answer);
    vector.products = messages.products.clone();
    vector.unmasked = messages.unmasked.clone();
    let errors: Vec<Option<String>> =
        vector.refused.iter().map(|refused| decode_changed(&messages, &vector, refused)).collect();
    for (refused, error) in vector.refused.iter_mut().zip(errors) {
        refused.error = error.expect("a change that is refused");
    }
    vector
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
