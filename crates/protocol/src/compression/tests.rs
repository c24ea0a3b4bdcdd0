use proptest::collection::vec;
use proptest::prelude::*;
use traffic::{Step, Window};

use super::*;

fn at(step: i64) -> Window {
    Window::whole(Step(step))
}

/// Finite numbers of any size and sign whose sums are finite too.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        3 => -10f32..10.0,
        1 => (any::<bool>(), 1u32..0x7e00_0000).prop_map(|(negative, bits)| {
            let number = f32::from_bits(bits);
            if negative { -number } else { number }
        }),
        1 => Just(0.0),
    ]
}

fn table() -> impl Strategy<Value = (usize, Vec<f32>)> {
    (1usize..6, 1usize..20)
        .prop_flat_map(|(width, rows)| (Just(width), vec(number(), width * rows)))
}

proptest! {
    #[test]
    fn nothing_is_lost_without_compression((width, numbers) in table()) {
        let packed = Compression::None.pack(width, numbers.clone()).unwrap();
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(packed.as_slice()), bits(&numbers));
    }

    /// 11 significant bits: half of the last one is 2^-11 of the number. Numbers 2^28 below the largest
    /// of a message have fewer: there the error is at most half of the smallest distance, which is
    /// 2^-24 · 2^(exponent), and the largest is at least 2^(exponent + 14).
    #[test]
    fn sixteen_bits_lose_one_part_in_2048((width, numbers) in table()) {
        let packed = Compression::F16.pack(width, numbers.clone()).unwrap();
        let most = numbers.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
        for (sent, wanted) in packed.as_slice().iter().zip(&numbers) {
            let (sent, wanted) = (f64::from(*sent), f64::from(*wanted));
            let bound = (wanted.abs() * 2f64.powi(-11)).max(most * 2f64.powi(-39));
            // Below the smallest exponent numbers are on the grid of 32-bit ones.
            prop_assert!((sent - wanted).abs() <= bound.max(2f64.powi(-150)), "{sent} for {wanted}");
        }
    }

    /// Half a step, which is max|x|/127 of the column or the smallest normal number; and the rounding
    /// of quotient and product in 32 bits, each 2^-24 of up to 127 steps.
    #[test]
    fn eight_bits_lose_half_a_step((width, numbers) in table()) {
        let packed = Compression::Q8.pack(width, numbers.clone()).unwrap();
        for column in 0..width {
            let of = |numbers: &[f32]| -> Vec<f64> {
                numbers.iter().skip(column).step_by(width).map(|x| f64::from(*x)).collect()
            };
            let wanted = of(&numbers);
            let most = wanted.iter().fold(0f64, |most, x| most.max(x.abs()));
            let step = (most / 127.0).max(f64::from(f32::MIN_POSITIVE));
            for (sent, wanted) in of(packed.as_slice()).into_iter().zip(wanted) {
                let bound = step * (0.5 + 3.0 * 127.0 * 2f64.powi(-24));
                prop_assert!((sent - wanted).abs() <= bound, "{sent} for {wanted}, step {step}");
            }
        }
    }

    /// What is packed is packed already: it can be sent on, and sent again.
    #[test]
    fn packed_numbers_are_their_own((width, numbers) in table()) {
        for compression in [Compression::F16, Compression::Q8] {
            let once = compression.pack(width, numbers.clone()).unwrap();
            let again: Vec<f32> = match once.packing() {
                Packing::F32 => once.as_slice().to_vec(),
                Packing::F16 { exponent } => {
                    let half = |x: &f32| from_half(to_half(*x, *exponent), *exponent);
                    once.as_slice().iter().map(half).collect()
                }
                Packing::Q8 { steps } => {
                    let pairs = once.as_slice().iter().zip(steps.iter().cycle());
                    pairs.map(|(x, step)| from_code(to_code(*x, *step), *step)).collect()
                }
            };
            prop_assert_eq!(again.as_slice(), once.as_slice());
        }
    }

    /// The sum of what was sent of a sample follows the sum of what should have been, to within one
    /// step, however often it is sent. Without feedback the difference would grow with the number of
    /// rounds.
    #[test]
    fn what_is_lost_is_sent_later(
        rounds in vec((vec(-10f32..10.0, 6), 0usize..3), 1..60),
    ) {
        let mut feedback = Feedback::default();
        let mut sums = std::collections::BTreeMap::<i64, [(f64, f64); 2]>::new();
        // The largest possible number, of a sample and what is left of it, is 10 + half a step.
        let step = 10.0 / 127.0 * 1.01;
        for (numbers, first) in rounds {
            let steps: Vec<Window> = (0..3).map(|i| at(((first + i) % 4) as i64)).collect();
            let sent = feedback.pack(Compression::Q8, &steps, 2, numbers.clone()).unwrap();
            for (row, step) in steps.iter().enumerate() {
                let of = sums.entry(step.last.0).or_default();
                for (column, (wanted, got)) in of.iter_mut().enumerate() {
                    *wanted += f64::from(numbers[2 * row + column]);
                    *got += f64::from(sent.as_slice()[2 * row + column]);
                }
            }
            for (sample, sums) in &sums {
                for (wanted, got) in sums {
                    prop_assert!((wanted - got).abs() <= step, "{got} for {wanted} of {sample}");
                }
            }
        }
    }

    #[test]
    fn feedback_survives_a_checkpoint(
        rounds in vec(vec(-10f32..10.0, 6), 2..10),
        cut in 0usize..200,
    ) {
        let steps = [at(-3), at(5), at(9)];
        let (last, rounds) = rounds.split_last().unwrap();
        let mut feedback = Feedback::default();
        for numbers in rounds {
            feedback.pack(Compression::Q8, &steps, 2, numbers.clone()).unwrap();
        }
        let mut saved = Vec::new();
        feedback.save(&mut saved);
        let mut bytes = saved.as_slice();
        let mut restored = Feedback::restore(&mut bytes).unwrap();
        prop_assert!(bytes.is_empty());
        prop_assert_eq!(&restored, &feedback);
        let pack = |feedback: &mut Feedback| {
            feedback.pack(Compression::Q8, &steps, 2, last.clone()).unwrap()
        };
        prop_assert_eq!(pack(&mut restored), pack(&mut feedback));
        let cut = cut % saved.len();
        prop_assert!(Feedback::restore(&mut &saved[..cut]).is_err());
    }
}

/// A constant that is no multiple of the step: 8 bits alone are wrong by the same each time.
#[test]
fn feedback_removes_what_rounding_repeats() {
    let (rounds, steps) = (1000, [at(1)]);
    // The other column keeps nothing; the first number of a column of one sample would be exact, so
    // the sample is sent beside a larger one.
    let (small, large) = (0.3, 100.0);
    let mut feedback = Feedback::default();
    let (mut plain, mut fed) = (0.0f64, 0.0f64);
    for _ in 0..rounds {
        let numbers = vec![small, large];
        let both = [steps[0], at(2)];
        fed += f64::from(
            feedback.pack(Compression::Q8, &both, 1, numbers.clone()).unwrap().as_slice()[0],
        );
        plain += f64::from(Compression::Q8.pack(1, numbers).unwrap().as_slice()[0]);
    }
    let (wanted, step) = (f64::from(rounds) * f64::from(small), 100.0 / 127.0);
    // 0.3 is nearer to 0 than to 0.787.
    assert_eq!(plain, 0.0);
    // Half a step, and 1000 roundings of a remainder below one step: 1000 · 2^-24 of it.
    assert!((fed - wanted).abs() <= step * 0.501, "{fed} for {wanted}");
}

#[test]
fn a_sample_that_is_there_twice_is_corrected_once() {
    let mut feedback = Feedback::default();
    let steps = [at(1), at(1), at(2)];
    let (mut wanted, mut sent) = (0.0f64, 0.0f64);
    for _ in 0..50 {
        let numbers = vec![0.3, 0.2, 100.0];
        let packed = feedback.pack(Compression::Q8, &steps, 1, numbers).unwrap();
        wanted += 0.5;
        sent += f64::from(packed.as_slice()[0]) + f64::from(packed.as_slice()[1]);
        // Two remainders of half a step each.
        assert!((wanted - sent).abs() <= 1.01 * 100.0 / 127.0, "{sent} for {wanted}");
    }
}

#[test]
fn numbers_without_end_are_refused() {
    for compression in [Compression::None, Compression::F16, Compression::Q8] {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(compression.pack(1, vec![1.0, wrong]).is_err(), "{compression:?} {wrong}");
        }
        assert!(compression.pack(0, vec![1.0]).is_err());
        assert!(compression.pack(2, vec![1.0]).is_err());
        assert!(compression.pack(1, Vec::new()).is_err());
    }
}
