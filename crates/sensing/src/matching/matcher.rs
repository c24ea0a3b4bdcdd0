//! Matches whole tracks: cuts them, decides, projects, and says what became of them.

use std::ops::Range;

use thiserror::Error;
use traffic::{LocalPlane, Metres, Network, Point, Seconds, VehicleId, VehiclePosition};

use super::lattice::{Chain, Decision, Lattice, Model};
use super::parameters::{MatchParameters, ParameterError};
use super::report::{Extent, TrackReport, Unmatched};
use super::road_map::RoadMap;
use super::routes::Routes;
use super::track::Track;
use super::way::{Isotonic, Projection, Way};

/// A part that goes less than this share of its extent along the road went the other way.
const LEAST_PROGRESS: f64 = 0.5;
/// A jump is one beyond the top speed by more than this many standard deviations.
const JUMP_SIGMAS: f64 = 6.0;

/// Puts tracks onto the links of a network. Shared between threads, each with its own
/// [`MatchScratch`].
pub struct Matcher<'n> {
    network: &'n Network,
    plane: LocalPlane,
    map: RoadMap,
    parameters: MatchParameters,
}

/// Memory that is used again from track to track. Belongs to one thread and one [`Matcher`].
#[derive(Default)]
pub struct MatchScratch {
    routes: Routes,
    lattice: Lattice,
    way: Way,
    isotonic: Isotonic,
    places: Vec<Point>,
    decisions: Vec<Decision>,
    bare: Vec<bool>,
    projections: Vec<Projection>,
    along: Vec<f64>,
    fates: Vec<Fate>,
    odometer: Vec<f64>,
}

/// What became of one place.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// `None` is matched.
    unmatched: Option<Unmatched>,
    /// Why it does not hang together with the place before, if both are matched.
    cut: Option<Unmatched>,
}

/// A track on links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchedTrack {
    /// Stretches without a break, in the order of time. Along each, the vehicle never goes back.
    /// Nothing is known of the vehicle between two of them.
    pub parts: Vec<Vec<VehiclePosition>>,
    /// How much was matched, and why the rest was not.
    pub report: TrackReport,
}

/// Why a matcher could not be made.
#[derive(Debug, Error)]
pub enum MatcherError {
    /// The network does not say where on the Earth it lies.
    #[error("network `{0}` has no origin, expected `origin = {{ lat = …, lon = … }}`")]
    NoOrigin(String),
    /// A parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

impl<'n> Matcher<'n> {
    /// Prepares a network for matching.
    pub fn new(network: &'n Network, parameters: MatchParameters) -> Result<Self, MatcherError> {
        parameters.check()?;
        let plane = network.plane().ok_or_else(|| MatcherError::NoOrigin(network.name().into()))?;
        let map = RoadMap::new(network, parameters.lane_width);
        Ok(Self { network, plane, map, parameters })
    }

    /// Matches one track; its samples get the vehicle's number. The same for the same track,
    /// whatever was matched before.
    pub fn match_track(
        &self,
        track: &Track,
        vehicle: VehicleId,
        scratch: &mut MatchScratch,
    ) -> MatchedTrack {
        let mut matched = MatchedTrack::default();
        let count = track.points.len();
        matched.report.points = count;
        scratch.places.clear();
        scratch.places.extend(track.points.iter().map(|point| self.plane.point(point.place)));
        scratch.fates.clear();
        scratch.fates.resize(count, Fate { unmatched: Some(Unmatched::TooShort), cut: None });
        scratch.odometer.clear();
        scratch.odometer.resize(count, 0.0);
        let mut begin = 0;
        for index in 1..=count {
            let cut = (index < count).then(|| self.cut(track, &scratch.places, index));
            if cut == Some(None) {
                continue;
            }
            self.match_stretch(track, vehicle, begin..index, scratch, &mut matched);
            if let Some(why) = cut {
                scratch.fates[index].cut = why;
                scratch.odometer[index] = scratch.odometer[index - 1]
                    + scratch.places[index - 1].distance(scratch.places[index]);
            }
            begin = index;
        }
        self.sum_up(track, scratch, &mut matched.report);
        matched
    }

    /// Why a track must be cut before one of its places.
    fn cut(&self, track: &Track, places: &[Point], index: usize) -> Option<Unmatched> {
        let time = track.points[index].time - track.points[index - 1].time;
        if !(time > 0.0 && time <= self.parameters.max_gap.get()) {
            return Some(Unmatched::TimeGap);
        }
        let most =
            self.parameters.max_speed.get() * time + JUMP_SIGMAS * self.parameters.sigma.get();
        let near = places[index - 1].distance(places[index]) <= most;
        (!near).then_some(Unmatched::Jump)
    }

    fn match_stretch(
        &self,
        track: &Track,
        vehicle: VehicleId,
        stretch: Range<usize>,
        scratch: &mut MatchScratch,
        matched: &mut MatchedTrack,
    ) {
        self.decide_where(track, stretch.clone(), scratch);
        let model = Model { map: &self.map, parameters: &self.parameters };
        let chains = scratch.lattice.chains(
            &model,
            &mut scratch.routes,
            &scratch.decisions,
            &mut scratch.bare,
        );
        let mut done = stretch.start;
        let mut begun_by = None;
        for chain in &chains {
            let (Some(first), Some(last)) = (chain.chosen.first(), chain.chosen.last()) else {
                continue;
            };
            let range =
                scratch.decisions[first.decision].index..scratch.decisions[last.decision].index + 1;
            let between = begun_by.unwrap_or(Unmatched::NoLinkNearby);
            self.leave_out(scratch, done..range.start, between);
            if begun_by.is_some() {
                scratch.fates[range.start].cut = begun_by;
            }
            self.match_chain(track, vehicle, range.clone(), (begun_by, chain), scratch, matched);
            begun_by = chain.ended_by;
            done = range.end;
        }
        self.leave_out(scratch, done..stretch.end, Unmatched::NoLinkNearby);
    }

    /// Picks the places to decide upon: the first, those far enough apart, and the last.
    fn decide_where(&self, track: &Track, stretch: Range<usize>, scratch: &mut MatchScratch) {
        scratch.decisions.clear();
        let spacing = self.parameters.spacing.get();
        let mut driven = scratch.odometer[stretch.start];
        for index in stretch.clone() {
            let place = scratch.places[index];
            if let Some(last) = scratch.decisions.last().copied() {
                let moved = last.place.distance(place);
                if moved < spacing && index + 1 < stretch.end {
                    continue;
                }
                // What lies between two decisions shares their distance evenly.
                let steps = (index - last.index) as f64;
                for between in last.index + 1..=index {
                    let share = (between - last.index) as f64 / steps;
                    scratch.odometer[between] = driven + share * moved;
                }
                driven += moved;
            }
            let time = track.points[index].time;
            scratch.decisions.push(Decision { index, time, place });
        }
    }

    fn leave_out(&self, scratch: &mut MatchScratch, places: Range<usize>, why: Unmatched) {
        scratch.fates[places].iter_mut().for_each(|fate| fate.unmatched = Some(why));
    }

    /// Projects all places of a chain onto its way; splits it where they are too far off.
    fn match_chain(
        &self,
        track: &Track,
        vehicle: VehicleId,
        range: Range<usize>,
        (begun_by, chain): (Option<Unmatched>, &Chain),
        scratch: &mut MatchScratch,
        matched: &mut MatchedTrack,
    ) {
        self.project(range.clone(), chain, scratch);
        let radius = self.parameters.radius.get();
        let mut begin = range.start;
        while begin < range.end {
            let off = scratch.projections[begin - range.start].distance > radius;
            let run = scratch.projections[begin - range.start..]
                .iter()
                .take_while(|projection| (projection.distance > radius) == off)
                .count();
            let run = begin..begin + run;
            begin = run.end;
            if off {
                let bare = scratch.decisions.iter().zip(&scratch.bare);
                let mut bare =
                    bare.filter(|(decision, bare)| **bare && run.contains(&decision.index));
                let why = bare.next().map_or(Unmatched::NoRoute, |_| Unmatched::NoLinkNearby);
                self.leave_out(scratch, run, why);
                continue;
            }
            scratch.along.clear();
            let at = |index: usize| scratch.projections[index - range.start].at;
            scratch.along.extend(run.clone().map(at));
            scratch.isotonic.fit(&mut scratch.along);
            scratch.way.wait_at_stop_lines(
                &self.map,
                self.parameters.stop_line.get(),
                &mut scratch.along,
                |index| track.points[run.start + index].time,
            );
            let ended_by = chain.ended_by.filter(|_| run.end == range.end);
            let begun_by = begun_by.filter(|_| run.start == range.start);
            match self.doubt(track, &run, ended_by.or(begun_by), scratch) {
                Some(why) => self.leave_out(scratch, run, why),
                None => {
                    let part = self.samples(track, vehicle, run.clone(), range.start, scratch);
                    matched.parts.push(part);
                    scratch.fates[run].iter_mut().for_each(|fate| fate.unmatched = None);
                }
            }
        }
    }

    /// Where each place of a chain lies along its way: near the decisions before and after it.
    fn project(&self, range: Range<usize>, chain: &Chain, scratch: &mut MatchScratch) {
        let slack = self.parameters.spacing.get();
        let detour = self.parameters.max_detour.get();
        let MatchScratch { routes, way, decisions, places, projections, .. } = scratch;
        way.follow(&self.map, routes, detour, decisions, chain);
        projections.clear();
        let mut next = 0;
        for index in range {
            while next + 1 < chain.chosen.len()
                && decisions[chain.chosen[next].decision].index < index
            {
                next += 1;
            }
            let (before, after) = (way.decided[next.saturating_sub(1)], way.decided[next]);
            let (from, to) = (before.min(after) - slack, before.max(after) + slack);
            projections.push(way.project(&self.map, places[index], from, to));
        }
    }

    /// Why a run of places should not be believed, if so.
    fn doubt(
        &self,
        track: &Track,
        run: &Range<usize>,
        broken_by: Option<Unmatched>,
        scratch: &MatchScratch,
    ) -> Option<Unmatched> {
        let places = &scratch.places[run.clone()];
        let first = places.first()?;
        let extent = places.iter().map(|place| first.distance(*place)).fold(0.0, f64::max);
        if extent < self.parameters.min_extent.get() {
            let lasted = track.points[run.end - 1].time - track.points[run.start].time;
            let standing = lasted >= self.parameters.standing.get();
            let small = if standing { Unmatched::Standing } else { Unmatched::TooShort };
            return Some(broken_by.unwrap_or(small));
        }
        let progress = scratch.along.last()? - scratch.along.first()?;
        (progress < LEAST_PROGRESS * extent).then_some(Unmatched::AgainstDirection)
    }

    fn samples(
        &self,
        track: &Track,
        vehicle: VehicleId,
        run: Range<usize>,
        chain_start: usize,
        scratch: &MatchScratch,
    ) -> Vec<VehiclePosition> {
        let along = &scratch.along;
        let samples = run.clone().zip(along).map(|(index, &at)| {
            let point = &track.points[index];
            let (link, position) = scratch.way.locate(&self.map, self.network, at);
            let speed = point.speed.unwrap_or_else(|| {
                let (before, after) = (index.max(run.start + 1) - 1, (index + 1).min(run.end - 1));
                let metres = along[after - run.start] - along[before - run.start];
                let seconds = track.points[after].time - track.points[before].time;
                // A run of a single place has no neighbours to tell a speed from, and places that
                // follow within next to no time tell none.
                let speed = (metres / seconds) as f32;
                if speed.is_finite() { speed } else { 0.0 }
            });
            let left = scratch.projections[index - chain_start].left;
            VehiclePosition {
                time: point.time,
                vehicle,
                link,
                position: position.get() as f32,
                lane: self.lane(self.network.link(link).lanes, left),
                speed,
            }
        });
        samples.collect()
    }

    /// The lane at a distance to the left of the centre line.
    fn lane(&self, lanes: u8, left: f64) -> u8 {
        let outermost = f64::from(lanes.saturating_sub(1));
        (outermost / 2.0 + left / self.parameters.lane_width.get()).round().clamp(0.0, outermost)
            as u8
    }

    fn sum_up(&self, track: &Track, scratch: &MatchScratch, report: &mut TrackReport) {
        let fates = &scratch.fates;
        report.matched_points = fates.iter().filter(|fate| fate.unmatched.is_none()).count();
        if let [only] = fates[..] {
            report.add(only.unmatched, Extent::default());
        }
        for (index, pair) in fates.windows(2).enumerate() {
            let why = pair[1].unmatched.or(pair[0].unmatched).or(pair[1].cut);
            let seconds = track.points[index + 1].time - track.points[index].time;
            report.add(
                why,
                Extent {
                    metres: Metres::new(scratch.odometer[index + 1] - scratch.odometer[index]),
                    // Time that does not advance is a fault of the records, not time spent.
                    seconds: Seconds::new(if seconds > 0.0 { seconds } else { 0.0 }),
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;
