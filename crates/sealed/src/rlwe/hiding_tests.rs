//! What the guest sees besides the products, with its key in hand; and how far the noise is from harm.

use super::accumulate::{Expanded, Sums};
use super::guest::centred;
use super::message::{Answer, Question, Sealed, SealedProducts, Upload};
use super::ring::{FLOOD_BITS, PLAIN_BITS, PRIME, ring};
use super::transform::DEGREE;
use super::{KeySeed, RlweGuest, RlweHost, row_places};
use crate::fixed_point::{Grid, MOST_LEVELS, RowScale};
use crate::product::{Agreement, Answerer, BlockId, Guest, Host, Matrix};
use crate::random::Randomness;

struct Parties {
    agreement: Agreement,
    guest: RlweGuest,
    host: RlweHost,
    uploads: Vec<Vec<u8>>,
    blocks: Vec<BlockId>,
}

impl Parties {
    fn new(width: usize, levels: &[Vec<i32>], seed: u64) -> Self {
        Self::on_grid(MOST_LEVELS, width, levels, seed)
    }

    fn on_grid(most: i32, width: usize, levels: &[Vec<i32>], seed: u64) -> Self {
        let grid = Grid::new(0.0, 1.0, most).expect("a grid");
        let agreement = Agreement { width, grid, most_rows: 20_000, most_blocks: 1000 };
        let random = |n| Randomness::insecure_from_seed(seed + n);
        let key = KeySeed::drawn(&mut random(1));
        let mut guest = RlweGuest::with_randomness(agreement, &key, random(2)).expect("a guest");
        let mut host =
            RlweHost::with_randomness(agreement, &guest.public_key(), random(3)).expect("a host");
        let blocks: Vec<BlockId> = (0..levels.len() as u64).map(BlockId).collect();
        let mut upload = |(&block, levels): (&BlockId, &Vec<i32>)| {
            let upload = guest.upload(block, levels).expect("an upload");
            host.store(&upload).expect("room");
            upload
        };
        let uploads = blocks.iter().zip(levels).map(&mut upload).collect();
        Self { agreement, guest, host, uploads, blocks }
    }

    fn ask(&mut self, rows: usize, values: &[f64]) -> Question {
        let blocks = self.blocks.clone();
        let bytes = self.host.ask(&Matrix { rows, blocks: &blocks, values }).expect("a question");
        Question::decode(&bytes, self.agreement.width, rows).expect("our own bytes")
    }
}

/// The sums of the first polynomial, and the scales of all rows.
fn bare_products(host: &RlweHost, matrix: &Matrix<'_>) -> (Sums, Vec<RowScale>) {
    let columns = matrix.values.len() / matrix.rows;
    let scales = host.scales(matrix, columns).expect("room for these rows");
    let rows: Vec<&[f64]> = matrix.values.chunks_exact(columns).collect();
    let work = host.products(matrix.blocks, &rows, &scales, 2).expect("blocks that are there");
    (work.sums, scales)
}

/// The noise of sums that are not hidden yet, given the whole products: it is far below p/2, so one prime
/// shows it.
fn noise(guest: &RlweGuest, sums: &Sums, width: usize, products: &[i64]) -> Vec<f64> {
    let transform = &ring().transforms[0];
    let p = transform.modulus();
    let [sum0, sum1] = &sums.halves[0];
    let mut phase = sum0.clone();
    for ((x, &c1), &key) in phase.0.iter_mut().zip(sum1.0.iter()).zip(guest.key[0].0.iter()) {
        *x = p.reduce(p.reduce(*x) + p.multiply(p.reduce(c1), key));
    }
    transform.inverse(&mut phase.0);
    let places = row_places(width, products.len()).zip(products);
    places.map(|(at, &m)| p.reduce(phase.0[at] - ring().scaled(0, m as f64))).collect()
}

#[test]
fn the_noise_of_the_worst_rows_is_far_below_the_flood() {
    // (levels, width, rows, blocks): one row per coefficient is the most weight that a polynomial can have; on a
    // grid of few levels weights could be larger without overflow, but not without harm.
    for (most, width, rows, blocks) in
        [(MOST_LEVELS, 1, 8192, 3), (MOST_LEVELS, 18, 455, 30), (1, 1, 8192, 3)]
    {
        let values = vec![vec![most; width]; blocks];
        let parties = Parties::on_grid(most, width, &values, 10);
        let columns = width * blocks;
        let matrix = vec![1.0; rows * columns];
        let matrix = Matrix { rows, blocks: &parties.blocks, values: &matrix };
        let (sums, scales) = bare_products(&parties.host, &matrix);
        for scale in &scales {
            let sum = columns as f64 * scale.weight(1.0).abs();
            assert!(sum <= 2f64.powi(25), "{most} levels: weights of {sum} in all");
        }
        let product =
            |scale: &RowScale| columns as i64 * scale.weight(1.0) as i64 * i64::from(most);
        let products: Vec<i64> = scales.iter().map(product).collect();
        let noise = noise(&parties.guest, &sums, width, &products);
        let largest = noise.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        // Each row's weights sum to at most 2^25; each coefficient of the noise is at most 21.
        let worst = rows as f64 * 2f64.powi(25) * 21.0;
        // The errors are sums of independent draws of variance 10.5 (2^25·√10.5 for one block's weights at the least), and
        // the largest of many: a noise that is much smaller than that is not measured.
        assert!(largest >= 2f64.powi(25) / columns as f64, "{largest} is no noise");
        assert!(largest <= worst, "{largest} of {worst}");
        // docs/sealed.md: 65 bits between the worst noise and the flood, 2^-65 per value.
        assert!(worst.log2() + 65.0 <= f64::from(FLOOD_BITS) + 0.1, "{}", worst.log2());
    }
}

#[test]
fn it_makes_no_difference_how_blocks_are_dealt_out() {
    // Sixteen blocks: reductions in the middle of parts, and at their ends.
    let values: Vec<Vec<i32>> = (0..16).map(|i| vec![1000 * i - 8000; 2]).collect();
    let parties = Parties::new(2, &values, 80);
    let entries: Vec<f64> = (0..3 * 32).map(|i| f64::from(i % 7) - 3.2).collect();
    let matrix = Matrix { rows: 3, blocks: &parties.blocks, values: &entries };
    let scales = parties.host.scales(&matrix, 32).unwrap();
    let rows: Vec<&[f64]> = entries.chunks_exact(32).collect();
    let residues = |parts: usize| {
        let sums = parties.host.products(&parties.blocks, &rows, &scales, parts).unwrap().sums;
        let each = sums.halves.into_iter().enumerate().flat_map(|(prime, halves)| {
            let p = ring().modulus(prime);
            halves.map(|half| half.0.iter().map(|&x| p.canonical(x)).collect::<Vec<u64>>())
        });
        each.collect::<Vec<_>>()
    };
    let one = residues(1);
    assert!(one == residues(2) && one == residues(3) && one == residues(16));
}

#[test]
fn decryption_stays_clear_of_rounding_errors() {
    let values: Vec<Vec<i32>> = vec![vec![MOST_LEVELS; 18]; 2];
    let mut parties = Parties::new(18, &values, 20);
    let Question(products) = parties.ask(455, &vec![1.0; 455 * 36]);
    let unit = PRIME[0] as f64 / 2f64.powi(PLAIN_BITS as i32);
    for poly in &products.polys {
        for phase in parties.guest.phases(poly, parties.agreement.width) {
            let fraction = phase / unit - (phase / unit).round();
            // A quarter is the flood; switching adds ‖s‖·√(1/12) = 21 of 1024, which 8 deviations bound.
            assert!(fraction.abs() < 0.25 + 8.0 * 21.4 / 1024.0, "{fraction}");
        }
    }
}

/// χ² of two histograms against each other, and its degrees of freedom.
fn two_samples(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (total_a, total_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    let cells = a.iter().zip(b).filter(|(x, y)| *x + *y > 0.0);
    let (mut statistic, mut count) = (0.0, 0.0);
    for (x, y) in cells {
        let d = x * (total_b / total_a).sqrt() - y * (total_a / total_b).sqrt();
        statistic += d * d / (x + y);
        count += 1.0;
    }
    (statistic, count - 1.0)
}

#[test]
fn two_matrices_look_the_same_to_the_guest() {
    // As different as can be: zeros, and the largest weights on the largest values.
    let values: Vec<Vec<i32>> = vec![vec![MOST_LEVELS; 1]; 2];
    let mut parties = Parties::new(1, &values, 30);
    let rows = 8192;
    let unit = PRIME[0] as f64 / 2f64.powi(PLAIN_BITS as i32);
    let mut views = [0.0, 1.0].map(|entry| {
        let Question(products) = parties.ask(rows, &vec![entry; 2 * rows]);
        // Masked numbers by their top six bits, c1 by its top six bits, the noise in steps of 1/64.
        let mut view = [vec![0.0; 64], vec![0.0; 64], vec![0.0; 64]];
        for poly in &products.polys {
            for phase in parties.guest.phases(poly, parties.agreement.width) {
                let number = (phase / unit).round();
                let masked = number as i64 as u64 & ((1 << PLAIN_BITS) - 1);
                view[0][(masked >> (PLAIN_BITS - 6)) as usize] += 1.0;
                view[1][(((phase / unit - number) + 0.5) * 64.0) as usize % 64] += 1.0;
            }
            for c1 in &poly.c1 {
                view[2][(c1 >> 44) as usize] += 1.0;
            }
        }
        view
    });
    let [zeros, ones] = &mut views;
    for (what, (a, b)) in ["masked", "noise", "c1"].into_iter().zip(zeros.iter().zip(ones.iter())) {
        let (statistic, freedom) = two_samples(a, b);
        // Mean f, variance 2f: five deviations.
        assert!(
            statistic < freedom + 5.0 * (2.0 * freedom).sqrt(),
            "{what}: {statistic} of {freedom}"
        );
        assert!(freedom >= 30.0, "{what}");
    }
    // And uniform: 63 degrees of freedom, deviation 11.2, five of them.
    for (what, view) in [("masked", &ones[0]), ("c1", &ones[2])] {
        let expected = view.iter().sum::<f64>() / 64.0;
        let statistic: f64 = view.iter().map(|x| (x - expected).powi(2) / expected).sum();
        assert!(statistic < 119.0, "{what}: {statistic}");
    }
}

#[test]
fn without_enc_pk_zero_the_guest_could_read_the_matrix() {
    // c1 of the bare sums is Σ w_b·c1_b. The guest knows c1_b, so with one block it divides and reads w; with
    // Enc_pk(0) what it gets has nothing to do with w.
    let parties = Parties::new(2, &[vec![5, -5]], 40);
    let values = [0.25, -1.0];
    let matrix = Matrix { rows: 1, blocks: &parties.blocks, values: &values };
    let (sums, scales) = bare_products(&parties.host, &matrix);
    let weights = values.map(|entry| scales[0].weight(entry));
    let upload = Upload::decode(&parties.uploads[0]).unwrap();
    let mut ciphertext = Expanded::new();
    ciphertext.fill(&upload.half);
    let transform = &ring().transforms[0];
    let p = transform.modulus();
    let divide = |sum: &[f64; DEGREE]| {
        let mut quotient = Box::new([0.0; DEGREE]);
        let known = &ciphertext.0[0][1];
        for ((out, &x), &c1) in quotient.iter_mut().zip(sum).zip(known.iter()) {
            let inverse = p.inverse_of(p.canonical(c1)) as f64;
            *out = p.multiply(p.reduce(x), p.reduce(inverse));
        }
        transform.inverse(&mut quotient);
        quotient
    };
    let read = divide(&sums.halves[0][1].0);
    assert_eq!([read[1], read[0]], weights);
    assert!(read[2..].iter().all(|&x| x == 0.0));

    let mut hidden = sums;
    let mut random = Randomness::insecure_from_seed(50);
    let blind = super::ring::Poly::ternary(&mut random);
    let mut public = Expanded::new();
    let key = super::message::PublicKey::decode(&parties.guest.public_key()).unwrap();
    public.fill(&key.half);
    hidden.blind(&blind, &mut super::ring::Poly::zero(), &public);
    transform.forward(&mut hidden.halves[0][1].0);
    let read = divide(&hidden.halves[0][1].0);
    // Of 8192 uniform residues about 1 in 2^20 is below 2^30.
    assert!(read.iter().filter(|x| x.abs() < 2f64.powi(30)).count() < 5);
}

/// Why a guest gives few answers with one key (docs/sealed.md): a question need not be of products. Here each number of it
/// is Σ 3^j·s_(25i+j), whose digits are 25 of the key's numbers.
#[test]
fn a_cheating_host_reads_25_numbers_of_the_key_by_each_answer() {
    const READ: usize = 25;
    let mut parties = Parties::new(READ, &[vec![1; READ]], 90);
    let rows = DEGREE / READ;
    let unit = PRIME[0] as f64 / 2f64.powi(PLAIN_BITS as i32);
    let mut c1 = vec![0; DEGREE];
    for (j, x) in c1[..READ].iter_mut().enumerate() {
        *x = (3f64.powi(j as i32) * unit).round() as u64;
    }
    let polys = vec![Sealed { c1, c0: vec![0; rows] }];
    let question = Question(SealedProducts { exchange: 1, rows, polys }).encode();
    let answer = parties.guest.answer(&question).expect("an answer");
    let answers = Answer::decode(&answer, rows).expect("our own bytes").masked;
    let mut key = parties.guest.key[0].clone();
    ring().transforms[0].inverse(&mut key.0);
    let p = ring().modulus(0);
    for (row, &answer) in answers.iter().enumerate() {
        let mut rest = centred(answer);
        for j in 0..READ {
            let digit = (rest + 1).rem_euclid(3) - 1;
            rest = (rest - digit) / 3;
            // Of X^j with X^(25·row + 24 − j).
            assert_eq!(digit as f64, p.reduce(key.0[READ * row + READ - 1 - j]), "{row} {j}");
        }
    }
}

#[test]
fn every_row_of_every_question_has_a_mask_of_its_own() {
    // The guest decrypts: the same row 400 times, in two questions. Without masks all numbers would be equal;
    // with one mask for a question, those of the question; with the same masks for both, pairs.
    let mut parties = Parties::new(3, &[vec![1, 2, 3]], 70);
    let values = [1.0, -2.0, 0.5].repeat(400);
    let masked = |parties: &mut Parties| {
        let question = parties.ask(400, &values).encode();
        let answer = parties.guest.answer(&question).expect("an answer");
        Answer::decode(&answer, 400).expect("our own bytes").masked
    };
    let (first, second) = (masked(&mut parties), masked(&mut parties));
    let mut all = [first, second].concat();
    all.sort_unstable();
    all.dedup();
    // 800 uniform numbers of 40 bits: two are equal with probability 3e-7, and the seed is fixed.
    assert_eq!(all.len(), 800);
}

#[test]
fn the_same_question_twice_shares_no_bytes_but_gives_the_same() {
    let mut parties = Parties::new(3, &[vec![1, 2, 3]], 60);
    let a = parties.ask(2, &[1.0, 2.0, 3.0, -1.0, 0.0, 0.5]);
    let answer = parties.guest.answer(&a.encode()).unwrap();
    let first = parties.host.open(&answer).unwrap();
    let b = parties.ask(2, &[1.0, 2.0, 3.0, -1.0, 0.0, 0.5]);
    let same = a.0.polys[0].c1.iter().zip(&b.0.polys[0].c1).filter(|(x, y)| x == y).count();
    assert!(same < 3, "{same}");
    let answer = parties.guest.answer(&b.encode()).unwrap();
    assert_eq!(parties.host.open(&answer).unwrap(), first);
}
