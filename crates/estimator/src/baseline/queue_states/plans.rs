//! What the host knows of a link: its signal's plan and its loops.

use physics::queue::{CYCLES, LoopCurve, QueueError, Timing};
use sensing::StepRange;
use traffic::{Aspect, LinkId, Movement, Network, Seconds, Signal, Step};

use crate::data::sources::LoopData;

/// A plan is looked at this often, in seconds.
const FINENESS: f64 = 0.5;

/// What the plan says of a link.
pub(super) struct LinkPlan {
    /// When its signal turns green.
    pub timing: Timing,
    /// The share of its lanes that may leave, in each slot from there on; always all if none.
    pub open: Option<Vec<f64>>,
}

/// The plan of a link's signal. A link without one keeps the time of the one before it, and is always
/// open; none if there is neither. A plan that takes longer than any cycle of queues says nothing: one that waits for a
/// click, or turns once a day.
pub(super) fn planned(network: &Network, link: LinkId) -> Result<Option<LinkPlan>, QueueError> {
    let movements = movements(network, link);
    let with_cycle = |movement| {
        network.signal_of(movement).filter(|signal| CYCLES.contains(&signal.cycle().get()))
    };
    let own = movements.iter().find_map(|&movement| with_cycle(movement));
    let Some(signal) = own else {
        let before = network.incoming(link).iter().find_map(|&turn| {
            let turn = network.turn(turn);
            with_cycle(Movement { from: turn.from, to: Some(turn.to) })
        });
        return match before {
            Some(signal) => {
                let timing = Timing::planned(signal.cycle().get(), signal.offset.get())?;
                Ok(Some(LinkPlan { timing, open: None }))
            }
            None => Ok(None),
        };
    };
    let cycle = signal.cycle().get();
    let looks = (cycle / FINENESS).ceil().max(1.0) as usize;
    let time = |look: usize| signal.offset.get() + cycle * look as f64 / looks as f64;
    let open = |at: f64| open_share(network, link, &movements, at);
    // Green begins where lanes open that were closed: for most of them at once, if not for all.
    let opening = |look: usize| open(time(look)) - open(time(look) - FINENESS);
    let first =
        (0..looks).fold(0, |best, look| if opening(look) > opening(best) { look } else { best });
    let timing = Timing::planned(cycle, time(first))?;
    let same = |other: &Signal| (other.cycle() - signal.cycle()).get().abs() < 1e-9;
    let one_cycle = movements.iter().filter_map(|&m| network.signal_of(m)).all(same);
    let open = one_cycle.then(|| open_from(network, link, &timing, timing.green));
    Ok(Some(LinkPlan { timing, open }))
}

/// The share of a link's lanes that may leave, by slot of a cycle that begins at a time.
pub(super) fn open_from(network: &Network, link: LinkId, timing: &Timing, begin: f64) -> Vec<f64> {
    let movements = movements(network, link);
    let slots = timing.slots();
    let slot = timing.cycle / slots as f64;
    let share = |number: usize| {
        let looks = (slot / FINENESS).ceil().max(1.0) as usize;
        let at = |look: usize| (number as f64 + (look as f64 + 0.5) / looks as f64) * slot;
        let open = |look: usize| open_share(network, link, &movements, begin + at(look));
        (0..looks).map(open).sum::<f64>() / looks as f64
    };
    (0..slots).map(share).collect()
}

/// The loops of a link, as curves over a stretch of steps.
pub(super) fn loop_curves(loops: &LoopData, link: LinkId, range: StepRange) -> Vec<LoopCurve> {
    let timeline = loops.timeline();
    let network = timeline.network();
    let interval = timeline.step().get();
    let detectors = network.loops().iter().enumerate();
    detectors
        .filter(|(_, detector)| detector.link == link)
        .map(|(at, detector)| LoopCurve {
            distance: (network.link(link).length - detector.position).get(),
            begin: range.first.0 as f64 * interval,
            interval,
            counts: (range.first.0..=range.last.0)
                .map(|step| loops.counts(Step(step))[at])
                .collect(),
        })
        .collect()
}

/// The movements at a link's stop line.
fn movements(network: &Network, link: LinkId) -> Vec<Movement> {
    let turns = network.outgoing(link).iter().map(|&turn| network.turn(turn).to);
    let mut movements: Vec<Movement> =
        turns.map(|to| Movement { from: link, to: Some(to) }).collect();
    let exit = Movement { from: link, to: None };
    if movements.is_empty() || network.signal_of(exit).is_some() {
        movements.push(exit);
    }
    movements
}

/// The share of lanes from which some movement may go at a time: green, or yellow, when many still do.
fn open_share(network: &Network, link: LinkId, movements: &[Movement], time: f64) -> f64 {
    let goes = |movement: &&Movement| match network.signal_of(**movement) {
        Some(signal) => signal.aspect(**movement, Seconds::new(time)) != Aspect::Red,
        None => true,
    };
    let lanes = network.link(link).lanes;
    let mut open = vec![false; usize::from(lanes)];
    for movement in movements.iter().filter(goes) {
        let turn = movement.to.and_then(|to| network.turn_between(link, to));
        match turn {
            Some(turn) => {
                for pair in &network.turn(turn).lanes {
                    if let Some(lane) = open.get_mut(usize::from(pair.from)) {
                        *lane = true;
                    }
                }
            }
            None => open.fill(true),
        }
    }
    open.iter().filter(|&&lane| lane).count() as f64 / f64::from(lanes.max(1))
}
