//! What every movement's signal shows in the current step.

use std::collections::HashMap;

use traffic::{Aspect, LinkId, Movement, Network, Seconds, Signal, TurnId};

/// The aspects of all movements; those without a signal are always green.
#[derive(Clone, Debug)]
pub(super) struct Lights {
    signals: Vec<Light>,
    of_turn: Vec<Aspect>,
    of_exit: Vec<Aspect>,
}

#[derive(Clone, Debug)]
struct Light {
    signal: Signal,
    governs: Vec<(Movement, SignalHead)>,
    phase: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum SignalHead {
    Turn(TurnId),
    Exit(LinkId),
}

impl Lights {
    pub(super) fn new(network: &Network) -> Self {
        let turns: HashMap<_, _> = network
            .turns()
            .iter()
            .enumerate()
            .map(|(index, turn)| ((turn.from, turn.to), TurnId(index as u32)))
            .collect();
        let head = |movement: Movement| match movement.to {
            Some(to) => turns.get(&(movement.from, to)).map(|&turn| SignalHead::Turn(turn)),
            None => Some(SignalHead::Exit(movement.from)),
        };
        let light = |signal: &Signal| Light {
            governs: signal.movements().into_iter().filter_map(|m| Some((m, head(m)?))).collect(),
            signal: signal.clone(),
            phase: None,
        };
        Self {
            signals: network.signals().iter().map(light).collect(),
            of_turn: vec![Aspect::Green; network.turns().len()],
            of_exit: vec![Aspect::Green; network.links().len()],
        }
    }

    /// Sets all aspects to those of a time.
    pub(super) fn show(&mut self, time: f64) {
        let time = Seconds::new(time);
        for light in &mut self.signals {
            let phase = light.signal.phase_at(time);
            if light.phase == Some(phase) {
                continue;
            }
            light.phase = Some(phase);
            for &(movement, head) in &light.governs {
                let aspect = light.signal.aspect(movement, time);
                match head {
                    SignalHead::Turn(turn) => self.of_turn[turn.index()] = aspect,
                    SignalHead::Exit(link) => self.of_exit[link.index()] = aspect,
                }
            }
        }
    }

    #[inline]
    pub(super) fn turn(&self, turn: TurnId) -> Aspect {
        self.of_turn[turn.index()]
    }

    #[inline]
    pub(super) fn exit(&self, link: u32) -> Aspect {
        self.of_exit[link as usize]
    }
}

#[cfg(test)]
mod tests {
    use traffic::corridor;

    use super::*;

    /// At every moment the lights are the signals' own; what no signal governs is green.
    #[test]
    fn lights_show_what_signals_say() {
        let network = corridor().unwrap();
        let mut lights = Lights::new(&network);
        // Forwards through three cycles, and back again: nothing depends on what was shown before.
        let times = (0..540).chain((0..540).rev()).map(|half| f64::from(half) / 2.0);
        for time in times {
            lights.show(time);
            for (index, turn) in network.turns().iter().enumerate() {
                let movement = Movement { from: turn.from, to: Some(turn.to) };
                let expected = network
                    .signal_of(movement)
                    .map_or(Aspect::Green, |signal| signal.aspect(movement, Seconds::new(time)));
                assert_eq!(lights.turn(TurnId(index as u32)), expected, "{time}");
            }
            for link in network.link_ids() {
                let movement = Movement { from: link, to: None };
                let expected = network
                    .signal_of(movement)
                    .map_or(Aspect::Green, |signal| signal.aspect(movement, Seconds::new(time)));
                assert_eq!(lights.exit(link.0), expected, "{time}");
            }
        }
    }
}
