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
        assert_eq!(share(60.0, 60.0), 0.0);
        // A span that ends before it begins is the moment of its begin.
        assert_eq!(share(20.0, 15.0), 1.0);
    }

    #[test]
    fn the_plan_wraps_around_at_the_offset() {
        let signal = two_phase();
        // The last moment before the offset is the end of the last phase, before and after zero.
        for cycle in [-3.0, 0.0, 1.0] {
            let at = |t: f64| Seconds::new(10.0 + 90.0 * cycle + t);
            assert_eq!(signal.phase_at(at(-1e-6)), 3);
            assert_eq!(signal.phase_at(at(0.0)), 0);
            assert_eq!(signal.phase_at(at(86.999)), 2);
            assert_eq!(signal.phase_at(at(87.0)), 3);
        }
        // A hair before the offset rounds up to a whole cycle: still the last phase.
        let signal = Signal { offset: Seconds::ZERO, ..two_phase() };
        assert_eq!(signal.phase_at(Seconds::new(-1e-300)), 3);
        // Offsets of whole cycles apart are the same plan.
        let later = Signal { offset: Seconds::new(10.0 + 7.0 * 90.0), ..two_phase() };
        for tenth in -900..1800 {
            let time = Seconds::new(f64::from(tenth) / 2.0);
            assert_eq!(later.phase_at(time), two_phase().phase_at(time));
        }
    }

    #[test]
    fn a_movement_with_two_greens_has_both() {
        let mut signal = two_phase();
        signal.phases[3].green.push(movement(1));
        // The second green (87 to 90 s) runs on into the first of the next cycle.
        let share = |from, to| {
            signal.green_share(movement(1), Seconds::new(10.0 + from), Seconds::new(10.0 + to))
        };
        assert_eq!(share(80.0, 100.0), 13.0 / 20.0);
        assert_eq!(share(87.0, 130.0), 1.0);
        assert!((share(0.0, 90.0) - 43.0 / 90.0).abs() < 1e-12);
        // What a signal does not govern is red to it.
        assert_eq!(signal.aspect(movement(9), Seconds::ZERO), Aspect::Red);
        assert_eq!(signal.green_share(movement(9), Seconds::ZERO, Seconds::new(90.0)), 0.0);
    }

    #[test]
    fn movements_are_listed_once_in_order_of_mention() {
        assert_eq!(two_phase().movements(), [movement(1), movement(2)]);
        let mut reversed = two_phase();
        reversed.phases.reverse();
        assert_eq!(reversed.movements(), [movement(2), movement(1)]);
        let always = Signal { phases: Vec::new(), ..two_phase() };
        assert_eq!(always.movements(), []);
        assert_eq!(always.cycle(), Seconds::ZERO);
    }

    proptest::proptest! {
        /// Shares add up: over a span, over its parts weighed by length; and over all movements with
        /// the reds and yellows, to the whole.
        #[test]
        fn green_shares_add_up(
            from in -500.0..500.0_f64,
            first in 0.1..200.0_f64,
            second in 0.1..200.0_f64,
            offset in -200.0..200.0_f64,
        ) {
            let signal = Signal { offset: Seconds::new(offset), ..two_phase() };
            let share = |from: f64, to: f64, of: u32| {
                signal.green_share(movement(of), Seconds::new(from), Seconds::new(to))
            };
            let (middle, to) = (from + first, from + first + second);
            for of in [1, 2] {
                let parts = share(from, middle, of) * first + share(middle, to, of) * second;
                // Roundings of times up to 1000 s.
                proptest::prop_assert!((parts - share(from, to, of) * (to - from)).abs() < 1e-9);
                // A cycle on, the same.
                proptest::prop_assert!((share(from + 90.0, to + 90.0, of) - share(from, to, of)).abs() < 1e-9);
            }
            // By counting moments: 0.05 s apart, each border is misplaced by at most one.
            let moments = ((to - from) / 0.05) as usize + 1;
            let green = (0..moments)
                .map(|index| from + (index as f64 + 0.5) * (to - from) / moments as f64)
                .filter(|&time| signal.aspect(movement(1), Seconds::new(time)) == Aspect::Green)
                .count();
            let borders = 2.0 * ((to - from) / 90.0 + 2.0);
            let counted = green as f64 / moments as f64;
            proptest::prop_assert!((counted - share(from, to, 1)).abs() <= borders / moments as f64);
        }
    }
}
