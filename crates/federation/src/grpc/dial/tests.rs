//! Pauses between attempts.

use super::*;

/// Pauses grow to a cap and never beyond; guests that were cut off together spread out.
#[test]
fn pauses_double_up_to_a_cap_and_are_spread() {
    let mut pause = PAUSES.0;
    let mut total = Duration::ZERO;
    for attempt in 0..40 {
        let drawn: Vec<Duration> = (0..100).map(|_| jittered(pause)).collect();
        assert!(drawn.iter().all(|drawn| (pause / 2..=pause).contains(drawn)), "{attempt}");
        // A hundred draws of 64 random bits that are all the same: 2^-6000.
        assert!(drawn.iter().any(|other| *other != drawn[0]), "{attempt}");
        total += pause;
        pause = longer(pause);
    }
    assert_eq!(pause, PAUSES.1);
    // 0.1 + 0.2 + … + 12.8 s, then the cap each time.
    assert_eq!(total, Duration::from_millis(25_500) + 32 * PAUSES.1);
}
