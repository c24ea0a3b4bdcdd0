//! When time passes, and when it does not.

use super::*;

#[test]
fn time_in_which_a_party_computes_is_not_the_silence_of_others() {
    let clock = Clock::start();
    let later = |seconds| clock.began + Duration::from_secs(seconds);
    assert_eq!(clock.at(later(5)), Duration::from_secs(5));
    // From second 5 to 105 it computes.
    clock.skip(Duration::from_secs(100));
    assert_eq!(clock.at(later(105)), Duration::from_secs(5));
    assert_eq!(clock.at(later(106)), Duration::from_secs(6));
}

#[test]
fn a_clock_that_stands_still_does_not_go_back() {
    let clock = Clock::start();
    let before = clock.now().monotonic;
    let during = clock.stopped(|now| {
        std::thread::sleep(Duration::from_millis(5));
        now.monotonic
    });
    let after = clock.now().monotonic;
    assert!(before <= during && during <= after, "{before:?} {during:?} {after:?}");
}

#[test]
fn what_has_arrived_is_heard_before_time_passes() {
    let mut ticks = Ticks::default();
    assert!(!ticks.due(false), "something is still to be heard");
    assert!(!ticks.due(false));
    assert!(ticks.due(true));
    // But not for ever.
    let mut ticks = Ticks::default();
    let heard = (0..10_000).take_while(|_| !ticks.due(false)).count();
    assert_eq!(heard, MOST_PUT_OFF as usize);
}
