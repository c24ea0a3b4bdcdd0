//! Regions with a macroscopic fundamental diagram (MFD).
//!
//! ```text
//!  k_r = N_r / lane-km,   production of a region = lane-km · q(k_r)         q: its MFD, up and down
//!  trips end or cross on at  G_r = lane-km · q(k_r) / trip length           (Geroliminis, Daganzo 2008)
//!  p_rs·G_r goes on to region s, limited by s's room  lane-km·min{w·(k_jam − k), q_c}/trip length
//! ```
//!
//! Past the critical density a region sends less the fuller it is, and at jam nothing: gridlock. The
//! room of the receiving region is ours. Stable where nobody crosses a trip in a sub-step:
//! `max(v_f, w)·δt ≤ trip length`.

use traffic::{FundamentalDiagram, Metres, MetresPerSecond, Network, Seconds};

use crate::error::{ModelError, check_len};
use crate::graph::RoadGraph;
use crate::parameters::{Diagram, KM_PER_MIN, Parameters};
use crate::stores::{Cotangent, Law, Store, StoreModel, StorePlan};

/// More sub-steps than this point to a wrong unit.
const MOST_SUB_STEPS: f64 = 10_000.0;

/// A region.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Mean flow as a function of mean density, per lane.
    pub diagram: FundamentalDiagram,
    /// Mean length of trips within it.
    pub trip_length: Metres,
    /// The share of its trips that end in it (leave the network).
    pub ending: f64,
}

/// How a network is divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Regions {
    /// The regions.
    pub regions: Vec<Region>,
    /// The region of each link.
    pub of_link: Vec<usize>,
    /// From region, to region, share of trips.
    pub crossings: Vec<(usize, usize, f64)>,
}

/// Links of a region that is grown, unless the network has fewer.
const GROWN: usize = 12;

impl Regions {
    /// Regions of neighbouring links, where nobody has drawn any: from a link that has none yet along turns, until a region
    /// has a dozen. `passed`: vehicles that came to the end of each link, of which the ratios of `parameters` are
    /// shares. Diagrams are means over lane-kilometres; a trip is what is driven in a region for each vehicle that leaves it.
    pub fn grown(
        network: &Network,
        parameters: &Parameters,
        passed: &[f64],
    ) -> Result<Self, ModelError> {
        let links = network.links();
        check_len("vehicles that passed", passed.len(), links.len())?;
        let of_link = grow(network);
        let count = of_link.iter().max().map_or(0, |last| last + 1);
        // Nobody was seen on some links: a vehicle keeps their ways open.
        let passed = |link: usize| passed[link].max(1.0);
        let (turns, ratios) = (network.turns(), parameters.ratios());
        let mut flows = std::collections::BTreeMap::new();
        for (turn, ratio) in turns.iter().zip(ratios) {
            let (from, to) = (of_link[turn.from.index()], of_link[turn.to.index()]);
            if from != to && *ratio > 0.0 {
                *flows.entry((from, to)).or_insert(0.0) += ratio * passed(turn.from.index());
            }
        }
        let mut sums = vec![[0.0; 6]; count];
        for (n, link) in links.iter().enumerate() {
            let [size, free, wave, jam, driven, ended] = &mut sums[of_link[n]];
            let own = link.lane_length().get() / 1000.0;
            *size += own;
            let diagram = parameters.fundamental_diagram(n)?;
            *free += own * diagram.free_speed().get();
            *wave += own * diagram.wave_speed().get();
            *jam += own * diagram.jam_density().get();
            *driven += passed(n) * link.length.get();
            *ended += ratios[turns.len() + n] * passed(n);
        }
        let mut regions = Vec::with_capacity(count);
        let mut crossings = Vec::new();
        for (r, [size, free, wave, jam, driven, ended]) in sums.into_iter().enumerate() {
            let crossed: Vec<(usize, f64)> =
                flows.range((r, 0)..(r + 1, 0)).map(|(&(_, to), &flow)| (to, flow)).collect();
            let leaving = ended + crossed.iter().map(|(_, flow)| flow).sum::<f64>();
            let name = format!("region {}", r + 1);
            let diagram = FundamentalDiagram::triangular(
                MetresPerSecond::new(free / size),
                MetresPerSecond::new(wave / size),
                traffic::VehPerKmLane::new(jam / size),
            )
            .map_err(|source| ModelError::Diagram { link: name.clone(), source })?;
            regions.push(Region {
                name,
                diagram,
                trip_length: Metres::new(driven / leaving),
                ending: ended / leaving,
            });
            crossings.extend(crossed.into_iter().map(|(to, flow)| (r, to, flow / leaving)));
        }
        Ok(Self { regions, of_link, crossings })
    }
}

/// The region of each link: breadth first, along turns in either direction.
fn grow(network: &Network) -> Vec<usize> {
    let mut of_link = vec![usize::MAX; network.links().len()];
    let mut next = 0;
    for first in network.link_ids() {
        if of_link[first.index()] != usize::MAX {
            continue;
        }
        let (mut queue, mut size) = (std::collections::VecDeque::from([first]), 0);
        while let Some(link) = queue.pop_front() {
            if size == GROWN {
                break;
            }
            if of_link[link.index()] != usize::MAX {
                continue;
            }
            of_link[link.index()] = next;
            size += 1;
            let onward = network.outgoing(link).iter().map(|&turn| network.turn(turn).to);
            let back = network.incoming(link).iter().map(|&turn| network.turn(turn).from);
            queue.extend(onward.chain(back));
        }
        next += 1;
    }
    of_link
}

/// A region by its MFD.
#[derive(Clone, Copy, Debug)]
pub struct Mfd;

/// The region model.
pub type RegionModel = StoreModel<Mfd>;

impl RegionModel {
    /// Of a network divided into regions. Links have their region's density and flow.
    pub fn new(network: &Network, division: &Regions, step: Seconds) -> Result<Self, ModelError> {
        check_len("regions of links", division.of_link.len(), network.links().len())?;
        let names = division.regions.iter().map(|region| region.name.clone()).collect();
        let turns: Vec<(u32, u32)> =
            division.crossings.iter().map(|&(from, to, _)| (from as u32, to as u32)).collect();
        let graph = RoadGraph::new(names, &turns)?;
        let column = |of: fn(&Region) -> f64| division.regions.iter().map(of);
        let values = column(|r| r.diagram.free_speed().get())
            .chain(column(|r| r.diagram.wave_speed().get()))
            .chain(column(|r| r.diagram.jam_density().get()))
            .chain(column(|r| r.diagram.capacity().get()))
            .chain(division.crossings.iter().map(|&(_, _, share)| share))
            .chain(column(|r| r.ending));
        let parameters = Parameters::from_values(&graph, values.collect())?;
        let mut sizes = vec![0.0; division.regions.len()];
        let mut links = Vec::with_capacity(division.of_link.len());
        for (link, &region) in network.links().iter().zip(&division.of_link) {
            let size = link.lane_length().get() / 1000.0;
            let Some(sum) = sizes.get_mut(region) else {
                return Err(ModelError::Number {
                    place: format!("link `{}`", link.name),
                    field: "region",
                    found: region as f64,
                    expected: "a region that exists",
                });
            };
            *sum += size;
            links.push((region, size));
        }
        let mut stores = Vec::new();
        let mut needed: f64 = 1.0;
        for (r, region) in division.regions.iter().enumerate() {
            let trip = region.trip_length.get() / 1000.0;
            let place = || format!("region `{}`", region.name);
            for (field, found) in [("trip length", trip), ("lane-kilometres", sizes[r])] {
                if !(found > 0.0 && found.is_finite()) {
                    let place = place();
                    return Err(ModelError::Number {
                        place,
                        field,
                        found,
                        expected: "more than 0",
                    });
                }
            }
            let diagram = parameters.diagram(r);
            needed = needed.max(fastest(&diagram) * step.get() / 60.0 / trip);
            stores.push(Store { diagram, size: sizes[r], flow_share: trip / sizes[r] });
        }
        if !(step.get() > 0.0 && needed <= MOST_SUB_STEPS) {
            let place = "discretisation".into();
            let expected = "more than 0 s and at most 10000 stable sub-steps";
            return Err(ModelError::Number { place, field: "step", found: step.get(), expected });
        }
        let sub_steps = (needed * (1.0 - 1e-9)).ceil() as usize;
        StoreModel::build(StorePlan { graph, parameters, stores, law: Mfd, links, step, sub_steps })
    }
}

fn fastest(diagram: &Diagram) -> f64 {
    diagram.free.max(diagram.wave)
}

impl Law for Mfd {
    fn offers(&self, store: &Store, density: f64) -> [f64; 3] {
        let Diagram { capacity, .. } = store.diagram;
        let (sending, receiving) =
            (store.diagram.sending(density), store.diagram.receiving(density));
        // flow_share is trip length over lane-kilometres.
        [sending.min(receiving), capacity, receiving].map(|flow| flow / store.flow_share)
    }

    fn offers_vjp(&self, store: &Store, density: f64, given: [f64; 3], d: &mut Cotangent) -> f64 {
        let [d_leaving, d_capacity, d_room] = given.map(|given| given / store.flow_share);
        let diagram = store.diagram;
        d.0.capacity += d_capacity;
        let falls = diagram.sending(density) > diagram.receiving(density);
        let d_receiving = d_room + if falls { d_leaving } else { 0.0 };
        let mut d_density = diagram.receiving_vjp(density, d_receiving, &mut d.0);
        if !falls {
            d_density += diagram.sending_vjp(density, d_leaving, &mut d.0);
        }
        d_density
    }

    fn check(&self, store: &Store, name: &str, sub_step: f64) -> Result<(), ModelError> {
        let (speed, trip) = (fastest(&store.diagram), store.flow_share * store.size);
        if speed * sub_step <= trip * (1.0 + 1e-9) {
            return Ok(());
        }
        Err(ModelError::Unstable {
            link: name.into(),
            speed: MetresPerSecond::new(speed / KM_PER_MIN),
            run: Metres::new(speed * sub_step * 1000.0),
            sub_step: Seconds::new(sub_step * 60.0),
            cell: Metres::new(trip * 1000.0),
        })
    }
}

#[cfg(test)]
mod tests;
