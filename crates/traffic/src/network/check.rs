//! What makes a network sound, and what to say where it is not.

use std::collections::HashSet;
use std::fmt;

use thiserror::Error;

use super::{Link, LinkId, Movement, Network, TurnId};
use crate::units::{Metres, Seconds};

/// What is wrong with a network, and where.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{part}: {problem}")]
pub struct NetworkError {
    /// The part at fault.
    pub part: NetworkPart,
    /// What was found and what was expected.
    pub problem: String,
}

/// A part of a network that can be at fault; the number is its index in [`NetworkParts`](super::NetworkParts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkPart {
    /// The network as a whole.
    Whole,
    /// A link, with its name.
    Link(usize, String),
    /// A turn, with its links' names as `from>to`.
    Turn(usize, String),
    /// A signal, with its name.
    Signal(usize, String),
    /// A loop detector, with its name.
    Loop(usize, String),
    /// An entry of the list of targets.
    Target(usize),
}

impl fmt::Display for NetworkPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "network"),
            Self::Link(_, name) => write!(f, "link `{name}`"),
            Self::Turn(_, name) => write!(f, "turn `{name}`"),
            Self::Signal(_, name) => write!(f, "signal `{name}`"),
            Self::Loop(_, name) => write!(f, "loop `{name}`"),
            Self::Target(index) => write!(f, "target number {}", index + 1),
        }
    }
}

impl Network {
    pub(super) fn index_turns(&mut self) -> Result<(), NetworkError> {
        let mut given = HashSet::with_capacity(self.parts.turns.len());
        for (index, turn) in self.parts.turns.iter().enumerate() {
            let fail = |problem| {
                let name = |id: LinkId| {
                    self.parts.links.get(id.index()).map_or("?", |link| link.name.as_str())
                };
                let title = format!("{}>{}", name(turn.from), name(turn.to));
                Err(NetworkError { part: NetworkPart::Turn(index, title), problem })
            };
            let (Some(from), Some(to)) =
                (self.parts.links.get(turn.from.index()), self.parts.links.get(turn.to.index()))
            else {
                return fail("names a link that does not exist".into());
            };
            if turn.from == turn.to {
                return fail("leads a link into itself".into());
            }
            if turn.lanes.is_empty() {
                return fail("lanes: found none, expected at least one pair [from, to]".into());
            }
            for pair in &turn.lanes {
                if pair.from >= from.lanes || pair.to >= to.lanes {
                    return fail(format!(
                        "lanes: found [{}, {}], expected a lane below {} of `{}` and below {} of `{}`",
                        pair.from, pair.to, from.lanes, from.name, to.lanes, to.name
                    ));
                }
            }
            if !given.insert((turn.from, turn.to)) {
                return fail("is given twice".into());
            }
            let id = TurnId(index as u32);
            self.outgoing[turn.from.index()].push(id);
            self.incoming[turn.to.index()].push(id);
        }
        Ok(())
    }

    /// Every link must be reachable from every other when directions are ignored.
    pub(super) fn check_connected(&self) -> Result<(), NetworkError> {
        let reached = self.component_of(LinkId(0));
        if reached.len() == self.parts.links.len() {
            return Ok(());
        }
        let stranger = self.link_ids().find(|link| !reached.contains(link)).unwrap_or(LinkId(0));
        Err(NetworkError {
            part: NetworkPart::Whole,
            problem: format!(
                "is disconnected: {} of {} links hang together with `{}`, but not `{}`",
                reached.len(),
                self.parts.links.len(),
                self.link(LinkId(0)).name,
                self.link(stranger).name
            ),
        })
    }

    fn component_of(&self, start: LinkId) -> HashSet<LinkId> {
        let mut reached = HashSet::from([start]);
        let mut queue = vec![start];
        while let Some(link) = queue.pop() {
            let downstream = self.outgoing(link).iter().map(|&turn| self.turn(turn).to);
            let upstream = self.incoming(link).iter().map(|&turn| self.turn(turn).from);
            for next in downstream.chain(upstream) {
                if reached.insert(next) {
                    queue.push(next);
                }
            }
        }
        reached
    }

    pub(super) fn index_signals(&mut self) -> Result<(), NetworkError> {
        let mut names = HashSet::new();
        for (index, signal) in self.parts.signals.iter().enumerate() {
            let fail = |problem| {
                Err(NetworkError { part: NetworkPart::Signal(index, signal.name.clone()), problem })
            };
            if !names.insert(&signal.name) {
                return fail("name is used twice, expected unique names".into());
            }
            if !signal.offset.get().is_finite() {
                return fail(format!("offset: found {}, expected a number", signal.offset));
            }
            for phase in &signal.phases {
                if !(phase.duration > Seconds::ZERO && phase.duration.get().is_finite()) {
                    return fail(format!(
                        "phase duration: found {}, expected more than 0 s",
                        phase.duration
                    ));
                }
            }
            if signal.phases.is_empty() {
                return fail("has no phases, expected at least one".into());
            }
            for movement in signal.movements() {
                self.check_movement(movement).or_else(fail)?;
                if let Some(other) = self.signal_of.insert(movement, index)
                    && other != index
                {
                    return fail(format!(
                        "governs `{}`, which signal `{}` governs already",
                        self.movement_name(movement),
                        self.parts.signals[other].name
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_movement(&self, movement: Movement) -> Result<(), String> {
        let known = |id: LinkId| id.index() < self.parts.links.len();
        if !known(movement.from) || !movement.to.is_none_or(known) {
            return Err("names a link that does not exist".into());
        }
        match movement.to {
            Some(to) if self.turn_between(movement.from, to).is_none() => Err(format!(
                "gives green to `{}`, but there is no such turn",
                self.movement_name(movement)
            )),
            None if !self.outgoing(movement.from).is_empty() => Err(format!(
                "gives green to `{}`, but the link is no exit",
                self.movement_name(movement)
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn check_loops_and_targets(&self) -> Result<(), NetworkError> {
        let mut names = HashSet::new();
        for (index, detector) in self.parts.loops.iter().enumerate() {
            let fail = |problem| {
                Err(NetworkError { part: NetworkPart::Loop(index, detector.name.clone()), problem })
            };
            let Some(link) = self.parts.links.get(detector.link.index()) else {
                return fail("lies on a link that does not exist".into());
            };
            if !names.insert(&detector.name) {
                return fail("name is used twice, expected unique names".into());
            }
            if !(detector.position > Metres::ZERO && detector.position <= link.length) {
                return fail(format!(
                    "position: found {}, expected more than 0 m and at most {} (link `{}`)",
                    detector.position, link.length, link.name
                ));
            }
        }
        for (index, target) in self.parts.targets.iter().enumerate() {
            let repeated = self.parts.targets[..index].contains(target);
            if target.index() >= self.parts.links.len() || repeated {
                return Err(NetworkError {
                    part: NetworkPart::Target(index),
                    problem: "expected the name of a link, each once".into(),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn check_link(link: &Link) -> Result<(), String> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    if link.name.is_empty() || link.name.contains(['>', '"', '\n']) {
        return Err("name: expected some text without `>`, `\"` and line breaks".into());
    }
    if !positive(link.length.get()) {
        return Err(format!("length: found {}, expected more than 0 m", link.length));
    }
    if !(link.junction >= Metres::ZERO && link.junction < link.length) {
        return Err(format!(
            "junction: found {}, expected 0 m or more and less than the length {}",
            link.junction, link.length
        ));
    }
    if link.lanes == 0 {
        return Err("lanes: found 0, expected at least 1".into());
    }
    if !positive(link.speed.get()) {
        return Err(format!("speed: found {}, expected more than 0 m/s", link.speed));
    }
    if link.shape.len() < 2 {
        return Err(format!("shape: found {} points, expected 2 or more", link.shape.len()));
    }
    if link.shape.iter().any(|point| !(point.x.is_finite() && point.y.is_finite())) {
        return Err("shape: found a coordinate that is not a number".into());
    }
    Ok(())
}
