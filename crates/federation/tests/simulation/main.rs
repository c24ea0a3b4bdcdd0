//! Faults, simulated: a list of operations drives a host and guests under one clock.
//!
//! A message may be lost before or after it had its effect, come late, twice, out of order or long
//! after its time; a party may lose its memory at any moment and come back with its disk. After any
//! such list the faults stop and the parties go on by themselves.
//!
//! *A failure is:* a party that waits for ever; a finished party whose weights are not those of the
//! undisturbed run, bit for bit; one party finished and another stopped by an error; a ledger that
//! is not whole or lacks a message that left.
//!
//! *No failure is:* that rounds are done again after a crash, or that it takes longer; that under
//! the policy `stop`, or after pauses beyond the limit, all stop with an error; that under `skip` weights
//! are others where a guest has missed rounds.

#![allow(unreachable_pub)]

mod disk;
mod operations;
mod reproduction;
mod toy;
mod world;

use std::sync::OnceLock;

use federation::AbsencePolicy;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use protocol::Compression;

use operations::{Op, lists};
use world::{Measured, Outcome, Setting, World};

/// Runs a list and lets the parties go on until all have ended.
fn outcome(setting: Setting, list: &[Op]) -> Outcome {
    let mut world = World::new(setting);
    for op in list {
        world.apply(*op);
    }
    world.recover()
}

/// The weights of each party after a run without faults.
fn undisturbed(guests: usize, (compression, measured): Form) -> &'static Outcome {
    type Three = [OnceLock<Outcome>; 3];
    static ALL: [Three; 14] = [const { [const { OnceLock::new() }; 3] }; 14];
    let form = 7 * usize::from(compression == Compression::Q8) + measured as usize;
    let setting = Setting { compression, measured, ..Setting::new(AbsencePolicy::Wait, guests) };
    ALL[form][guests - 1].get_or_init(|| outcome(setting, &[]))
}

/// How numbers cross, and whether guests measure besides.
type Form = (Compression, Measured);
const PLAIN: Form = (Compression::None, Measured::Nothing);
const MEASURED: Form = (Compression::None, Measured::Clear);
const PACKED_AND_MEASURED: Form = (Compression::Q8, Measured::Clear);
const SEALED: Form = (Compression::None, Measured::Sealed);
const LATTICE: Form = (Compression::None, Measured::Lattice);
const COMMITTED: Form = (Compression::None, Measured::Committed);
const SEALED_IN_PARTS: Form = (Compression::None, Measured::SealedInParts);
const COMMITTED_IN_PARTS: Form = (Compression::None, Measured::CommittedInParts);

/// Pauses within the limit: nothing may keep the parties from the same weights, nor what 8 bits have
/// lost from being sent later.
fn ends_alike(guests: usize, list: &[Op]) {
    ends_alike_in(&[PLAIN, PACKED_AND_MEASURED, SEALED], guests, list);
}

/// A run of one form that is disturbed, and one of another that is not.
fn ends_as(form: Form, undisturbed_form: Form, guests: usize, list: &[Op]) {
    let (compression, measured) = form;
    let setting = Setting { compression, measured, ..Setting::new(AbsencePolicy::Wait, guests) };
    assert_eq!(&outcome(setting, list), undisturbed(guests, undisturbed_form));
}

fn ends_alike_in(forms: &[Form], guests: usize, list: &[Op]) {
    for &form @ (compression, measured) in forms {
        let setting =
            Setting { compression, measured, ..Setting::new(AbsencePolicy::Wait, guests) };
        assert_eq!(&outcome(setting, list), undisturbed(guests, form));
    }
}

/// Pauses of any length: the same weights everywhere, or an error everywhere.
fn ends_alike_or_stops(absent: AbsencePolicy, guests: usize, list: &[Op]) {
    let found = outcome(Setting::new(absent, guests), list);
    if !matches!(found, Outcome::Stopped(_)) {
        assert_eq!(&found, undisturbed(guests, PLAIN));
    }
}

/// Many lists, the same each time; more with `SIMULATION_FACTOR=10`, others with `SIMULATION_SEED=2`.
fn cases(cases: u32) -> ProptestConfig {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let factor = number("SIMULATION_FACTOR").unwrap_or(1);
    let seed = number("SIMULATION_SEED").unwrap_or(1);
    ProptestConfig {
        cases: cases.saturating_mul(factor),
        rng_seed: RngSeed::Fixed(seed.into()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn one_guest_ends_alike(list in lists(40, false)) {
        ends_alike(1, &list);
    }

    #[test]
    fn three_guests_end_alike(list in lists(80, false)) {
        ends_alike(3, &list);
    }

    /// What is asked in parts ends as what is asked at once, whatever happens between two parts.
    #[test]
    fn in_parts_all_end_as_at_once(list in lists(80, false)) {
        ends_as(SEALED_IN_PARTS, SEALED, 3, &list);
    }

    #[test]
    fn under_skip_in_parts_all_end_and_agree(list in lists(60, false)) {
        under_skip_in(&[SEALED_IN_PARTS], &list);
    }

    #[test]
    fn with_long_pauses_all_end_alike_or_stop(list in lists(40, true)) {
        ends_alike_or_stops(AbsencePolicy::Wait, 2, &list);
    }

    #[test]
    fn under_stop_all_end_alike_or_stop(list in lists(40, false)) {
        ends_alike_or_stops(AbsencePolicy::Stop, 2, &list);
    }

    /// Nobody hangs; all agree on how it went and how far it came, and end with weights that the
    /// estimates were made with. Weights may differ from the undisturbed run's, but only if the host has
    /// missed someone, or someone its memory.
    #[test]
    fn under_skip_all_end_and_agree(list in lists(60, false)) {
        under_skip(&list);
    }

    /// The same where the network alone is bad.
    #[test]
    fn under_skip_a_bad_network_alone_changes_nothing(list in lists(60, false)) {
        let network = |op: &Op| !matches!(
            op, Op::Crash(_) | Op::CrashInCheckpoint(..) | Op::Restart(_) | Op::Tear(_),
        );
        let list: Vec<Op> = list.into_iter().filter(network).collect();
        under_skip(&list);
    }
}

// Fewer lists, since ciphertexts and proofs take long.
proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn with_ciphertexts_all_end_alike(list in lists(60, false)) {
        ends_alike_in(&[LATTICE, COMMITTED], 2, &list);
    }

    #[test]
    fn in_parts_with_ciphertexts_all_end_as_at_once(list in lists(60, false)) {
        ends_as(COMMITTED_IN_PARTS, COMMITTED, 2, &list);
    }

    #[test]
    fn under_skip_with_ciphertexts_all_end_and_agree(list in lists(60, false)) {
        under_skip_in(&[LATTICE, COMMITTED], &list);
    }
}

fn under_skip(list: &[Op]) {
    under_skip_in(&[PLAIN, MEASURED, SEALED], list);
}

fn under_skip_in(forms: &[Form], list: &[Op]) {
    for &form @ (compression, measured) in forms {
        let setting = Setting { compression, measured, ..Setting::new(AbsencePolicy::Skip, 3) };
        let mut world = World::new(setting);
        for op in list {
            world.apply(*op);
        }
        let found = world.recover();
        assert!(matches!(found, Outcome::Finished(_)), "{found:?}");
        world.check_agreement();
        if !world.was_disturbed() {
            assert_eq!(&found, undisturbed(3, form));
        }
    }
}

/// A run without faults needs no second word.
#[test]
fn without_faults_every_message_is_said_once() {
    let mut world = World::new(Setting::new(AbsencePolicy::Wait, 2));
    let found = world.recover();
    assert!(matches!(found, Outcome::Finished(_)), "{found:?}");
    // Rounds × guests × (ask, embedding, end), and for each guest: hello, welcome, what is kept,
    // finish, leave.
    let rounds = toy::ROUNDS;
    let kept = rounds.div_ceil(u64::from(toy::KEEP_EVERY.get())) + 1;
    let most = 2 * (3 * rounds + 4 + kept);
    assert!(world.messages() <= most, "{} messages, expected at most {most}", world.messages());
}
