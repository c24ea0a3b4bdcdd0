//! The unscented filter on the corridor: time of a step, on a scene that a peer can read.
//!
//! ```sh
//! cargo run --release -p physics --example ukf_speed -- scene FILE    # writes the scene
//! cargo run --release -p physics --example ukf_speed -- run FILE 60   # filters 60 steps, prints JSON
//! ```
//!
//! The scene holds all that a filter needs: the model's numbers, green shares, measurements with
//! gaps, noise. `scripts/peer_filterpy.py` reads the same and runs filterpy's UKF; both filters have
//! the state (density, demand, flow), the same points and no adaptation, so that estimates agree (to
//! 1e-7 over 60 steps; rounding grows at the model's kinks).

use std::error::Error;
use std::time::Instant;

use physics::filter::{
    Adaptation, FilterNoise, FilterPlan, Measurements, Reading, SigmaPointSpread, TrafficFilter,
};
use physics::{Ctm, Discretisation, GreenPlan, Inputs, Parameters, TrafficModel};
use serde_json::{Value, json};
use traffic::{Network, Seconds, corridor};

const STEP: Seconds = Seconds::new(10.0);
const STEPS: usize = 400;
/// Points of a tenth of a deviation, as the paper's authors had it.
const SPREAD: SigmaPointSpread = SigmaPointSpread { alpha: 0.1, beta: 2.0, kappa: 0.0 };
const FLOW_VARIANCE: f64 = 1.0;
const SPEED_VARIANCE: f64 = 1.0;
const START: f64 = 15.0;
/// Usual demand, veh/min/lane.
const USUAL: f64 = 7.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["scene", file] => std::fs::write(file, serde_json::to_vec(&scene()?)?)?,
        ["run", file, steps] => {
            let scene: Value = serde_json::from_slice(&std::fs::read(file)?)?;
            println!("{}", run(&scene, steps.parse()?)?);
        }
        _ => return Err("expected `scene FILE` or `run FILE STEPS`".into()),
    }
    Ok(())
}

fn model(network: &Network) -> Result<Ctm, Box<dyn Error>> {
    let parameters = Parameters::typical(network)?;
    Ok(Ctm::new(network, parameters, Discretisation::of_step(STEP))?)
}

/// Draws from 0 to 1.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.next().max(1e-300).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next()).cos()
    }
}

/// Simulates the corridor by its own model with noise, and measures it.
fn scene() -> Result<Value, Box<dyn Error>> {
    let network = corridor()?;
    let model = model(&network)?;
    let signals = GreenPlan::of(&network);
    let links = model.links();
    let mut draw = Draw(7);
    let mut inputs = Inputs::free(&model);
    let mut memory = model.memory();
    let (mut state, mut next) = (vec![0.0; model.state_len()], vec![0.0; model.state_len()]);
    let mut flows = vec![0.0; links];
    let mut steps = Vec::new();
    for step in 0..STEPS {
        let now = STEP * step as f64;
        for link in network.entries() {
            let lanes = f64::from(network.link(link).lanes);
            let wave = 1.0 + 0.7 * (now.get() / 900.0 + link.index() as f64).sin();
            inputs.demand[link.index()] = USUAL * lanes * wave;
        }
        inputs.signals_from(&signals, &model, now)?;
        model.step(&state, &inputs, &mut memory, &mut next, &mut flows)?;
        for density in &mut next[..links] {
            *density = (*density + 1.5 * draw.normal()).clamp(0.0, 130.0);
        }
        std::mem::swap(&mut state, &mut next);
        let mut measured_flows = vec![Value::Null; links];
        for detector in network.loops() {
            let link = detector.link.index();
            measured_flows[link] = json!((flows[link] + draw.normal()).max(0.0));
        }
        let measured_speeds: Vec<Value> = (0..links)
            .map(|link| {
                if draw.next() < 0.5 && state[link] > 2.0 {
                    json!((flows[link] / state[link] / 0.06 + draw.normal()).max(0.0))
                } else {
                    Value::Null
                }
            })
            .collect();
        steps.push(json!({
            "green": inputs.green, "flows": measured_flows, "speeds": measured_speeds,
            "densities": &state[..links],
        }));
    }
    let noise = FilterNoise::default();
    let values = model.parameters();
    let lasting = (-(STEP / noise.demand_memory)).exp();
    Ok(json!({
        "links": links,
        "sub_steps": model.sub_steps(),
        "step_min": STEP.get() / 60.0,
        "length_km": network.links().iter().map(|l| l.length.get() / 1000.0).collect::<Vec<_>>(),
        "lanes": network.links().iter().map(|l| l.lanes).collect::<Vec<_>>(),
        "turns": network.turns().iter().map(|t| [t.from.0, t.to.0]).collect::<Vec<_>>(),
        "entries": network.entries().map(|l| l.0).collect::<Vec<_>>(),
        "free_km_min": values[..links].iter().map(|v| v * 0.06).collect::<Vec<_>>(),
        "wave_km_min": values[links..2 * links].iter().map(|v| v * 0.06).collect::<Vec<_>>(),
        "jam": &values[2 * links..3 * links],
        "capacity": &values[3 * links..4 * links],
        "ratios": &values[4 * links..],
        "start": START,
        "alpha": SPREAD.alpha, "beta": SPREAD.beta, "kappa": SPREAD.kappa,
        "flow_variance": FLOW_VARIANCE, "speed_variance": SPEED_VARIANCE,
        "usual_per_lane": USUAL, "lasting": lasting,
        "noise": {
            "density": noise.density, "flow": noise.flow, "first_density": noise.first_density,
            "first_demand": noise.demand, "demand": noise.demand * (1.0 - lasting * lasting).sqrt(),
        },
        "steps": steps,
    }))
}

/// Filters the first steps of the scene: time of a step, and the estimates' error and means.
fn run(scene: &Value, most: usize) -> Result<Value, Box<dyn Error>> {
    let network = corridor()?;
    let mut measurements = Vec::new();
    let mut greens: Vec<Vec<f64>> = Vec::new();
    let mut truth: Vec<Vec<f64>> = Vec::new();
    let steps = scene["steps"].as_array().ok_or("steps: expected a list")?;
    for step in steps.iter().take(most) {
        let readings = |field: &str, variance: f64| -> Vec<Option<Reading>> {
            let list = step[field].as_array().map_or(&[][..], Vec::as_slice);
            list.iter().map(|v| v.as_f64().map(|value| Reading { value, variance })).collect()
        };
        let flows = readings("flows", FLOW_VARIANCE);
        measurements.push(Measurements {
            speeds: readings("speeds", SPEED_VARIANCE),
            densities: vec![None; flows.len()],
            flows,
        });
        greens.push(serde_json::from_value(step["green"].clone())?);
        truth.push(serde_json::from_value(step["densities"].clone())?);
    }
    let plan = FilterPlan {
        // Nothing is adapted and nothing softened, as in the peer.
        adaptation: Adaptation { rate: 0.0, gate: 1e9, ..Adaptation::default() },
        spread: SPREAD,
        ..FilterPlan::default()
    };
    let links = network.links().len();
    let (mut error, mut seconds) = (0.0, 0.0);
    let (mut densities, mut mean) = (vec![0.0; links], vec![0.0; links]);
    let usual: Vec<f64> = network.links().iter().map(|l| USUAL * f64::from(l.lanes)).collect();
    let mut filter =
        TrafficFilter::new(&network, model(&network)?, &vec![START; links], &usual, plan)?;
    for (t, (green, measured)) in greens.iter().zip(&measurements).enumerate() {
        let begin = Instant::now();
        filter.step(green, measured)?;
        seconds += begin.elapsed().as_secs_f64();
        filter.densities(&mut densities)?;
        for link in 0..links {
            error += (densities[link] - truth[t][link]).powi(2);
            mean[link] += densities[link] / greens.len() as f64;
        }
    }
    let rmse = (error / (greens.len() * links) as f64).sqrt();
    let seconds = seconds / greens.len() as f64;
    Ok(json!({ "seconds": seconds, "rmse": rmse, "mean_densities": mean, "steps": greens.len() }))
}
