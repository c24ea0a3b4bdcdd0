//! The drawn network, ready to be searched: which links pass near a point, and which follow which.

use std::cmp::Ordering;

use rstar::{AABB, PointDistance, RTree, RTreeObject};
use traffic::{LinkId, Metres, Network, Point};

/// A link near a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub link: LinkId,
    /// Metres along the drawn link to its point nearest to the place.
    pub at: f64,
    /// Metres from the place to that point.
    pub distance: f64,
    /// Metres from the place to the lanes of the link.
    pub beyond: f64,
}

impl Candidate {
    fn order(&self, other: &Self) -> Ordering {
        self.beyond.total_cmp(&other.beyond).then(self.distance.total_cmp(&other.distance))
    }

    fn is_nearer(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Less
    }
}

/// A straight piece of a drawn link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub from: Point,
    pub to: Point,
    pub link: LinkId,
    /// Metres along the drawn link to `from`.
    pub begin: f64,
    pub length: f64,
}

impl Segment {
    /// The share of the segment at its point nearest to a place, within limits.
    pub(super) fn nearest_share(&self, place: Point, least: f64, most: f64) -> f64 {
        if self.length <= 0.0 {
            return least;
        }
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        let along = (place.x - self.from.x) * dx + (place.y - self.from.y) * dy;
        (along / (self.length * self.length)).clamp(least, most)
    }

    /// Metres from a place to the lanes beside a share of the segment, which reach so far from its
    /// centre line: before or behind it all metres count, to its side only those beyond the lanes.
    pub(super) fn beyond(&self, place: Point, share: f64, reach: f64) -> f64 {
        if self.length <= 0.0 {
            return self.from.distance(place);
        }
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        let along = (place.x - self.from.x) * dx + (place.y - self.from.y) * dy;
        let ahead = along / self.length - share * self.length;
        ahead.hypot((self.left(place).abs() - reach).max(0.0))
    }

    /// Metres to the left of the segment's line.
    pub(super) fn left(&self, place: Point) -> f64 {
        if self.length <= 0.0 {
            return 0.0;
        }
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        (dx * (place.y - self.from.y) - dy * (place.x - self.from.x)) / self.length
    }
}

impl RTreeObject for Segment {
    type Envelope = AABB<[f64; 2]>;

    fn envelope(&self) -> Self::Envelope {
        AABB::from_corners(self.from.into(), self.to.into())
    }
}

impl PointDistance for Segment {
    fn distance_2(&self, point: &[f64; 2]) -> f64 {
        let place = Point::from(*point);
        let nearest = self.from.towards(self.to, self.nearest_share(place, 0.0, 1.0));
        let (dx, dy) = (nearest.x - place.x, nearest.y - place.y);
        dx * dx + dy * dy
    }
}

/// The network as the matcher sees it. Its metres are those of the drawing, which places are
/// compared with; a link's stated length may differ.
pub(super) struct RoadMap {
    segments: Vec<Segment>,
    /// Where each link's segments begin; one more entry than links.
    first_segment: Vec<u32>,
    drawn: Vec<f64>,
    /// From the centre line of each link to the middle of its outermost lane.
    lane_reach: Vec<f64>,
    /// Where each link's followers begin; one more entry than links.
    first_follower: Vec<u32>,
    /// The links that follow, and the metres from the end of one drawing to the start of the other.
    followers: Vec<(LinkId, f64)>,
    tree: RTree<Segment>,
}

impl RoadMap {
    pub(super) fn new(network: &Network, lane_width: Metres) -> Self {
        let mut segments = Vec::new();
        let mut first_segment = Vec::with_capacity(network.links().len() + 1);
        let mut drawn = Vec::with_capacity(network.links().len());
        for (id, link) in network.link_ids().zip(network.links()) {
            first_segment.push(segments.len() as u32);
            let mut begin = 0.0;
            for pair in link.shape.windows(2) {
                let length = pair[0].distance(pair[1]);
                segments.push(Segment { from: pair[0], to: pair[1], link: id, begin, length });
                begin += length;
            }
            drawn.push(begin);
        }
        first_segment.push(segments.len() as u32);
        let mut followers = Vec::new();
        let mut first_follower = Vec::with_capacity(network.links().len() + 1);
        for (id, link) in network.link_ids().zip(network.links()) {
            first_follower.push(followers.len() as u32);
            for &turn in network.outgoing(id) {
                let next = network.turn(turn).to;
                let gap = match (link.shape.last(), network.link(next).shape.first()) {
                    (Some(end), Some(start)) => end.distance(*start),
                    _ => 0.0,
                };
                followers.push((next, gap));
            }
        }
        first_follower.push(followers.len() as u32);
        let reach = |lanes: u8| f64::from(lanes.saturating_sub(1)) / 2.0 * lane_width.get();
        let lane_reach = network.links().iter().map(|link| reach(link.lanes)).collect();
        let tree = RTree::bulk_load(segments.clone());
        Self { segments, first_segment, drawn, lane_reach, first_follower, followers, tree }
    }

    pub(super) fn link_count(&self) -> usize {
        self.drawn.len()
    }

    /// Metres of the drawn link.
    pub(super) fn drawn(&self, link: LinkId) -> f64 {
        self.drawn[link.index()]
    }

    /// Metres from the centre line to the middle of the outermost lane.
    pub(super) fn lane_reach(&self, link: LinkId) -> f64 {
        self.lane_reach[link.index()]
    }

    pub(super) fn segments(&self, link: LinkId) -> &[Segment] {
        let range = self.first_segment[link.index()]..self.first_segment[link.index() + 1];
        &self.segments[range.start as usize..range.end as usize]
    }

    pub(super) fn followers(&self, link: LinkId) -> &[(LinkId, f64)] {
        let range = self.first_follower[link.index()]..self.first_follower[link.index() + 1];
        &self.followers[range.start as usize..range.end as usize]
    }

    /// Metres between the drawings of a link and one that follows it.
    pub(super) fn gap(&self, from: LinkId, to: LinkId) -> f64 {
        let followers = self.followers(from).iter();
        followers.filter(|(link, _)| *link == to).map(|(_, gap)| *gap).next().unwrap_or(0.0)
    }

    /// Appends the links within a radius of a place, each once, the nearest first.
    pub(super) fn near(&self, place: Point, radius: f64, most: usize, out: &mut Vec<Candidate>) {
        let begin = out.len();
        for segment in self.tree.locate_within_distance(place.into(), radius * radius) {
            let share = segment.nearest_share(place, 0.0, 1.0);
            let found = Candidate {
                link: segment.link,
                at: segment.begin + share * segment.length,
                distance: segment.from.towards(segment.to, share).distance(place),
                beyond: segment.beyond(place, share, self.lane_reach(segment.link)),
            };
            match out[begin..].iter_mut().find(|known| known.link == found.link) {
                Some(known) if found.is_nearer(known) => *known = found,
                Some(_) => {}
                None => out.push(found),
            }
        }
        out[begin..].sort_unstable_by(|a, b| a.order(b).then(a.link.cmp(&b.link)));
        out.truncate(begin + most);
    }
}
