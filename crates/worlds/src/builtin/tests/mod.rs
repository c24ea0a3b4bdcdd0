//! What all tests of the built-in world share: small networks, departures, and an inspector that
//! checks every moment of a simulation against the laws that must always hold.

mod behaviour;
mod laws;
mod theory;

use std::collections::HashMap;
use std::sync::Arc;

use traffic::{
    Aspect, LanePair, Link, LinkId, Metres, MetresPerSecond, Movement, Network, NetworkParts,
    Phase, Point, PositionSource, Seconds, Signal, Turn, VehicleClass, VehicleId, VehiclePosition,
};

use super::krauss::Krauss;
use super::random::uniform;
use super::streets::LaneId;
use super::*;
use crate::driving::{DECELERATION, REACTION_TIME};
use crate::{Departure, Stop};

/// Straight links in a row, joined lane by lane; lanes in excess end.
fn row(links: &[(f64, u8, f64)]) -> NetworkParts {
    let link = |(index, &(length, lanes, speed)): (usize, &(f64, u8, f64))| Link {
        name: format!("L{index}"),
        length: Metres::new(length),
        junction: Metres::new(if index == 0 { 0.0 } else { 10.0 }),
        lanes,
        speed: MetresPerSecond::new(speed),
        shape: vec![Point { x: 0.0, y: 0.0 }, Point { x: length, y: 0.0 }],
    };
    let turn = |index: usize| Turn {
        from: LinkId(index as u32),
        to: LinkId(index as u32 + 1),
        lanes: (0..links[index].1.min(links[index + 1].1))
            .map(|l| LanePair::from([l, l]))
            .collect(),
    };
    NetworkParts {
        name: "row".into(),
        links: links.iter().enumerate().map(link).collect(),
        turns: (0..links.len() - 1).map(turn).collect(),
        ..NetworkParts::default()
    }
}

/// A signal for one movement: red for a while, then green, then yellow for 3 s, and so on.
fn signal(from: u32, to: Option<u32>, red: f64, green: f64) -> Signal {
    let movement = Movement { from: LinkId(from), to: to.map(LinkId) };
    let phase = |duration, green: &[Movement], yellow: &[Movement]| Phase {
        duration: Seconds::new(duration),
        green: green.to_vec(),
        yellow: yellow.to_vec(),
    };
    Signal {
        name: format!("S{from}"),
        offset: Seconds::ZERO,
        phases: vec![
            phase(red, &[], &[]),
            phase(green, &[movement], &[]),
            phase(3.0, &[], &[movement]),
        ],
    }
}

fn departure(number: u32, time: f64, route: impl IntoIterator<Item = u32>) -> Departure {
    Departure {
        time: Seconds::new(time),
        vehicle: VehicleId(number),
        class: VehicleClass::Car,
        route: route.into_iter().map(LinkId).collect::<Arc<[LinkId]>>(),
        stop: None,
    }
}

fn plan(until: f64) -> SimulationPlan {
    SimulationPlan { until: Seconds::new(until), ..SimulationPlan::default() }
}

/// Perfect and equal drivers.
fn exact(until: f64) -> SimulationPlan {
    SimulationPlan { noise: 0.0, ..plan(until) }
}

/// Everything that a simulation gave out, by vehicle.
struct Record {
    tracks: HashMap<u32, Vec<VehiclePosition>>,
    counts: Counts,
    incidents: Incidents,
}

impl Record {
    fn track(&self, vehicle: u32) -> &[VehiclePosition] {
        &self.tracks[&vehicle]
    }

    /// When a vehicle's front passed the end of a link, by its speed over the last step there.
    fn passed(&self, vehicle: u32, link: u32, length: f64) -> Option<f64> {
        let track = self.tracks.get(&vehicle)?;
        let pair = track.windows(2).find(|w| w[0].link.0 == link && w[1].link.0 != link)?;
        Some(pair[0].time + (length - f64::from(pair[0].position)) / f64::from(pair[1].speed))
    }
}

/// Runs a simulation to its end under inspection.
fn run(network: &Network, plan: SimulationPlan, departures: Vec<Departure>) -> Record {
    let mut world = Simulation::new(network, plan, departures.clone()).unwrap();
    let mut inspector = Inspector::new(network, plan, &departures);
    let mut samples = Vec::new();
    let mut tracks: HashMap<u32, Vec<VehiclePosition>> = HashMap::new();
    while let Some(time) = world.next_moment(&mut samples).unwrap() {
        inspector.inspect(&world, time.get(), &samples);
        for sample in &samples {
            tracks.entry(sample.vehicle.0).or_default().push(*sample);
        }
    }
    Record { tracks, counts: world.counts(), incidents: world.incidents() }
}

/// Checks every moment against the laws of the world.
struct Inspector<'a> {
    network: &'a Network,
    plan: SimulationPlan,
    departures: &'a [Departure],
    before: HashMap<VehicleId, VehiclePosition>,
    factors: HashMap<VehicleId, f64>,
    wrong_lane_turns: u64,
}

/// Positions and speeds are reported as f32: at a few hundred metres that rounds by up to 3e-5.
const ROUNDING: f64 = 1e-4;

impl<'a> Inspector<'a> {
    fn new(network: &'a Network, plan: SimulationPlan, departures: &'a [Departure]) -> Self {
        let (before, factors) = (HashMap::new(), HashMap::new());
        Self { network, plan, departures, before, factors, wrong_lane_turns: 0 }
    }

    fn inspect<D: Iterator<Item = Departure>>(
        &mut self,
        world: &Simulation<D>,
        time: f64,
        samples: &[VehiclePosition],
    ) {
        let counts = world.counts();
        assert!(samples.windows(2).all(|w| w[0].vehicle < w[1].vehicle), "not in order");
        assert_eq!(counts.entered, counts.left + counts.present as u64);
        let due = self.departures.iter().filter(|d| d.time.get() <= time).count() as u64;
        assert_eq!(counts.entered + counts.waiting as u64, due, "vehicles lost at {time}");
        assert_eq!(world.incidents().hard_brakings, 0, "hard braking at {time}");
        let gone = samples.len() - counts.present;
        self.factors.extend(world.entered().iter().map(|e| (e.vehicle, e.speed_factor)));

        let may_squeeze = world.incidents().turns_from_wrong_lane - self.wrong_lane_turns;
        self.wrong_lane_turns = world.incidents().turns_from_wrong_lane;
        let mut squeezed = 0;
        for sample in samples {
            assert_eq!(sample.time, time);
            let link = self.network.link(sample.link);
            let speed = f64::from(sample.speed);
            let allowed = link.speed.get() * self.factors[&sample.vehicle];
            assert!(speed >= 0.0 && speed <= allowed + ROUNDING, "{sample:?} above {allowed}");
            let position = f64::from(sample.position);
            assert!((0.0..=link.length.get()).contains(&position), "{sample:?}");
            if let Some(before) = self.before.get(&sample.vehicle) {
                let leaves = world.left.iter().any(|left| left.vehicle == sample.vehicle);
                squeezed += self.check_step(before, sample, leaves);
            }
        }
        assert!(
            squeezed <= may_squeeze,
            "{squeezed} turned from a wrong lane, {may_squeeze} counted"
        );
        check_gaps(world);
        // Who is seen at the end of its last link is gone: it may not be seen again.
        let left: Vec<VehicleId> = world.left.iter().map(|sample| sample.vehicle).collect();
        assert_eq!(left.len(), gone);
        self.before = samples.iter().map(|sample| (sample.vehicle, *sample)).collect();
        self.before.retain(|vehicle, _| !left.contains(vehicle));
    }

    /// One vehicle's step: forward along its route, by speed × step, and not past a red light that
    /// it could have heeded. Returns 1 for a turn from a wrong lane.
    fn check_step(&self, before: &VehiclePosition, now: &VehiclePosition, leaves: bool) -> u64 {
        let step = self.plan.step.get();
        let krauss = Krauss::new(step, REACTION_TIME, DECELERATION);
        let (was, is) = (f64::from(before.position), f64::from(now.position));
        let (v0, v1) = (f64::from(before.speed), f64::from(now.speed));
        assert!(v1 >= v0 - krauss.slowdown - ROUNDING, "{before:?} to {now:?}");
        let route = &self.departures[now.vehicle.index()].route;
        let leg = |link: LinkId| route.iter().position(|&l| l == link).unwrap();
        let (from, to) = (leg(before.link), leg(now.link));
        assert!(from <= to, "{before:?} back to {now:?}");
        let passed: f64 = route[from..to].iter().map(|&l| self.network.link(l).length.get()).sum();
        let distance = passed + is - was;
        if to == from + 1 && v1 == 0.0 && is == 0.0 && distance > ROUNDING {
            assert!(distance <= 5.0 + ROUNDING, "{before:?} squeezed to {now:?}");
            return 1;
        }
        if leaves {
            assert!((-ROUNDING..=v1 * step + ROUNDING).contains(&distance), "{before:?} {now:?}");
        } else {
            assert!((distance - v1 * step).abs() < ROUNDING, "{before:?} to {now:?}");
        }
        let mut ahead = -was;
        for pair in route[from..=to].windows(2) {
            ahead += self.network.link(pair[0]).length.get();
            self.check_light(Movement { from: pair[0], to: Some(pair[1]) }, before, ahead, &krauss);
        }
        if leaves {
            ahead += self.network.link(now.link).length.get();
            self.check_light(Movement { from: now.link, to: None }, before, ahead, &krauss);
        }
        0
    }

    fn check_light(
        &self,
        movement: Movement,
        before: &VehiclePosition,
        ahead: f64,
        krauss: &Krauss,
    ) {
        let Some(signal) = self.network.signal_of(movement) else {
            return;
        };
        let time = Seconds::new(before.time);
        if signal.aspect(movement, time) == Aspect::Green {
            return;
        }
        // Not green: only who could not stop may pass …
        let speed = f64::from(before.speed);
        assert!(
            krauss.braking_distance(speed) > ahead - ROUNDING,
            "{before:?} passed a light {ahead} m ahead, though it could have stopped"
        );
        // … and that only for the time that hard braking takes: a vehicle that was too near when
        // green ended has passed or come to rest after v/b seconds, rounded up to a step.
        let longest = Seconds::new(1.25 * 30.0 / DECELERATION + krauss.step);
        assert!(signal.green_share(movement, time - longest, time) > 0.0, "{before:?} ran a red");
    }
}

/// No two vehicles on a lane overlap, also where one has left it and still sticks out behind.
fn check_gaps<D: Iterator<Item = Departure>>(world: &Simulation<D>) {
    let road = &world.road;
    for (lane, vehicles) in road.lanes.iter().enumerate() {
        for pair in vehicles.windows(2) {
            let gap = pair[0].tail() - pair[1].position;
            assert!(gap >= 0.0, "gap {gap} on lane {lane}: {pair:?}");
        }
        let length = road.streets.lanes[lane].length;
        if let Some(first) = vehicles.first() {
            for (into, other) in road.leaving(lane as LaneId) {
                let gap = length + other.tail() - first.position;
                assert!(
                    gap >= 0.0,
                    "gap {gap} on lane {lane}: {first:?} behind {other:?} in {into}"
                );
            }
        }
    }
}

/// A stop in a driving lane.
fn stop(link: u32, lane: u8, position: f64, duration: f64) -> Option<Stop> {
    Some(Stop {
        link: LinkId(link),
        lane,
        position: Metres::new(position),
        duration: Seconds::new(duration),
    })
}
