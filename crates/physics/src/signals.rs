//! Green shares of all movements, step after step.
//!
//! The greens of each signalled movement are laid out once as spans of its cycle, so that a step
//! costs a few overlaps per movement and no allocation.

use traffic::{Movement, Network, Seconds};

use crate::error::{ModelError, check_len};

/// The signal plans of a network, ready for use.
#[derive(Clone, Debug)]
pub struct GreenPlan {
    movements: usize,
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
        Self { movements: network.turns().len() + network.links().len(), signalled }
    }

    /// Writes the shares of `parts` equal parts of the span into `green`, part after part.
    pub fn fill(
        &self,
        from: Seconds,
        to: Seconds,
        parts: usize,
        green: &mut [f64],
    ) -> Result<(), ModelError> {
        check_len("green shares", green.len(), parts * self.movements)?;
        let length = (to - from).get() / parts as f64;
        for (part, shares) in green.chunks_exact_mut(self.movements.max(1)).enumerate() {
            shares.fill(1.0);
            let begin = from.get() + part as f64 * length;
            for signalled in &self.signalled {
                shares[signalled.movement] = signalled.share(begin, begin + length);
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
