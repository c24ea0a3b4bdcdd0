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
    let mut ticks = Ticks::every(Duration::from_millis(50));
    assert!(!ticks.due(false), "something is still to be heard");
    assert!(!ticks.due(false));
    assert!(ticks.due(true));
    // But not for ever.
    let mut ticks = Ticks::every(Duration::from_millis(50));
    let heard = (0..10_000).take_while(|_| !ticks.due(false)).count();
    assert_eq!(heard, MOST_PUT_OFF as usize);
}

#[test]
fn own_data_come_through_however_much_arrives() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let many = 3 * MOST_IN_A_ROW as usize;
    let (arriving, arrivals) = mpsc::channel(many);
    (0..many).for_each(|_| arriving.try_send(()).unwrap());
    let (to, own) = mpsc::channel(2);
    ["first", "second"].into_iter().for_each(|own| to.try_send(own).unwrap());
    let (_stop, stop) = watch::channel(None);
    let mut inputs = Inputs::live(arrivals, own, stop);
    let mut heard = Vec::new();
    for _ in 0..many + 2 {
        heard.push(match runtime.block_on(inputs.next(Duration::from_millis(20))) {
            Next::Own(own) => own,
            Next::Arrived(()) => "arrived",
            Next::Nothing => "nothing",
        });
    }
    let own = heard.iter().enumerate().filter(|(_, what)| **what != "arrived");
    let most = MOST_IN_A_ROW as usize;
    assert_eq!(own.collect::<Vec<_>>(), [(most, &"first"), (2 * most + 1, &"second")]);
}

/// A party whose own data have ended is told so, and one that has none never is.
#[test]
fn the_end_of_own_data_is_told_once_the_channel_closes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (_arriving, arrivals) = mpsc::channel::<()>(1);
    let (_stop, stop) = watch::channel(None);
    let (to, own) = mpsc::channel::<u8>(1);
    let mut live = Inputs::live(arrivals, own, stop.clone());
    drop(to);
    runtime.block_on(live.next(Duration::from_secs(60)));
    assert!(matches!(live.own, Own::Ended));
    let (_arriving, arrivals) = mpsc::channel::<()>(1);
    let mut training = Inputs::new(arrivals, stop);
    runtime.block_on(training.next(Duration::from_millis(1)));
    assert!(matches!(training.own, Own::None));
}
