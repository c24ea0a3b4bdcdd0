//! Demand: which vehicles want to enter the network, when, and along which links.
//!
//! 1. A [`Demand`] comes from a demand file ([`Demand::parse`]), or is the same at every entry
//!    ([`Demand::uniform`]).
//! 2. [`Demand::departures`] turns it into a stream of [`Departure`]s in order of time, the same for
//!    the same seed. Both worlds drive the same list.
//!
//! The rate at an entry is its mean flow × the peak profile × slow noise of its own:
//!
//! ```text
//! λ(t) = flow · [1 + height·(s(t) − 3/8)] · exp(spread·x(t) − spread²/2),   s(t) = sin⁴(π t / period)
//! ```
//!
//! `s` runs from 0 between peaks to 1 at a peak and has the mean 3/8; `x` is an AR(1) process of
//! variance 1 whose correlation falls by e in `memory` seconds. Both factors have mean 1, so the
//! long-run mean is `flow`.
//!
//! # The demand file
//!
//! ```
//! let text = r#"
//! format = "fedtse-demand/1"
//! name = "a morning"
//! headways = "even"      # "even": vehicle n leaves when ∫λ reaches n; or "poisson"
//! routes = "even"        # "even": shares are kept to within a vehicle; or "random"
//! longest_route = 64     # links after which a route ends even if no exit was reached; 64 if absent
//!
//! [[entry]]
//! link = "a"             # where vehicles enter
//! flow = 600.0           # veh/h, mean
//!
//! [[turning]]            # links that are not named split evenly over their turns
//! from = "a"
//! to = { b = 0.9, c = 0.1 }
//!
//! [peaks]                # absent: no peaks
//! period = 8100.0        # s from peak to peak; the first peak is half a period after time zero
//! height = 0.8           # from trough to crest, as a share of the mean flow; at most 8/3
//!
//! [noise]                # absent: none
//! spread = 0.1           # standard deviation, as a share of the flow
//! memory = 1200.0        # s
//!
//! [classes]              # shares; absent: cars only
//! car = 0.8
//! motorcycle = 0.14
//! bus = 0.06
//!
//! [blockages]            # double-parked cars; absent: none
//! per_hour = 2.5         # on the network; one in each 1/2.5 h, at a random moment of it
//! mean_duration = 450.0  # s; evenly spread between half and one and a half of it
//! places = [{ link = "a", lane = 0, position = 80.0 }]  # m from the start of the link
//! "#;
//! # let network = traffic::parse_network(r#"
//! # format = "fedtse-network/1"
//! # link = [
//! #   { name = "a", length = 100, lanes = 2, speed = 12.5, shape = [[0, 0], [100, 0]] },
//! #   { name = "b", length = 100, lanes = 2, speed = 12.5, shape = [[100, 0], [200, 0]] },
//! #   { name = "c", length = 100, lanes = 1, speed = 12.5, shape = [[100, 0], [100, 100]] },
//! # ]
//! # turn = [{ from = "a", to = "b" }, { from = "a", to = "c" }]
//! # "#).unwrap();
//! let demand = worlds::Demand::parse(text, &network)?;
//! let an_hour = traffic::Seconds::new(8100.0);
//! // 600 veh/h over one period of 2.25 h; the noise moves this by a few per cent.
//! let departures = demand.departures(&network, 1, an_hour).count();
//! assert!((1200..1500).contains(&departures), "{departures}");
//! # Ok::<(), worlds::DemandError>(())
//! ```

mod blockages;
mod departures;
mod file;
mod random;
mod rate;

use traffic::{LinkId, Metres, Network, Seconds, VehPerHour, VehicleClass};

pub use departures::Departures;
pub use file::DemandError;

/// Who enters a network where and when, and where they turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    name: String,
    entries: Vec<Entry>,
    /// By turn: the share of the vehicles of its link that take it.
    shares: Vec<f64>,
    headways: Headways,
    routes: Routes,
    longest_route: usize,
    peaks: Option<Peaks>,
    noise: Option<Noise>,
    classes: Vec<(VehicleClass, f64)>,
    blockages: Option<Blockages>,
}

/// Where vehicles enter, and how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The link at whose start they appear.
    pub link: LinkId,
    /// The mean over time.
    pub flow: VehPerHour,
}

/// How the vehicles of an entry follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Headways {
    /// Evenly: the count follows the rate to within one vehicle.
    #[default]
    Even,
    /// Independently of each other.
    Poisson,
}

/// How vehicles are shared out over the turns of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routes {
    /// Evenly: each entry keeps to the shares of every link to within one vehicle a turn.
    #[default]
    Even,
    /// Independently of each other.
    Random,
}

/// Recurring peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Peaks {
    period: Seconds,
    height: f64,
}

/// Slow noise of each entry.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Noise {
    spread: f64,
    memory: Seconds,
}

/// Double-parked cars.
#[derive(Clone, Debug, PartialEq)]
struct Blockages {
    per_hour: f64,
    mean_duration: Seconds,
    places: Vec<ParkingPosition>,
}

/// Where a car double-parks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ParkingPosition {
    link: LinkId,
    lane: u8,
    position: Metres,
}

const LONGEST_ROUTE: usize = 64;

/// The same where trips start and end inside, as they are in towns.
const INNER_ROUTE: usize = 12;

impl Demand {
    /// The same steady flow of cars at every entry, turning at random with equal shares.
    ///
    /// For grids and imported networks. In a network without entries, such as one where every street has a way back,
    /// trips start on every link and end after a dozen, so that each link carries the flow if nobody is held up.
    pub fn uniform(network: &Network, flow: VehPerHour) -> Self {
        let entries: Vec<LinkId> = network.entries().collect();
        let (name, links, flow, longest_route) = match entries.is_empty() {
            false => (format!("{flow} at each entry"), entries, flow, LONGEST_ROUTE),
            true => {
                let each = VehPerHour::new(flow.get() / INNER_ROUTE as f64);
                let name = format!("{flow} on each link");
                (name, network.link_ids().collect(), each, INNER_ROUTE)
            }
        };
        Self {
            name,
            entries: links.into_iter().map(|link| Entry { link, flow }).collect(),
            shares: equal_shares(network),
            headways: Headways::Poisson,
            routes: Routes::Random,
            longest_route,
            peaks: None,
            noise: None,
            classes: vec![(VehicleClass::Car, 1.0)],
            blockages: None,
        }
    }

    /// The title.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All vehicles that want to enter before `until`, in order of time and numbered in that order.
    ///
    /// The network must be the one that the demand was made for. Takes constant memory; `until` may
    /// be infinite.
    pub fn departures<'a>(
        &'a self,
        network: &'a Network,
        seed: u64,
        until: Seconds,
    ) -> Departures<'a> {
        Departures::new(self, network, seed, until)
    }

    /// The mean flow that the demand sends over each link, by link, if no vehicle is held up.
    pub fn expected_flows(&self, network: &Network) -> Vec<VehPerHour> {
        let mut arriving = vec![0.0; network.links().len()];
        for entry in &self.entries {
            arriving[entry.link.index()] += entry.flow.get();
        }
        let mut total = arriving.clone();
        for _ in 1..self.longest_route {
            let mut next = vec![0.0; arriving.len()];
            for (turn, share) in network.turns().iter().zip(&self.shares) {
                next[turn.to.index()] += share * arriving[turn.from.index()];
            }
            if next.iter().all(|&flow| flow == 0.0) {
                break;
            }
            for (sum, flow) in total.iter_mut().zip(&next) {
                *sum += flow;
            }
            arriving = next;
        }
        total.into_iter().map(VehPerHour::new).collect()
    }
}

fn equal_shares(network: &Network) -> Vec<f64> {
    network.turns().iter().map(|turn| 1.0 / network.outgoing(turn.from).len() as f64).collect()
}

/// The shipped demand of the corridor, `networks/corridor-demand.toml`.
///
/// ```
/// let corridor = traffic::corridor()?;
/// let demand = worlds::corridor_demand(&corridor)?;
/// assert_eq!(demand.name(), "Panepistimiou corridor");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn corridor_demand(corridor: &Network) -> Result<Demand, DemandError> {
    Demand::parse(include_str!("../../../networks/corridor-demand.toml"), corridor)
}

#[cfg(test)]
mod tests;
