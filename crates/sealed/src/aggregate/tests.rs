use proptest::prelude::*;

use super::*;

fn key(seed: u64) -> MaskKey {
    MaskKey::from_randomness(&mut Randomness::insecure_from_seed(seed))
}

struct Party {
    masks: Masks,
    words: Vec<u64>,
}

/// Guests with words that nobody would guess, and the order in which all know them.
fn parties(guests: usize, words: usize, context: u8) -> Vec<Party> {
    let keys: Vec<MaskKey> = (0..guests).map(|place| key(place as u64)).collect();
    let names: Vec<String> = (0..guests).map(|place| format!("fleet-{place}")).collect();
    let participants: Vec<_> =
        names.iter().map(String::as_str).zip(keys.iter().map(MaskKey::public)).collect();
    let mut random = Randomness::insecure_from_seed(1000 + words as u64);
    let party = |place| Party {
        masks: Masks::agree(&keys[place], place, &participants, &[context; 32]).unwrap(),
        words: (0..words).map(|_| random.bits()).collect(),
    };
    (0..guests).map(party).collect()
}

fn masked(party: &Party, block: &[u8]) -> Vec<u64> {
    let mut words = party.words.clone();
    party.masks.mask(block, &mut words);
    words
}

fn plain_sum(parties: &[Party], places: &[usize]) -> Vec<u64> {
    let mut sum = vec![0u64; parties[0].words.len()];
    for &place in places {
        let words = parties[place].words.iter();
        sum.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
    }
    sum
}

fn summed(
    parties: &[Party],
    survivors: &[usize],
    block: &[u8],
) -> Result<Vec<u64>, AggregateError> {
    let sent: Vec<_> = survivors
        .iter()
        .map(|&place| {
            let party = &parties[place];
            (place, masked(party, block), party.masks.reveal(block, survivors))
        })
        .collect();
    let contributions =
        sent.iter().map(|(place, masked, reveal)| Contribution { place: *place, masked, reveal });
    unmask(parties.len(), &contributions.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Whoever drops out: the sum over those who stay, bit for bit.
    #[test]
    fn masked_sums_are_plain_sums(
        guests in 2..=16usize,
        stays in prop::collection::vec(any::<bool>(), 16),
        words in 1..1100usize,
        block in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let parties = parties(guests, words, 1);
        let mut survivors: Vec<usize> = (0..guests).filter(|&place| stays[place]).collect();
        if survivors.is_empty() {
            survivors.push(guests - 1);
        }
        prop_assert_eq!(summed(&parties, &survivors, &block).unwrap(), plain_sum(&parties, &survivors));
    }

    #[test]
    fn fixed_point_is_exact_on_its_grid_and_adds_up(
        steps in prop::collection::vec(-(1i64 << 50)..=1 << 50, 1..50),
        guests in 1..=MOST_GUESTS,
    ) {
        // 2^50 steps of 2^-20: a sum of 64 has 2^56 steps, more than f64 keeps, but all of these are multiples of 64.
        let fixed = FixedPoint::new((1u64 << 30) as f64, 20).unwrap();
        let values: Vec<f64> = steps.iter().map(|&steps| steps as f64 / (1u64 << 20) as f64).collect();
        let words = fixed.encode(&values).unwrap();
        let sum: Vec<u64> = words.iter().map(|word| word.wrapping_mul(guests as u64)).collect();
        let expected: Vec<f64> = steps.iter().map(|&steps| (steps * guests as i64) as f64 / (1u64 << 20) as f64).collect();
        prop_assert_eq!(fixed.decode(guests, &sum).unwrap(), expected);
    }
}

#[test]
fn sums_in_one_process_are_plain_sums() {
    let mut random = Randomness::insecure_from_seed(5);
    for guests in [1, 2, 5] {
        let vectors: Vec<Vec<u64>> =
            (0..guests).map(|_| (0..100).map(|_| random.bits()).collect()).collect();
        let expected: Vec<u64> = (0..100)
            .map(|word| vectors.iter().fold(0u64, |sum, vector| sum.wrapping_add(vector[word])))
            .collect();
        assert_eq!(masked_sum(&vectors).unwrap(), expected);
    }
    assert_eq!(masked_sum(&[]), Err(AggregateError::Guests { found: 0 }));
    let uneven = masked_sum(&[vec![1, 2], vec![3]]).unwrap_err().to_string();
    assert_eq!(uneven, "masked words: found 1, expected 2");
}

#[test]
fn masks_are_of_their_context_block_and_guests_alone() {
    let words = |party: &Party, block: &[u8]| {
        let mut words = vec![0; 8];
        party.masks.mask(block, &mut words);
        words
    };
    let (one, other) = (parties(3, 8, 1), parties(3, 8, 2));
    let mut all: Vec<u64> = [&one, &other]
        .into_iter()
        .flatten()
        .flat_map(|party| [&b""[..], b"\0", b"1"].map(|block| words(party, block)))
        .flatten()
        .collect();
    // 144 words of 64 bits: two are the same with a probability of 144²/2^65.
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * 3 * 3 * 8);
    // The same again is the same.
    assert_eq!(words(&one[0], b"1"), words(&parties(3, 8, 1)[0], b"1"));
    // A sum over guests of whom one was told another context has nothing of the plain sum in it.
    let mut mixed = parties(3, 8, 1);
    mixed[2] = parties(3, 8, 2).remove(2);
    let (found, expected) =
        (summed(&mixed, &[0, 1, 2], b"1").unwrap(), plain_sum(&mixed, &[0, 1, 2]));
    assert!(found.iter().zip(&expected).all(|(found, expected)| found != expected));
}

/// What a host holds of a guest that came late: its vector, and from all others the seeds of their pairs with it. The guest's
/// own mask is left, whole.
#[test]
fn a_late_vector_stays_hidden_by_its_own_mask() {
    let parties = parties(3, 64, 1);
    let mut late = masked(&parties[2], b"block");
    for (place, party) in parties[..2].iter().enumerate() {
        let reveal = party.masks.reveal(b"block", &[0, 1]);
        assert_eq!(reveal.dropped.len(), 1);
        // The guest has taken this mask off, since it comes after the others.
        reveal.dropped[0].apply(&mut late, Sign::of(place, 2));
    }
    let mut hidden = parties[2].words.clone();
    parties[2].masks.own_seed(b"block").apply(&mut hidden, Sign::Plus);
    assert_eq!(late, hidden);
    // Half of 64 · 64 bits differ from the words: deviation 32, ten of them.
    let differ: u32 = late.iter().zip(&parties[2].words).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert!(differ.abs_diff(2048) < 320, "{differ}");
    // What was revealed of this block opens no other.
    let revealed = parties[0].masks.reveal(b"block", &[0, 1]);
    let another = parties[0].masks.reveal(b"other", &[0, 1]);
    assert!(revealed.own != another.own && revealed.dropped != another.dropped);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let parties = parties(3, 4, 1);
    let reveal = |place: usize, survivors: &[usize]| parties[place].masks.reveal(b"", survivors);
    let (a, b) = (reveal(0, &[0, 1]), reveal(1, &[0, 1, 2]));
    let sent = [masked(&parties[0], b""), masked(&parties[1], b"")];
    let one = |place, reveal| Contribution { place, masked: &sent[place], reveal };
    let text = |guests: &[Contribution<'_>]| unmask(3, guests).unwrap_err().to_string();
    assert_eq!(text(&[]), "guests of a sum: found 0, expected 1 to 64");
    assert_eq!(text(&[one(0, &a), one(1, &b)]), "revealed seeds: found 0, expected 1");
    assert_eq!(text(&[one(1, &a), one(0, &a)]), "place of a guest: found 0, expected 2");
    assert_eq!(text(&[one(0, &a), one(0, &a)]), "place of a guest: found 0, expected 1");
    // The zero point agrees on zero with everyone: whoever sent it would know the mask of the pair, and so would others.
    let weak = [("a", key(1).public()), ("b", PublicKey([0; 32]))];
    let found = Masks::agree(&key(1), 0, &weak, &[0; 32]).unwrap_err();
    assert_eq!(found.to_string(), "key of guest `b`: found a point of low order");
    let many = vec![("a", key(1).public()); MOST_GUESTS + 1];
    assert!(Masks::agree(&key(1), 0, &many, &[0; 32]).is_err());
    assert!(Masks::agree(&key(1), 2, &weak, &[0; 32]).is_err());
}

#[test]
fn fixed_point_refuses_what_could_wrap_around() {
    for (bound, bits) in
        [(0.0, 8), (f64::NAN, 8), (f64::INFINITY, 0), (1.0, 57), (2e17, 0), (1.0, 5000)]
    {
        assert!(FixedPoint::new(bound, bits).is_err(), "{bound} {bits}");
    }
    let widest = FixedPoint::new(1.0, 56).unwrap();
    let most = widest.encode(&[1.0, -1.0]).unwrap();
    let sum: Vec<u64> = most.iter().map(|word| word.wrapping_mul(64)).collect();
    assert_eq!(widest.decode(64, &sum).unwrap(), [64.0, -64.0]);
    let fixed = FixedPoint::new(100.0, 4).unwrap();
    // Halves of a step go away from zero.
    assert_eq!(fixed.encode(&[0.03, 0.04, -1.0]).unwrap(), [0, 1, 16u64.wrapping_neg()]);
    for wrong in [100.01, -100.01, f64::NAN, f64::INFINITY] {
        let found = fixed.encode(&[0.0, wrong]).unwrap_err().to_string();
        assert_eq!(found, format!("value 1: found {wrong}, expected a number within ±100"));
    }
    assert_eq!(
        fixed.decode(1, &[1601]).unwrap_err().to_string(),
        "sum 0: found 1.000625e2, expected at most 1e2: the masks do not cancel"
    );
    assert!(fixed.decode(2, &[1601]).is_ok() && fixed.decode(0, &[1]).is_err());
    assert!(fixed.decode(1, &[i64::MIN as u64]).is_err());
}

#[test]
fn keys_agree_as_x25519_does() {
    let bytes = |hex: &str| -> [u8; 32] {
        data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap().try_into().unwrap()
    };
    // RFC 7748, section 6.1.
    let alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
    let bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
    let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
    let [alice, bob] = [alice, bob].map(|secret| MaskKey {
        agreement: Zeroizing::new(bytes(secret)),
        own: Zeroizing::default(),
    });
    let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
    assert_eq!(alice.public(), PublicKey(bytes(public)));
    assert_eq!(*alice.agree(bob.public()).unwrap(), bytes(shared));
    assert_eq!(*bob.agree(alice.public()).unwrap(), bytes(shared));
}

#[test]
fn nothing_secret_is_shown() {
    let shown = format!("{:?} {:?}", key(1), Seed::from_bytes([7; 32]));
    assert_eq!(shown, "MaskKey(…) Seed(…)");
}
