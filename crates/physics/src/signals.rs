//! Green shares of all movements, step after step.
//!
//! The greens of each signalled movement are laid out once as spans of its cycle, so that a step
//! costs a few overlaps per movement and no allocation.

use traffic::{Movement, Network, Seconds};

use crate::error::{ModelError, check_len};

/// The signal plans of a network, ready for use.
#[derive(Clone, Debug)]
pub struct GreenPlan {
    /// What a movement lets through of saturation flow without a signal's red.
    passing: Vec<f64>,
    signalled: Vec<Signalled>,
}

#[derive(Clone, Debug)]
struct Signalled {
    movement: usize,
    offset: f64,
    cycle: f64,
    /// Spans of the cycle with green, in order.
    greens: Vec<(f64, f64)>,
}

impl GreenPlan {
    /// All signals of a network. Movements: turns, then exits, as everywhere in this crate.
    pub fn of(network: &Network) -> Self {
        let turns = network.turns().iter().map(|t| Movement { from: t.from, to: Some(t.to) });
        let exits = network.link_ids().map(|from| Movement { from, to: None });
        let mut signalled = Vec::new();
        for (index, movement) in turns.chain(exits).enumerate() {
            let Some(signal) = network.signal_of(movement) else { continue };
            let mut begin = 0.0;
            let mut greens: Vec<(f64, f64)> = Vec::new();
            for phase in &signal.phases {
                let end = begin + phase.duration.get();
                if phase.green.contains(&movement) {
                    match greens.last_mut() {
                        Some(last) if last.1 == begin => last.1 = end,
                        _ => greens.push((begin, end)),
                    }
                }
                begin = end;
            }
            let offset = signal.offset.get();
            signalled.push(Signalled { movement: index, offset, cycle: begin, greens });
        }
        Self { passing: vec![1.0; network.turns().len() + network.links().len()], signalled }
    }

    /// Always green, for so many movements.
    pub fn always(movements: usize) -> Self {
        Self { passing: vec![1.0; movements], signalled: Vec::new() }
    }

    /// The same where junctions let less through than saturation flow and greens say: priorities, turns that give way,
    /// signals with less green than their plan. A share of saturation flow for each movement.
    pub fn passing(self, shares: Vec<f64>) -> Result<Self, ModelError> {
        check_len("shares of saturation flow", shares.len(), self.passing.len())?;
        if let Some(&found) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(ModelError::Number {
                place: "junction".into(),
                field: "share of saturation flow",
                found,
                expected: "0 to 1",
            });
        }
        Ok(Self { passing: shares, ..self })
    }

    /// The mean share of green of each movement, over its cycle.
    pub fn means(&self) -> Vec<f64> {
        let mut means = vec![1.0; self.passing.len()];
        for signalled in &self.signalled {
            let green: f64 = signalled.greens.iter().map(|(begin, end)| end - begin).sum();
            means[signalled.movement] = (green / signalled.cycle).clamp(0.0, 1.0);
        }
        means
    }

    /// Writes the shares of `parts` equal parts of the span into `green`, part after part.
    pub fn fill(
        &self,
        from: Seconds,
        to: Seconds,
        parts: usize,
        green: &mut [f64],
    ) -> Result<(), ModelError> {
        check_len("green shares", green.len(), parts * self.passing.len())?;
        let length = (to - from).get() / parts as f64;
        for (part, shares) in green.chunks_exact_mut(self.passing.len().max(1)).enumerate() {
            shares.copy_from_slice(&self.passing);
            let begin = from.get() + part as f64 * length;
            for signalled in &self.signalled {
                shares[signalled.movement] *= signalled.share(begin, begin + length);
            }
        }
        Ok(())
    }
}

impl Signalled {
    fn share(&self, from: f64, to: f64) -> f64 {
        let mut cycle = from - (from - self.offset).rem_euclid(self.cycle);
        let mut green = 0.0;
        while cycle < to {
            for &(begin, end) in &self.greens {
                green += ((cycle + end).min(to) - (cycle + begin).max(from)).max(0.0);
            }
            cycle += self.cycle;
        }
        (green / (to - from)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junctions_pass_a_share_of_what_is_green() {
        let network = traffic::corridor().unwrap();
        let plan = GreenPlan::of(&network);
        let movements = network.turns().len() + network.links().len();
        let (from, to) = (Seconds::new(20.0), Seconds::new(30.0));
        let mut green = [vec![0.0; movements], vec![0.0; movements]];
        plan.fill(from, to, 1, &mut green[0]).unwrap();
        let less = plan.clone().passing(vec![0.25; movements]).unwrap();
        less.fill(from, to, 1, &mut green[1]).unwrap();
        for (all, some) in green[0].iter().zip(&green[1]) {
            assert_eq!(0.25 * all, *some);
        }
        // Over whole cycles a step's shares are the means.
        let cycle = network.signals()[0].cycle();
        plan.fill(Seconds::ZERO, cycle, 1, &mut green[0]).unwrap();
        let signal = &network.signals()[0];
        for movement in signal.movements() {
            let Some(to) = movement.to else { continue };
            let turn = network.turn_between(movement.from, to).unwrap().index();
            assert!((plan.means()[turn] - green[0][turn]).abs() < 1e-12);
        }
        let error = plan.clone().passing(vec![1.5; movements]).unwrap_err().to_string();
        assert!(error.contains("found 1.5, expected 0 to 1"), "{error}");
        assert!(plan.passing(vec![1.0; 3]).is_err());
    }

    #[test]
    fn shares_are_those_of_the_signals_themselves() {
        let network = traffic::corridor().unwrap();
        let plan = GreenPlan::of(&network);
        let movements = network.turns().len() + network.links().len();
        let mut green = vec![f64::NAN; 3 * movements];
        for step in 0..40 {
            let from = 7.0 * f64::from(step) - 50.0;
            plan.fill(Seconds::new(from), Seconds::new(from + 9.0), 3, &mut green).unwrap();
            for part in 0..3 {
                let begin = Seconds::new(from + 3.0 * part as f64);
                let end = begin + Seconds::new(3.0);
                for (e, turn) in network.turns().iter().enumerate() {
                    let movement = Movement { from: turn.from, to: Some(turn.to) };
                    let expected = network
                        .signal_of(movement)
                        .map_or(1.0, |signal| signal.green_share(movement, begin, end));
                    // The same overlaps, added in another order.
                    assert!((green[part * movements + e] - expected).abs() < 1e-12);
                }
            }
        }
    }
}
