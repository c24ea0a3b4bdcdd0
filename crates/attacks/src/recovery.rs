//! How close a guess is to the data, beside the guess that needs no messages.

use serde::Serialize;

/// How close an attack came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// Root mean square error, in the unit of the data.
    pub rmse: f64,
    /// The same of the trivial guess.
    pub trivial_rmse: f64,
    /// 1 − (rmse/trivial)²: 1 is all, 0 nothing; below 0 the attack is worse than the trivial guess.
    pub explained: f64,
}

impl Recovery {
    /// Of guesses beside the trivial guess of each value.
    pub fn of(truth: &[f64], guess: &[f64], trivial: &[f64]) -> Self {
        let rmse = |guess: &[f64]| {
            let squares = truth.iter().zip(guess).map(|(truth, guess)| (truth - guess).powi(2));
            (squares.sum::<f64>() / truth.len().max(1) as f64).sqrt()
        };
        let (rmse, trivial_rmse) = (rmse(guess), rmse(trivial));
        let explained = match trivial_rmse > 0.0 {
            true => 1.0 - (rmse / trivial_rmse).powi(2),
            false => 0.0,
        };
        Self { rmse, trivial_rmse, explained }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_half_and_nothing() {
        let (truth, trivial) = ([1.0, 3.0], [2.0, 2.0]);
        assert_eq!(Recovery::of(&truth, &truth, &trivial).explained, 1.0);
        assert_eq!(Recovery::of(&truth, &trivial, &trivial).explained, 0.0);
        let half = Recovery::of(&truth, &[1.5, 2.5], &trivial);
        assert_eq!((half.rmse, half.trivial_rmse, half.explained), (0.5, 1.0, 0.75));
        // Worse than trivial is below zero: twice as far explains 1 − 4.
        assert_eq!(Recovery::of(&truth, &[3.0, 1.0], &trivial).explained, -3.0);
    }

    #[test]
    fn what_the_trivial_guess_knows_already_is_not_recovered() {
        let known = Recovery::of(&[2.0, 2.0], &[2.0, 4.0], &[2.0, 2.0]);
        assert_eq!((known.rmse, known.trivial_rmse, known.explained), (2.0f64.sqrt(), 0.0, 0.0));
        let nothing = Recovery::of(&[], &[], &[]);
        assert_eq!((nothing.rmse, nothing.trivial_rmse, nothing.explained), (0.0, 0.0, 0.0));
    }
}
