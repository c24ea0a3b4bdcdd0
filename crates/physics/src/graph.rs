//! The road graph as the models use it: places, turns between them, and ways out.
//!
//! A place is a link, or a region of links. A *movement* is a turn (numbered as in the network) or
//! leaving at a place's end (numbered after all turns, in order of places). Flat lists of origins
//! and destinations are all that a step needs: its cost is linear in places and turns.

use traffic::Network;

use crate::error::ModelError;

/// How far from 1 the shares of a place may add up: rounding of a few additions, with room for
/// ratios that were stored with nine digits.
const SUM_TOLERANCE: f64 = 1e-8;

/// Places and turns between them.
#[derive(Clone, Debug, PartialEq)]
pub struct RoadGraph {
    names: Vec<String>,
    from: Vec<u32>,
    to: Vec<u32>,
}

impl RoadGraph {
    /// Each link a place, each turn a turn.
    pub fn of(network: &Network) -> Self {
        Self {
            names: network.links().iter().map(|link| link.name.clone()).collect(),
            from: network.turns().iter().map(|turn| turn.from.0).collect(),
            to: network.turns().iter().map(|turn| turn.to.0).collect(),
        }
    }

    /// From names and turns; a turn that names no place is refused.
    pub(crate) fn new(names: Vec<String>, turns: &[(u32, u32)]) -> Result<Self, ModelError> {
        for &(from, to) in turns {
            let highest = from.max(to);
            if highest as usize >= names.len() {
                return Err(ModelError::Number {
                    place: format!("turn {from}>{to}"),
                    field: "place",
                    found: f64::from(highest),
                    expected: "a place that exists",
                });
            }
        }
        let (from, to) = turns.iter().copied().unzip();
        Ok(Self { names, from, to })
    }

    /// How many places.
    pub(crate) fn places(&self) -> usize {
        self.names.len()
    }

    /// How many turns.
    pub(crate) fn turns(&self) -> usize {
        self.from.len()
    }

    /// How many movements: turns, then exits.
    pub fn movements(&self) -> usize {
        self.turns() + self.places()
    }

    /// The name of a place, for messages.
    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("?", String::as_str)
    }

    /// The places that turns leave.
    pub(crate) fn origins(&self) -> &[u32] {
        &self.from
    }

    /// The places that turns enter.
    pub(crate) fn destinations(&self) -> &[u32] {
        &self.to
    }

    /// Shares per movement must be shares, add up to one at every place, and lead out at last.
    pub fn check_ratios(&self, ratios: &[f64]) -> Result<(), ModelError> {
        crate::error::check_len("turning ratios", ratios.len(), self.movements())?;
        let exits = &ratios[self.turns()..];
        let mut sums = exits.to_vec();
        for (at, &ratio) in ratios.iter().enumerate() {
            let place = self.from.get(at).map_or(at.wrapping_sub(self.turns()), |&m| m as usize);
            if !(0.0..=1.0 + SUM_TOLERANCE).contains(&ratio) {
                return Err(ModelError::Ratios { link: self.name(place).into(), sum: ratio });
            }
            if at < self.turns() {
                sums[place] += ratio;
            }
        }
        if let Some(place) = sums.iter().position(|sum| (sum - 1.0).abs() > SUM_TOLERANCE) {
            return Err(ModelError::Ratios { link: self.name(place).into(), sum: sums[place] });
        }
        if exits.iter().all(|&share| share <= 0.0) {
            return Err(ModelError::NoSinks);
        }
        self.check_ways_out(ratios)
    }

    fn check_ways_out(&self, ratios: &[f64]) -> Result<(), ModelError> {
        match self.leads_out(ratios).iter().position(|leads| !leads) {
            Some(place) => Err(ModelError::Trap { link: self.name(place).into() }),
            None => Ok(()),
        }
    }

    /// Lets a share of the traffic end its trip at each place from which it could not leave at all: in real
    /// networks trips end inside, and dead ends turn around. Returns how many places that were.
    pub(crate) fn open_traps(&self, ratios: &mut [f64], share: f64) -> usize {
        let leads = self.leads_out(ratios);
        let (turns, exits) = ratios.split_at_mut(self.turns());
        for (ratio, &from) in turns.iter_mut().zip(&self.from) {
            if !leads[from as usize] {
                *ratio *= 1.0 - share;
            }
        }
        for (exit, _) in exits.iter_mut().zip(&leads).filter(|(_, leads)| !**leads) {
            *exit += share * (1.0 - *exit);
        }
        leads.iter().filter(|leads| !**leads).count()
    }

    /// Searches backwards from the sinks; a place that is not met is a trap.
    fn leads_out(&self, ratios: &[f64]) -> Vec<bool> {
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.places()];
        for ((&from, &to), &ratio) in self.from.iter().zip(&self.to).zip(ratios) {
            if ratio > 0.0 {
                into[to as usize].push(from);
            }
        }
        let mut leads_out: Vec<bool> = ratios[self.turns()..].iter().map(|&r| r > 0.0).collect();
        let mut queue: Vec<usize> = (0..self.places()).filter(|&place| leads_out[place]).collect();
        while let Some(place) = queue.pop() {
            for &before in &into[place] {
                if !std::mem::replace(&mut leads_out[before as usize], true) {
                    queue.push(before as usize);
                }
            }
        }
        leads_out
    }
}

/// The share of traffic that ends its trip on a link of which nothing is known but that no way leads out:
/// trips of some twenty links, a usual length in towns.
pub(crate) const ENDING: f64 = 0.05;

/// Shares by lanes: a turn gets traffic in proportion to the lanes that lead into it, and links
/// without a turn let all traffic out. Where no way leads out, a share of trips ends on each link. A first
/// guess where nothing was counted.
pub(crate) fn ratios_by_lanes(network: &Network) -> Vec<f64> {
    let lanes = |turn: &traffic::Turn| turn.lanes.len() as f64;
    let mut sums = vec![0.0; network.links().len()];
    for turn in network.turns() {
        sums[turn.from.index()] += lanes(turn);
    }
    let turns = network.turns().iter().map(|turn| lanes(turn) / sums[turn.from.index()]);
    let exits = sums.iter().map(|&sum| if sum == 0.0 { 1.0 } else { 0.0 });
    let mut ratios: Vec<f64> = turns.chain(exits).collect();
    RoadGraph::of(network).open_traps(&mut ratios, ENDING);
    ratios
}

#[cfg(test)]
mod tests {
    use traffic::{GridPlan, grid};

    use super::*;
    use crate::test_networks::network;

    /// Two links that turn into each other, as a dead end with a U-turn, and a third that leads out.
    #[test]
    fn trips_end_where_no_way_leads_out() {
        let lanes = [(100.0, 1, 10.0); 3];
        let closed = network(&lanes[..2], &[(0, 1), (1, 0)]);
        assert_eq!(ratios_by_lanes(&closed), [0.95, 0.95, 0.05, 0.05]);
        RoadGraph::of(&closed).check_ratios(&ratios_by_lanes(&closed)).unwrap();
        let open = network(&lanes, &[(0, 1), (1, 0), (1, 2)]);
        assert_eq!(ratios_by_lanes(&open), [1.0, 0.5, 0.5, 0.0, 0.0, 1.0]);
    }

    fn graph(names: usize, turns: &[(u32, u32)]) -> RoadGraph {
        RoadGraph::new((0..names).map(|n| format!("P{n}")).collect(), turns).unwrap()
    }

    #[test]
    fn turns_to_places_that_are_not_there_are_refused() {
        let names = vec!["A".to_string(), "B".to_string()];
        for turns in [[(0, 2)], [(2, 0)], [(7, 7)]] {
            let highest = turns[0].0.max(turns[0].1);
            let error = RoadGraph::new(names.clone(), &turns).unwrap_err().to_string();
            let (from, to) = turns[0];
            let expected =
                format!("turn {from}>{to}: place: found {highest}, expected a place that exists");
            assert_eq!(error, expected);
        }
        let empty = RoadGraph::new(Vec::new(), &[]).unwrap();
        assert_eq!((empty.places(), empty.turns(), empty.movements()), (0, 0, 0));
        assert_eq!(empty.name(3), "?");
    }

    #[test]
    fn shares_must_be_shares_add_up_and_lead_out() {
        // P0 leads to P1 and P2, P1 to P2.
        let graph = graph(3, &[(0, 1), (0, 2), (1, 2)]);
        assert_eq!(graph.movements(), 6);
        let check = |ratios: [f64; 6]| graph.check_ratios(&ratios);
        assert_eq!(check([0.5, 0.5, 1.0, 0.0, 0.0, 1.0]), Ok(()));
        assert_eq!(check([0.2, 0.3, 0.9, 0.5, 0.1, 1.0]), Ok(()));
        let sum = |link: &str, sum| Err(ModelError::Ratios { link: link.into(), sum });
        assert_eq!(check([0.5, 0.25, 1.0, 0.0, 0.0, 1.0]), sum("P0", 0.75));
        assert_eq!(check([0.5, 0.5, 1.0, 0.0, 0.5, 1.0]), sum("P1", 1.5));
        // A share below nothing, above all, or that is no number, is named itself.
        assert_eq!(check([-0.5, 1.5, 1.0, 0.0, 0.0, 1.0]), sum("P0", -0.5));
        assert_eq!(check([0.5, 0.5, 1.0, 0.0, 0.0, 2.0]), sum("P2", 2.0));
        let error = check([f64::NAN, 0.5, 1.0, 0.0, 0.0, 1.0]).unwrap_err();
        assert!(matches!(error, ModelError::Ratios { link, sum } if link == "P0" && sum.is_nan()));
        // Nine digits are enough, seven are not.
        assert_eq!(check([0.333333333, 0.666666667, 1.0, 0.0, 0.0, 1.0]), Ok(()));
        assert!(check([0.3333333, 0.6666666, 1.0, 0.0, 0.0, 1.0]).is_err());
        let error = graph.check_ratios(&[1.0; 5]).unwrap_err().to_string();
        assert_eq!(error, "turning ratios: found 5 numbers, expected 6");
    }

    #[test]
    fn traffic_that_cannot_leave_is_refused() {
        // A circle of two beside a way out: P0 > P1 > P0, and P0 > P2.
        let graph = graph(3, &[(0, 1), (1, 0), (0, 2)]);
        let check = |ratios: [f64; 6]| graph.check_ratios(&ratios);
        assert_eq!(check([0.5, 1.0, 0.5, 0.0, 0.0, 1.0]), Ok(()));
        // Nobody takes the way out: P0 and P1 are a trap, the first of which is named.
        let trap = Err(ModelError::Trap { link: "P0".into() });
        assert_eq!(check([1.0, 1.0, 0.0, 0.0, 0.0, 1.0]), trap);
        let circle = self::graph(2, &[(0, 1), (1, 0)]);
        assert_eq!(circle.check_ratios(&[1.0, 1.0, 0.0, 0.0]), Err(ModelError::NoSinks));
    }

    #[test]
    fn shares_by_lanes_are_in_proportion_to_them() {
        let mut parts =
            network(&[(100.0, 3, 10.0), (100.0, 1, 10.0), (100.0, 2, 10.0)], &[(0, 1), (0, 2)])
                .into_parts();
        parts.turns[1].lanes = vec![[1, 0].into(), [2, 1].into()];
        let network = Network::new(parts).unwrap();
        let ratios = ratios_by_lanes(&network);
        assert_eq!(ratios, [1.0 / 3.0, 2.0 / 3.0, 0.0, 1.0, 1.0]);
        assert_eq!(RoadGraph::of(&network).check_ratios(&ratios), Ok(()));
        for network in [traffic::corridor().unwrap(), grid(GridPlan::default()).unwrap()] {
            let ratios = ratios_by_lanes(&network);
            assert_eq!(RoadGraph::of(&network).check_ratios(&ratios), Ok(()));
        }
    }
}
