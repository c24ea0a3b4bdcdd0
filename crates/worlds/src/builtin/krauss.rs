//! Krauss' car-following in discrete time, without collisions by construction.
//!
//! Positions advance by the *new* speed, `x ← x + v·Δt`. Who brakes as hard as possible, `b`, from
//! speed `v` still covers
//!
//! ```text
//! D(v) = Δt · Σ max(0, v − k·b·Δt),  k = 1, 2, …
//! ```
//!
//! A follower with net gap `g` behind a leader of speed `v_l` takes a speed `v` with
//!
//! ```text
//! v·τ + D(v) ≤ g + D(v_l)          (τ ≥ Δt)
//! ```
//!
//! If it holds once, braking by `b` keeps it true whatever the leader does, as long as the leader
//! brakes no harder than `b`; and it implies `g ≥ 0`. So it needs checking only where someone gets
//! a new leader. In equilibrium `g = v·τ`: a time headway of `τ + (length + minimum gap)/v`.

/// The constants of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Krauss {
    /// Δt in seconds.
    pub step: f64,
    /// τ in seconds.
    pub reaction: f64,
    /// b·Δt: the most speed that can be lost in a step, in m/s.
    pub slowdown: f64,
}

impl Krauss {
    pub(super) fn new(step: f64, reaction: f64, deceleration: f64) -> Self {
        Self { step, reaction, slowdown: deceleration * step }
    }

    /// D(v) in metres.
    #[inline]
    pub(super) fn braking_distance(&self, speed: f64) -> f64 {
        let steps = (speed / self.slowdown).floor();
        self.step * steps * (speed - 0.5 * self.slowdown * (steps + 1.0))
    }

    /// The space that a speed needs, v·τ + D(v), in metres.
    #[inline]
    pub(super) fn space_for(&self, speed: f64) -> f64 {
        speed * self.reaction + self.braking_distance(speed)
    }

    /// The largest speed that fits a space: the inverse of [`Self::space_for`], 0 for none.
    #[inline]
    pub(super) fn speed_for(&self, space: f64) -> f64 {
        if space <= 0.0 {
            return 0.0;
        }
        // Between two multiples of b·Δt the needed space is linear in v; find the piece.
        let half = self.reaction - 0.5 * self.step;
        let steps = (((half * half + 2.0 * self.step * space / self.slowdown).sqrt() - half)
            / self.step)
            .floor();
        (space + 0.5 * self.slowdown * self.step * steps * (steps + 1.0))
            / (self.reaction + self.step * steps)
    }

    /// The largest safe speed at a net gap behind a leader.
    #[inline]
    pub(super) fn behind(&self, gap: f64, leader_speed: f64) -> f64 {
        self.speed_for(gap + self.braking_distance(leader_speed))
    }

    /// Whether someone can take such a leader without braking harder than possible.
    #[inline]
    pub(super) fn can_follow(&self, speed: f64, gap: f64, leader_speed: f64) -> bool {
        speed - self.slowdown <= self.behind(gap, leader_speed)
    }

    /// Whether braking from now on ends within a distance.
    #[inline]
    pub(super) fn can_stop(&self, speed: f64, distance: f64) -> bool {
        self.braking_distance(speed) <= distance
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn braking_distance_by_steps(krauss: &Krauss, mut speed: f64) -> f64 {
        let mut distance = 0.0;
        while speed > krauss.slowdown {
            speed -= krauss.slowdown;
            distance += speed * krauss.step;
        }
        distance
    }

    #[test]
    fn braking_distances_and_speeds_by_hand() {
        // Steps of 1 s at 4.5 m/s²: from 10 m/s to 5.5, 1, 0: 6.5 m. τ = 1.1 s.
        let krauss = Krauss::new(1.0, 1.1, 4.5);
        assert_eq!(krauss.slowdown, 4.5);
        assert_eq!(krauss.braking_distance(10.0), 6.5);
        assert_eq!(krauss.braking_distance(9.0), 4.5);
        assert_eq!(krauss.braking_distance(4.5), 0.0, "stands after one step");
        assert_eq!(krauss.braking_distance(0.0), 0.0);
        assert_eq!(krauss.space_for(10.0), 17.5);
        assert!((krauss.speed_for(17.5) - 10.0).abs() < 1e-12);
        for space in [0.0, -3.0, f64::NEG_INFINITY] {
            assert_eq!(krauss.speed_for(space), 0.0);
        }
        // At equal speeds v·τ is enough, whatever the speed; behind one who stands, the whole way is needed.
        for speed in [1.0, 5.0, 12.5, 30.0] {
            assert!((krauss.behind(1.1 * speed, speed) - speed).abs() < 1e-12);
            assert!((krauss.behind(krauss.space_for(speed), 0.0) - speed).abs() < 1e-12);
        }
        assert!(krauss.can_stop(10.0, 6.5) && !krauss.can_stop(10.0, 6.499));
        // Who comes at 10 m/s can be at 5.5 m/s after a step: 5.5·1.1 + 1 = 7.05 m are needed behind one who stands.
        assert!(krauss.can_follow(10.0, 7.051, 0.0) && !krauss.can_follow(10.0, 7.049, 0.0));
    }

    proptest! {
        #[test]
        fn closed_forms_equal_stepping_and_inversion(
            step in 0.05..1.0_f64,
            extra in 0.0..1.0_f64,
            speed in 0.0..40.0_f64,
        ) {
            let krauss = Krauss::new(step, step + extra, 4.5);
            // Sums of at most 40/(4.5·0.05) = 178 terms below 40 m: rounding stays under 1e-9.
            let stepped = braking_distance_by_steps(&krauss, speed);
            prop_assert!((krauss.braking_distance(speed) - stepped).abs() < 1e-9);
            prop_assert!((krauss.speed_for(krauss.space_for(speed)) - speed).abs() < 1e-9);
        }

        /// The theorem of the module: hard braking keeps the condition, whatever the leader does.
        #[test]
        fn braking_keeps_the_condition(
            step in 0.1..1.0_f64,
            extra in 0.0..0.5_f64,
            gap in 0.0..60.0_f64,
            leader in 0.0..30.0_f64,
            moods in prop::collection::vec(0.0..1.0_f64, 40),
        ) {
            let krauss = Krauss::new(step, step + extra, 4.5);
            let (mut gap, mut leader) = (gap, leader);
            let mut speed = krauss.behind(gap, leader);
            for mood in moods {
                let lowest = (leader - krauss.slowdown).max(0.0);
                leader = lowest + mood * (leader + 2.6 * step - lowest);
                gap += (leader - speed) * step;
                // Nothing is assumed of rounding but that it is far below a millimetre.
                prop_assert!(gap > -1e-9, "gap {gap}");
                let safe = krauss.behind(gap, leader);
                prop_assert!(safe > speed - krauss.slowdown - 1e-9);
                speed = safe;
            }
        }
    }
}
