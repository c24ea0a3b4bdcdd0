//! The CTM against closed-form solutions of the kinematic wave theory (LWR).

use traffic::{FundamentalDiagram, Metres, MetresPerSecond, Seconds, VehPerKmLane};

use super::*;
use crate::cells::{CellRule, SubSteps};
use crate::convergence::{Bottleneck, cell_error};
use crate::model::Throughput;
use crate::test_networks::{network, road};

/// 12 m/s, 6 m/s, 150 veh/km: critical 50 veh/km, capacity 36 veh/min.
fn diagram() -> FundamentalDiagram {
    FundamentalDiagram::triangular(
        MetresPerSecond::new(12.0),
        MetresPerSecond::new(6.0),
        VehPerKmLane::new(150.0),
    )
    .unwrap()
}

/// A model in cells of 12 m and steps of one second: free waves cross exactly a cell.
fn sharp(network: &Network) -> Ctm {
    let diagrams = vec![diagram(); network.links().len()];
    let ratios = crate::graph::ratios_by_lanes(network);
    let parameters = Parameters::new(network, &diagrams, &ratios).unwrap();
    let plan = Discretisation {
        step: Seconds::new(1.0),
        cells: CellRule::UpTo(Metres::new(12.0)),
        sub_steps: SubSteps::Exactly(1),
    };
    Ctm::new(network, parameters, plan).unwrap()
}

struct Run {
    model: Ctm,
    memory: Memory,
    inputs: Inputs,
    state: Vec<f64>,
    next: Vec<f64>,
    flows: Vec<f64>,
}

impl Run {
    fn new(network: &Network, density: impl Fn(usize) -> f64) -> Self {
        let model = sharp(network);
        let mut state: Vec<f64> = (0..model.cell_count()).map(density).collect();
        state.resize(model.state_len(), 0.0);
        Self {
            memory: model.memory(),
            inputs: Inputs::free(&model),
            next: state.clone(),
            flows: vec![0.0; model.links()],
            state,
            model,
        }
    }

    fn step(&mut self) -> Throughput {
        let through = self
            .model
            .step(&self.state, &self.inputs, &mut self.memory, &mut self.next, &mut self.flows)
            .unwrap();
        std::mem::swap(&mut self.state, &mut self.next);
        through
    }

    /// Metres from the road's end to where density falls below the middle of two values.
    fn border(&self, high: f64, low: f64) -> f64 {
        let cells = &self.state[..self.model.cell_count()];
        let behind = cells.iter().rev().position(|&k| k < 0.5 * (high + low));
        12.0 * behind.unwrap_or(cells.len()) as f64
    }
}

#[test]
fn a_free_platoon_moves_on_exactly_at_free_speed() {
    // Twelve metres a second over cells of 12 m: each step shifts the profile by a cell.
    let mut run =
        Run::new(&road(1200.0, 12.0), |cell| if (10..20).contains(&cell) { 40.0 } else { 0.0 });
    for _ in 0..50 {
        run.step();
    }
    for (cell, &density) in run.state[..100].iter().enumerate() {
        let expected = if (60..70).contains(&cell) { 40.0 } else { 0.0 };
        // v·δt/Δx is 1 but for rounding, fifty times.
        assert!((density - expected).abs() < 1e-9, "cell {cell}: {density}");
    }
}

#[test]
fn a_shock_moves_with_the_slope_of_the_chord() {
    // 25 veh/km run into a standstill: Rankine–Hugoniot gives −2.4 m/s.
    let mut run = Run::new(&road(2400.0, 12.0), |_| 25.0);
    run.inputs.demand[0] = 18.0;
    run.inputs.green.fill(0.0);
    for second in 1..=500 {
        run.step();
        if second % 100 == 0 {
            let queue = run.border(150.0, 25.0);
            // The shock is sharp to a cell to either side.
            assert!((queue - 2.4 * f64::from(second)).abs() <= 12.0, "{second} s: {queue} m");
        }
    }
    // Behind it the density is jam to rounding, ahead that of the arrivals.
    assert!((run.state[199] - 150.0).abs() < 1e-9 && (run.state[0] - 25.0).abs() < 1e-9);
}

#[test]
fn a_queue_starts_from_its_head_at_wave_speed_and_discharges_at_capacity() {
    // The fan between jam and critical density collapses, on a triangle, to a wave of −6 m/s.
    let mut run = Run::new(&road(2400.0, 12.0), |_| 150.0);
    let mut left = 0.0;
    for second in 1..=300 {
        left += run.step().left;
        if second % 100 == 0 {
            let discharged = run.border_from_end(100.0);
            // The wave spreads as a random walk of rate w/v = 1/2: its middle stays within a cell,
            // plus one for where in the cell it is.
            assert!((discharged - 6.0 * f64::from(second)).abs() <= 24.0, "{second}: {discharged}");
        }
    }
    // 36 veh/min for 5 minutes; the first cell holds critical density after the first second.
    assert!((left - 180.0).abs() < 0.7, "{left}");
}

impl Run {
    /// Metres from the end to where density rises above a value.
    fn border_from_end(&self, above: f64) -> f64 {
        let cells = &self.state[..self.model.cell_count()];
        12.0 * cells.iter().rev().position(|&k| k > above).unwrap_or(cells.len()) as f64
    }
}

#[test]
fn a_rarefaction_spreads_between_its_two_waves() {
    // A trapezoid: from jam to the free branch there are waves of −w, 0 and v_f; between the last
    // two the road carries capacity.
    let network = road(2400.0, 12.0);
    let capped = FundamentalDiagram::new(
        MetresPerSecond::new(12.0),
        MetresPerSecond::new(6.0),
        VehPerKmLane::new(150.0),
        traffic::VehPerMinLane::new(24.0),
    )
    .unwrap();
    let mut run = Run::new(&network, |cell| if cell < 100 { 150.0 } else { 0.0 });
    let mut values = run.model.parameters().to_vec();
    values[run.model.parameters.layout().capacity()][0] = capped.capacity().get();
    run.model.set_parameters(values).unwrap();
    for _ in 0..60 {
        run.step();
    }
    let flow = |cell: usize| run.model.links[0].diagram.sending(run.state[cell]);
    // 60 s: head at cell 160 (free speed, exact), tail at cell 100 − 30 (spread over a few cells).
    assert!(run.state[161] < 1e-9 && (run.state[158] - 100.0 / 3.0).abs() < 1e-9);
    for cell in 101..159 {
        assert!((flow(cell) - 24.0).abs() < 1e-9, "cell {cell}: {}", flow(cell));
    }
    // Upstream of the border the density is that of capacity on the congested branch.
    let congested = 150.0 - 24.0 / 0.36;
    assert!((run.state[95] - congested).abs() < 1e-3, "{}", run.state[95]);
    assert!(run.state[55] > 149.0);
}

#[test]
fn a_signal_makes_a_queue_that_clears_as_theory_says() {
    // Cycle 90 s, red 45 s, arrivals 12 veh/min (k = 16.67): the queue's tail grows with the shock
    // speed s = 12/(150 − 16.67) = 0.09 km/min = 1.5 m/s; the head leaves with 6 m/s at green.
    let mut run = Run::new(&road(1200.0, 12.0), |_| 50.0 / 3.0);
    run.inputs.demand[0] = 12.0;
    let mut left = 0.0;
    let mut red_queue = 0.0;
    let mut cleared = None;
    for second in 0..90 {
        run.inputs.green.fill(if second < 45 { 0.0 } else { 1.0 });
        left += run.step().left;
        if second == 44 {
            red_queue = run.border(150.0, 50.0 / 3.0);
        }
        let last = run.state[run.model.cell_count() - 1];
        if second > 50 && last < 40.0 && cleared.is_none() {
            cleared = Some(second + 1);
        }
    }
    assert!((red_queue - 1.5 * 45.0).abs() <= 12.0, "{red_queue}");
    // Head and tail meet at t = 45·6/(6 − 1.5) = 60 s, 90 m upstream; the last of the queue then
    // drives these 90 m at 12 m/s: 67.5 s. A wave is sharp to about two cells: 2 s of driving,
    // 4 s of the wave.
    let cleared = f64::from(cleared.unwrap());
    assert!((cleared - 67.5).abs() <= 6.0, "{cleared}");
    // Undersaturated: all that arrived has left, and the road is as it was, after the cycle.
    assert!((left - 18.0).abs() < 0.2, "{left}");
}

#[test]
fn spill_back_reaches_the_upstream_link_when_theory_says() {
    // 360 m of closed road behind 600 m: the queue's tail runs 2.4 m/s, 150 s to the junction.
    let network = network(&[(600.0, 1, 12.0), (360.0, 1, 12.0)], &[(0, 1)]);
    let mut run = Run::new(&network, |_| 25.0);
    run.inputs.demand[0] = 18.0;
    let exit = network.turns().len() + 1;
    run.inputs.green[exit] = 0.0;
    let mut blocked = None;
    for second in 1..=200 {
        run.step();
        let last_upstream = run.state[run.model.links[0].last()];
        if blocked.is_none() && last_upstream > 25.0 + 1e-6 {
            blocked = Some(second);
        }
    }
    // A cell fills before it refuses: 12 m take 5 s.
    let blocked = f64::from(blocked.unwrap());
    assert!((blocked - 150.0).abs() <= 5.0, "{blocked}");
}

#[test]
fn merges_share_by_sending_and_diverges_follow_their_rule() {
    // Two links merge into one; both full: the one with two lanes sends two thirds.
    let merging =
        network(&[(120.0, 1, 12.0), (120.0, 2, 12.0), (120.0, 1, 12.0)], &[(0, 2), (1, 2)]);
    let mut run = Run::new(&merging, |cell| if cell < 20 { 100.0 } else { 0.0 });
    run.step();
    let entered = run.state[20] * 0.012;
    assert!((entered - 36.0 / 60.0).abs() < 1e-12, "capacity of one lane for a second: {entered}");
    let from = |link: usize| 100.0 - run.state[run.model.links[link].last()];
    // Outflow 12 and 24 veh/min; the rest came in from the cell before at w·(150 − 100) = 18 a lane.
    let change = |out: f64, lanes: f64| (out - 18.0 * lanes) / 60.0 / 0.012 / lanes;
    assert!((from(0) - change(12.0, 1.0)).abs() < 1e-9);
    assert!((from(1) - change(24.0, 2.0)).abs() < 1e-9);

    // One link into two, half each, one of them jammed.
    let parting = network(&[(120.0, 1, 12.0); 3], &[(0, 1), (0, 2)]);
    let mut run = Run::new(&parting, |cell| match cell {
        0..10 => 50.0,
        10..20 => 150.0,
        _ => 0.0,
    });
    run.inputs.green[2 + 1] = 0.0;
    run.step();
    let entered = run.state[20] * 0.012 * 60.0;
    assert!((entered - 18.0).abs() < 1e-9, "only the jammed branch waits: {entered}");
}

#[test]
fn the_bottleneck_converges_to_lwr_at_first_order() {
    let errors: Vec<f64> = [10, 20, 40, 80, 160]
        .iter()
        .map(|&cells| cell_error(&Bottleneck::default(), cells).unwrap())
        .collect();
    // A shock is spread over a fixed number of cells, so that the error in L1 halves with the cell.
    // Over four halvings the slope of log error may be off by where in its cell the shock happens
    // to lie: half a cell of two or so, at both ends: log2(1.5)·2/4 ≈ 0.3.
    let order = (errors[0] / errors[4]).log2() / 4.0;
    assert!((0.7..=1.3).contains(&order), "order {order}: {errors:?}");
    assert!(errors.windows(2).all(|pair| pair[1] < pair[0]), "{errors:?}");
}
