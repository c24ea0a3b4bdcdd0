//! How fast the cell transmission model steps on grid cities: linear in links.
//!
//! ```sh
//! cargo run --release -p physics --example ctm_speed
//! ```
//!
//! Prints a table for people, then one line of JSON for `scripts/bench.py`. A step is 10 s of traffic
//! with its sub-steps; "with derivatives" adds the vector–Jacobian product of state and parameters.

use std::error::Error;
use std::time::Instant;

use physics::{Ctm, Discretisation, Gradient, GreenPlan, Inputs, Parameters, TrafficModel};
use traffic::{GridPlan, Seconds, grid};

/// Rows and columns of junctions: 482, 1,022, 2,024 and 5,040 links.
const GRIDS: [(usize, usize); 4] = [(10, 11), (15, 16), (22, 22), (35, 35)];
const STEP: Seconds = Seconds::new(10.0);

fn main() -> Result<(), Box<dyn Error>> {
    println!("links  turns  sub-steps  steps/s  link-steps/s  with derivatives, steps/s");
    let mut rows = Vec::new();
    for (rows_of_grid, columns) in GRIDS {
        let city = grid(GridPlan { rows: rows_of_grid, columns, ..GridPlan::default() })?;
        let model = Ctm::new(&city, Parameters::typical(&city)?, Discretisation::of_step(STEP))?;
        let signals = GreenPlan::of(&city);
        let mut inputs = Inputs::free(&model);
        for entry in city.entries() {
            inputs.demand[entry.index()] = 12.0;
        }
        let links = model.links();
        let forward = steps_per_second(&model, &signals, &mut inputs, false)?;
        let both = steps_per_second(&model, &signals, &mut inputs, true)?;
        let (turns, sub_steps) = (city.turns().len(), model.sub_steps());
        println!(
            "{links:5}  {turns:5}  {sub_steps:9}  {forward:7.0}  {:12.3e}  {both:7.0}",
            forward * links as f64
        );
        rows.push(serde_json::json!({
            "links": links, "turns": turns, "sub_steps": sub_steps,
            "steps_per_s": forward, "steps_with_vjp_per_s": both,
        }));
    }
    println!("{}", serde_json::json!({ "grids": rows }));
    Ok(())
}

/// Steps for about half a second after a warm-up, the best of three.
fn steps_per_second(
    model: &Ctm,
    signals: &GreenPlan,
    inputs: &mut Inputs,
    derivatives: bool,
) -> Result<f64, Box<dyn Error>> {
    let len = model.state_len();
    let mut memory = model.memory();
    let (mut state, mut next) = (vec![0.0; len], vec![0.0; len]);
    let mut flows = vec![0.0; model.links()];
    let (d_next, d_flows) = (vec![1.0; len], vec![0.1; model.links()]);
    let mut d_state = vec![0.0; len];
    let mut d_parameters = vec![0.0; model.parameters().len()];
    let mut step = 0;
    let mut run = |steps: usize| -> Result<f64, Box<dyn Error>> {
        let begin = Instant::now();
        for _ in 0..steps {
            inputs.signals_from(signals, model, STEP * f64::from(step))?;
            model.step(&state, inputs, &mut memory, &mut next, &mut flows)?;
            if derivatives {
                let gradient = Gradient {
                    state: &mut d_state,
                    parameters: Some(&mut d_parameters),
                    demand: None,
                };
                model.vjp(inputs, &mut memory, &d_next, &d_flows, gradient)?;
            }
            std::mem::swap(&mut state, &mut next);
            step += 1;
        }
        Ok(begin.elapsed().as_secs_f64())
    };
    let warm = run(100)?;
    let steps = (100.0 * 0.5 / warm).ceil().max(10.0) as usize;
    let best = [run(steps)?, run(steps)?, run(steps)?].into_iter().fold(f64::INFINITY, f64::min);
    Ok(steps as f64 / best)
}
