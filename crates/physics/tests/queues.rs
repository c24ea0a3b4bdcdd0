//! Queue profiles on traffic of the built-in world, which knows nothing of kinematic waves.

use physics::Parameters;
use physics::queue::{Knowledge, LinkQueues, Relations, Road, Span, Tally, Timing};
use sensing::PassageCollector;
use traffic::{LinkId, PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

const UNTIL: f64 = 3600.0;
const WARM_UP: f64 = 600.0;
/// Metres that a standing vehicle takes.
const VEHICLE: f64 = 7.5;

/// With every vehicle seen, the back of the queue is that of the last standing one, to a vehicle's
/// length: on ramps of one lane, where there is one queue and not one for each lane.
#[test]
fn profiles_of_all_vehicles_are_the_simulated_queues() {
    let network = corridor().expect("the corridor");
    let demand = corridor_demand(&network).expect("its demand");
    let plan = SimulationPlan { until: Seconds::new(UNTIL), ..SimulationPlan::default() };
    let departures = demand.departures(&network, 1, Seconds::new(UNTIL));
    let mut world = Simulation::new(&network, plan, departures).expect("sound test data");
    let links: Vec<LinkId> = network
        .link_ids()
        .filter(|&id| network.link(id).lanes == 1 && !network.outgoing(id).is_empty())
        .collect();
    assert!(links.len() >= 3, "expected ramps of one lane, found {}", links.len());
    let mut collector = PassageCollector::new(&network, Seconds::new(5.0));
    // Rear of the last vehicle that stands, by second and ramp.
    let mut rears: Vec<Vec<f64>> = Vec::new();
    let mut moment = Vec::new();
    while let Some(time) = world.next_moment(&mut moment).expect("sound test data") {
        collector.moment(time, &moment);
        let rear = |&id: &LinkId| {
            let length = network.link(id).length.get();
            let standing = moment.iter().filter(|sample| sample.link == id && sample.speed < 1.0);
            let rears = standing.map(|sample| length - f64::from(sample.position) + VEHICLE);
            rears.fold(0.0, f64::max).min(length)
        };
        rears.push(links.iter().map(rear).collect());
    }
    let passages = collector.into_passages();
    let parameters = Parameters::typical(&network).expect("sound test data");
    for (at, &id) in links.iter().enumerate() {
        let link = network.link(id);
        let diagram = parameters.fundamental_diagram(id.index()).expect("sound test data");
        let road = Road::new(link.length, link.lanes, &diagram).expect("sound test data");
        let timing = Timing::planned(90.0, 0.0).expect("a cycle");
        let own = &passages[id.index()];
        let span = Span { begin: WARM_UP, end: UNTIL };
        let tally = Tally::count(span, &timing, own).expect("sound test data");
        let relations = Relations::theory(&road);
        let knowledge = Knowledge { rate: 1.0, relations, open: None, loop_curve: None };
        let queues = LinkQueues::new(road, &tally, own, &knowledge).expect("sound test data");
        let (mut off, mut queue, mut count) = (0.0, 0.0, 0.0);
        for cycle in 1..tally.cycles() - 1 {
            let (profile, report, _) = queues.cycle(cycle);
            for second in 0..90 {
                let time = report.begin + f64::from(second);
                let Some(rear) = rears.get(time as usize).map(|rears| rears[at]) else { continue };
                off += (profile.back(time) - rear).abs();
                queue += rear;
                count += 1.0;
            }
        }
        let (off, queue) = (off / count, queue / count);
        assert!(queue > 2.0, "{}: mean queue of {queue} m", link.name);
        assert!(off <= VEHICLE, "{}: off by {off} m, mean queue {queue} m", link.name);
    }
}
