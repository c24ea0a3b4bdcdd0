//! Shortest ways from the end of one link to the start of others, found once and remembered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use traffic::LinkId;

use super::road_map::RoadMap;

/// Every search goes at least this far, in metres, so that most links are searched from only once.
const SEARCH_AHEAD: f64 = 400.0;
/// A search ends after so many links, however near they are.
const MAX_REACHED: usize = 50_000;
/// What is remembered is forgotten beyond so many ways: about 100 MB.
const MAX_REMEMBERED: usize = 4_000_000;

/// The remembered ways. Belongs to one thread and one road map.
#[derive(Default)]
pub(super) struct Routes {
    from: FxHashMap<LinkId, Reached>,
    remembered: usize,
    search: Search,
}

/// What can be reached from the end of a link.
struct Reached {
    limit: f64,
    /// In order of link.
    links: Vec<ReachedLink>,
}

#[derive(Clone, Copy)]
struct ReachedLink {
    link: LinkId,
    /// The link before it on the way.
    via: LinkId,
    /// From the end of the first link to the start of this one.
    metres: f64,
}

impl Routes {
    /// Metres from the end of one link to the start of another, if at most `limit`. From a link to
    /// itself: once around.
    pub(super) fn metres(
        &mut self,
        map: &RoadMap,
        from: LinkId,
        to: LinkId,
        limit: f64,
    ) -> Option<f64> {
        if limit < 0.0 {
            return None;
        }
        self.reach(map, from, to, limit).map(|reach| reach.metres).filter(|&metres| metres <= limit)
    }

    /// Appends the links after `from` up to and with `to`, as [`Routes::metres`] found them.
    pub(super) fn append_way(
        &mut self,
        map: &RoadMap,
        from: LinkId,
        to: LinkId,
        limit: f64,
        way: &mut Vec<LinkId>,
    ) {
        let begin = way.len();
        let mut at = to;
        while let Some(reach) = self.reach(map, from, at, limit) {
            way.push(at);
            at = reach.via;
            if at == from {
                break;
            }
        }
        way[begin..].reverse();
    }

    fn reach(
        &mut self,
        map: &RoadMap,
        from: LinkId,
        to: LinkId,
        limit: f64,
    ) -> Option<ReachedLink> {
        if self.from.get(&from).is_none_or(|reached| reached.limit < limit) {
            let known = self.from.remove(&from);
            self.remembered -= known.map_or(0, |reached| reached.links.len());
            if self.remembered > MAX_REMEMBERED {
                self.from.clear();
                self.remembered = 0;
            }
            let limit = (1.5 * limit).max(SEARCH_AHEAD);
            let links = self.search.run(map, from, limit);
            self.remembered += links.len();
            self.from.insert(from, Reached { limit, links });
        }
        let reached = &self.from.get(&from)?.links;
        let index = reached.binary_search_by_key(&to, |reach| reach.link).ok()?;
        reached.get(index).copied()
    }
}

/// Dijkstra's algorithm, with its memory kept from search to search.
#[derive(Default)]
struct Search {
    /// In which search each link was last reached, and at how many metres.
    best: Vec<(u32, f64)>,
    number: u32,
    /// Metres as bits: for numbers not below zero they order alike.
    queue: BinaryHeap<Reverse<(u64, LinkId, LinkId)>>,
}

impl Search {
    fn run(&mut self, map: &RoadMap, from: LinkId, limit: f64) -> Vec<ReachedLink> {
        if self.best.len() != map.link_count() || self.number == u32::MAX {
            self.best.clear();
            self.best.resize(map.link_count(), (0, 0.0));
            self.number = 0;
        }
        self.number += 1;
        self.queue.clear();
        let mut reached = Vec::new();
        self.push_followers(map, from, 0.0, limit);
        while let Some(Reverse((bits, link, via))) = self.queue.pop() {
            let metres = f64::from_bits(bits);
            if self.best[link.index()] != (self.number, metres) {
                continue;
            }
            // Settled: an equally long second way must not be added again.
            self.best[link.index()].1 = f64::NEG_INFINITY;
            reached.push(ReachedLink { link, via, metres });
            if reached.len() == MAX_REACHED {
                break;
            }
            if link != from {
                self.push_followers(map, link, metres + map.drawn(link), limit);
            }
        }
        reached.sort_unstable_by_key(|reach| reach.link);
        reached
    }

    fn push_followers(&mut self, map: &RoadMap, link: LinkId, at_end: f64, limit: f64) {
        for &(next, gap) in map.followers(link) {
            let metres = at_end + gap;
            let best = &mut self.best[next.index()];
            if metres <= limit && (best.0 != self.number || metres < best.1) {
                *best = (self.number, metres);
                self.queue.push(Reverse((metres.to_bits(), next, link)));
            }
        }
    }
}
