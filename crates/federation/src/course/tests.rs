use super::*;

fn course(epochs: u32, patience: u32) -> Course {
    let steps = |range: std::ops::Range<i64>| range.map(Step).collect();
    let samples =
        Samples { train: steps(0..10), validation: steps(10..15), estimate: steps(15..18) };
    Course::new(samples, Order { seed: 3, shuffle: true, batch: 4, block: 3, epochs, patience })
}

/// Runs to the end; validation losses by epoch. Returns what each exchange took.
fn run(course: &mut Course, losses: &[f64]) -> Vec<(Purpose, Vec<i64>)> {
    let mut taken = Vec::new();
    while let Some((purpose, steps)) = course.next() {
        taken.push((purpose, steps.iter().map(|step| step.0).collect()));
        match purpose {
            Purpose::Train => course.learned(1.0),
            Purpose::Validate => {
                let loss = losses[course.history().len()];
                course.judged(loss * 5.0);
            }
            Purpose::Estimate => course.estimated(),
        }
    }
    taken
}

#[test]
fn an_epoch_takes_every_sample_once_and_ends_with_all_blocks() {
    let mut course = course(2, 9);
    let taken = run(&mut course, &[3.0, 2.0]);
    let sizes: Vec<_> = taken.iter().map(|(purpose, steps)| (*purpose, steps.len())).collect();
    use Purpose::{Estimate, Train, Validate};
    let epoch = [(Train, 4), (Train, 4), (Train, 2), (Validate, 3), (Validate, 2)];
    assert_eq!(sizes, [&epoch[..], &epoch[..], &[(Estimate, 3)]].concat());
    for epoch in taken[..10].chunks(5) {
        let mut steps: Vec<i64> = epoch[..3].iter().flat_map(|(_, steps)| steps.clone()).collect();
        steps.sort_unstable();
        assert_eq!(steps, (0..10).collect::<Vec<_>>());
    }
    assert_ne!(taken[0], taken[5], "each epoch has its own order");
    assert_eq!(course.best().map(|best| (best.number, best.validation)), Some((2, 2.0)));
}

#[test]
fn training_stops_when_nothing_gets_better() {
    let mut course = course(50, 2);
    run(&mut course, &[3.0, 2.0, 2.0, 2.5, 1.0]);
    assert_eq!((course.history().len(), course.best().map(|best| best.number)), (4, Some(2)));
}

/// The same samples with and without a break, wherever it comes.
#[test]
fn a_course_goes_on_from_its_progress() {
    let losses = [3.0, 2.0, 4.0];
    let whole = run(&mut course(3, 9), &losses);
    for stop in 0..whole.len() {
        let mut first = course(3, 9);
        for _ in 0..stop {
            match first.next().unwrap().0 {
                Purpose::Train => first.learned(1.0),
                Purpose::Validate => {
                    first.judged(losses[first.history().len()] * 5.0);
                }
                Purpose::Estimate => first.estimated(),
            }
        }
        let saved = serde_json::to_string(first.progress()).unwrap();
        let mut second = course(3, 9);
        second.restore(serde_json::from_str(&saved).unwrap());
        assert_eq!(run(&mut second, &losses), whole[stop..], "break after {stop}");
    }
}
