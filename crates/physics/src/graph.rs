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
    pub fn places(&self) -> usize {
        self.names.len()
    }

    /// How many turns.
    pub fn turns(&self) -> usize {
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

    /// Searches backwards from the sinks; a place that is not met is a trap.
    fn check_ways_out(&self, ratios: &[f64]) -> Result<(), ModelError> {
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
        match leads_out.iter().position(|leads| !leads) {
            Some(place) => Err(ModelError::Trap { link: self.name(place).into() }),
            None => Ok(()),
        }
    }
}

/// Shares by lanes: a turn gets traffic in proportion to the lanes that lead into it, and links
/// without a turn let all traffic out. A first guess where nothing was counted.
pub fn ratios_by_lanes(network: &Network) -> Vec<f64> {
    let lanes = |turn: &traffic::Turn| turn.lanes.len() as f64;
    let mut sums = vec![0.0; network.links().len()];
    for turn in network.turns() {
        sums[turn.from.index()] += lanes(turn);
    }
    let turns = network.turns().iter().map(|turn| lanes(turn) / sums[turn.from.index()]);
    let exits = sums.iter().map(|&sum| if sum == 0.0 { 1.0 } else { 0.0 });
    turns.chain(exits).collect()
}
