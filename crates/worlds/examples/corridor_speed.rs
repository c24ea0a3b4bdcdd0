//! How fast the built-in world is: 810 minutes of the corridor, then a grid city.
//!
//! ```sh
//! cargo run --release -p worlds --example corridor_speed
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use traffic::{
    GridPlan, LinkId, Network, PositionSource, Seconds, VehicleClass, VehicleId, corridor, grid,
};
use worlds::{Departure, Simulation, SimulationPlan};

fn main() -> Result<(), Box<dyn Error>> {
    let corridor = corridor()?;
    // 3,000 veh/h at E1 and 700 veh/h at the side entries.
    let side = 700.0 / 6.0;
    let entries = [
        ("E1", 3000.0),
        ("on_R1", side),
        ("on_R2", side),
        ("on_R3", side),
        ("on_R4", side),
        ("on_R5", side),
        ("on_R6", side),
    ];
    let entries: Vec<(LinkId, f64)> = entries
        .into_iter()
        .filter_map(|(name, rate)| Some((corridor.link_named(name)?, rate)))
        .collect();
    report("corridor, 810 min", &corridor, &entries, 810.0 * 60.0)?;

    let city = grid(GridPlan { rows: 35, columns: 35, ..GridPlan::default() })?;
    let entries: Vec<(LinkId, f64)> = city.entries().map(|link| (link, 500.0)).collect();
    report("grid of 35 × 35, 20 min", &city, &entries, 20.0 * 60.0)?;
    Ok(())
}

/// Simulates even arrivals on random routes and prints what came of it.
fn report(
    title: &str,
    network: &Network,
    entries: &[(LinkId, f64)],
    until: f64,
) -> Result<(), Box<dyn Error>> {
    let departures = departures(network, entries, until);
    let total = departures.len();
    let plan = SimulationPlan { until: Seconds::new(until), ..SimulationPlan::default() };
    let begun = Instant::now();
    let mut world = Simulation::new(network, plan, departures)?;
    let mut samples = Vec::new();
    let (mut vehicle_steps, mut most) = (0, 0);
    while world.next_moment(&mut samples)?.is_some() {
        vehicle_steps += samples.len();
        most = most.max(samples.len());
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{title}: {} links, {total} departures", network.links().len());
    println!(
        "  {seconds:.2} s, {:.2} million vehicle-steps a second",
        vehicle_steps as f64 / seconds / 1e6
    );
    println!("  {:.1} vehicles present on average, {most} at most", vehicle_steps as f64 / until);
    println!("  {:?}\n  {:?}", world.counts(), world.incidents());
    Ok(())
}

fn departures(network: &Network, entries: &[(LinkId, f64)], until: f64) -> Vec<Departure> {
    let mut arrivals: Vec<(f64, LinkId)> = entries
        .iter()
        .flat_map(|&(link, rate)| {
            let headway = 3600.0 / rate;
            (0..(until / headway) as u32).map(move |i| ((f64::from(i) + 0.5) * headway, link))
        })
        .collect();
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut draw = 1_u64;
    arrivals
        .into_iter()
        .enumerate()
        .map(|(number, (time, link))| Departure {
            time: Seconds::new(time),
            vehicle: VehicleId(number as u32),
            class: match number % 50 {
                0..7 => VehicleClass::Motorcycle,
                7..10 => VehicleClass::Bus,
                _ => VehicleClass::Car,
            },
            route: route(network, link, &mut draw),
            stop: None,
        })
        .collect()
}

/// A random walk to an exit that goes straight on, the turn with the most lanes, four times of five.
fn route(network: &Network, start: LinkId, draw: &mut u64) -> Arc<[LinkId]> {
    let mut route = vec![start];
    let mut here = start;
    while let Some(widest) =
        network.outgoing(here).iter().max_by_key(|t| network.turn(**t).lanes.len())
    {
        *draw =
            draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let turns = network.outgoing(here);
        let any = turns[(*draw >> 33) as usize % turns.len()];
        let turn = if (*draw >> 40).is_multiple_of(5) { any } else { *widest };
        here = network.turn(turn).to;
        route.push(here);
    }
    route.into()
}
