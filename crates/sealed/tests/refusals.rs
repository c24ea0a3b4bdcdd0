//! Peers that do not keep to the protocol, and callers that ask for what cannot be.

use sealed::rlwe::message::{Answer, PublicKey, Question, Upload};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Answerer, BlockId, Coefficients, Grid, Guest, Host, MagnitudeBound, Matrix,
    Randomness, SealedError,
};

fn agreement() -> Agreement {
    let grid = Grid::new(0.0, 1.0, 1 << 14).expect("a grid");
    Agreement { width: 18, grid, most_rows: 500, most_blocks: 2 }
}

fn parties() -> (RlweGuest, RlweHost, BlockId) {
    let key = KeySeed::drawn(&mut Randomness::insecure_from_seed(1));
    let mut guest = RlweGuest::new(agreement(), &key).expect("a guest");
    let mut host = RlweHost::new(agreement(), &guest.public_key()).expect("a host");
    let block = host.store(&guest.upload(BlockId(1), &[7; 18]).expect("an upload")).expect("room");
    (guest, host, block)
}

fn said<T: std::fmt::Debug>(result: Result<T, SealedError>) -> String {
    result.expect_err("a refusal").to_string()
}

#[test]
fn more_rows_than_agreed_are_refused_by_both_sides() {
    let (_, mut host, block) = parties();
    let values = vec![1.0; 501 * 18];
    let error = said(host.ask(&Matrix { rows: 501, blocks: &[block], values: &values }));
    assert_eq!(error, "rows: found 501, expected 1 to 500");
    // A host that has agreed on more with itself.
    let generous = Agreement { most_rows: 1000, ..agreement() };
    let key = KeySeed::drawn(&mut Randomness::insecure_from_seed(1));
    let mut guest = RlweGuest::new(agreement(), &key).unwrap();
    let mut host = RlweHost::new(generous, &guest.public_key()).unwrap();
    host.store(&guest.upload(block, &[7; 18]).unwrap()).unwrap();
    let question = host.ask(&Matrix { rows: 501, blocks: &[block], values: &values }).unwrap();
    assert_eq!(
        said(guest.answer(&question)),
        "the peer sent no valid question: rows of the question: found 501, expected 1 to 500"
    );
    let part = Coefficients { terms: 1, values: &[1.0; 501] };
    let scale = MagnitudeBound::of(&generous, &part).and_then(|reach| reach.scale()).unwrap();
    let (request, kept) = host.encrypt_coefficients(&part, scale, true).unwrap();
    assert_eq!(
        said(guest.multiply_masked(&request, &[1; 501], None)),
        "the peer sent no valid coefficients: products of the coefficients: found 501, expected 1 to 500"
    );
    let mut other = RlweGuest::new(generous, &key).unwrap();
    let reply = other.multiply_masked(&request, &[1; 501], None).unwrap();
    let shares = [host.accept_masked(&kept, &reply).unwrap()];
    let gradient = host.mask_gradient(&[0.0; 501], scale, &shares).unwrap();
    assert_eq!(
        said(guest.unmask(&gradient)),
        "the peer sent no valid masked gradient: products of the masked gradient: found 501, expected 1 to 500"
    );
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    let (mut guest, mut host, block) = parties();
    let upload = guest.upload(BlockId(2), &[0; 18]).unwrap();
    let question = host.ask(&Matrix { rows: 3, blocks: &[block], values: &[0.5; 54] }).unwrap();
    let answer = guest.answer(&question).unwrap();
    let key = guest.public_key();
    type Decode = fn(&[u8]) -> bool;
    let all: [(&[u8], Decode); 4] = [
        (&key, |bytes| PublicKey::decode(bytes).is_ok()),
        (&upload, |bytes| Upload::decode(bytes).is_ok()),
        (&question, |bytes| Question::decode(bytes, 18, 500).is_ok()),
        (&answer, |bytes| Answer::decode(bytes, 500).is_ok()),
    ];
    for (bytes, decodes) in all {
        assert!(decodes(bytes));
        // All short ones, and some in between.
        let cuts = (0..100.min(bytes.len())).chain((100..bytes.len()).step_by(1009));
        for length in cuts.chain([bytes.len() - 1]) {
            assert!(!decodes(&bytes[..length]), "{length} of {} bytes", bytes.len());
        }
        let mut long = bytes.to_vec();
        long.push(0);
        assert!(!decodes(&long));
        // Magic, version and kind.
        for place in 0..4 {
            let mut changed = bytes.to_vec();
            changed[place] ^= 0x40;
            assert!(!decodes(&changed));
        }
    }
}

#[test]
fn residues_above_their_modulus_are_refused() {
    let (mut guest, mut host, block) = parties();
    let mut upload = guest.upload(BlockId(2), &[0; 18]).unwrap();
    // The first residue of each prime: 50 ones.
    for prime in 0..3 {
        let at = 4 + 8 + 24 + 32 + prime * 51_200;
        let mut changed = upload.clone();
        changed[at..at + 6].fill(0xFF);
        changed[at + 6] |= 3;
        let error = said(host.store(&changed));
        assert!(
            error.contains("upload: found 1125899906842623, expected residues below 11258999"),
            "{error}"
        );
    }
    upload.truncate(1000);
    let error = said(host.store(&upload));
    assert_eq!(error, "the peer sent no valid upload: upload: found 932 bytes, expected 153600");
    let mut question = host.ask(&Matrix { rows: 1, blocks: &[block], values: &[1.0; 18] }).unwrap();
    question[16..22].fill(0xFF);
    question[22] |= 3;
    assert!(said(guest.answer(&question)).contains("expected residues below 1125899906826241"));
}

#[test]
fn answers_must_fit_their_question() {
    let (mut guest, mut host, block) = parties();
    assert!(matches!(host.open(&[]), Err(SealedError::NoExchange)));
    let ask = |host: &mut RlweHost, rows: usize| {
        host.ask(&Matrix { rows, blocks: &[block], values: &vec![1.0; 18 * rows] })
    };
    let old = ask(&mut host, 2).unwrap();
    let new = ask(&mut host, 3).unwrap();
    let error = said(host.open(&guest.answer(&old).unwrap()));
    assert!(error.contains("exchange of the answer: found"), "{error}");
    // The right number with too few rows.
    let mut short = guest.answer(&old).unwrap();
    short[4..12].copy_from_slice(&new[4..12]);
    let error = said(host.open(&short));
    assert!(error.ends_with("rows of the answer: found 2, expected 3"), "{error}");
    let answer = guest.answer(&new).unwrap();
    assert_eq!(guest.answer(&new).unwrap(), answer);
    assert_eq!(host.open(&answer).unwrap().len(), 3);
    // Once only.
    assert!(matches!(host.open(&answer), Err(SealedError::NoExchange)));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let (mut guest, mut host, block) = parties();
    assert_eq!(
        said(guest.upload(BlockId(2), &[0; 17])),
        "values of a block: found 17, expected 18"
    );
    assert_eq!(
        said(guest.upload(BlockId(2), &[16_385; 18])),
        "found level 16385, expected −16384 to 16384"
    );
    let mut ask = |rows: usize, blocks: &[BlockId], values: &[f64]| {
        said(host.ask(&Matrix { rows, blocks, values }))
    };
    assert_eq!(ask(0, &[block], &[]), "rows: found 0, expected 1 to 500");
    assert_eq!(ask(1, &[], &[]), "columns: found 0, expected 1 to 2097152");
    assert_eq!(ask(1, &[block], &[1.0; 17]), "matrix entries: found 17, expected 1 rows of 18");
    assert_eq!(ask(1, &[BlockId(5)], &[1.0; 18]), "block 5: not uploaded");
    assert_eq!(ask(1, &[block], &[f64::NAN; 18]), "matrix: found NaN, expected a finite number");
    host.store(&guest.upload(BlockId(2), &[0; 18]).unwrap()).unwrap();
    let third = guest.upload(BlockId(3), &[0; 18]).unwrap();
    let error = said(host.store(&third));
    assert_eq!(error, "block 3: the host keeps 2 blocks already, as many as agreed");
    assert!(host.forget(BlockId(2)) && !host.forget(BlockId(2)));
    host.store(&third).unwrap();
    for (wrong, expected) in [
        (Agreement { width: 0, ..agreement() }, "width: found 0, expected 1 to 8192".into()),
        (Agreement { width: 8193, ..agreement() }, "width: found 8193, expected 1 to 8192".into()),
        (
            Agreement { most_rows: 0, ..agreement() },
            "most_rows: found 0, expected 1 to 1048576".to_string(),
        ),
        (
            Agreement { most_blocks: 0, ..agreement() },
            format!("most_blocks: found 0, expected 1 to {}", usize::MAX),
        ),
    ] {
        assert_eq!(said(RlweGuest::new(wrong, &KeySeed::from_bytes([0; 32]))), expected);
        assert_eq!(said(RlweHost::new(wrong, &guest.public_key())), expected);
    }
}

#[test]
fn parties_with_another_width_or_grid_notice() {
    let (mut guest, _, _) = parties();
    let opening = guest.public_key();
    let narrow = Agreement { width: 17, ..agreement() };
    let coarse = Agreement { grid: Grid::new(0.0, 1.0, 1 << 13).unwrap(), ..agreement() };
    let shifted = Agreement { grid: Grid::new(0.5, 1.5, 1 << 14).unwrap(), ..agreement() };
    let error = said(RlweHost::new(narrow, &opening));
    assert_eq!(
        error,
        "the peer sent no valid public key: values of a block: found 18, expected 17"
    );
    for other in [coarse, shifted] {
        let error = said(RlweHost::new(other, &opening));
        assert!(error.contains("grid (centre, step, levels): found (0.5, "), "{error}");
        // A host that got the right key and then uploads of another agreement.
        let key = KeySeed::drawn(&mut Randomness::insecure_from_seed(1));
        let mut host = RlweHost::new(agreement(), &opening).unwrap();
        let upload = RlweGuest::new(other, &key).unwrap().upload(BlockId(0), &[1; 18]).unwrap();
        assert!(said(host.store(&upload)).contains("no valid upload: grid"));
    }
    // Limits are each party's own.
    let generous = Agreement { most_rows: 501, most_blocks: 7, ..agreement() };
    let mut host = RlweHost::new(generous, &opening).unwrap();
    host.store(&guest.upload(BlockId(0), &[1; 18]).unwrap()).unwrap();
}

#[test]
fn debug_output_shows_no_secrets() {
    let (mut guest, mut host, block) = parties();
    let question = host.ask(&Matrix { rows: 1, blocks: &[block], values: &[1.0; 18] }).unwrap();
    let answer = Answer::decode(&guest.answer(&question).unwrap(), 500).unwrap();
    assert_eq!(format!("{guest:?}"), "RlweGuest(width 18, …)");
    assert_eq!(format!("{host:?}"), "RlweHost(1 blocks, …)");
    assert_eq!(format!("{:?}", KeySeed::from_bytes([1; 32])), "KeySeed(…)");
    assert!(format!("{answer:?}").ends_with(", 1 rows, …)"));
    assert_eq!(format!("{:?}", Randomness::insecure_from_seed(0)), "Randomness(…)");
}
