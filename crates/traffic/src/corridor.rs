//! The corridor of the paper, the shipped example network.

use crate::network::Network;
use crate::network_file::{NetworkFileError, parse_network};

/// `networks/corridor.toml`: 17 links, 7 signals with a cycle of 90 s, loops on E1 and E5.
///
/// ```
/// let corridor = traffic::corridor()?;
/// assert_eq!(corridor.links().len(), 17);
/// # Ok::<(), traffic::NetworkFileError>(())
/// ```
pub fn corridor() -> Result<Network, NetworkFileError> {
    parse_network(include_str!("../../../networks/corridor.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;

    #[test]
    fn it_is_the_corridor_of_the_paper() {
        let corridor = corridor().unwrap();
        assert_eq!(corridor.links().len(), 17);
        assert_eq!(corridor.targets().len(), 9);
        assert_eq!(corridor.signals().len(), 7);
        for signal in corridor.signals() {
            assert_eq!(signal.cycle(), Seconds::new(90.0), "{}", signal.name);
        }
        for link in corridor.links() {
            assert!((90.0..=160.0).contains(&link.length.get()), "{}", link.name);
        }
        let loops: Vec<&str> =
            corridor.loops().iter().map(|l| corridor.link(l.link).name.as_str()).collect();
        assert_eq!(loops, ["E1", "E5"]);
    }

    #[test]
    fn turns_are_the_published_adjacency() {
        let corridor = corridor().unwrap();
        let mut turns: Vec<String> = corridor
            .turns()
            .iter()
            .map(|t| format!("{}>{}", corridor.link(t.from).name, corridor.link(t.to).name))
            .collect();
        turns.sort();
        let mut published = [
            "E1>E2",
            "E1>off_R1",
            "E2>E3",
            "E3>E4",
            "E3>off_R2",
            "E4>E5",
            "E5>E6",
            "E5>off_R3",
            "E6>E7",
            "E6>off_R4",
            "on_R1>E2",
            "on_R1>off_R1",
            "on_R2>E3",
            "on_R3>E3",
            "on_R4>E5",
            "on_R5>E6",
            "on_R5>off_R3",
            "on_R6>E7",
            "on_R6>off_R4",
        ];
        published.sort();
        assert_eq!(turns, published);
        let lanes = |name: &str| corridor.link(corridor.link_named(name).unwrap()).lanes;
        for (name, expected) in [
            ("E1", 5),
            ("E2", 5),
            ("E3", 5),
            ("E4", 4),
            ("E5", 4),
            ("E6", 4),
            ("E7", 4),
            ("off_R1", 2),
            ("off_R2", 2),
            ("off_R3", 2),
            ("off_R4", 1),
            ("on_R1", 2),
            ("on_R2", 1),
            ("on_R3", 1),
            ("on_R4", 2),
            ("on_R5", 1),
            ("on_R6", 1),
        ] {
            assert_eq!(lanes(name), expected, "{name}");
        }
    }
}
