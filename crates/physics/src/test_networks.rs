//! Small networks for tests.

use traffic::{
    LanePair, Link, LinkId, Metres, MetresPerSecond, Network, NetworkParts, Point, Turn,
};

/// Numbers from 0 to 1, the same for the same seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1)
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next()
    }

    /// From a normal distribution of variance 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.next().max(1e-300).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next()).cos()
    }
}

/// Links of (length, lanes, speed), and turns between them.
pub(crate) fn network(links: &[(f64, u8, f64)], turns: &[(u32, u32)]) -> Network {
    let links = links.iter().enumerate().map(|(n, &(length, lanes, speed))| Link {
        name: format!("L{n}"),
        length: Metres::new(length),
        junction: Metres::ZERO,
        lanes,
        speed: MetresPerSecond::new(speed),
        shape: vec![Point { x: 0.0, y: n as f64 }, Point { x: length, y: n as f64 }],
    });
    let turns = turns.iter().map(|&(from, to)| Turn {
        from: LinkId(from),
        to: LinkId(to),
        lanes: vec![LanePair { from: 0, to: 0 }],
    });
    Network::new(NetworkParts {
        name: "test".into(),
        links: links.collect(),
        turns: turns.collect(),
        ..NetworkParts::default()
    })
    .expect("a sound test network")
}

/// One straight road.
pub(crate) fn road(length: f64, speed: f64) -> Network {
    network(&[(length, 1, speed)], &[])
}

/// Up to 12 links with merges, diverges and loops; every link has an exit downstream.
pub(crate) fn random_network(draw: &mut Draw) -> Network {
    let count = 2 + (draw.next() * 11.0) as usize;
    let links: Vec<_> = (0..count)
        .map(|_| {
            (draw.between(60.0, 400.0), 1 + (draw.next() * 4.0) as u8, draw.between(5.0, 25.0))
        })
        .collect();
    let mut turns = Vec::new();
    // A tree towards link 0, so that all hang together and lead out; then more turns, cycles too.
    for n in 1..count as u32 {
        turns.push((n, (draw.next() * f64::from(n)) as u32));
    }
    for _ in 0..count {
        let pair = ((draw.next() * count as f64) as u32, (draw.next() * count as f64) as u32);
        if pair.0 != pair.1 && pair.0 != 0 && !turns.contains(&pair) {
            turns.push(pair);
        }
    }
    network(&links, &turns)
}

/// Random shares per movement that add up to one at each link; some links have an exit as well.
pub(crate) fn random_ratios(network: &Network, draw: &mut Draw) -> Vec<f64> {
    let (turns, links) = (network.turns().len(), network.links().len());
    let mut ratios: Vec<f64> = (0..turns).map(|_| draw.between(0.1, 1.0)).collect();
    for link in network.link_ids() {
        let last = network.outgoing(link).is_empty();
        ratios.push(if last || draw.next() < 0.3 { draw.between(0.1, 1.0) } else { 0.0 });
    }
    for link in network.link_ids() {
        let own: Vec<usize> = network
            .outgoing(link)
            .iter()
            .map(|turn| turn.index())
            .chain([turns + link.index()])
            .collect();
        let sum: f64 = own.iter().map(|&at| ratios[at]).sum();
        own.iter().for_each(|&at| ratios[at] /= sum);
    }
    assert_eq!(ratios.len(), turns + links);
    ratios
}
