//! A CTM of a network by what host and guests may know: no ground truth.

use physics::calibrate::TurnCounts;
use physics::{Ctm, Discretisation, ParameterLayout, Parameters, SubSteps};
use traffic::{Network, Step};

use crate::data::sources::FleetData;
use crate::data::timeline::Timeline;
use crate::loss::label_free::LabelFreeError;
use crate::loss::physics_informed::{CTM_DEVIATIONS, LearnedPhysics, Physics};

/// Vehicles that the prior of turning ratios, by lanes, counts as; links with fewer than this many
/// counted keep it.
const PRIOR_VEHICLES: f64 = 2.0;
const LEAST_VEHICLES: f64 = 20.0;
/// By how much learned waves may become faster.
const FASTER: f64 = 1.5;

/// The traffic model for losses without ground truth: usual diagrams from the network, turning ratios
/// from what fleets counted in some steps (those of the training part), the host's signals.
///
/// `learning_rate`: of the diagrams, if they are learned jointly.
pub fn calibrated_ctm(
    timeline: &Timeline,
    fleets: &[FleetData],
    steps: &std::ops::RangeInclusive<Step>,
    learning_rate: Option<f32>,
) -> Result<Physics, LabelFreeError> {
    let (turned, left) = movement_counts(timeline.network(), fleets, steps);
    ctm_of_counts(timeline, &turned, &left, learning_rate)
}

/// Vehicles of some fleets in some steps, by turn, and those that left the network, by link: all that the
/// traffic model needs of a guest.
pub fn movement_counts(
    network: &Network,
    fleets: &[FleetData],
    steps: &std::ops::RangeInclusive<Step>,
) -> (Vec<u64>, Vec<u64>) {
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
    (turned, left)
}

/// The same model of counts by turn and by link; turns and links beyond these lists were not counted.
pub fn ctm_of_counts(
    timeline: &Timeline,
    turned: &[u64],
    left: &[u64],
    learning_rate: Option<f32>,
) -> Result<Physics, LabelFreeError> {
    let faster = learning_rate.map(|_| FASTER);
    let (model, layout) = counted_ctm(timeline, turned, left, faster)?;
    let learned = learning_rate.map(|rate| LearnedPhysics::new(&model, layout, rate));
    Ok(Physics { learned, ..Physics::new(timeline.network(), Box::new(model), CTM_DEVIATIONS)? })
}

/// The model itself, stable for waves that are faster by some factor.
pub(crate) fn counted_ctm(
    timeline: &Timeline,
    turned: &[u64],
    left: &[u64],
    faster: Option<f64>,
) -> Result<(Ctm, ParameterLayout), LabelFreeError> {
    let network = timeline.network();
    let mut counts = TurnCounts::none(network);
    for (turn, vehicles) in network.turns().iter().zip(turned) {
        counts.turned(network, turn.from, turn.to, *vehicles as f64)?;
    }
    for (link, vehicles) in network.link_ids().zip(left) {
        counts.left(network, link, *vehicles as f64)?;
    }
    let ratios = counts.ratios(network, PRIOR_VEHICLES, LEAST_VEHICLES)?.ratios;
    let parameters = with_ratios(network, &ratios)?;
    let layout = parameters.layout();
    let mut plan = Discretisation::of_step(timeline.step());
    if let Some(faster) = faster {
        let fewest =
            physics::TrafficModel::sub_steps(&Ctm::new(network, parameters.clone(), plan)?);
        plan.sub_steps = SubSteps::Exactly((fewest as f64 * faster).ceil() as usize);
    }
    Ok((Ctm::new(network, parameters, plan)?, layout))
}

/// Usual diagrams with counted ratios.
fn with_ratios(network: &Network, ratios: &[f64]) -> Result<Parameters, LabelFreeError> {
    let usual = Parameters::typical(network)?;
    let diagrams = (0..network.links().len()).map(|link| usual.fundamental_diagram(link));
    let diagrams = diagrams.collect::<Result<Vec<_>, _>>()?;
    Ok(Parameters::new(network, &diagrams, ratios)?)
}
