//! Turning ratios.
//!
//! From counts of turns, whoever counted them (a guest may add its own: counts are aggregates, and
//! ratios do not change with the share of vehicles that is seen, as long as fleets turn like
//! others): p = (c + a·p₀)/(Σc + a), a prior p₀ that counts as `a` vehicles, so that a turn never seen
//! is rare and not impossible. Standard error √(p(1−p)/(Σc + a + 1)), that of the Dirichlet posterior.
//!
//! From flows, where nobody counted turns: inflow_n(t) = Σ_m p_mn·outflow_m(t), least squares over
//! shares that are 0 or more and add up to 1 at each link, by projected gradient steps; standard
//! errors by leaving out a block of time at a time.

use traffic::{LinkId, Network};

use super::error::CalibrationError;
use super::jackknife::{BLOCKS, standard_errors};
use crate::graph::{ENDING, RoadGraph, ratios_by_lanes};

/// Counts per movement: turns, then exits.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnCounts {
    counts: Vec<f64>,
}

/// Where a ratio comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatioSource {
    /// Counted.
    Counts,
    /// Fitted to flows.
    Flows,
    /// Too few vehicles were counted on its link: the prior.
    Prior,
}

/// Ratios with standard errors, per movement.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioEstimate {
    /// Shares per movement, 1 in all at each link.
    pub ratios: Vec<f64>,
    /// Their standard errors.
    pub errors: Vec<f64>,
    /// Per link.
    pub sources: Vec<RatioSource>,
}

impl TurnCounts {
    /// Nothing counted.
    pub fn none(network: &Network) -> Self {
        Self { counts: vec![0.0; network.turns().len() + network.links().len()] }
    }

    /// Vehicles that made a turn.
    pub fn turned(
        &mut self,
        network: &Network,
        from: LinkId,
        to: LinkId,
        vehicles: f64,
    ) -> Result<(), CalibrationError> {
        let known = |link: LinkId| link.index() < network.links().len();
        let turn = (known(from) && known(to)).then(|| network.turn_between(from, to)).flatten();
        let Some(turn) = turn else {
            let what = format!("turn from link number {} to {}", from.0, to.0);
            return Err(CalibrationError::Unidentified {
                what,
                why: "the network has no such turn",
            });
        };
        self.add(turn.index(), vehicles)
    }

    /// Vehicles that left the network at the end of a link.
    pub fn left(
        &mut self,
        network: &Network,
        from: LinkId,
        vehicles: f64,
    ) -> Result<(), CalibrationError> {
        self.add(network.turns().len() + from.index(), vehicles)
    }

    fn add(&mut self, movement: usize, vehicles: f64) -> Result<(), CalibrationError> {
        let what = || format!("count of movement {movement}");
        if !(vehicles >= 0.0 && vehicles.is_finite()) {
            let expected = "0 or more vehicles";
            return Err(CalibrationError::Number { what: what(), found: vehicles, expected });
        }
        match self.counts.get_mut(movement) {
            Some(count) => *count += vehicles,
            None => {
                let why = "the network has no such movement";
                return Err(CalibrationError::Unidentified { what: what(), why });
            }
        }
        Ok(())
    }

    /// Ratios. The prior is that by lanes and counts as `prior_vehicles` on each link; links with
    /// fewer than `least` counted vehicles take the prior, and say so.
    pub fn ratios(
        &self,
        network: &Network,
        prior_vehicles: f64,
        least: f64,
    ) -> Result<RatioEstimate, CalibrationError> {
        if !(prior_vehicles > 0.0 && prior_vehicles.is_finite()) {
            let what = "vehicles of the prior".into();
            return Err(CalibrationError::Number {
                what,
                found: prior_vehicles,
                expected: "more than 0",
            });
        }
        let prior = ratios_by_lanes(network);
        let mut estimate = RatioEstimate {
            errors: vec![0.0; prior.len()],
            sources: vec![RatioSource::Prior; network.links().len()],
            ratios: prior,
        };
        for link in network.link_ids() {
            let own = movements(network, link);
            let counted: f64 = own.iter().map(|&at| self.counts[at]).sum();
            let used = counted >= least && counted > 0.0;
            let weight = if used { counted + prior_vehicles } else { prior_vehicles };
            for &at in &own {
                let count = if used { self.counts[at] } else { 0.0 };
                let ratio = (count + prior_vehicles * estimate.ratios[at]) / weight;
                estimate.ratios[at] = ratio;
                estimate.errors[at] = (ratio * (1.0 - ratio) / (weight + 1.0)).sqrt();
            }
            if used {
                estimate.sources[link.index()] = RatioSource::Counts;
            }
        }
        // Links without counts may lie before links whose counts lead round and round.
        RoadGraph::of(network).open_traps(&mut estimate.ratios, ENDING);
        Ok(estimate)
    }
}

/// Movements out of a link.
fn movements(network: &Network, link: LinkId) -> Vec<usize> {
    let turns = network.outgoing(link).iter().map(|turn| turn.index());
    turns.chain([network.turns().len() + link.index()]).collect()
}

/// Ratios from in- and outflows of all links (vehicles per step, step after step, a number per
/// link). Exits within the network cannot be told from flows: links with turns are taken to have none.
pub fn ratios_from_flows(
    network: &Network,
    inflows: &[f64],
    outflows: &[f64],
) -> Result<RatioEstimate, CalibrationError> {
    let (links, turns) = (network.links().len(), network.turns().len());
    let steps = inflows.len() / links;
    // Two equations for each unknown, and one for each block that is left out in turn.
    let needed = (2 * turns).max(BLOCKS);
    if inflows.len() != outflows.len() || inflows.len() != steps * links || steps < needed {
        let what = "steps with flows of all links".into();
        return Err(CalibrationError::TooLittle { what, found: steps, needed });
    }
    if let Some(&found) = inflows.iter().chain(outflows).find(|x| !(x.is_finite() && **x >= 0.0)) {
        let (what, expected) = ("flows".into(), "0 or more");
        return Err(CalibrationError::Number { what, found, expected });
    }
    let fit = |keep: &dyn Fn(usize) -> bool| {
        Normal::new(network, inflows, outflows, keep).solve(network, ratios_by_lanes(network))
    };
    let ratios = fit(&|_| true).ok_or(CalibrationError::Unidentified {
        what: "turning ratios".into(),
        why: "no flow in the data",
    })?;
    let errors = standard_errors(steps, fit).unwrap_or_else(|| vec![f64::INFINITY; ratios.len()]);
    let source = |link| match network.outgoing(link).is_empty() {
        true => RatioSource::Prior,
        false => RatioSource::Flows,
    };
    Ok(RatioEstimate { ratios, errors, sources: network.link_ids().map(source).collect() })
}

/// The least-squares problem: for each link H = Σ_t out·outᵀ over the links before it, and for each
/// turn b = Σ_t out·in.
struct Normal {
    squares: Vec<Vec<f64>>,
    products: Vec<f64>,
    /// A bound of the largest eigenvalue: the largest trace of an H.
    most: f64,
}

impl Normal {
    fn new(
        network: &Network,
        inflows: &[f64],
        outflows: &[f64],
        keep: &dyn Fn(usize) -> bool,
    ) -> Self {
        let links = network.links().len();
        let steps = inflows.len() / links;
        let of = |list: &[f64], t: usize, link: LinkId| list[t * links + link.index()];
        let mut products = vec![0.0; network.turns().len()];
        let mut squares = Vec::with_capacity(links);
        let mut most: f64 = 0.0;
        for link in network.link_ids() {
            let into = network.incoming(link);
            let mut square = vec![0.0; into.len() * into.len()];
            for t in (0..steps).filter(|&t| keep(t)) {
                for (i, &a) in into.iter().enumerate() {
                    let from = of(outflows, t, network.turn(a).from);
                    products[a.index()] += from * of(inflows, t, link);
                    for (j, &b) in into.iter().enumerate() {
                        square[i * into.len() + j] += from * of(outflows, t, network.turn(b).from);
                    }
                }
            }
            most = most.max((0..into.len()).map(|i| square[i * into.len() + i]).sum());
            squares.push(square);
        }
        Self { squares, products, most }
    }

    /// Projected gradient steps of 1/most, which is safe, until nothing moves.
    fn solve(&self, network: &Network, mut ratios: Vec<f64>) -> Option<Vec<f64>> {
        if self.most <= 0.0 {
            return None;
        }
        let mut gradient = vec![0.0; network.turns().len()];
        for _ in 0..5000 {
            for link in network.link_ids() {
                let into = network.incoming(link);
                for (i, &a) in into.iter().enumerate() {
                    let row = &self.squares[link.index()][i * into.len()..][..into.len()];
                    let known = row.iter().zip(into).map(|(s, b)| s * ratios[b.index()]);
                    gradient[a.index()] = known.sum::<f64>() - self.products[a.index()];
                }
            }
            let mut moved: f64 = 0.0;
            for link in network.link_ids() {
                let own = network.outgoing(link);
                let mut shares: Vec<f64> = own
                    .iter()
                    .map(|e| ratios[e.index()] - gradient[e.index()] / self.most)
                    .collect();
                onto_simplex(&mut shares);
                for (turn, share) in own.iter().zip(shares) {
                    moved = moved.max((share - ratios[turn.index()]).abs());
                    ratios[turn.index()] = share;
                }
            }
            if moved < 1e-9 {
                break;
            }
        }
        Some(ratios)
    }
}

/// The nearest shares that are 0 or more and add up to 1.
fn onto_simplex(shares: &mut [f64]) {
    let mut sorted = shares.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (i, share) in sorted.iter().enumerate() {
        sum += share;
        let candidate = (sum - 1.0) / (i + 1) as f64;
        if share - candidate > 0.0 {
            shift = candidate;
        }
    }
    shares.iter_mut().for_each(|share| *share = (*share - shift).max(0.0));
}

#[cfg(test)]
mod tests;
