//! The likeliest chain of links for a series of places: Viterbi's algorithm with restarts.

use traffic::Point;

use super::parameters::MatchParameters;
use super::report::Unmatched;
use super::road_map::{Candidate, RoadMap};
use super::routes::Routes;

/// A place that is decided upon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    /// The index of the place in its track.
    pub index: usize,
    pub time: f64,
    pub place: Point,
}

/// Decisions that hang together.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub chosen: Vec<Chosen>,
    /// Why the chain could not go on; `None` at the end of the places.
    pub ended_by: Option<Unmatched>,
}

/// The link chosen for a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// The index of the decision.
    pub decision: usize,
    pub candidate: Candidate,
    /// Whether the vehicle is still on the link of the choice before, without a loop.
    pub stays: bool,
}

/// The memory of the algorithm, kept from track to track.
#[derive(Default)]
pub(super) struct Lattice {
    candidates: Vec<Candidate>,
    layers: Vec<Layer>,
    states: Vec<State>,
}

#[derive(Clone, Copy)]
struct Layer {
    decision: usize,
    begin: usize,
}

#[derive(Clone, Copy)]
struct State {
    candidate: Candidate,
    /// The farthest that the vehicle has come on the link, in drawn metres: falling back behind it
    /// is noise, but only so far.
    furthest: f64,
    score: f64,
    /// The state before, as an index of `states`.
    before: usize,
    stays: bool,
}

/// What the algorithm works with: the roads, the ways between them and the model's numbers.
pub(super) struct Model<'a> {
    pub map: &'a RoadMap,
    pub parameters: &'a MatchParameters,
}

impl Model<'_> {
    /// −½ (distance / σ)², where a place within the lanes is at no distance.
    fn emission(&self, candidate: &Candidate) -> f64 {
        let deviation = candidate.beyond / self.parameters.sigma.get();
        -0.5 * deviation * deviation
    }

    /// The way by road from a state to a candidate, in metres, with whether it stays on the link.
    fn by_road(
        &self,
        routes: &mut Routes,
        from: &State,
        to: &Candidate,
        straight: f64,
    ) -> Option<(f64, bool)> {
        let same = from.candidate.link == to.link;
        if same && to.at >= from.furthest - self.parameters.backward.get() {
            return Some(((to.at - from.furthest).max(0.0), true));
        }
        let ends = self.map.drawn(from.candidate.link) - from.furthest + to.at;
        let limit = straight + self.parameters.max_detour.get() - ends;
        let between = routes.metres(self.map, from.candidate.link, to.link, limit)?;
        Some((ends + between, false))
    }
}

impl Lattice {
    /// Finds chains for all decisions. Marks in `bare` those with no link nearby.
    pub(super) fn chains(
        &mut self,
        model: &Model<'_>,
        routes: &mut Routes,
        decisions: &[Decision],
        bare: &mut Vec<bool>,
    ) -> Vec<Chain> {
        let parameters = model.parameters;
        let mut chains = Vec::new();
        bare.clear();
        self.layers.clear();
        self.states.clear();
        for (number, decision) in decisions.iter().enumerate() {
            self.candidates.clear();
            model.map.near(
                decision.place,
                parameters.radius.get(),
                parameters.max_candidates,
                &mut self.candidates,
            );
            bare.push(self.candidates.is_empty());
            if self.candidates.is_empty() {
                continue;
            }
            if let Some(&last) = self.layers.last() {
                let before = &decisions[last.decision];
                // Only places with no link nearby make a gap: a vehicle may stand for long.
                let off_since = &decisions[last.decision + 1];
                let extended = if decision.time - off_since.time > parameters.max_gap.get() {
                    Err(Unmatched::NoLinkNearby)
                } else {
                    self.extend(model, routes, last, before.place.distance(decision.place))
                };
                match extended {
                    Ok(begin) => {
                        self.layers.push(Layer { decision: number, begin });
                        continue;
                    }
                    Err(why) => chains.extend(self.finish(Some(why))),
                }
            }
            let begin = self.states.len();
            self.states.extend(self.candidates.iter().map(|candidate| State {
                candidate: *candidate,
                furthest: candidate.at,
                score: model.emission(candidate),
                before: usize::MAX,
                stays: false,
            }));
            self.layers.push(Layer { decision: number, begin });
        }
        chains.extend(self.finish(None));
        chains
    }

    /// Appends the states of the next layer and returns where they begin, or why there are none.
    fn extend(
        &mut self,
        model: &Model<'_>,
        routes: &mut Routes,
        last: Layer,
        straight: f64,
    ) -> Result<usize, Unmatched> {
        let begin = self.states.len();
        let mut turned_back = false;
        for candidate in &self.candidates {
            let mut best: Option<State> = None;
            for (before, from) in self.states[..begin].iter().enumerate().skip(last.begin) {
                let Some((metres, stays)) = model.by_road(routes, from, candidate, straight) else {
                    turned_back |= from.candidate.link == candidate.link;
                    continue;
                };
                let score = from.score - (metres - straight).abs() / model.parameters.beta.get();
                if best.is_none_or(|best| score > best.score) {
                    let furthest =
                        if stays { from.furthest.max(candidate.at) } else { candidate.at };
                    best = Some(State { candidate: *candidate, furthest, score, before, stays });
                }
            }
            if let Some(mut state) = best {
                state.score += model.emission(candidate);
                self.states.push(state);
            }
        }
        let top = self.states[begin..].iter().map(|s| s.score).fold(f64::NEG_INFINITY, f64::max);
        let mut kept = begin;
        for index in begin..self.states.len() {
            if self.states[index].score >= top - model.parameters.beam {
                self.states.swap(kept, index);
                kept += 1;
            }
        }
        self.states.truncate(kept);
        match kept > begin {
            true => Ok(begin),
            false if turned_back => Err(Unmatched::AgainstDirection),
            false => Err(Unmatched::NoRoute),
        }
    }

    /// Follows the likeliest last state back to the first, and forgets all layers.
    fn finish(&mut self, ended_by: Option<Unmatched>) -> Option<Chain> {
        let last = self.layers.last()?.begin;
        let states = self.states.iter().enumerate().skip(last);
        let (mut at, _) = states.reduce(|a, b| if b.1.score > a.1.score { b } else { a })?;
        let mut chosen = Vec::with_capacity(self.layers.len());
        for layer in self.layers.iter().rev() {
            let Some(state) = self.states.get(at) else { break };
            chosen.push(Chosen {
                decision: layer.decision,
                candidate: state.candidate,
                stays: state.stays,
            });
            at = state.before;
        }
        chosen.reverse();
        self.layers.clear();
        self.states.clear();
        Some(Chain { chosen, ended_by })
    }
}
