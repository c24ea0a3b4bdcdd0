//! Fixed-time signals: a cycle of phases, each giving green to some movements.
//!
//! ```text
//!   offset          offset + cycle
//!     │ phase 1 │ 2 │ phase 3 │ 4 │ phase 1 …
//!     0        t1  t2        t3  cycle
//! ```

use crate::network::Movement;
use crate::units::Seconds;

/// What a driver sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Go.
    Green,
    /// Stop if you can.
    Yellow,
    /// Stop.
    Red,
}

/// A part of the cycle with constant aspects.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub duration: Seconds,
    /// The movements that have green.
    pub green: Vec<Movement>,
    /// The movements that have yellow; all others of this signal have red.
    pub yellow: Vec<Movement>,
}

/// A fixed-time signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Its name, unique in the network.
    pub name: String,
    /// The time of each start of the first phase, modulo the cycle.
    pub offset: Seconds,
    /// The phases in order; their durations add up to the cycle.
    pub phases: Vec<Phase>,
}

impl Signal {
    /// The length of the cycle.
    pub fn cycle(&self) -> Seconds {
        self.phases.iter().fold(Seconds::ZERO, |sum, phase| sum + phase.duration)
    }

    /// Every movement that this signal governs, each once, in order of first mention.
    pub fn movements(&self) -> Vec<Movement> {
        let mut movements = Vec::new();
        for phase in &self.phases {
            for &movement in phase.green.iter().chain(&phase.yellow) {
                if !movements.contains(&movement) {
                    movements.push(movement);
                }
            }
        }
        movements
    }

    /// The index of the phase at a time.
    pub fn phase_at(&self, time: Seconds) -> usize {
        let mut in_cycle = self.time_in_cycle(time);
        for (index, phase) in self.phases.iter().enumerate() {
            if in_cycle < phase.duration.get() {
                return index;
            }
            in_cycle -= phase.duration.get();
        }
        self.phases.len().saturating_sub(1)
    }

    /// What a movement sees at a time.
    pub fn aspect(&self, movement: Movement, time: Seconds) -> Aspect {
        match self.phases.get(self.phase_at(time)) {
            Some(phase) if phase.green.contains(&movement) => Aspect::Green,
            Some(phase) if phase.yellow.contains(&movement) => Aspect::Yellow,
            _ => Aspect::Red,
        }
    }

    /// The share of the span `from`–`to` during which a movement has green.
    ///
    /// This is what limits the sending flow of a step in a traffic model: a signal that turns
    /// green 4 s into a 10 s step lets 60 % of the step's capacity through.
    pub fn green_share(&self, movement: Movement, from: Seconds, to: Seconds) -> f64 {
        let span = (to - from).get();
        if span <= 0.0 {
            return if self.aspect(movement, from) == Aspect::Green { 1.0 } else { 0.0 };
        }
        let cycle = self.cycle().get();
        let mut green = 0.0;
        // Lay the cycles that touch the span beside it and add up the overlaps of green phases.
        let mut cycle_start = from.get() - self.time_in_cycle(from);
        while cycle_start < to.get() {
            let mut start = cycle_start;
            for phase in &self.phases {
                let end = start + phase.duration.get();
                if phase.green.contains(&movement) {
                    green += (end.min(to.get()) - start.max(from.get())).max(0.0);
                }
                start = end;
            }
            cycle_start += cycle;
        }
        green / span
    }

    fn time_in_cycle(&self, time: Seconds) -> f64 {
        (time - self.offset).get().rem_euclid(self.cycle().get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::LinkId;

    fn movement(to: u32) -> Movement {
        Movement { from: LinkId(0), to: Some(LinkId(to)) }
    }

    /// 40 s green for movement 1, 3 s yellow, 44 s green for movement 2, 3 s all red; offset 10 s.
    fn two_phase() -> Signal {
        let phase = |duration, green: &[u32], yellow: &[u32]| Phase {
            duration: Seconds::new(duration),
            green: green.iter().map(|&to| movement(to)).collect(),
            yellow: yellow.iter().map(|&to| movement(to)).collect(),
        };
        Signal {
            name: "J".into(),
            offset: Seconds::new(10.0),
            phases: vec![
                phase(40.0, &[1], &[]),
                phase(3.0, &[], &[1]),
                phase(44.0, &[2], &[]),
                phase(3.0, &[], &[]),
            ],
        }
    }

    #[test]
    fn aspects_follow_the_plan_and_repeat() {
        let signal = two_phase();
        assert_eq!(signal.cycle(), Seconds::new(90.0));
        for cycle in [-2.0, 0.0, 5.0] {
            let at = |t: f64| Seconds::new(10.0 + t + 90.0 * cycle);
            assert_eq!(signal.aspect(movement(1), at(0.0)), Aspect::Green);
            assert_eq!(signal.aspect(movement(1), at(39.9)), Aspect::Green);
            assert_eq!(signal.aspect(movement(1), at(40.0)), Aspect::Yellow);
            assert_eq!(signal.aspect(movement(1), at(43.0)), Aspect::Red);
            assert_eq!(signal.aspect(movement(2), at(43.0)), Aspect::Green);
            assert_eq!(signal.aspect(movement(2), at(89.0)), Aspect::Red);
        }
    }

    #[test]
    fn green_share_is_the_overlap() {
        let signal = two_phase();
        let share =
            |from, to| signal.green_share(movement(1), Seconds::new(from), Seconds::new(to));
        assert_eq!(share(10.0, 20.0), 1.0);
        assert_eq!(share(46.0, 56.0), 0.4);
        assert_eq!(share(96.0, 106.0), 0.6);
        assert_eq!(share(60.0, 70.0), 0.0);
        assert!((share(0.0, 900.0) - 40.0 / 90.0).abs() < 1e-12);
        assert_eq!(share(20.0, 20.0), 1.0);
    }
}
