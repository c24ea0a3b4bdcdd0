//! A signal whose queues are known in closed form, and what is made of them.
//!
//! One lane, uniform arrivals, Newell's car-following, which is the kinematic wave theory vehicle by
//! vehicle: the k-th that stops in a red stands at k/κ, starts at g + k/(κw) and leaves at g + k/q_c.

use proptest::prelude::*;
use traffic::{FundamentalDiagram, Mark, Metres, MetresPerSecond, Passage, Queued, VehPerKmLane};

use super::program::SolveOutcome;
use super::*;

const LENGTH: f64 = 150.0;
const FREE: f64 = 12.5;
const WAVE: f64 = 5.0;
/// Metres of a standing vehicle.
const VEHICLE: f64 = 7.5;
const CYCLE: f64 = 90.0;
/// Red from 0 to here, then green.
const RED: f64 = 45.0;

fn road(length: f64, lanes: u8) -> Result<Road, QueueError> {
    let speeds = [FREE, WAVE].map(MetresPerSecond::new);
    let jam = VehPerKmLane::new(1000.0 / VEHICLE);
    let diagram = FundamentalDiagram::triangular(speeds[0], speeds[1], jam);
    Road::new(Metres::new(length), lanes, &diagram.expect("a sound diagram"))
}

fn saturation() -> f64 {
    FREE * WAVE / (FREE + WAVE) / VEHICLE
}

/// Vehicles that enter every `headway` seconds, over some cycles that begin with red. The queue stays
/// within the link and goes in green from 4.5 s on.
fn uniform(headway: f64, cycles: usize) -> Vec<Passage> {
    let mut passages = Vec::new();
    let (mut red, mut ahead) = (0.0, 0.0);
    for number in 0..(cycles as f64 * CYCLE / headway) as usize {
        let entered = number as f64 * headway;
        // The next red, once the line could be reached in it.
        if entered + LENGTH / FREE >= red + CYCLE {
            (red, ahead) = (red + CYCLE, 0.0);
        }
        let green = red + RED;
        let distance = ahead * VEHICLE;
        let joined = entered + (LENGTH - distance) / FREE;
        let released = green + distance / WAVE;
        // In green the queue has gone when its front is reached before its back.
        if joined < released {
            ahead += 1.0;
            let queued = Queued {
                joined: Mark { time: joined, distance },
                released: Mark { time: released, distance },
            };
            let left = Some(released + distance / FREE);
            passages.push(Passage { entered, left, queued: Some(queued) });
        } else {
            let left = Some(entered + LENGTH / FREE);
            passages.push(Passage { entered, left, queued: None });
        }
    }
    passages
}

/// Every vehicle by chance, but the same always.
fn thinned(passages: &[Passage], rate: f64) -> Vec<Passage> {
    let mut state = 12345u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    passages.iter().filter(|_| draw() < rate).copied().collect()
}

fn knowledge(road: &Road, rate: f64) -> Knowledge {
    Knowledge { rate, relations: Relations::theory(road), open: None, loop_curve: None }
}

fn tally(passages: &[Passage], cycles: usize) -> Result<Tally, QueueError> {
    let span = Span { begin: 0.0, end: cycles as f64 * CYCLE };
    // Cycles begin with red here: nothing depends on where they begin.
    Tally::count(span, &Timing::planned(CYCLE, 0.0)?, passages)
}

/// The exact curves of a triangular queue: red from 0, arrivals 1/headway at the line. With 6.3 s, three
/// times saturation headway, the queue is gone at 67.5 s, on a border of slots.
fn exact(headway: f64) -> Result<Profile, QueueError> {
    let (arrival, saturation) = (1.0 / headway, saturation());
    let slot = 0.5;
    let begin = -60.0;
    let times = (0..=600).map(|border| begin + f64::from(border) * slot);
    let left = |time: f64| {
        if time < 0.0 {
            arrival * time
        } else {
            (saturation * (time - RED)).max(0.0).min(arrival * time)
        }
    };
    Ok(Profile {
        road: road(LENGTH, 1)?,
        begin,
        slot,
        entered: times.clone().map(|time| arrival * (time + LENGTH / FREE)).collect(),
        left: times.map(left).collect(),
    })
}

#[test]
fn a_triangular_queue_has_its_closed_form() -> Result<(), QueueError> {
    let headway = 6.3;
    let profile = exact(headway)?;
    let (arrival, jam, saturation) = (1.0 / headway, 1.0 / VEHICLE, saturation());
    // Rankine–Hugoniot: between arrivals at density q/v_f and the standing queue.
    let growth = arrival / (jam - arrival / FREE);
    for time in [5.0, 20.0, 44.0] {
        // Corners of the curves lie on borders of slots: only bisection and its tolerance are left.
        assert!((profile.back(time) - growth * time).abs() < 0.05, "{time}");
        assert_eq!(profile.front(time), 0.0);
    }
    // The front sets off at green and meets the back when growth·t = w(t − g).
    let met = WAVE * RED / (WAVE - growth);
    let longest = growth * met;
    assert!((profile.back(met - 0.01) - longest).abs() < 0.2);
    assert!(profile.back(met + 0.5) <= longest);
    let middle = 0.5 * (RED + met);
    // The front is looked for in steps of a thirty-second of the queue.
    assert!(
        (profile.front(middle) - WAVE * (middle - RED)).abs() < profile.back(middle) / 30.0 + WAVE
    );
    let cleared = saturation * RED / (saturation - arrival);
    // Once the front has met the back there is less and less: some half a second before the end, and nothing after it.
    let rest = profile.back(cleared - 0.5);
    assert!(rest > 0.0 && rest < longest, "{rest} of {longest}");
    assert_eq!(profile.back(cleared + 0.5), 0.0);
    Ok(())
}

#[test]
fn density_and_flow_of_steps_are_those_of_kinematic_waves() -> Result<(), QueueError> {
    let headway = 6.3;
    let profile = exact(headway)?;
    let (arrival, jam, saturation) = (1.0 / headway, 1.0 / VEHICLE, saturation());
    let growth = arrival / (jam - arrival / FREE);
    let cleared = saturation * RED / (saturation - arrival);
    for step in 0..9 {
        let (from, to) = (10.0 * f64::from(step), 10.0 * f64::from(step + 1));
        // Vehicles: arrivals under way, and those that would have left without a signal.
        let waiting =
            |time: f64| arrival * time - (saturation * (time - RED)).clamp(0.0, arrival * time);
        let pieces = 20_000;
        let seconds = (to - from) / f64::from(pieces);
        let sum: f64 = (0..pieces)
            .map(|piece| {
                let time = from + (f64::from(piece) + 0.5) * seconds;
                (arrival * LENGTH / FREE + waiting(time)) * seconds
            })
            .sum();
        // The sum's own error, by its 20,000 pieces.
        assert!((profile.vehicle_seconds(from, to) - sum).abs() < 1e-3, "step {step}");
        if to <= RED {
            // Flow only upstream of the back: the mean over the link of (L − b)·q/L. The link is cut
            // into eight parts: the back lies in one of them.
            let expected = arrival * (to - from) * (1.0 - growth * 0.5 * (from + to) / LENGTH);
            assert!(
                (profile.passed(from, to) - expected).abs() < arrival * 10.0 / 8.0,
                "step {step}"
            );
        }
        if from >= cleared + LENGTH / WAVE {
            assert!((profile.passed(from, to) - arrival * (to - from)).abs() < 1e-6, "step {step}");
        }
    }
    Ok(())
}

#[test]
fn with_all_vehicles_the_profile_is_right_to_a_vehicle_length() -> Result<(), QueueError> {
    for headway in [4.6, 6.0, 11.0] {
        let (road, passages) = (road(LENGTH, 1)?, uniform(headway, 12));
        let (tally, knowledge) = (tally(&passages, 12)?, knowledge(&road, 1.0));
        let queues = LinkQueues::new(road, &tally, &passages, &knowledge)?;
        let arrival = 1.0 / headway;
        let growth = arrival / (1.0 / VEHICLE - arrival / FREE);
        let (mut off, mut looks) = (0.0, 0.0);
        for cycle in 3..9 {
            let (profile, report, _) = queues.cycle(cycle);
            assert_eq!(report.outcome, SolveOutcome::Solved);
            let begin = CYCLE * cycle as f64;
            for second in 0..90 {
                let time = begin + f64::from(second);
                let back = profile.back(time);
                if f64::from(second) <= RED {
                    // The theory's queue at every moment; counts are whole vehicles, and one more
                    // or less moves the back by the space between arrivals that stop.
                    let exact = growth * f64::from(second);
                    let vehicle = 1.0 / (1.0 / VEHICLE - arrival / FREE);
                    assert!((back - exact).abs() <= vehicle, "{second} s: {back}, not {exact}");
                }
                let standing = |passage: &&Passage| {
                    passage.queued.is_some_and(|q| q.joined.time <= time && time < q.released.time)
                };
                let last = passages.iter().filter(standing).filter_map(|passage| passage.queued);
                // The vehicles' own: it ends behind the last, whose bumper is at the distance.
                if let Some(rear) = last.map(|q| q.joined.distance + VEHICLE).reduce(f64::max) {
                    off += (back - rear).abs();
                    looks += 1.0;
                }
                let there = passages.iter().filter(|p| p.entered <= time && p.left > Some(time));
                // Each of the two curves is straight within a slot: less than a vehicle off.
                assert!((profile.vehicles(time) - there.count() as f64).abs() <= 2.0);
            }
        }
        assert!(off / looks <= VEHICLE, "headway {headway}: {} m", off / looks);
    }
    Ok(())
}

#[test]
fn a_fleet_learns_its_rate_from_the_spacing_of_its_stops() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let all = uniform(4.6, 400);
    for rate in [0.1, 0.3, 0.8] {
        let own = thinned(&all, rate);
        let found = tally(&own, 400)?.found(&road, &own);
        let guess = penetration(&[found])?;
        // Some thousand stops, each of a handful of vehicles ahead that share their chances.
        assert!((guess / rate - 1.0).abs() < 0.15, "{guess} for {rate}");
    }
    Ok(())
}

#[test]
fn a_part_of_the_vehicles_tells_the_number_of_all() -> Result<(), QueueError> {
    let (road, all) = (road(LENGTH, 1)?, uniform(4.6, 60));
    let own = thinned(&all, 0.3);
    let (tally, knowledge) = (tally(&own, 60)?, knowledge(&road, 0.3));
    let queues = LinkQueues::new(road, &tally, &own, &knowledge)?;
    let (steps, _) = queues.steps(0, 540, 10.0);
    let (mut by_profile, mut by_scale, mut count) = (0.0, 0.0, 0.0);
    for (at, step) in steps.iter().enumerate().skip(90) {
        let overlap = |passage: &Passage| {
            let (from, to) = (10.0 * at as f64, 10.0 * (at + 1) as f64);
            (passage.left.unwrap_or(to).min(to) - passage.entered.max(from)).max(0.0) / 10.0
        };
        let truth: f64 = all.iter().map(overlap).sum();
        let scaled = own.iter().map(overlap).sum::<f64>() / 0.3;
        by_profile += (step.vehicles - truth).powi(2);
        by_scale += (scaled - truth).powi(2);
        count += 1.0;
    }
    let [by_profile, by_scale] = [by_profile, by_scale].map(|sum: f64| (sum / count).sqrt());
    // Ten vehicles or so: the fleet over its rate is off by √(10·0.7/0.3), the profile by half of that.
    assert!(by_profile < 0.5 * by_scale, "{by_profile} against {by_scale}");
    Ok(())
}

#[test]
fn the_cycle_and_green_are_found() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let own = thinned(&uniform(4.6, 200), 0.2);
    let timing = Timing::found(&road, &own);
    assert_eq!(timing.source, TimingSource::Rhythm);
    // Neighbouring cycles that are tried differ by C²/4T.
    assert!((timing.cycle - CYCLE).abs() < 0.5, "{timing:?}");
    let short = Timing::found(&road, &own[..20]);
    assert_eq!(short.source, TimingSource::Assumed);
    let local = Timing { cycle: CYCLE, ..Timing::found(&road, &own) };
    assert_eq!(local.slots(), 18);
    Ok(())
}

#[test]
fn a_cycle_without_the_fleet_gets_usual_values_and_says_so() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let mut own = thinned(&uniform(6.0, 30), 0.5);
    own.retain(|passage| !(1300.0..1540.0).contains(&passage.entered));
    let (tally, knowledge) = (tally(&own, 30)?, knowledge(&road, 0.5));
    let queues = LinkQueues::new(road, &tally, &own, &knowledge)?;
    let (steps, reports) = queues.steps(0, 270, 10.0);
    assert!(reports[15].fleet == 0 && !steps[139].measured);
    // Half of the 15 vehicles of a cycle, by chance.
    assert!((1..=15).contains(&reports[10].fleet) && steps[95].measured, "{:?}", reports[10]);
    // At the end of red five to eight vehicles stand usually.
    assert!(
        steps[139].vehicles > 1.0 && steps[139].vehicles_variance > steps[94].vehicles_variance
    );
    Ok(())
}

#[test]
fn one_vehicle_is_enough_for_a_queue_as_long_as_it_saw() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let all = uniform(4.6, 3);
    let last = |passage: &&Passage| passage.queued.is_some_and(|q| q.joined.distance > 60.0);
    let own: Vec<Passage> = all.iter().filter(last).take(1).copied().collect();
    let (tally, knowledge) = (tally(&own, 3)?, knowledge(&road, 0.05));
    let (_, report, _) = LinkQueues::new(road, &tally, &own, &knowledge)?.cycle(0);
    assert!(report.longest > 30.0 && report.longest <= LENGTH, "{report:?}");
    Ok(())
}

#[test]
fn a_queue_ends_with_the_link() -> Result<(), QueueError> {
    let road = road(60.0, 1)?;
    // A vehicle each two seconds into a link of eight that nobody leaves.
    let own: Vec<Passage> = (0..8)
        .map(|number| {
            let distance = f64::from(number) * VEHICLE;
            let joined = Mark { time: 2.0 * f64::from(number) + 5.0, distance };
            let released = Mark { time: 170.0, distance };
            let queued = Some(Queued { joined, released });
            Passage { entered: 2.0 * f64::from(number), left: None, queued }
        })
        .collect();
    let (tally, knowledge) = (tally(&own, 2)?, knowledge(&road, 1.0));
    let (profile, report, _) = LinkQueues::new(road, &tally, &own, &knowledge)?.cycle(0);
    assert!(report.longest <= 60.0 && profile.back(80.0) > 60.0 - VEHICLE);
    assert!((profile.vehicles(80.0) - 8.0).abs() < 0.5);
    Ok(())
}

#[test]
fn contradictions_are_set_aside_and_reported() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let mut own = uniform(11.0, 6);
    // Hardly any traffic, yet this one says that it stood at the far end.
    let wrong = own.iter_mut().filter(|p| p.queued.is_some()).nth(9);
    let queued = wrong.and_then(|passage| passage.queued.as_mut()).expect("ten that queued");
    queued.joined.distance = 140.0;
    let relation = Relation { offset: 0.0, slope: 1.0, spread: 1.0, share: 0.05 };
    let relations = Relations { joining: relation, leaving: relation };
    let sure = Knowledge { relations, ..knowledge(&road, 1.0) };
    let tally = tally(&own, 6)?;
    let queues = LinkQueues::new(road, &tally, &own, &sure)?;
    let outcomes: Vec<SolveOutcome> = (0..6).map(|cycle| queues.cycle(cycle).1.outcome).collect();
    assert!(
        outcomes.iter().any(|outcome| matches!(outcome, SolveOutcome::SetAside(_))),
        "{outcomes:?}"
    );
    // A loop that counts nobody while the whole fleet passes.
    let curve =
        LoopCurve { distance: 20.0, begin: 0.0, interval: 10.0, counts: vec![Some(0.0); 54] };
    let busy = uniform(4.6, 6);
    let blind = Knowledge { loop_curve: Some(curve), ..knowledge(&road, 1.0) };
    let busy_tally = super::test_queues::tally(&busy, 6)?;
    let (_, report, _) = LinkQueues::new(road, &busy_tally, &busy, &blind)?.cycle(3);
    assert_eq!(report.outcome, SolveOutcome::WithoutLoop);
    Ok(())
}

#[test]
fn loops_bound_what_a_small_fleet_guesses() -> Result<(), QueueError> {
    let (road, all) = (road(LENGTH, 1)?, uniform(4.6, 40));
    let own = thinned(&all, 0.1);
    let tally = tally(&own, 40)?;
    let crossed = |passage: &Passage| passage.left.map(|left| left - 2.0);
    let counts = (0..360).map(|interval| {
        let from = 10.0 * f64::from(interval);
        let inside = all.iter().filter_map(crossed).filter(|t| (from..from + 10.0).contains(t));
        Some(inside.count() as f64)
    });
    let curve = LoopCurve { distance: 20.0, begin: 0.0, interval: 10.0, counts: counts.collect() };
    let with = Knowledge { loop_curve: Some(curve), ..knowledge(&road, 0.1) };
    let without = knowledge(&road, 0.1);
    let left = |knowledge: &Knowledge| -> Result<f64, QueueError> {
        let queues = LinkQueues::new(road, &tally, &own, knowledge)?;
        let mut off = 0.0;
        for cycle in 5..35 {
            let (profile, _, _) = queues.cycle(cycle);
            let (from, to) = (CYCLE * cycle as f64, CYCLE * (cycle + 1) as f64);
            let inside = all.iter().filter_map(|p| p.left).filter(|t| (from..to).contains(t));
            off += (profile.left(to) - profile.left(from) - inside.count() as f64).powi(2);
        }
        Ok(off)
    };
    assert!(left(&with)? < 0.5 * left(&without)?);
    Ok(())
}

#[test]
fn impossible_input_is_refused() -> Result<(), QueueError> {
    let road = road(LENGTH, 1)?;
    let sound = uniform(6.0, 3);
    let message = |result: Result<Tally, QueueError>| result.map(|_| ()).map_err(|e| e.to_string());
    let mut backwards = sound.clone();
    backwards[2].left = Some(backwards[2].entered - 1.0);
    assert!(message(tally(&backwards, 3)).is_err_and(|e| e.contains("passage 2")));
    let mut unordered = sound.clone();
    unordered.swap(0, 3);
    let counted = tally(&unordered, 3)?;
    let usual = knowledge(&road, 0.5);
    let error = LinkQueues::new(road, &counted, &unordered, &usual).err();
    assert!(matches!(error, Some(QueueError::Passage { index: 1, .. })), "{error:?}");
    for rate in [0.0, -0.2, 1.5, f64::NAN] {
        let error =
            LinkQueues::new(road, &tally(&sound, 3)?, &sound, &knowledge(&road, rate)).err();
        assert!(
            matches!(error, Some(QueueError::Number { found, .. }) if found.to_bits() == rate.to_bits()),
            "{error:?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a fleet reports, states are possible ones.
    #[test]
    fn states_are_possible_whatever_is_reported(
        ways in prop::collection::vec((0.0..360.0f64, 0.0..120.0f64, 0.0..1.0f64, -20.0..400.0f64, any::<bool>()), 0..60),
        rate in 0.02..1.0f64,
        length in 20.0..600.0f64,
        lanes in 1u8..6,
        closed in any::<bool>(),
    ) {
        let road = road(length, lanes)?;
        let mut own: Vec<Passage> = ways.iter().map(|&(entered, stay, share, distance, stands)| {
            let joined = Mark { time: entered + share * stay, distance };
            let released = Mark { time: entered + stay, distance: distance * share };
            let queued = stands.then_some(Queued { joined, released });
            Passage { entered, left: Some(entered + stay), queued }
        }).collect();
        own.sort_by(|a, b| a.entered.total_cmp(&b.entered));
        let tally = tally(&own, 4)?;
        let open = closed.then(|| vec![0.0; 18]);
        let known = Knowledge { open, ..knowledge(&road, rate) };
        let queues = LinkQueues::new(road, &tally, &own, &known)?;
        let (steps, _) = queues.steps(0, 36, 10.0);
        for step in &steps {
            prop_assert!(step.vehicles >= 0.0 && step.vehicles <= road.room() * (1.0 + 1e-9), "{step:?}");
            prop_assert!(step.flow >= 0.0 && step.flow.is_finite());
            prop_assert!(step.vehicles_variance > 0.0 && step.vehicles_variance.is_finite());
            prop_assert!(step.flow_variance > 0.0 && step.flow_variance.is_finite());
        }
        let (profile, report, _) = queues.cycle(1);
        prop_assert!(report.longest <= length);
        for second in 90..180 {
            let time = f64::from(second);
            let (front, back) = (profile.front(time), profile.back(time));
            prop_assert!((0.0..=length).contains(&back) && front >= 0.0 && front <= back + 1e-9);
        }
    }
}
