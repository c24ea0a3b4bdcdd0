//! What links, signals and loops of ours are called in SUMO files that we write.

use traffic::Network;

/// The SUMO edge of each link, by link.
pub fn edge_names(network: &Network) -> Vec<String> {
    plain(network.links().iter().map(|link| link.name.as_str()), "link")
}

/// The SUMO traffic light of each signal, by signal.
pub fn signal_names(network: &Network) -> Vec<String> {
    plain(network.signals().iter().map(|signal| signal.name.as_str()), "signal")
}

/// The SUMO detector on one lane of each loop is this name, `_` and the lane; by loop.
pub fn loop_names(network: &Network) -> Vec<String> {
    plain(network.loops().iter().map(|detector| detector.name.as_str()), "loop")
}

/// The names themselves where SUMO takes them all as ids, else a word and a number.
fn plain<'a>(names: impl Iterator<Item = &'a str> + Clone, word: &str) -> Vec<String> {
    let allowed = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        name.bytes().all(plain) && !name.ends_with(OUTSIDE)
    };
    if names.clone().all(allowed) {
        names.map(str::to_owned).collect()
    } else {
        names.enumerate().map(|(index, _)| format!("{word}{index}")).collect()
    }
}

/// Ends the name of the stub edge behind an exit with a signal, which is on no link.
pub const OUTSIDE: &str = ".outside";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_unless_sumo_would_refuse_one() {
        assert_eq!(plain(["E1", "off_R1"].into_iter(), "link"), ["E1", "off_R1"]);
        assert_eq!(plain(["E1", "a b"].into_iter(), "link"), ["link0", "link1"]);
        assert_eq!(plain(["E1", ":n_0"].into_iter(), "link"), ["link0", "link1"]);
    }
}
