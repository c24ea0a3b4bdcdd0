//! Lists that once failed, by what they showed.

use crate::disk::Death;
use crate::operations::Op::{
    Crash, CrashInCheckpoint, Delay, Deliver, Double, Lose, LoseAnswers, LoseDisk, Pause, Replay,
    Restart, Reverse,
};
use crate::toy::{KEEP_EVERY, ROUNDS};
use crate::world::{Setting, World};
use crate::{Outcome, PLAIN, ends_alike, outcome, undisturbed};
use federation::AbsencePolicy;

/// A crash of everyone at every moment of a run.
#[test]
fn all_lose_their_memory_at_once() {
    for messages in 1..60 {
        let list = [Deliver(messages), Crash(0), Crash(1), Crash(2), Pause(5)];
        ends_alike(2, &list);
    }
}

/// A crash of one party at every moment of a run.
#[test]
fn one_loses_its_memory_at_any_moment() {
    for messages in 1..80 {
        for party in 0..3 {
            ends_alike(2, &[Deliver(messages), Crash(party), Pause(25), Restart(party)]);
        }
    }
}

/// After a crash of one party at any moment, nothing is sent again but the rounds that the host tells: those since the last
/// checkpoint of all, of which there is one every few rounds.
#[test]
fn a_crash_repeats_only_what_followed_the_last_checkpoint() {
    let mut most = 0;
    for messages in 1..80 {
        for party in 0..3 {
            let mut world = World::new(Setting::new(AbsencePolicy::Wait, 2));
            for op in [Deliver(messages), Crash(party), Pause(25), Restart(party)] {
                world.apply(op);
            }
            assert_eq!(&world.recover(), undisturbed(2, PLAIN));
            // Parties are one round apart at most, and the round of the crash is under way.
            let bound = u64::from(KEEP_EVERY.get()) + 1;
            assert!(
                world.repeated().iter().all(|&rounds| rounds <= bound),
                "{:?}",
                world.repeated()
            );
            let repeated: u64 = world.repeated().iter().sum();
            for embeddings in world.embeddings() {
                // The round under way at the crash may have been answered before.
                let bound = ROUNDS + repeated + 1;
                assert!(embeddings <= bound, "{embeddings} embeddings, at most {bound}");
            }
            most = most.max(repeated);
        }
    }
    assert!(most > 0, "no crash cost a round");
}

/// A guest that was away at the end hears of it when the host is started again.
#[test]
fn a_guest_that_misses_the_end_is_told_later() {
    for messages in 20..45 {
        ends_alike(1, &[Deliver(messages), Crash(1), Pause(40), Pause(40)]);
    }
}

/// A guest that is away for longer than the limit stops everyone, and nobody hangs.
#[test]
fn a_guest_that_stays_away_stops_everyone() {
    for messages in [0, 5, 20] {
        let mut world = World::new(Setting::new(AbsencePolicy::Wait, 2));
        for op in [Deliver(messages), Crash(1), Pause(11_000)] {
            world.apply(op);
        }
        let found = world.recover();
        assert!(matches!(found, Outcome::Stopped(_)), "after {messages} messages: {found:?}");
    }
    let found = outcome(
        Setting::new(AbsencePolicy::Stop, 2),
        &[Deliver(20), Crash(1), Pause(90), Restart(1)],
    );
    assert!(matches!(found, Outcome::Stopped(_)), "{found:?}");
}

/// A greeting of a guest's former life came after those of its present one, which then counted as
/// the stale ones, for ever.
#[test]
fn a_late_greeting_of_a_former_life_does_not_shut_the_guest_out() {
    let list = [
        Pause(10),
        Deliver(9),
        Delay(1),
        LoseAnswers,
        LoseAnswers,
        Deliver(18),
        Restart(3),
        Restart(0),
        Pause(1),
        Replay(20),
    ];
    ends_alike(3, &list);
}

/// The same with two greetings in the wrong order, where the others go on without the guest.
#[test]
fn greetings_in_the_wrong_order_do_not_shut_the_guest_out() {
    let list = [
        Deliver(1),
        Pause(40),
        Deliver(6),
        Restart(0),
        Deliver(8),
        Pause(10),
        Restart(3),
        Deliver(1),
        Pause(1),
        Reverse,
    ];
    let found = outcome(Setting::new(AbsencePolicy::Skip, 3), &list);
    assert!(matches!(found, Outcome::Finished(_)), "{found:?}");
}

/// The first greetings came again when some had finished already; going back to a common round then
/// needed guests that were gone.
#[test]
fn a_greeting_from_the_beginning_comes_again_at_the_end() {
    for messages in 1..90 {
        for first in [1, 2] {
            let again = Replay(messages - first.min(messages));
            ends_alike(2, &[Deliver(messages), Restart(0), again, Deliver(1), Restart(1), again]);
        }
    }
}

/// A guest that came back with an empty folder made everyone begin anew, and erased all checkpoints.
#[test]
fn a_guest_that_lost_its_disk_does_not_erase_those_of_the_others() {
    let mut refused = 0;
    for messages in 1..50 {
        let mut world = World::new(Setting::new(AbsencePolicy::Wait, 2));
        for op in [Deliver(messages), LoseDisk(1)] {
            world.apply(op);
        }
        let kept = world.kept_by_host();
        let found = world.recover();
        let Outcome::Stopped(words) = found else {
            // Possible only where there was nothing to lose.
            assert!(kept.is_empty(), "after {messages} messages: {found:?}");
            assert_eq!(&found, undisturbed(2, PLAIN), "after {messages} messages");
            continue;
        };
        assert!(words[1].contains("checkpoints: found none, expected of rounds"), "{words:?}");
        assert!(!world.kept_by_host().is_empty() && world.kept_by_host() >= kept, "{kept:?}");
        refused += 1;
    }
    // Checkpoints begin with round 3 of 9.
    assert!(refused > 20, "{refused}");
}

/// A crash between a checkpoint and what follows it: the party has kept a round that nobody has heard of.
#[test]
fn one_dies_in_its_checkpoint() {
    for messages in 0..40 {
        for party in 0..3 {
            for death in [Death::Before, Death::Between, Death::After] {
                let dies = CrashInCheckpoint(party, death);
                ends_alike(2, &[Deliver(messages), dies, Deliver(60), Pause(25), Restart(party)]);
            }
        }
    }
}

/// The disks of the simulation do what folders do.
#[test]
fn real_folders_end_alike() {
    for messages in (1..60).step_by(9) {
        for party in 0..3 {
            let setting = Setting { folders: true, ..Setting::new(AbsencePolicy::Wait, 2) };
            let list = [Deliver(messages), Crash(party), Pause(25), Restart(party)];
            assert_eq!(&outcome(setting, &list), undisturbed(2, PLAIN));
        }
    }
}

/// A guest that loses its memory again and again, whenever the others have just gone back for it.
#[test]
fn a_guest_that_keeps_coming_back_does_not_hold_the_run_for_ever() {
    let mut world = World::new(Setting::new(AbsencePolicy::Wait, 2));
    world.apply(Deliver(30));
    // The limit is 10 000 seconds, each return takes 20.
    let mut returns = 0;
    while !world.host_has_ended() {
        for op in [Restart(1), Pause(10), Deliver(4), Pause(10)] {
            world.apply(op);
        }
        returns += 1;
        assert!(returns < 1000, "the host still waits");
    }
    assert!(returns > 100, "{returns}: others may fail a few times");
    let found = world.recover();
    let Outcome::Stopped(words) = found else { unreachable!("{found:?}") };
    assert!(words[0].contains("it came back without its memory"), "{words:?}");
}

/// A greeting that was overtaken by two answers of its own guest: taken for news, it made the guest skip the
/// end of a round that was on its way.
#[test]
fn a_greeting_that_was_overtaken_is_no_news() {
    let list = [
        LoseAnswers,
        LoseAnswers,
        Double,
        Deliver(6),
        Pause(20),
        Deliver(5),
        Deliver(8),
        Lose,
        Lose,
        Lose,
        Deliver(2),
        LoseAnswers,
        Deliver(4),
        Reverse,
        Deliver(5),
        Deliver(5),
        Lose,
        Reverse,
    ];
    crate::under_skip(&list);
}
