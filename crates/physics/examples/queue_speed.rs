//! Queue profiles on the corridor: time of a link and cycle, on programs that a peer can read.
//!
//! ```sh
//! cargo run --release -p physics --example queue_speed -- scene FILE   # writes programs as JSON
//! cargo run --release -p physics --example queue_speed -- run          # solves all, prints JSON
//! ```
//!
//! The built-in world drives for 40 minutes; every fifth vehicle reports. A scene holds the programs of
//! some cycles with our solutions; `scripts/peer_cvxpy.py` solves the same by CVXPY and Clarabel.

use std::error::Error;
use std::time::Instant;

use physics::Parameters;
use physics::queue::{Knowledge, LinkQueues, Relations, Road, Span, Tally, Timing};
use sensing::PassageCollector;
use serde_json::{Value, json};
use traffic::{Network, Passage, PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

const MINUTES: f64 = 40.0;
const RATE: f64 = 0.2;
const CYCLE: f64 = 90.0;
/// Cycles of each link in a scene.
const IN_SCENE: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["scene", file] => {
            let mut programs = Vec::new();
            each_link(|queues, cycles| {
                for cycle in (5..cycles - 1).step_by(3).take(IN_SCENE) {
                    programs.push(program(queues, cycle)?);
                }
                Ok(())
            })?;
            std::fs::write(file, serde_json::to_vec(&programs)?)?;
        }
        ["run"] => {
            let (mut solved, mut seconds, mut vehicles) = (0, 0.0, 0.0);
            each_link(|queues, cycles| {
                let begin = Instant::now();
                for cycle in 0..cycles {
                    let (profile, report, _) = queues.cycle(cycle);
                    vehicles += profile.vehicles(report.begin);
                }
                seconds += begin.elapsed().as_secs_f64();
                solved += cycles;
                Ok(())
            })?;
            let each = seconds / solved as f64;
            println!("{}", json!({ "cycles": solved, "seconds": each, "vehicles": vehicles }));
        }
        _ => return Err("expected `scene FILE` or `run`".into()),
    }
    Ok(())
}

/// A program and its solution.
fn program(queues: &LinkQueues, cycle: usize) -> Result<Value, Box<dyn Error>> {
    let problem = queues.problem(cycle);
    let solution = problem.solve().ok_or("expected a program with a solution")?;
    let measured = problem.measured().iter();
    let limits = problem.limits().iter();
    Ok(json!({
        "unknowns": problem.unknowns(),
        "measured": measured.map(|(terms, value, weight)| json!([terms.all(), value, weight])).collect::<Vec<_>>(),
        "limits": limits.map(|(terms, most)| json!([terms.all(), most])).collect::<Vec<_>>(),
        "solution": solution,
    }))
}

/// Hands over each signalled link's queues and its number of cycles.
fn each_link(
    mut take: impl FnMut(&LinkQueues, usize) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let network = corridor()?;
    let passages = drive(&network)?;
    let parameters = Parameters::typical(&network)?;
    for id in network.link_ids() {
        let link = network.link(id);
        let own = &passages[id.index()];
        let diagram = parameters.fundamental_diagram(id.index())?;
        let road = Road::new(link.length, link.lanes, &diagram)?;
        let timing = Timing::planned(CYCLE, 0.0)?;
        let span = Span { begin: 300.0, end: MINUTES * 60.0 };
        let tally = Tally::count(span, &timing, own)?;
        let relations = Relations::fit(&road, RATE, &tally.found(&road, own));
        let knowledge = Knowledge { rate: RATE, relations, open: None, loop_curve: None };
        take(&LinkQueues::new(road, &tally, own, &knowledge)?, tally.cycles())?;
    }
    Ok(())
}

/// The passages of every fifth vehicle, by link.
fn drive(network: &Network) -> Result<Vec<Vec<Passage>>, Box<dyn Error>> {
    let until = Seconds::new(MINUTES * 60.0);
    let demand = corridor_demand(network)?;
    let plan = SimulationPlan { until, ..SimulationPlan::default() };
    let mut world = Simulation::new(network, plan, demand.departures(network, 1, until))?;
    let mut collector = PassageCollector::new(network, Seconds::new(5.0));
    let mut moment = Vec::new();
    while let Some(time) = world.next_moment(&mut moment)? {
        moment.retain(|sample| sample.vehicle.0 % 5 == 0);
        collector.moment(time, &moment);
    }
    Ok(collector.into_passages())
}
