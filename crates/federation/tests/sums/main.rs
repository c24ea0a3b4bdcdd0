//! Sums over guests under simulated faults, and a host that cheats.
//!
//! Parties, certificates, signatures, masks and messages as bytes are the real ones; the network and the clock are simulated. A schedule
//! loses, delays, repeats and replays messages and crashes parties; a crashed guest has forgotten all but its file of participants, a
//! crashed host all but its store. After each schedule every block's sum is that of its participants, word by word.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: what fails here fails the test"
)]

mod cheating;
mod live;
mod world;

use std::collections::BTreeSet;

use federation::AbsencePolicy;
use world::{Faults, World};

/// Schedules of each kind in a test run.
const SCHEDULES: u64 = 80;

/// `SIMULATION_SEED=2` draws others and `SIMULATION_FACTOR=10` ten times as many.
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
    };
    let (seed, factor) = (number("SIMULATION_SEED", 1), number("SIMULATION_FACTOR", 1));
    (0..SCHEDULES * factor).map(move |number| seed.wrapping_mul(1_000_003) + number)
}

/// Guests of a schedule: 2 to 8.
fn guests(seed: u64) -> usize {
    2 + (seed % 7) as usize
}

#[test]
fn without_faults_each_block_is_the_sum_over_all() {
    for guests in [1, 2, 3, 16] {
        let mut world = World::new(guests, AbsencePolicy::Wait, Faults::none(), 1);
        let sums = world.run();
        assert_eq!(sums.len(), world::BLOCKS.len());
        assert!(sums.iter().all(|sum| sum.guests == guests));
        world.check(&sums, &[]);
        assert_eq!(world.ended(), guests);
    }
}

#[test]
fn messages_that_are_lost_late_or_twice_change_no_sum() {
    for seed in seeds() {
        let faults = Faults { lost: 0.15, twice: 0.1, late: 0.2, ..Faults::none() };
        let mut world = World::new(guests(seed), AbsencePolicy::Wait, faults, seed);
        let sums = world.run();
        assert!(sums.iter().all(|sum| sum.guests == guests(seed)), "seed {seed}");
        world.check(&sums, &[]);
    }
}

#[test]
fn crashes_of_guests_and_host_change_no_sum() {
    for seed in seeds() {
        let faults = Faults {
            lost: 0.05,
            late: 0.1,
            guest_crash: 0.004,
            host_crash: 0.002,
            ..Faults::none()
        };
        let mut world = World::new(guests(seed), AbsencePolicy::Wait, faults, seed);
        let sums = world.run();
        assert!(sums.iter().all(|sum| sum.guests == guests(seed)), "seed {seed}");
        world.check(&sums, &[]);
    }
}

#[test]
fn messages_of_other_blocks_groups_and_runs_change_no_sum() {
    for seed in seeds() {
        let faults = Faults { replayed: 0.3, late: 0.1, guest_crash: 0.003, ..Faults::none() };
        let mut world = World::new(guests(seed), AbsencePolicy::Wait, faults, seed);
        let sums = world.run();
        assert!(sums.iter().all(|sum| sum.guests == guests(seed)), "seed {seed}");
        world.check(&sums, &[]);
    }
}

/// A guest that is gone for good costs its data and nothing else: the others' sum, bit for bit, with one message of each.
#[test]
fn without_a_guest_the_sum_is_that_of_the_others() {
    for seed in seeds() {
        let guests = guests(seed).max(3);
        let faults = Faults { lost: 0.05, late: 0.1, ..Faults::none() };
        let mut world = World::new(guests, AbsencePolicy::Skip, faults, seed);
        let gone = world.gone_after((seed % 40) as usize);
        let sums = world.run_or_absent(&gone);
        let Some(sums) = sums else { continue };
        world.check(&sums, &[gone]);
        let there: BTreeSet<usize> = sums.iter().map(|sum| sum.guests).collect();
        assert!(there.iter().all(|there| (guests - 1..=guests).contains(there)), "seed {seed}");
    }
}
