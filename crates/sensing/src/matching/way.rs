//! The way that a vehicle took, and where along it each of its places lies.

use traffic::{LinkId, Metres, Network, Point};

use super::lattice::{Chain, Decision};
use super::road_map::RoadMap;
use super::routes::Routes;

/// Metres per second. What moves slower is waiting.
const WALKING_PACE: f64 = 1.0;
/// Metres: enough to be before the end of a link whatever the rounding.
const BEFORE_STOP_LINE: f64 = 0.01;

/// Metres: distances that differ by less are equal.
const ROUNDING: f64 = 1e-6;

/// Links one after the other, with distances in drawn metres from the start of the first.
#[derive(Default)]
pub(super) struct Way {
    /// Each link, and where it begins.
    links: Vec<(LinkId, f64)>,
    /// Where along the way each decision lies.
    pub decided: Vec<f64>,
    joined: Vec<LinkId>,
}

/// A place on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    /// Metres along the way.
    pub at: f64,
    /// Metres beside it.
    pub distance: f64,
    /// Metres to the left of it; negative to the right.
    pub left: f64,
}

impl Way {
    /// Joins the choices of a chain by the shortest ways between them.
    pub(super) fn follow(
        &mut self,
        map: &RoadMap,
        routes: &mut Routes,
        max_detour: f64,
        decisions: &[Decision],
        chain: &Chain,
    ) {
        self.links.clear();
        self.decided.clear();
        let mut before: Option<Point> = None;
        for chosen in &chain.chosen {
            let to = chosen.candidate.link;
            let place = decisions[chosen.decision].place;
            match (self.links.last(), before) {
                (Some(_), Some(_)) if chosen.stays => {}
                (Some(&(from, _)), Some(before)) => {
                    let limit = before.distance(place) + max_detour;
                    self.joined.clear();
                    routes.append_way(map, from, to, limit, &mut self.joined);
                    for &link in &self.joined {
                        if let Some(&(last, begin)) = self.links.last() {
                            self.links.push((link, begin + map.drawn(last) + map.gap(last, link)));
                        }
                    }
                }
                _ => self.links.push((to, 0.0)),
            }
            before = Some(place);
            let begin = self.links.last().map_or(0.0, |&(_, begin)| begin);
            self.decided.push(begin + chosen.candidate.at);
        }
    }

    /// The nearest point of the way to a place, between two distances along it. A place within the
    /// lanes of two links is on the first, unless at its very end: who waits beside the corner has
    /// not turned yet.
    pub(super) fn project(&self, map: &RoadMap, place: Point, from: f64, to: f64) -> Projection {
        let mut best = Projection { at: from.max(0.0), distance: f64::INFINITY, left: 0.0 };
        let mut least_beyond = f64::INFINITY;
        let mut at_end = false;
        let first = self.links.partition_point(|&(_, begin)| begin <= from).saturating_sub(1);
        for &(link, begin) in self.links[first..].iter().take_while(|&&(_, begin)| begin <= to) {
            for segment in map.segments(link) {
                let start = begin + segment.begin;
                let (least, most) = (from - start, to - start);
                if most < 0.0 || least > segment.length {
                    continue;
                }
                let share_of = |metres: f64| {
                    if segment.length > 0.0 {
                        (metres / segment.length).clamp(0.0, 1.0)
                    } else {
                        0.0
                    }
                };
                let share = segment.nearest_share(place, share_of(least), share_of(most));
                let beyond = segment.beyond(place, share, map.lane_reach(link));
                let margin = if at_end { -ROUNDING } else { ROUNDING };
                if beyond < least_beyond - margin {
                    least_beyond = beyond;
                    at_end = segment.length * (1.0 - share) < BEFORE_STOP_LINE;
                    let distance = segment.from.towards(segment.to, share).distance(place);
                    let at = start + share * segment.length;
                    best = Projection { at, distance, left: segment.left(place) };
                }
            }
        }
        best
    }

    /// Moves back before the stop line what lingers within `reach` metres beyond it.
    ///
    /// `along` must not decrease, and does not afterwards; `time(index)` is in seconds.
    pub(super) fn wait_at_stop_lines(
        &self,
        map: &RoadMap,
        reach: f64,
        along: &mut [f64],
        time: impl Fn(usize) -> f64,
    ) {
        for pair in self.links.windows(2) {
            let [(from, begin), (_, next)] = pair else { continue };
            let line = begin + map.drawn(*from);
            let first = along.partition_point(|&at| at < line);
            let end = along.partition_point(|&at| at <= next + reach);
            // One place may just be passing: lingering takes two.
            if first + 1 < end && time(end - 1) - time(first) > reach / WALKING_PACE {
                let behind = first.checked_sub(1).map_or(f64::NEG_INFINITY, |index| along[index]);
                along[first..end].fill((line - BEFORE_STOP_LINE).max(behind));
            }
        }
    }

    /// The link at a distance along the way, and the position on it by share of its drawing.
    ///
    /// Where two links meet, and where their drawings leave a gap, it is the one downstream.
    pub(super) fn locate(&self, map: &RoadMap, network: &Network, at: f64) -> (LinkId, Metres) {
        let mut index = self.links.partition_point(|&(_, begin)| begin <= at).saturating_sub(1);
        let Some(&(link, begin)) = self.links.get(index) else {
            return (LinkId(0), Metres::ZERO);
        };
        // Beyond the drawn end, but before the next link's start.
        if at - begin > map.drawn(link) && index + 1 < self.links.len() {
            index += 1;
        }
        let (link, begin) = self.links[index];
        let drawn = map.drawn(link);
        let share = if drawn > 0.0 { ((at - begin) / drawn).clamp(0.0, 1.0) } else { 0.0 };
        (link, network.link(link).length * share)
    }
}

/// The non-decreasing series nearest to another by squares (pool adjacent violators).
#[derive(Default)]
pub(super) struct Isotonic {
    /// Mean and count of each pool.
    pools: Vec<(f64, usize)>,
}

impl Isotonic {
    pub(super) fn fit(&mut self, values: &mut [f64]) {
        self.pools.clear();
        for &value in values.iter() {
            let mut pool = (value, 1);
            while let Some(&(mean, count)) = self.pools.last()
                && mean > pool.0
            {
                let total = count + pool.1;
                pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
                self.pools.pop();
            }
            self.pools.push(pool);
        }
        let mut at = 0;
        for &(mean, count) in &self.pools {
            values[at..at + count].fill(mean);
            at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isotonic_regression_pools_what_decreases() {
        let mut values = [1.0, 3.0, 2.0, 2.0, 5.0, 4.0];
        Isotonic::default().fit(&mut values);
        // 3, 2, 2 pool to 7/3; 5, 4 to 4.5.
        assert_eq!(values, [1.0, 7.0 / 3.0, 7.0 / 3.0, 7.0 / 3.0, 4.5, 4.5]);
    }
}
