//! A traffic model of a network by what host and guests may know: no ground truth.
//!
//! | what | from |
//! |---|---|
//! | turning ratios, shares of trips that end on a link | movements that fleets counted |
//! | traffic that starts on a link | the same: what left a link but did not come by turns, over the fleets' share |
//! | the fleets' share | the same over what loops counted |
//! | free speeds | the faster half of what fleets drove, by link, by road class where that is too little |
//! | wave speed, standing vehicles | usual values |
//! | greens | the host's signals |
//! | what junctions let through | what fleets passed while a link stood in a queue that did not clear |

use physics::calibrate::TurnCounts;
use physics::{
    Ctm, Discretisation, GreenPlan, Metanet, MetanetConstants, Parameters, RegionModel, Regions,
    StoreAndForward, SubSteps, TrafficModel,
};
use serde::{Deserialize, Serialize};
use traffic::{FundamentalDiagram, LinkId, MetresPerSecond, Network, Seconds, Step};

use crate::data::sources::{FleetData, LoopData};
use crate::loss::label_free::LabelFreeError;
use crate::loss::physics_informed::{CTM_DEVIATIONS, LearnedPhysics, Physics};

/// Vehicles that the prior of turning ratios, by lanes, counts as; links with fewer than this many
/// counted keep it.
const PRIOR_VEHICLES: f64 = 2.0;
const LEAST_VEHICLES: f64 = 20.0;
/// By how much learned waves may become faster.
const FASTER: f64 = 1.5;
/// Vehicles that were on a link when counting began look as if they had started there: so few starts, or
/// so small a share of what passes, are none.
const LEAST_STARTS: f64 = 5.0;
const LEAST_START_SHARE: f64 = 0.02;
/// Above this share of what passes a link, starts of unknown number leave nothing to predict.
const MOST_UNKNOWN: f64 = 0.1;
/// How far the flow from a source wanders about its mean over hours, as a share of it.
const WANDERING: f64 = 0.5;
/// Fewer vehicle-seconds of driving tell no free speed.
const LEAST_DRIVEN_S: f64 = 60.0;
/// Free speeds as shares of the speed limit: what is slower is a queue that never ended, and what is faster a
/// limit that is not the road's.
const FREE_SHARES: [f64; 2] = [0.4, 1.2];
/// A queue that does not clear: below this share of the free speed, over so many steps with so many vehicle-seconds of fleets.
const QUEUED: f64 = 0.1;
const QUEUE_STEPS: usize = 12;
const LEAST_QUEUED_S: f64 = 30.0;
/// Fewer steps of such queues tell nothing of what a junction lets through.
const LEAST_QUEUED_STEPS: f64 = 30.0;
/// Flow without a queue varies about its mean: a link passes this many times as much, at least.
const OTHERWISE: f64 = 2.0;
/// No junction is taken to let less through than this share.
const LEAST_PASSING: f64 = 0.02;
/// More than all traffic by this much is counting error.
const MOST_SHARE: f64 = 1.05;

/// Which traffic model ties steps together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum TrafficModelKind {
    /// The cell transmission model
    #[default]
    Ctm,
    /// Store-and-forward: links are queues
    StoreAndForward,
    /// METANET: a second-order model
    Metanet,
    /// Regions with a macroscopic fundamental diagram
    Regions,
}

/// Which model, and whether its diagrams are learned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhysicsPlan {
    /// Which model.
    pub model: TrafficModelKind,
    /// How fast its diagrams are learned jointly, if they are.
    pub learning_rate: Option<f32>,
}

/// All that the traffic model needs of fleets: totals over some steps, those of the training part. Lists may
/// be shorter than the network: what is beyond was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetAggregates {
    /// Vehicles by turn.
    pub turned: Vec<u64>,
    /// Vehicles whose trips ended on a link.
    pub left: Vec<u64>,
    /// The faster half of what was driven on each link: metres.
    pub free_metres: Vec<u64>,
    /// And seconds that it took.
    pub free_seconds: Vec<u64>,
    /// What was driven while a link stood in a queue that did not clear: metres.
    pub queued_metres: Vec<u64>,
    /// And in how many steps that was, summed over fleets.
    pub queued_steps: Vec<u64>,
    /// Fleets that told of queues.
    pub fleets: usize,
}

/// The traffic model for losses without ground truth, of what fleets counted in some steps, those of the training part.
pub fn calibrated_physics(
    loops: &LoopData,
    fleets: &[FleetData],
    steps: &std::ops::RangeInclusive<Step>,
    plan: PhysicsPlan,
) -> Result<Physics, LabelFreeError> {
    let counts = fleet_aggregates(loops.timeline().network(), fleets, steps);
    physics_of_counts(loops, &counts, steps, plan)
}

/// All that the traffic model needs of fleets that one party holds, in some steps.
pub fn fleet_aggregates(
    network: &Network,
    fleets: &[FleetData],
    steps: &std::ops::RangeInclusive<Step>,
) -> FleetAggregates {
    let mut counts = movement_counts(network, fleets, steps);
    let Some(first) = fleets.first() else { return counts };
    let held: Vec<Step> = first.timeline().steps().filter(|step| steps.contains(step)).collect();
    for (link, road) in network.link_ids().zip(network.links()) {
        // Metres and seconds of each step.
        let driven: Vec<(f64, f64)> = held
            .iter()
            .map(|&step| {
                let totals = fleets.iter().map(|fleet| fleet.totals(step, link));
                totals.fold((0.0, 0.0), |(metres, seconds), totals| {
                    (metres + totals.distance.get(), seconds + totals.time.get())
                })
            })
            .collect();
        let (metres, seconds) = faster_half(&driven);
        let limit = road.speed.get();
        let free = told((metres, seconds), limit).unwrap_or(limit);
        let (queued, count) = queued(&driven, free);
        counts.free_metres.push(metres.round() as u64);
        counts.free_seconds.push(seconds.round() as u64);
        counts.queued_metres.push(queued.round() as u64);
        counts.queued_steps.push(count);
    }
    counts.fleets = 1;
    counts
}

/// Vehicles of some fleets in some steps, by turn, and those whose trips ended, by link.
pub fn movement_counts(
    network: &Network,
    fleets: &[FleetData],
    steps: &std::ops::RangeInclusive<Step>,
) -> FleetAggregates {
    let mut turned = vec![0; network.turns().len()];
    let mut left = vec![0; network.links().len()];
    for fleet in fleets {
        let movements = fleet.movements();
        for &(_, turn, vehicles) in movements.turns.iter().filter(|(at, ..)| steps.contains(at)) {
            turned[turn.index()] += u64::from(vehicles);
        }
        for &(_, link, vehicles) in movements.ends.iter().filter(|(at, ..)| steps.contains(at)) {
            left[link.index()] += u64::from(vehicles);
        }
    }
    FleetAggregates { turned, left, ..FleetAggregates::default() }
}

/// Metres and seconds of the faster half: steps in order of speed, until half of the distance is reached.
fn faster_half(driven: &[(f64, f64)]) -> (f64, f64) {
    let mut driven: Vec<(f64, f64)> = driven
        .iter()
        .copied()
        .filter(|(metres, seconds)| *metres > 0.0 && *seconds > 0.0)
        .collect();
    driven.sort_by(|a, b| (b.0 / b.1).total_cmp(&(a.0 / a.1)));
    let half = driven.iter().map(|(metres, _)| metres).sum::<f64>() / 2.0;
    let (mut metres, mut seconds) = (0.0, 0.0);
    for (own, time) in driven {
        if metres >= half {
            break;
        }
        (metres, seconds) = (metres + own, seconds + time);
    }
    (metres, seconds)
}

/// Metres driven in steps of queues that did not clear, and how many: where all that was driven in the last dozen steps
/// was slower than a tenth of the free speed.
fn queued(driven: &[(f64, f64)], free: f64) -> (f64, u64) {
    let (mut metres, mut count) = (0.0, 0);
    for (at, (own, _)) in driven.iter().enumerate() {
        let recent = &driven[(at + 1).saturating_sub(QUEUE_STEPS)..=at];
        let (far, long) = recent.iter().fold((0.0, 0.0), |sum, d| (sum.0 + d.0, sum.1 + d.1));
        if recent.len() == QUEUE_STEPS && long >= LEAST_QUEUED_S && far < QUEUED * free * long {
            (metres, count) = (metres + own, count + 1);
        }
    }
    (metres, count)
}

/// The same model of aggregates.
pub fn physics_of_counts(
    loops: &LoopData,
    counts: &FleetAggregates,
    steps: &std::ops::RangeInclusive<Step>,
    plan: PhysicsPlan,
) -> Result<Physics, LabelFreeError> {
    let timeline = loops.timeline();
    let (network, step) = (timeline.network(), timeline.step());
    let parameters = counted_parameters(network, counts)?;
    let held = timeline.steps().filter(|step| steps.contains(step)).count() as f64;
    let share = counted_share(loops, &passed(network, counts), steps).filter(|_| held > 0.0);
    let signals = calibrated_signals(network, counts, &parameters, (share, held, step))?;
    let (model, signals) = model_of(network, step, &parameters, counts, (plan, signals))?;
    let learned = plan.learning_rate.map(|rate| LearnedPhysics::new(&*model, rate));
    let sources = Sources::of(network, counts, share, step, held);
    let [density, flow] = CTM_DEVIATIONS;
    let minutes = step.get() / 60.0;
    let mut variances = [Vec::new(), Vec::new()];
    for (n, link) in network.links().iter().enumerate() {
        let free = parameters.fundamental_diagram(n)?.free_speed().get();
        // What passes through within a step is predicted as much worse as it is renewed more often.
        let renewed = (free * step.get() / link.length.get()).max(1.0);
        let lanes = f64::from(link.lanes);
        let started = sources.variance[n];
        let started_density = started / (link.length.get() / 1000.0 * lanes).powi(2);
        // The mean of what comes in and what leaves.
        let started_flow = started / (2.0 * minutes * lanes).powi(2);
        variances[0].push((density * renewed).powi(2) + started_density);
        variances[1].push(flow.powi(2) + started_flow);
    }
    for entry in network.entries() {
        variances.iter_mut().for_each(|v| v[entry.index()] = f64::INFINITY);
    }
    let [density, flow] = variances;
    let weights = physics::ResidualWeights::from_variances(&density, &flow)?;
    Ok(Physics { model, signals, weights, demand: sources.demand, learned })
}

/// A model of a kind, and the greens of its movements.
fn model_of(
    network: &Network,
    step: Seconds,
    parameters: &Parameters,
    counts: &FleetAggregates,
    (plan, signals): (PhysicsPlan, GreenPlan),
) -> Result<(Box<dyn TrafficModel + Send + Sync>, GreenPlan), LabelFreeError> {
    let parameters = parameters.clone();
    Ok(match plan.model {
        TrafficModelKind::Ctm => {
            let faster = plan.learning_rate.map(|_| FASTER);
            (Box::new(ctm(network, step, parameters, faster)?), signals)
        }
        TrafficModelKind::StoreAndForward => {
            (Box::new(StoreAndForward::new(network, parameters, step)?), signals)
        }
        TrafficModelKind::Metanet => {
            let discretisation = Discretisation::of_step(step);
            let constants = MetanetConstants::default().for_network(network, &parameters, step);
            (Box::new(Metanet::new(network, parameters, discretisation, constants)?), signals)
        }
        TrafficModelKind::Regions => {
            let passed = passed(network, counts);
            let model =
                RegionModel::new(network, &Regions::grown(network, &parameters, &passed)?, step)?;
            let movements = model.graph().movements();
            (Box::new(model), GreenPlan::always(movements))
        }
    })
}

/// The host's signals, with what junctions let through.
fn calibrated_signals(
    network: &Network,
    counts: &FleetAggregates,
    parameters: &Parameters,
    (share, steps, step): (Option<f64>, f64, Seconds),
) -> Result<GreenPlan, LabelFreeError> {
    let signals = GreenPlan::of(network);
    let known = (share, steps, step.get() / 60.0);
    let passing = passing_shares(network, counts, parameters, &signals.means(), known)?;
    Ok(signals.passing(passing)?)
}

/// The cell transmission model of one fleet's aggregates, with the greens of its movements.
pub(crate) fn counted_ctm(
    network: &Network,
    step: Seconds,
    counted: &Counted,
) -> Result<(Ctm, GreenPlan), LabelFreeError> {
    let Counted { fleet, share, steps } = counted;
    let parameters = counted_parameters(network, fleet)?;
    let signals = calibrated_signals(network, fleet, &parameters, (*share, *steps, step))?;
    Ok((ctm(network, step, parameters, None)?, signals))
}

/// What a fleet and loops counted in some steps, those of the training part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    fleet: FleetAggregates,
    /// The fleet's share of all vehicles, if loops tell it.
    share: Option<f64>,
    /// How many steps.
    steps: f64,
}

impl Counted {
    pub(crate) fn of(
        loops: &LoopData,
        fleet: &FleetData,
        steps: &std::ops::RangeInclusive<Step>,
    ) -> Self {
        let network = loops.timeline().network();
        let held = loops.timeline().steps().filter(|step| steps.contains(step)).count() as f64;
        let fleet = fleet_aggregates(network, std::slice::from_ref(fleet), steps);
        let share = counted_share(loops, &passed(network, &fleet), steps).filter(|_| held > 0.0);
        Self { fleet, share, steps: held }
    }
}

/// Stable for waves that are faster by some factor.
fn ctm(
    network: &Network,
    step: Seconds,
    parameters: Parameters,
    faster: Option<f64>,
) -> Result<Ctm, LabelFreeError> {
    let mut plan = Discretisation::of_step(step);
    if let Some(faster) = faster {
        let fewest = Ctm::new(network, parameters.clone(), plan)?.sub_steps();
        plan.sub_steps = SubSteps::Exactly((fewest as f64 * faster).ceil() as usize);
    }
    Ok(Ctm::new(network, parameters, plan)?)
}

/// Counted ratios and free speeds, and what is usual besides.
fn counted_parameters(
    network: &Network,
    counts: &FleetAggregates,
) -> Result<Parameters, LabelFreeError> {
    let mut turns = TurnCounts::none(network);
    for (turn, vehicles) in network.turns().iter().zip(&counts.turned) {
        turns.turned(network, turn.from, turn.to, *vehicles as f64)?;
    }
    for (link, vehicles) in network.link_ids().zip(&counts.left) {
        turns.left(network, link, *vehicles as f64)?;
    }
    let ratios = turns.ratios(network, PRIOR_VEHICLES, LEAST_VEHICLES)?.ratios;
    let usual = Parameters::typical(network)?;
    let free = free_speeds(network, counts);
    let diagrams = free.into_iter().enumerate().map(|(link, free)| {
        let usual = usual.fundamental_diagram(link)?;
        let diagram = FundamentalDiagram::triangular(free, usual.wave_speed(), usual.jam_density());
        let name = || network.links()[link].name.clone();
        diagram.map_err(|source| physics::ModelError::Diagram { link: name(), source })
    });
    let diagrams = diagrams.collect::<Result<Vec<_>, _>>()?;
    Ok(Parameters::new(network, &diagrams, &ratios)?)
}

/// Free speed of each link: its own where fleets drove enough there, else that of its road class (speed limit and
/// lanes), else the speed limit.
fn free_speeds(network: &Network, counts: &FleetAggregates) -> Vec<MetresPerSecond> {
    let driven = |n: usize| {
        let number = |list: &[u64]| list.get(n).map_or(0.0, |&number| number as f64);
        (number(&counts.free_metres), number(&counts.free_seconds))
    };
    let class = |link: &traffic::Link| ((10.0 * link.speed.get()).round() as u64, link.lanes);
    let mut classes = std::collections::BTreeMap::new();
    for (n, link) in network.links().iter().enumerate() {
        let (sum, (metres, seconds)) =
            (classes.entry(class(link)).or_insert((0.0, 0.0)), driven(n));
        *sum = (sum.0 + metres, sum.1 + seconds);
    }
    let of_link = |(n, link): (usize, &traffic::Link)| {
        let limit = link.speed.get();
        let own = told(driven(n), limit);
        let of_class = || classes.get(&class(link)).and_then(|&sum| told(sum, limit));
        MetresPerSecond::new(own.or_else(of_class).unwrap_or(limit))
    };
    network.links().iter().enumerate().map(of_link).collect()
}

/// A free speed, if metres and seconds tell one.
fn told((metres, seconds): (f64, f64), limit: f64) -> Option<f64> {
    let speed = metres / seconds;
    (seconds >= LEAST_DRIVEN_S && speed >= FREE_SHARES[0] * limit)
        .then_some(speed.min(FREE_SHARES[1] * limit))
}

/// What the end of each link lets through, as a share of saturation flow and greens: 1 unless it stood in queues that did
/// not clear, else what passed meanwhile. More passed at other times: twice that is possible too, at least.
fn passing_shares(
    network: &Network,
    counts: &FleetAggregates,
    parameters: &Parameters,
    greens: &[f64],
    (share, steps, minutes): (Option<f64>, f64, f64),
) -> Result<Vec<f64>, LabelFreeError> {
    let mut passing = vec![1.0; greens.len()];
    let Some(share) = share.filter(|_| counts.fleets > 0) else { return Ok(passing) };
    let passed = passed(network, counts);
    let turns = network.turns();
    let ratios = parameters.ratios();
    for (n, link) in network.links().iter().enumerate() {
        let number = |list: &[u64]| list.get(n).map_or(0.0, |&number| number as f64);
        let queued = number(&counts.queued_steps) / counts.fleets as f64;
        if queued < LEAST_QUEUED_STEPS {
            continue;
        }
        let vehicles = number(&counts.queued_metres) / link.length.get();
        let meanwhile = vehicles / (share * queued * minutes);
        let otherwise =
            (passed[n] - vehicles).max(0.0) / (share * (steps - queued).max(1.0) * minutes);
        let own: Vec<usize> =
            network.outgoing(LinkId(n as u32)).iter().map(|turn| turn.index()).collect();
        let movements = own.into_iter().chain([turns.len() + n]);
        let green: f64 = movements.clone().map(|at| ratios[at] * greens[at]).sum();
        let capacity = parameters.fundamental_diagram(n)?.capacity().get() * f64::from(link.lanes);
        let most = capacity * green;
        if most > 0.0 {
            let found = meanwhile.max(OTHERWISE * otherwise) / most;
            movements.for_each(|at| passing[at] = found.clamp(LEAST_PASSING, 1.0));
        }
    }
    Ok(passing)
}

/// Vehicles of fleets that came to the end of each link or ended their trips on it.
fn passed(network: &Network, counts: &FleetAggregates) -> Vec<f64> {
    let mut passed = vec![0.0; network.links().len()];
    for (turn, vehicles) in network.turns().iter().zip(&counts.turned) {
        passed[turn.from.index()] += *vehicles as f64;
    }
    passed.iter_mut().zip(&counts.left).for_each(|(sum, left)| *sum += *left as f64);
    passed
}

/// Traffic that starts on links: parking, side streets, the network's ends.
struct Sources {
    /// Mean, veh/min.
    demand: Vec<f64>,
    /// Variance of the vehicles of a step; infinite where their number is unknown and not small.
    variance: Vec<f64>,
}

impl Sources {
    /// Of counts in so many steps, by fleets of a share of all vehicles; none if that is not known.
    fn of(
        network: &Network,
        counts: &FleetAggregates,
        share: Option<f64>,
        step: Seconds,
        steps: f64,
    ) -> Self {
        let passed = passed(network, counts);
        // What came to the end of a link or ended there either came by a turn or started there.
        let mut starts = passed.clone();
        for (turn, vehicles) in network.turns().iter().zip(&counts.turned) {
            starts[turn.to.index()] -= *vehicles as f64;
        }
        let minutes = step.get() / 60.0;
        let of_link = |(&starts, &passed): (&f64, &f64)| {
            if starts < LEAST_STARTS || starts < LEAST_START_SHARE * passed {
                return (0.0, 0.0);
            }
            let Some(share) = share else {
                let unknown = starts > MOST_UNKNOWN * passed;
                return (0.0, if unknown { f64::INFINITY } else { 0.0 });
            };
            let vehicles = starts / (share * steps);
            (vehicles / minutes, vehicles + (WANDERING * vehicles).powi(2))
        };
        let (demand, variance) = starts.iter().zip(&passed).map(of_link).unzip();
        Self { demand, variance }
    }
}

/// The fleets' share of all vehicles: what passed the links of loops over what these counted. None without
/// loops, or if these contradict the fleets.
fn counted_share(
    loops: &LoopData,
    passed: &[f64],
    steps: &std::ops::RangeInclusive<Step>,
) -> Option<f64> {
    let timeline = loops.timeline();
    let held: Vec<Step> = timeline.steps().filter(|step| steps.contains(step)).collect();
    let (mut own, mut all) = (0.0, 0.0);
    for (at, detector) in timeline.network().loops().iter().enumerate() {
        let counts = held.iter().filter_map(|&step| loops.counts(step)[at]);
        let (sum, reports) = counts.fold((0.0, 0.0), |(sum, n), count| (sum + count, n + 1.0));
        if reports > 0.0 {
            own += passed[detector.link.index()];
            all += sum * held.len() as f64 / reports;
        }
    }
    let share = own / all;
    (share > 0.0 && share <= MOST_SHARE).then_some(share.min(1.0))
}

#[cfg(test)]
mod tests;
