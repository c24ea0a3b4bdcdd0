use traffic::FleetView;

use super::*;

#[test]
fn values_are_whole_samples_of_finite_numbers_within_bounds() {
    assert!(Values::new(2, vec![1.0; 4]).is_ok());
    for (width, numbers) in [
        (0, vec![1.0]),
        (2, vec![1.0; 3]),
        (1, Vec::new()),
        (1, vec![f32::NAN]),
        (1, vec![f32::INFINITY]),
        (1, vec![0.0; MAX_VALUES + 1]),
    ] {
        assert!(Values::new(width, numbers).is_err(), "{width}");
    }
    assert!(Values::new(MAX_VALUES, vec![0.0; MAX_VALUES]).is_ok());
}

#[test]
fn what_values_hold_is_not_shown() {
    let values = Values::new(2, vec![123.456; 6]).unwrap();
    assert_eq!(format!("{:?}", Embedding(values)), "Embedding([3 × 2 values])");
}

#[test]
fn batches_and_ranges_are_bounded() {
    assert!(Batch::new(Vec::new()).is_err());
    assert!(Batch::new(vec![Window::whole(Step(0)); MAX_STEPS]).is_ok());
    assert!(Batch::new(vec![Window::whole(Step(0)); MAX_STEPS + 1]).is_err());
    assert!(Batch::new(vec![Window::whole(Step(i64::MIN))]).is_err());
    let at = |view| Window { last: Step(0), view: FleetView(view) };
    assert!(Batch::new(vec![at(MAX_FOLDS)]).is_ok());
    assert!(Batch::new(vec![at(MAX_FOLDS + 1)]).is_err());
    let range = |first, last| StepRange { first, last };
    assert!(HeldSteps::new(vec![range(-5, 3), range(4, 4)]).is_ok());
    for wrong in [
        vec![range(3, 2)],
        vec![range(0, 5), range(5, 6)],
        vec![range(5, 6), range(0, 1)],
        vec![range(i64::MIN, 0)],
        vec![range(0, i64::MAX)],
        (0..=MAX_RANGES as i64).map(|i| range(2 * i, 2 * i)).collect(),
    ] {
        assert!(HeldSteps::new(wrong).is_err());
    }
}

#[test]
fn ranges_hold_their_steps_and_no_others() {
    let steps = [-3, -2, 0, 1, 2, 7].map(Step);
    let held = HeldSteps::of(steps).unwrap();
    assert_eq!(held.ranges().len(), 3);
    for step in (-10..10).map(Step) {
        assert_eq!(held.contains(step), steps.contains(&step), "{step:?}");
    }
}

#[test]
fn our_own_words_are_made_to_fit_and_a_peers_are_refused() {
    let long = "é".repeat(MAX_TEXT);
    assert!(Text::of(&long).as_str().len() <= MAX_TEXT);
    assert!(Text::parse(long).is_err());
    assert_eq!(Text::of("a\nb").as_str(), "a b");
    assert!(Text::parse("a\u{1b}[2J".to_owned()).is_err());
}
