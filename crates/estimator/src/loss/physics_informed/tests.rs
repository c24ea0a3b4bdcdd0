//! The loss against differences and closed forms, on the corridor.

use neural::hash;
use neural::random::unit;
use physics::{Ctm, Discretisation, Parameters};
use traffic::{LinkId, LinkState, Quantity, Step, VehPerKmLane, VehPerMinLane};

use super::*;
use crate::data::measurements::Readings;
use traffic::FleetView;

const LINKS: usize = 17;
const SCALES: [Scale; 2] =
    [Scale { mean: 30.0, deviation: 25.0 }, Scale { mean: 6.0, deviation: 4.0 }];

fn ctm_physics() -> Physics {
    let network = traffic::corridor().expect("the corridor");
    let parameters = Parameters::typical(&network).expect("usual parameters");
    let plan = Discretisation::of_step(Seconds::new(10.0));
    let model = Ctm::new(&network, parameters, plan).expect("a model");
    Physics::new(&network, Box::new(model), CTM_DEVIATIONS).expect("variances")
}

fn entries() -> Vec<MeasurementEntry> {
    let all = [Quantity::Density, Quantity::Flow, Quantity::Speed];
    let of = |link| all.map(|quantity| MeasurementEntry { link: LinkId(link), quantity });
    (0..LINKS as u32).flat_map(of).collect()
}

fn objective(physics: Option<Physics>) -> PhysicsInformed {
    let parties = BTreeMap::from([("guest".to_owned(), entries())]);
    PhysicsInformed::new(physics, vec![SCALES; LINKS], parties).expect("an objective")
}

/// Two segments of three steps each, and one sample alone.
fn samples() -> Vec<Window> {
    let at = |last, view| Window { last: Step(last), view: FleetView(view) };
    vec![at(60, 0), at(61, 0), at(62, 0), at(80, 1), at(81, 1), at(82, 1), at(83, 2)]
}

/// Numbers between −1 and 1.
fn some(count: usize, key: u64) -> Vec<f32> {
    (0..count).map(|at| 2.0 * unit(hash([key, at as u64])) - 1.0).collect()
}

#[test]
fn its_gradient_is_that_of_differences() {
    let samples = samples();
    let y = some(samples.len() * 2 * LINKS, 3);
    let values: Vec<f32> =
        some(samples.len() * entries().len(), 4).iter().map(|u| 10.0 + 5.0 * u).collect();
    let weights: Vec<f32> =
        some(values.len(), 5).iter().map(|w| if *w < 0.0 { 0.0 } else { *w }).collect();
    let measured =
        MeasuredBatch::from([("guest", Readings { values: &values, weights: &weights })]);
    let mut objective = objective(Some(ctm_physics()));
    let label = LinkState { density: VehPerKmLane::new(50.0), flow: VehPerMinLane::new(3.0) };
    let labels = SomeLabels::new(LINKS, [0.3, 0.7], [(Step(81), vec![label; LINKS])]);
    objective = objective.with_labels(labels).unwrap();
    let mut dy = vec![f32::NAN; y.len()];
    let loss = objective.train(&samples, &measured, &y, &mut dy).unwrap();
    let validated = objective.validate(&samples, &measured, &y, 1.0).unwrap();
    // The same sums, divided apart.
    assert!(((validated - 1.0) / samples.len() as f64 - loss).abs() < 1e-12 * validated);

    let mut unused = vec![0.0; y.len()];
    let mut beyond = 0;
    for place in 0..y.len() {
        let mut slope = |step: f32| {
            let mut at = |by: f32| {
                let mut y = y.clone();
                y[place] += by;
                (objective.train(&samples, &measured, &y, &mut unused).unwrap(), y[place])
            };
            let ((up, high), (down, low)) = (at(step), at(-step));
            (up - down) / f64::from(high - low)
        };
        let (coarse, fine) = (slope(4e-3), slope(1e-3));
        // Minima of the traffic model have kinks; where one lies within the step, both slopes differ
        // by more than the curvature tells, and neither is the derivative.
        if (coarse - fine).abs() > 2e-4 * (1.0 + fine.abs()) {
            beyond += 1;
            continue;
        }
        let found = f64::from(dy[place]);
        // The step's square, and f32 numbers.
        assert!((found - fine).abs() < 2e-4 * (1.0 + fine.abs()), "{place}: {found} {fine}");
    }
    assert!(beyond < y.len() / 10, "{beyond} kinks of {}", y.len());
    assert!(dy.iter().filter(|d| d.abs() > 1e-3).count() > y.len() / 2);
}

/// Within what is stated nothing changes; beyond, a link's weight is one over the mean square of its residuals, and
/// its loss grows with the logarithm of that.
#[test]
fn a_link_that_errs_more_than_stated_counts_less() {
    // Two pairs; mean squares of 25, 36 and 3,600, variances of 36; the last link does not count.
    let mut weights = [1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 0.0];
    let more = doubt(&mut weights, &[50.0, 72.0, 7200.0, 1e9], 2.0);
    // Rounding of a few operations.
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12 * (1.0 + expected);
    assert!(near(weights[0], 1.0 / 36.0) && near(weights[1], 1.0 / 36.0), "{weights:?}");
    assert!(near(weights[2], 1.0 / 3600.0) && weights[3] == 0.0, "{weights:?}");
    assert!(near(more, 0.5 * 100.0f64.ln()), "{more}");
}

/// A road on which nothing changes, as the model has it: no physics loss, and measurements pull alone.
#[test]
fn only_neighbours_in_time_are_tied_by_physics() {
    let mut tied = objective(Some(ctm_physics()));
    let mut free = objective(None);
    let y = some(3 * 2 * LINKS, 8);
    let loss = |objective: &mut PhysicsInformed, views: [u16; 3], steps: [i64; 3]| {
        let at = |i: usize| Window { last: Step(steps[i]), view: FleetView(views[i]) };
        let mut dy = vec![0.0; y.len()];
        objective.train(&[at(0), at(1), at(2)], &MeasuredBatch::new(), &y, &mut dy).unwrap()
    };
    let both = loss(&mut tied, [1; 3], [60, 61, 62]);
    let first = loss(&mut tied, [1, 1, 2], [60, 61, 62]);
    assert!(both > first && first > 0.0, "{both} {first}");
    assert_eq!(loss(&mut tied, [1; 3], [60, 62, 64]), 0.0);
    assert_eq!(loss(&mut tied, [1; 3], [62, 61, 60]), 0.0);
    assert_eq!(loss(&mut free, [1; 3], [60, 61, 62]), 0.0);
}

/// What the traffic model itself does has no physics loss, and with signals of another phase it has.
#[test]
fn the_models_own_course_has_no_loss() {
    let physics = ctm_physics();
    let model = &*physics.model;
    let (mut inputs, mut memory) = (physics::Inputs::free(model), model.memory());
    let (mut state, mut next) = (vec![0.0; model.state_len()], vec![0.0; model.state_len()]);
    let mut densities: Vec<f64> =
        some(LINKS, 6).iter().map(|u| 50.0 + 40.0 * f64::from(*u)).collect();
    let mut y = Vec::new();
    for step in 60..63 {
        let mut advance = |begin: f64, next: &mut [f64]| {
            let begin = Seconds::new(begin);
            inputs.signals_from(&physics.signals, model, begin).expect("signals");
            // The CTM's state is density alone.
            model.lift(&densities, &[0.0; LINKS], &mut state).expect("a state");
            let mut flows = vec![0.0; LINKS];
            model.step(&state, &inputs, &mut memory, next, &mut flows).expect("a step");
            flows
        };
        // Flow by the signals of the step, density by those from its middle on.
        let flows = advance(10.0 * f64::from(step), &mut next);
        advance(10.0 * f64::from(step) + 5.0, &mut next);
        for (density, flow) in densities.iter().zip(&flows) {
            y.push(((density - SCALES[0].mean) / SCALES[0].deviation) as f32);
            y.push(((flow - SCALES[1].mean) / SCALES[1].deviation) as f32);
        }
        model.densities(&next, &mut densities).expect("densities");
    }
    let mut objective = objective(Some(physics));
    let mut loss = |first: i64| {
        let at = |later: i64| Window { last: Step(first + later), view: FleetView(0) };
        let samples = [at(0), at(1), at(2)];
        objective.validate(&samples, &MeasuredBatch::new(), &y, 0.0).unwrap()
    };
    // Numbers of up to 90 as f32 err by 1e-5; squared, over variances of 36, for 34 of them.
    assert!(loss(60) < 1e-9, "{}", loss(60));
    // 40 s later other lights are green: errors of about a deviation.
    assert!(loss(64) > 1e-2, "{}", loss(64));
}

fn learning(rate: f32) -> PhysicsInformed {
    let mut physics = ctm_physics();
    physics.learned = Some(LearnedPhysics::new(&*physics.model, rate));
    objective(Some(physics))
}

/// As a host does when a guest goes while it waits for products: it asks again without it.
#[test]
fn a_batch_that_is_computed_again_moves_parameters_once() {
    let samples = &samples()[..3];
    let y = some(3 * 2 * LINKS, 2);
    let weights = vec![1.0; 3 * entries().len()];
    let (there, gone) =
        (MeasurementWeights::from([("guest", &weights[..])]), MeasurementWeights::new());
    let after = |rounds: &[&MeasurementWeights<'_>]| {
        let (mut objective, mut dy) = (learning(0.01), vec![0.0; y.len()]);
        let first = objective.physics.as_ref().unwrap().model.parameters().to_vec();
        for weights in rounds {
            objective
                .train_without_values(samples, &MeasuredBatch::new(), weights, &y, &mut dy)
                .unwrap();
        }
        assert_eq!(objective.physics.as_ref().unwrap().model.parameters(), first);
        objective.update();
        assert_ne!(objective.physics.as_ref().unwrap().model.parameters(), first);
        objective.physics.as_ref().unwrap().model.parameters().to_vec()
    };
    assert_eq!(after(&[&there, &gone]), after(&[&gone]));
}

#[test]
fn what_was_learned_of_the_traffic_model_is_kept() {
    let (samples, y) = (&samples()[..3], some(3 * 2 * LINKS, 2));
    let learn = |objective: &mut PhysicsInformed| {
        let mut dy = vec![0.0; y.len()];
        for _ in 0..5 {
            objective.train(samples, &MeasuredBatch::new(), &y, &mut dy).unwrap();
            objective.update();
        }
        objective.physics.as_ref().unwrap().model.parameters().to_vec()
    };
    let (mut whole, mut again) = (learning(0.01), learning(0.01));
    let first = learn(&mut whole);
    let mut checkpoint = Checkpoint::new("test");
    whole.save(&mut checkpoint);
    again.restore(&checkpoint).unwrap();
    assert_eq!(again.physics.as_ref().unwrap().model.parameters(), first);
    assert_eq!(learn(&mut again), learn(&mut whole));

    // Of another model, or none.
    assert!(learning(0.01).restore(&Checkpoint::new("test")).is_err());
    checkpoint.put("physics.moved", &[4 * LINKS], &[f32::NAN; 4 * LINKS]);
    let error = learning(0.01).restore(&checkpoint).unwrap_err();
    assert!(matches!(error, CheckpointError::Broken { .. }), "{error}");
}

#[test]
fn parameters_move_only_while_training_and_the_loss_falls() {
    let samples = &samples()[..3];
    let y = some(3 * 2 * LINKS, 2);
    let mut dy = vec![0.0; y.len()];
    let mut objective = learning(0.01);
    let before = objective.physics.as_ref().unwrap().model.parameters().to_vec();
    let none = MeasuredBatch::new();
    let first = objective.validate(samples, &none, &y, 0.0).unwrap();
    assert_eq!(objective.physics.as_ref().unwrap().model.parameters(), before);
    for _ in 0..30 {
        objective.train(samples, &none, &y, &mut dy).unwrap();
        objective.update();
    }
    let after = objective.physics.as_ref().unwrap().model.parameters().to_vec();
    assert_ne!(after, before);
    // Usual values times 2/3 to 3/2; shares of turns stay.
    for (after, before) in after.iter().zip(&before) {
        assert!((0.66 * before..=1.51 * before).contains(after) || after == before);
    }
    assert_eq!(after[4 * LINKS..], before[4 * LINKS..]);
    let last = objective.validate(samples, &none, &y, 0.0).unwrap();
    assert!(last < first, "{last} {first}");
}

#[test]
fn strangers_and_wrong_numbers_are_refused() {
    let mut objective = objective(None);
    let samples = &samples()[..1];
    let y = vec![0.0; 2 * LINKS];
    let mut dy = y.clone();
    let numbers = vec![0.0; entries().len()];
    let mut refused = |name: &str, values: &[f32], weights: &[f32]| {
        let batch = MeasuredBatch::from([(name, Readings { values, weights })]);
        objective.train(samples, &batch, &y, &mut dy).err().map(|error| error.to_string())
    };
    assert_eq!(refused("guest", &numbers, &numbers), None);
    assert!(refused("stranger", &numbers, &numbers).unwrap().contains("`stranger`"));
    assert!(refused("guest", &numbers[1..], &numbers).unwrap().contains("found 50 numbers"));
    let far = MeasurementEntry { link: LinkId(17), quantity: Quantity::Flow };
    let parties = BTreeMap::from([("guest".to_owned(), vec![far])]);
    let error = PhysicsInformed::new(None, vec![SCALES; LINKS], parties).err().unwrap();
    assert_eq!(error.to_string(), "link of an entry: found 17 numbers, expected below 17");
}
