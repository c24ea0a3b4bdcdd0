//! Lists that are being written, and lists that say something.

use super::*;

fn list(guests: &[&str]) -> Accepted {
    guests.iter().fold(Accepted::default(), |list, guest| {
        let name = PartyId::new(guest).expect("a name");
        list.with(name, Fingerprint::of(guest.as_bytes()))
    })
}

fn text(guests: &[&str]) -> String {
    let line = |guest: &&str| format!("{guest} = [\"{}\"]\n", Fingerprint::of(guest.as_bytes()));
    format!("[guests]\n{}", guests.iter().map(line).collect::<String>())
}

fn parse(text: &str) -> Result<Accepted, AcceptedError> {
    Accepted::parse(text)
        .map_err(|problem| AcceptedError::Content { path: "guests.toml".into(), problem })
}

/// However much of a list has been written when the host looks: nobody is cut off, and the whole list
/// counts once it is there.
#[test]
fn a_half_written_list_cuts_nobody_off() {
    let (before, after) = (list(&["fleet-a", "fleet-b"]), text(&["fleet-b", "fleet-c"]));
    // Without its last line end it is whole.
    for length in 0..after.len() - 1 {
        let mut follower = Follower::default();
        let half = follower.look(&before, parse(&after[..length]));
        assert!(!matches!(half, Look::Changed(_)), "after {length} bytes: {half:?}");
        assert_eq!(follower.look(&before, parse(&after)), Look::Nothing);
        let whole = Look::Changed(list(&["fleet-b", "fleet-c"]));
        assert_eq!(follower.look(&before, parse(&after)), whole);
    }
}

#[test]
fn a_list_of_nobody_is_no_revocation_of_everybody() {
    let before = list(&["fleet-a"]);
    let mut follower = Follower::default();
    for empty in ["", "[guests]\n"] {
        for look in 0..5 {
            let found = follower.look(&before, parse(empty));
            assert!(!matches!(found, Look::Changed(_)), "{empty:?}, look {look}: {found:?}");
        }
    }
    // Said on purpose it counts.
    let none = "[guests]\nfleet-a = []\n";
    follower.look(&before, parse(none));
    let Look::Changed(accepted) = follower.look(&before, parse(none)) else {
        unreachable!("the same list twice")
    };
    assert_eq!(accepted.0[&PartyId::new("fleet-a").unwrap()].len(), 0);
}

#[test]
fn the_same_problem_is_told_once() {
    let before = list(&["fleet-a"]);
    let mut follower = Follower::default();
    assert!(matches!(follower.look(&before, parse("[guests")), Look::Problem(_)));
    assert_eq!(follower.look(&before, parse("[guests")), Look::Nothing);
    follower.look(&before, parse(&text(&["fleet-a"])));
    assert!(matches!(follower.look(&before, parse("[guests")), Look::Problem(_)));
}
