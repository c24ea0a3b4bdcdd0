//! Calibration and filter on traffic of the built-in world, which knows nothing of these models.

use physics::calibrate::{
    DiagramOptions, DiagramSample, RatioSource, TurnCounts, fit_diagram, process_noise,
};
use physics::filter::{FilterPlan, Measurements, Reading, TrafficFilter};
use physics::{
    Ctm, Discretisation, GreenPlan, Inputs, Parameters, RoadGraph, Segment, TrafficModel,
};
use sensing::{FeatureExtractor, FeaturePlan, Fleets, StepFeatures, VehicleTable};
use traffic::{LinkId, Network, PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

const STEP: f64 = 10.0;
const RATE: f64 = 0.2;
/// Steps of warm-up that are dropped.
const WARM_UP: i64 = 30;

/// What host and guest hold of a simulated hour and a half; per step and link.
struct Recorded {
    network: Network,
    first: i64,
    densities: Vec<f64>,
    flows: Vec<f64>,
    /// Flow at the loop, per loop.
    loops: Vec<Vec<f64>>,
    /// Speed and number of the fleet's vehicles.
    speeds: Vec<Option<(f64, f64)>>,
    turns: Vec<f64>,
    left: Vec<f64>,
}

fn record() -> Recorded {
    let network = corridor().expect("the corridor");
    let demand = corridor_demand(&network).expect("its demand");
    let until = Seconds::new(5400.0);
    let mut vehicles = VehicleTable::default();
    for departure in demand.departures(&network, 1, until) {
        vehicles.number(&format!("v{}", departure.vehicle.0), departure.class);
    }
    let plan = SimulationPlan { until, ..SimulationPlan::default() };
    let mut world = Simulation::new(&network, plan, demand.departures(&network, 1, until))
        .expect("sound test data");
    let features = FeaturePlan::paper(Fleets::nested(&[RATE], 1).expect("sound test data"));
    let mut extractor = FeatureExtractor::new(&network, features).expect("sound test data");
    let mut recorded = Recorded {
        network: network.clone(),
        first: WARM_UP,
        densities: Vec::new(),
        flows: Vec::new(),
        loops: Vec::new(),
        speeds: Vec::new(),
        turns: vec![0.0; network.turns().len()],
        left: vec![0.0; network.links().len()],
    };
    let mut take = |step: &StepFeatures| {
        if !step.complete || step.step.0 < WARM_UP {
            return;
        }
        for id in network.link_ids() {
            let link = network.link(id);
            let state = step.all.link_totals(id).state(link, Seconds::new(STEP));
            recorded.densities.push(state.density.get());
            recorded.flows.push(state.flow.get());
            let fleet = &step.fleets[0];
            let seen = f64::from(fleet.vehicles[id.index()]);
            let speed = fleet.link_totals(id).speed();
            recorded.speeds.push(speed.map(|speed| (speed.get(), seen)));
        }
        let loops = network.loops().iter().zip(&step.loops).map(|(detector, &count)| {
            f64::from(count) * 60.0 / STEP / f64::from(network.link(detector.link).lanes)
        });
        recorded.loops.push(loops.collect());
        for (sum, &count) in recorded.turns.iter_mut().zip(&step.all.turns) {
            *sum += f64::from(count);
        }
        for &(_, destination, count) in &step.all.trips {
            recorded.left[destination.index()] += f64::from(count);
        }
    };
    extractor.begin(Seconds::ZERO, &mut take);
    let mut samples = Vec::new();
    while let Some(time) = world.next_moment(&mut samples).expect("sound test data") {
        extractor.moment(time, &samples, &vehicles, &mut take).expect("sound test data");
    }
    extractor.end(until, &mut take);
    recorded
}

impl Recorded {
    fn steps(&self) -> usize {
        self.loops.len()
    }

    /// Diagrams and ratios from the first half of the truth.
    fn calibrated(&self) -> Parameters {
        let links = self.network.links().len();
        let typical = Parameters::typical(&self.network).expect("sound test data");
        let half = self.steps() / 2;
        let diagrams: Vec<_> = (0..links)
            .map(|n| {
                let samples: Vec<DiagramSample> = (0..half)
                    .map(|t| t * links + n)
                    .map(|at| DiagramSample { density: self.densities[at], flow: self.flows[at] })
                    .collect();
                let prior = typical.fundamental_diagram(n).expect("sound test data");
                let options = DiagramOptions { quantile: 0.9, prior };
                let name = &self.network.links()[n].name;
                // A side street with hardly a vehicle keeps its prior.
                fit_diagram(name, &samples, options).map_or(prior, |fit| fit.diagram)
            })
            .collect();
        let ratios = self.counts().ratios(&self.network, 2.0, 20.0).expect("sound test data");
        Parameters::new(&self.network, &diagrams, &ratios.ratios).expect("sound test data")
    }

    fn counts(&self) -> TurnCounts {
        let mut counts = TurnCounts::none(&self.network);
        for (turn, &count) in self.network.turns().iter().zip(&self.turns) {
            counts.turned(&self.network, turn.from, turn.to, count).expect("sound test data");
        }
        for (link, &count) in self.left.iter().enumerate() {
            counts.left(&self.network, LinkId(link as u32), count).expect("sound test data");
        }
        counts
    }

    fn model(&self, parameters: Parameters) -> Ctm {
        let plan = Discretisation::of_step(Seconds::new(STEP));
        Ctm::new(&self.network, parameters, plan).expect("sound test data")
    }

    /// Signals of every step; what really entered as demand, where `demand` is so.
    fn inputs(&self, model: &Ctm, demand: &[f64]) -> Vec<Inputs> {
        let signals = GreenPlan::of(&self.network);
        (0..self.steps())
            .map(|t| {
                let mut inputs = Inputs::free(model);
                let begin = Seconds::new((self.first + t as i64) as f64 * STEP);
                inputs.signals_from(&signals, model, begin).expect("sound test data");
                inputs.demand.copy_from_slice(demand);
                inputs
            })
            .collect()
    }

    /// Mean inflow of each entry, veh/min.
    fn mean_demand(&self) -> Vec<f64> {
        let links = self.network.links().len();
        let mut demand = vec![0.0; links];
        for link in self.network.entries() {
            let n = link.index();
            let flows: f64 = (0..self.steps()).map(|t| self.flows[t * links + n]).sum();
            let lanes = f64::from(self.network.link(link).lanes);
            demand[n] = flows / self.steps() as f64 * lanes;
        }
        demand
    }
}

#[test]
fn turning_ratios_are_those_of_the_demand() {
    let recorded = record();
    let network = &recorded.network;
    let estimate = recorded.counts().ratios(network, 2.0, 20.0).unwrap();
    RoadGraph::of(network).check_ratios(&estimate.ratios).unwrap();
    let expected = corridor_demand(network).unwrap().expected_flows(network);
    let named = |name: &str| network.link_named(name).unwrap();
    // off_R2 is fed by E3 alone, so that its share is the ratio of flows.
    let (e3, off) = (named("E3"), named("off_R2"));
    let turn = network.turn_between(e3, off).unwrap().index();
    let share = expected[off.index()].get() / expected[e3.index()].get();
    assert_eq!(estimate.sources[e3.index()], RatioSource::Counts);
    // Routes are dealt out evenly, not drawn: nearer than the binomial error says. What is still
    // on its way at either end adds a vehicle or two of a thousand.
    let allowed = 2.0 * estimate.errors[turn] + 0.01;
    let found = estimate.ratios[turn];
    assert!((found - share).abs() < allowed, "{found}, expected {share} ± {allowed}");
}

#[test]
fn calibration_finds_the_streets_and_makes_a_better_model() {
    let recorded = record();
    let network = &recorded.network;
    let links = network.links().len();
    let calibrated = recorded.calibrated();
    for name in ["E1", "E2", "E3", "E4", "E5", "E6", "E7"] {
        let n = network.link_named(name).unwrap().index();
        let diagram = calibrated.fundamental_diagram(n).unwrap();
        let limit = network.links()[n].speed.get();
        // Drivers' free speeds scatter about the limit; mean speed over a link with a signal at
        // its end is never above what the fastest tenth drives.
        let free = diagram.free_speed().get();
        assert!((0.5 * limit..=1.2 * limit).contains(&free), "{name}: {free}");
        // Standing vehicles of 2 to 12 m and their gaps: 5 to 15 m each.
        let jam = diagram.jam_density().get();
        assert!((60.0..=220.0).contains(&jam), "{name}: {jam}");
    }
    // Residuals over the second half, which calibration has not seen.
    let spread = |parameters: Parameters| -> f64 {
        let model = recorded.model(parameters);
        let inputs = recorded.inputs(&model, &recorded.mean_demand());
        let half = recorded.steps() / 2;
        let segment = Segment {
            densities: &recorded.densities[half * links..],
            flows: &recorded.flows[half * links..],
            inputs: &inputs[half..recorded.steps() - 1],
        };
        let noise = process_noise(&model, &[segment]).unwrap();
        let variances = network.targets().into_iter().map(|link| {
            let (density, flow) = &noise[link.index()];
            (density.as_ref().unwrap().variance, flow.as_ref().unwrap().variance)
        });
        variances.map(|(density, flow)| density.sqrt() + 5.0 * flow.sqrt()).sum()
    };
    let (before, after) = (spread(Parameters::typical(network).unwrap()), spread(calibrated));
    assert!(after < before, "{after} against {before} with typical parameters");
}

#[test]
fn the_filter_beats_the_model_alone() {
    let recorded = record();
    let network = &recorded.network;
    let links = network.links().len();
    let parameters = recorded.calibrated();
    let model = recorded.model(parameters);
    let inputs = recorded.inputs(&model, &recorded.mean_demand());
    let start: Vec<f64> = recorded.densities[..links].to_vec();
    let plan = FilterPlan::default();
    let mut filter =
        TrafficFilter::new(network, model.clone(), &start, &recorded.mean_demand(), plan).unwrap();
    let mut memory = model.memory();
    let mut state = vec![0.0; model.state_len()];
    model.lift(&start, &vec![0.0; links], &mut state).unwrap();
    let (mut next, mut flows) = (state.clone(), vec![0.0; links]);
    let mut densities = vec![0.0; links];
    let (mut filtered, mut open, mut count) = (0.0, 0.0, 0.0);
    for (t, inputs) in inputs.iter().enumerate() {
        let mut measurements = Measurements::none(links);
        for (detector, &flow) in network.loops().iter().zip(&recorded.loops[t]) {
            // A count of n vehicles has about their variance.
            let scale = 60.0 / STEP / f64::from(network.link(detector.link).lanes);
            let variance = (flow * scale).max(scale * scale);
            measurements.flows[detector.link.index()] = Some(Reading { value: flow, variance });
        }
        for n in 0..links {
            if let Some((speed, seen)) = recorded.speeds[t * links + n] {
                // Some vehicles of a box stand and others drive: about half the free speed apart.
                measurements.speeds[n] = Some(Reading { value: speed, variance: 36.0 / seen });
            }
        }
        filter.step(&inputs.green, &measurements).unwrap();
        filter.densities(&mut densities).unwrap();
        model.step(&state, inputs, &mut memory, &mut next, &mut flows).unwrap();
        std::mem::swap(&mut state, &mut next);
        assert!(filter.smallest_pivot() > 0.0);
        for link in network.targets() {
            let n = link.index();
            let truth = recorded.densities[t * links + n];
            filtered += (densities[n] - truth).powi(2);
            open += (state[n] - truth).powi(2);
            count += 1.0;
        }
    }
    let (filtered, open) = ((filtered / count).sqrt(), (open / count).sqrt());
    println!("density error: filter {filtered:.2}, model alone {open:.2} veh/km/lane");
    // The gain must be more than what 4,500 correlated errors could give by chance: a tenth.
    assert!(filtered < 0.9 * open, "{filtered} against {open}");
}
