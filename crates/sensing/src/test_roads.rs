//! Roads with fixed lengths for tests that place vehicles by hand.

use traffic::{Metres, Network};

/// The corridor with E1 150 m and E2 110 m long, however the shipped scenario is tuned.
pub(crate) fn corridor() -> Result<Network, traffic::NetworkFileError> {
    let mut parts = traffic::corridor()?.into_parts();
    for (index, length) in [(0, 150.0), (1, 110.0)] {
        let link = &mut parts.links[index];
        let (start, end) = (link.shape[0], link.shape[link.shape.len() - 1]);
        link.length = Metres::new(length);
        link.shape = if index == 0 {
            vec![end.towards(start, length / start.distance(end)), end]
        } else {
            vec![start, start.towards(end, length / start.distance(end))]
        };
    }
    Ok(Network::new(parts).unwrap())
}
