//! The network, laid out for driving: all lanes in one array, and where each leads.

use traffic::{Link, LinkId, Network, TurnId};

/// The index of a lane among all lanes of the network.
pub(super) type LaneId = u32;
/// No lane: where a vehicle came from that entered from outside.
pub(super) const NOWHERE: LaneId = LaneId::MAX;

/// A lane of a link.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub link: u32,
    /// 0 is the right-most.
    pub number: u8,
    /// Of its link, in metres.
    pub length: f64,
    /// How much of the length lies in the junction, in metres.
    pub junction: f64,
    /// Speed limit in m/s.
    pub limit: f64,
    /// The lanes that lead into it, in order.
    pub sources: Vec<LaneId>,
    /// Its number among the lanes with several sources, if it has several.
    pub merge: Option<u32>,
}

/// The lanes of a link.
#[derive(Clone, Debug)]
pub(super) struct Street {
    /// Its lane 0; the others follow.
    pub first_lane: LaneId,
    pub lanes: u8,
    /// All lanes of all links that follow it.
    pub downstream: Vec<LaneId>,
}

/// A turn, by lanes.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub to: u32,
    /// For each lane of `from`, the lanes of `to` that it leads to.
    pub onto: Vec<Vec<u8>>,
    /// For each lane of `from`, how many lanes to the left (or, negative, to the right) the nearest
    /// lane is that serves this turn.
    pub away: Vec<i16>,
}

/// The network, laid out for driving.
#[derive(Clone, Debug)]
pub(super) struct Streets {
    pub network: Network,
    pub lanes: Vec<Lane>,
    pub streets: Vec<Street>,
    /// Indexed by turn.
    pub ways: Vec<Way>,
    /// The lanes with several sources.
    pub merges: Vec<LaneId>,
    /// The highest speed limit of all, in m/s.
    pub top_limit: f64,
}

impl Streets {
    pub(super) fn new(network: &Network) -> Self {
        let mut lanes = Vec::new();
        let mut streets = Vec::with_capacity(network.links().len());
        for (index, link) in network.links().iter().enumerate() {
            let first_lane = lanes.len() as LaneId;
            streets.push(Street { first_lane, lanes: link.lanes, downstream: Vec::new() });
            lanes.extend((0..link.lanes).map(|number| Lane::new(index, link, number)));
        }
        let mut ways = Vec::with_capacity(network.turns().len());
        for turn in network.turns() {
            let (from, to) = (turn.from.index(), turn.to.index());
            let mut onto = vec![Vec::new(); usize::from(streets[from].lanes)];
            for pair in &turn.lanes {
                let options = &mut onto[usize::from(pair.from)];
                if !options.contains(&pair.to) {
                    options.push(pair.to);
                    let target = streets[to].first_lane + LaneId::from(pair.to);
                    let source = streets[from].first_lane + LaneId::from(pair.from);
                    lanes[target as usize].sources.push(source);
                }
            }
            let away = nearest_serving_lane(&onto);
            ways.push(Way { to: to as u32, onto, away });
            let (first, count) = (streets[to].first_lane, streets[to].lanes);
            streets[from].downstream.extend(first..first + LaneId::from(count));
        }
        let mut merges = Vec::new();
        for (index, lane) in lanes.iter_mut().enumerate() {
            lane.sources.sort_unstable();
            if lane.sources.len() > 1 {
                lane.merge = Some(merges.len() as u32);
                merges.push(index as LaneId);
            }
        }
        let top_limit = lanes.iter().map(|lane| lane.limit).fold(0.0, f64::max);
        Self { network: network.clone(), lanes, streets, ways, merges, top_limit }
    }

    #[inline]
    pub(super) fn lane(&self, id: LaneId) -> &Lane {
        &self.lanes[id as usize]
    }

    #[inline]
    pub(super) fn street_of(&self, id: LaneId) -> &Street {
        &self.streets[self.lane(id).link as usize]
    }

    #[inline]
    pub(super) fn way(&self, turn: TurnId) -> &Way {
        &self.ways[turn.index()]
    }

    pub(super) fn lane_of(&self, link: LinkId, number: u8) -> LaneId {
        self.streets[link.index()].first_lane + LaneId::from(number)
    }

    /// The lane beside, if there is one: −1 to the right, 1 to the left.
    #[inline]
    pub(super) fn beside(&self, id: LaneId, side: i16) -> Option<LaneId> {
        let number = i16::from(self.lane(id).number) + side;
        let street = self.street_of(id);
        (0..i16::from(street.lanes)).contains(&number).then(|| street.first_lane + number as LaneId)
    }
}

impl Lane {
    fn new(link_index: usize, link: &Link, number: u8) -> Self {
        Self {
            link: link_index as u32,
            number,
            length: link.length.get(),
            junction: link.junction.get(),
            limit: link.speed.get(),
            sources: Vec::new(),
            merge: None,
        }
    }
}

fn nearest_serving_lane(onto: &[Vec<u8>]) -> Vec<i16> {
    let serving = |lane: i16| {
        usize::try_from(lane).ok().and_then(|l| onto.get(l)).is_some_and(|to| !to.is_empty())
    };
    let count = onto.len() as i16;
    let nearest =
        |lane: i16| (0..count).flat_map(|by| [by, -by]).find(|&by| serving(lane + by)).unwrap_or(0);
    (0..count).map(nearest).collect()
}
