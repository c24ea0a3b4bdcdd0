use super::*;

fn samples() -> Samples {
    let steps = |range: std::ops::Range<i64>| range.map(Step).collect::<Vec<_>>();
    Samples::whole(&steps(0..10), &steps(10..15), &steps(15..18))
}

fn course(epochs: u32, patience: u32) -> SampleSchedule {
    let (segment, batch, block) = (1, 4, 3);
    let order = Order { seed: 3, shuffle: true, segment, batch, block, epochs, patience };
    SampleSchedule::new(samples(), order)
}

/// Runs to the end; validation losses by epoch. Returns what each exchange took.
fn run(course: &mut SampleSchedule, losses: &[f64]) -> Vec<(Purpose, Vec<i64>)> {
    let mut taken = Vec::new();
    while let Some((purpose, samples)) = course.next() {
        taken.push((purpose, samples.iter().map(|sample| sample.last.0).collect()));
        match purpose {
            Purpose::Train => course.learned(Some(1.0)),
            Purpose::Validate => {
                let loss = losses[course.history().len()];
                course.validated(loss * 5.0, false);
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
                Purpose::Train => first.learned(Some(1.0)),
                Purpose::Validate => {
                    first.validated(losses[first.history().len()] * 5.0, false);
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

/// Batches and blocks hold whole segments, whose last one in a run may overlap; estimates need none.
#[test]
fn segments_stay_whole() {
    let order =
        Order { seed: 3, shuffle: true, segment: 3, batch: 6, block: 4, epochs: 2, patience: 9 };
    let mut course = SampleSchedule::new(samples(), order);
    let taken = run(&mut course, &[3.0, 2.0]);
    let sizes: Vec<_> = taken.iter().map(|(purpose, steps)| (*purpose, steps.len())).collect();
    use Purpose::{Estimate, Train, Validate};
    let epoch = [(Train, 6), (Train, 6), (Validate, 3), (Validate, 3)];
    assert_eq!(sizes, [&epoch[..], &epoch[..], &[(Estimate, 3)]].concat());
    assert_eq!(course.exchanges(), 4);
    assert_eq!(course.best_round(), Some(Round(8)));
    for (purpose, steps) in &taken {
        if *purpose != Estimate {
            for segment in steps.chunks(3) {
                assert!(segment.windows(2).all(|pair| pair[1] == pair[0] + 1), "{segment:?}");
            }
        }
    }
    // 10 steps are three segments and one that ends with them.
    let mut first: Vec<i64> = taken[0].1.iter().chain(&taken[1].1).copied().collect();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9]);
    assert_eq!([&taken[2].1[..], &taken[3].1[..]], [[10, 11, 12], [12, 13, 14]]);
}

/// One epoch of a validation in two blocks, with something missing in some of them.
fn epoch(course: &mut SampleSchedule, loss: f64, missing: [bool; 2]) -> ScheduleUpdate {
    while course.next().is_some_and(|(purpose, _)| purpose == Purpose::Train) {
        course.learned(Some(1.0));
    }
    course.validated(0.0, missing[0]);
    course.validated(loss * 5.0, missing[1])
}

/// A loss that lacks terms is small for that alone: it is neither the best nor a reason to stop.
#[test]
fn an_epoch_that_was_judged_in_part_counts_neither_way() {
    let mut course = course(50, 2);
    assert!(epoch(&mut course, 3.0, [false; 2]).best);
    for missing in [[true, false], [false, true], [true; 2]] {
        let verdict = epoch(&mut course, 0.0, missing);
        assert_eq!((verdict.best, verdict.trained), (false, false), "{missing:?}");
    }
    assert_eq!(course.best().map(|best| best.number), Some(1));
    assert!(epoch(&mut course, 2.0, [false; 2]).best);
    assert!(!epoch(&mut course, 2.5, [false; 2]).trained);
    assert!(!epoch(&mut course, 0.0, [true, false]).trained);
    assert!(epoch(&mut course, 2.5, [false; 2]).trained);
    assert_eq!(course.best().map(|best| best.number), Some(5));
}

/// Where no epoch can be compared with another, the last weights are kept, as all parties hear.
#[test]
fn without_any_whole_judgement_the_last_epoch_is_kept() {
    let mut course = course(3, 1);
    for number in 1..=3 {
        let verdict = epoch(&mut course, 0.0, [true, false]);
        assert_eq!((verdict.best, verdict.trained), (number == 3, number == 3));
    }
    assert_eq!(course.best().map(|best| (best.number, best.partial)), Some((3, true)));
}

/// The mean training loss is that of batches with one.
#[test]
fn batches_without_a_loss_are_not_in_the_mean() {
    let mut course = course(3, 1);
    course.learned(Some(4.0));
    course.learned(None);
    course.learned(Some(2.0));
    epoch(&mut course, 1.0, [false; 2]);
    assert_eq!(course.history()[0].train, 3.0);
    assert_eq!(course.exchanges(), 3);
}
