use proptest::prelude::*;
use traffic::{Network, Seconds, Step, StepClock, VehicleClass, VehicleId, VehiclePosition};

use super::*;
use crate::extract::{FeatureExtractor, FeaturePlan, StepFeatures};
use crate::fleet::Fleets;
use crate::test_roads::corridor;
use crate::vehicles::VehicleTable;

const GAP: Seconds = Seconds::new(10.0);

fn plan() -> FeaturePlan {
    FeaturePlan::paper(Fleets::nested(&[], 0).unwrap())
}

/// Vehicles enter E1 every 7 s and drive to E3 at 4 to 12 m/s, seen each second.
fn moments(network: &Network, seconds: u32) -> Vec<(f64, Vec<(String, VehiclePosition)>)> {
    let route = ["E1", "E2", "E3"].map(|name| network.link_named(name).unwrap());
    let moment = |second: u32| {
        let time = f64::from(second);
        let mut seen = Vec::new();
        for number in 0..=second / 7 {
            let speed = 4.0 + f64::from(number % 9);
            let mut x = (time - 7.0 * f64::from(number)) * speed;
            for link in route {
                let length = network.link(link).length.get();
                if (0.0..length).contains(&x) {
                    let (vehicle, position) = (VehicleId(number), x as f32);
                    let sample =
                        VehiclePosition { time, vehicle, link, position, lane: 0, speed: 0.0 };
                    seen.push((format!("v{number}"), sample));
                }
                x -= length;
            }
        }
        (time, seen)
    };
    (0..=seconds).map(moment).collect()
}

fn lines(network: &Network, seconds: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for (time, seen) in moments(network, seconds) {
        for (name, sample) in seen {
            let link = &network.link(sample.link).name;
            lines.push(format!("{time},{name},{link},{}", sample.position));
        }
        lines.push(format!("{time},,,"));
    }
    lines
}

fn feed<'n>(network: &'n Network, lines: &[String]) -> (FleetFeed<'n>, Vec<StepFeatures>) {
    let columns = FleetColumns::of(FleetColumns::HEADER).unwrap();
    let mut feed = FleetFeed::new(network, plan(), GAP).unwrap();
    let mut steps = Vec::new();
    for line in lines {
        let record = columns.parse(line, network).unwrap();
        feed.take(record, &mut |step| steps.push(step.clone())).unwrap();
    }
    (feed, steps)
}

#[test]
fn lines_give_the_steps_of_the_samples_themselves() {
    let network = corridor().unwrap();
    let (mut vehicles, mut expected) = (VehicleTable::default(), Vec::new());
    let mut extractor = FeatureExtractor::new(&network, plan()).unwrap();
    for (time, seen) in moments(&network, 300) {
        let samples: Vec<VehiclePosition> = seen
            .into_iter()
            .map(|(name, sample)| VehiclePosition {
                vehicle: vehicles.number(&name, VehicleClass::Car),
                ..sample
            })
            .collect();
        let time = Seconds::new(time);
        extractor.moment(time, &samples, &vehicles, &mut |s| expected.push(s.clone())).unwrap();
    }
    extractor.end(Seconds::new(300.0), &mut |step| expected.push(step.clone()));
    let (mut feed, mut steps) = feed(&network, &lines(&network, 300));
    // A step is closed the patience after its end, not only at the end of the stream.
    assert_eq!(steps.last().map(|step| step.step), Some(Step(28)));
    feed.finish(&mut |step| steps.push(step.clone())).unwrap();
    // Bit for bit, though some vehicles were forgotten and numbers given to others.
    assert_eq!(steps.len(), expected.len());
    for (found, expected) in steps.iter().zip(&expected) {
        assert_eq!((found.step, found.complete), (expected.step, expected.complete));
        assert_eq!(found.all.boxes, expected.all.boxes, "step {}", found.step.0);
        assert_eq!(found.all.vehicles, expected.all.vehicles);
    }
    assert!(steps.iter().filter(|step| step.complete).count() == 30);
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    let network = corridor().unwrap();
    let remembered = |seconds| {
        let (feed, _) = feed(&network, &lines(&network, seconds));
        feed.room()
    };
    let (short, long) = (remembered(900), remembered(3600));
    // One vehicle every 7 s stays for less than 300 m / 4 m/s = 75 s, and is forgotten within twice
    // the 40 s after which it may be: (75 + 80) / 7 < 23, and one more in between.
    assert!(short <= 24 && long <= 24, "{short}, {long}");
}

#[test]
fn a_wrong_clock_is_refused_and_a_jump_begins_a_new_recording_whichever_way() {
    let network = corridor().unwrap();
    let columns = FleetColumns::of(FleetColumns::HEADER).unwrap();
    let mut feed = FleetFeed::new(&network, plan(), GAP).unwrap();
    let mut complete = Vec::new();
    let mut take = |complete: &mut Vec<i64>, line: &str| {
        let record = columns.parse(line, &network)?;
        feed.take(record, &mut |step| complete.extend(step.complete.then_some(step.step.0)))
    };
    let seen = |second: i32| format!("{second},a,E1,{}", second % 100);
    let refused = |taken| matches!(taken, Err(RecordError::Jump { .. }));
    for second in 0..=55 {
        take(&mut complete, &seen(second)).unwrap();
        // One vehicle whose clock is wrong, among others; and those that do not agree.
        assert!(refused(take(&mut complete, "9e10,b,E1,50")));
        assert!(refused(take(&mut complete, "9e10,b,E1,51")));
        assert!(refused(take(&mut complete, "8e10,b,E1,50")));
    }
    // Step 4 is closed by the moment of 55 s, its end and the patience, which is over at 56 s.
    assert_eq!(complete, [0, 1, 2, 3]);
    take(&mut complete, &seen(56)).unwrap();
    assert_eq!(complete, [0, 1, 2, 3, 4]);
    // Three that agree are believed.
    assert!(refused(take(&mut complete, &seen(1000))));
    assert!(refused(take(&mut complete, &seen(1001))));
    for second in 1002..=1036 {
        take(&mut complete, &seen(second)).unwrap();
    }
    // Steps 5 and 100 are not whole.
    assert_eq!(complete, [0, 1, 2, 3, 4, 101, 102]);
    // The sender is believed at once.
    take(&mut complete, "100,,,").unwrap();
    for second in 101..=126 {
        take(&mut complete, &seen(second)).unwrap();
    }
    assert_eq!(complete, [0, 1, 2, 3, 4, 101, 102, 10, 11]);
}

#[test]
fn a_time_is_told_only_if_it_can_be_true() {
    let fleet = FleetColumns::of(FleetColumns::HEADER).unwrap();
    let loops = LoopColumns::of(LoopColumns::HEADER).unwrap();
    assert_eq!(fleet.time("600.5,,,"), Some(600.5));
    assert_eq!(loops.time(",,600.5,"), Some(600.5));
    for wrong in ["nan", "inf", "-inf", "1e300", "-1", "noon", ""] {
        assert_eq!(fleet.time(&format!("{wrong},,,")), None, "{wrong}");
        assert_eq!(loops.time(&format!(",,{wrong},")), None, "{wrong}");
    }
}

#[test]
fn what_cannot_be_true_is_refused_and_changes_nothing() {
    let network = corridor().unwrap();
    let (clean, steps) = {
        let (mut feed, mut steps) = feed(&network, &lines(&network, 60));
        feed.finish(&mut |step| steps.push(step.clone())).unwrap();
        (feed.room(), steps)
    };
    let columns = FleetColumns::of(FleetColumns::HEADER).unwrap();
    let mut feed = FleetFeed::new(&network, plan(), GAP).unwrap();
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for (number, line) in lines(&network, 60).into_iter().enumerate() {
        let mut take = |line: &str| -> Result<(), RecordError> {
            let record = columns.parse(line, &network)?;
            feed.take(record, &mut |step| found.push(step.clone()))
        };
        take(&line).unwrap();
        if number == 100 {
            let time = line.split(',').next().unwrap().to_owned();
            for wrong in [
                format!("{time},x,nowhere,1"),
                format!("{time},x,E1,-1"),
                format!("{time},x,E1,1e9"),
                format!("{time},x,E1,east"),
                format!("{time},,E1,1"),
                format!("{time},x,E1"),
                "noon,x,E1,1".into(),
                "NaN,x,E1,1".into(),
                "-1,x,E1,1".into(),
                "1e30,x,E1,1".into(),
                format!("{},v0,E1,5", time.parse::<f64>().unwrap() - 1.0),
                line.clone(),
            ] {
                // A line without a vehicle may come twice.
                if wrong.ends_with(",,,") {
                    continue;
                }
                refused.push(take(&wrong).unwrap_err().to_string());
            }
        }
    }
    feed.finish(&mut |step| found.push(step.clone())).unwrap();
    assert_eq!(found, steps);
    assert_eq!(feed.room(), clean);
    assert!(refused[0].contains("link: found `nowhere`"), "{refused:?}");
    assert!(refused.iter().any(|told| told.contains("the record is late")), "{refused:?}");
    for header in ["", "time,vehicle", "vehicle,time,link"] {
        assert!(matches!(FleetColumns::of(header), Err(RecordError::Columns { .. })));
    }
}

/// Names that hold commas and quotation marks are written and read as in any CSV.
#[test]
fn names_may_hold_commas() {
    let network = corridor().unwrap();
    let columns = FleetColumns::of("\"time\", vehicle,link,position").unwrap();
    let link = network.link_named("E1").unwrap();
    for name in ["plain", "a,b", "a \"b\"", "\"", ",", " blank "] {
        let line = format!("5,{},{},1.5", name_field(name), name_field("E1"));
        let seen = FleetRecord::Seen { time: 5.0, vehicle: name.into(), link, position: 1.5 };
        assert_eq!(columns.parse(&line, &network).unwrap(), seen, "{line}");
        assert_eq!(columns.time(&line), Some(5.0));
    }
    assert_eq!(name_field("a,b"), "\"a,b\"");
    // What is no whole field in quotation marks is taken as it is.
    for (line, vehicle) in [("5,\"a,E1,1", "\"a"), ("5,\"a\"b,E1,1", "\"a\"b")] {
        let FleetRecord::Seen { vehicle: found, .. } = columns.parse(line, &network).unwrap()
        else {
            unreachable!("a vehicle was seen")
        };
        assert_eq!(found, vehicle);
    }
    let too_many = columns.parse("5,\"a\",b,E1,1", &network);
    assert!(matches!(too_many, Err(RecordError::Fields { found: 5, expected: 4 })));
}

fn loops(network: &Network, lines: &[&str], lag: f64) -> Vec<(i64, Vec<Option<u32>>)> {
    let columns = LoopColumns::of(LoopColumns::HEADER).unwrap();
    let clock = StepClock { length: Seconds::new(10.0) };
    let mut feed = LoopFeed::new(network, clock, Seconds::new(lag), Seconds::new(60.0));
    let mut steps = Vec::new();
    for line in lines {
        let record = columns.parse(line, network).unwrap();
        feed.take(record, &mut |step, counts| steps.push((step.0, counts.to_vec()))).unwrap();
    }
    steps
}

#[test]
fn loops_are_counted_per_step_and_missing_is_not_zero() {
    let network = corridor().unwrap();
    let names: Vec<&str> = network.loops().iter().map(|found| found.name.as_str()).collect();
    assert!(names.len() >= 2, "the corridor has loops on two links");
    let (first, second) = (names[0], names[1]);
    let whole = format!("{first},600,610,3");
    let halves = [format!("{second},600,605,1"), format!("{second},605,610,2")];
    let half = format!("{second},610,615,4");
    let next = format!("{first},610,620,0");
    let lines =
        [",,600,", &whole, &halves[0], &halves[1], ",,614,", ",,615,", &half, &next, ",,625,"];
    let found = loops(&network, &lines, 5.0);
    let counts = |a, b| {
        let mut counts = vec![None; names.len()];
        (counts[0], counts[1]) = (a, b);
        counts
    };
    assert_eq!(found, [(60, counts(Some(3), Some(3))), (61, counts(Some(0), None))]);
    // Without the lag a step is closed at its end; a stream that begins within a step has none of it.
    let found = loops(&network, &[",,603,", ",,611,", ",,620,"], 0.0);
    assert_eq!(found.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [61]);
    // A jump begins anew: nothing is made up for the time in between.
    let found = loops(&network, &[",,600,", ",,630,", ",,5000,", ",,5010,"], 0.0);
    assert_eq!(found.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [60, 61, 62, 500]);
}

#[test]
fn counts_that_are_late_or_lie_across_steps_are_refused() {
    let network = corridor().unwrap();
    let name = &network.loops()[0].name;
    let columns = LoopColumns::of(LoopColumns::HEADER).unwrap();
    let clock = StepClock { length: Seconds::new(10.0) };
    let mut feed = LoopFeed::new(&network, clock, Seconds::new(0.0), Seconds::new(60.0));
    let mut take = |line: &str| {
        let record = columns.parse(line, &network)?;
        feed.take(record, &mut |_, _| ())
    };
    take(",,600,").unwrap();
    take(",,620,").unwrap();
    let error = take(&format!("{name},605,615,1")).unwrap_err();
    assert!(matches!(error, RecordError::Interval { .. }), "{error}");
    let error = take(&format!("{name},600,610,1")).unwrap_err();
    assert!(matches!(error, RecordError::Late { .. }), "{error}");
    let error = take(",,-1,").unwrap_err();
    assert!(
        matches!(error, RecordError::Sample(PositionError::Time(time)) if time == -1.0),
        "{error:?}"
    );
    for wrong in ["X,620,630,1", ",620,630,1", &format!("{name},630,620,1")] {
        let error = take(wrong).unwrap_err();
        assert!(
            matches!(error, RecordError::Field { .. } | RecordError::Interval { .. }),
            "{wrong}: {error:?}"
        );
    }
    let error = take(&format!("{name},620,630,-1")).unwrap_err().to_string();
    assert!(error.contains("found `-1`"), "{error}");
}

#[test]
fn a_count_that_is_sent_again_is_not_counted_twice() {
    let network = corridor().unwrap();
    let name = &network.loops()[0].name;
    let columns = LoopColumns::of(LoopColumns::HEADER).unwrap();
    let clock = StepClock { length: Seconds::new(10.0) };
    let mut feed = LoopFeed::new(&network, clock, Seconds::new(5.0), Seconds::new(60.0));
    let mut found = Vec::new();
    let mut take = |line: &str| {
        let record = columns.parse(line, &network)?;
        feed.take(record, &mut |step, counts| found.push((step.0, counts[0])))
    };
    take(",,600,").unwrap();
    let sent = [format!("{name},600,605,3"), format!("{name},605,610,4")];
    for line in &sent {
        take(line).unwrap();
    }
    for line in &sent {
        let error = take(line).unwrap_err();
        assert!(matches!(error, RecordError::Counted { .. }), "{error}");
    }
    // A loop whose clock is wrong does not take the others along.
    for _ in 0..5 {
        let error = take(&format!("{name},9000,9010,1")).unwrap_err();
        assert!(matches!(error, RecordError::Jump { .. }), "{error}");
        take(",,611,").unwrap();
    }
    take(",,615,").unwrap();
    // Three that agree begin anew, where the same times may be counted again.
    for begin in [100, 110] {
        let error = take(&format!("{name},{begin},{},1", begin + 10)).unwrap_err();
        assert!(matches!(error, RecordError::Jump { .. }), "{error:?}");
    }
    take(&format!("{name},120,130,5")).unwrap();
    take(",,600,").unwrap();
    take(&sent[0]).unwrap();
    take(&sent[1]).unwrap();
    take(",,615,").unwrap();
    assert_eq!(found, [(60, Some(7)), (60, Some(7))]);
}

proptest! {
    /// Whatever a line holds, reading it ends, without a panic.
    #[test]
    fn any_line_is_read_or_refused(lines in prop::collection::vec("[0-9a-zE,.:+-]{0,40}", 0..20)) {
        let network = corridor().unwrap();
        let fleet = FleetColumns::of(FleetColumns::HEADER).unwrap();
        let counts = LoopColumns::of(LoopColumns::HEADER).unwrap();
        let clock = StepClock { length: Seconds::new(10.0) };
        let mut vehicles = FleetFeed::new(&network, plan(), GAP).unwrap();
        let mut loops = LoopFeed::new(&network, clock, Seconds::new(5.0), Seconds::new(60.0));
        for line in &lines {
            prop_assert!(fleet.time(line).is_none_or(f64::is_finite));
            let _ = fleet.parse(line, &network).map(|record| vehicles.take(record, &mut |_| ()));
            let _ = counts.parse(line, &network).map(|record| loops.take(record, &mut |_, _| ()));
        }
        prop_assert!(vehicles.finish(&mut |_| ()).is_ok());
    }
}
