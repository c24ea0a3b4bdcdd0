//! What passes between links in one sub-step: merges, diverges, signals, sources and sinks.
//!
//! For a turn from m to n with ratio p and green share γ, in vehicles a minute:
//!
//! ```text
//!  wish_mn  = min( γ_mn · capacity_m , leaving_m )       the paper's min{q_c, v_f·k}, cut by red
//!  S_mn     = p_mn · wish_mn
//!  asked_n  = Σ_m S_mn + entry_demand_n                       entry_demand: a source, as one more branch
//!  share_n  = min( 1 , R_n / asked_n )                    so that Q_n = min{ΣS, R} (paper)
//!  non-FIFO: q_mn = S_mn · share_n                        proportional merge (paper)
//!  FIFO:     q_mn = p_mn · min over branches of wish_mn'·share_n'      (Daganzo's diverge)
//! ```
//!
//! Leaving the network is a movement with share 1. [`Transfers::vjp`] is the transpose of the
//! derivative. Where two terms of a minimum are equal it takes one side: for `wish` the leaving
//! flow, for `share` the free case.

use crate::graph::RoadGraph;

/// What happens at a diverge when one branch is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Diverge {
    /// Only that branch waits: the paper's equations. Right where each branch has lanes of its own.
    #[default]
    NonFifo,
    /// All wait behind the first that cannot go on: one lane for all.
    Fifo,
}

/// What links offer and ask for, in vehicles a minute; also the cotangents of that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offers {
    /// What would leave if nothing stood in the way.
    pub leaving: Vec<f64>,
    /// The most that passes the end under full green.
    pub capacity: Vec<f64>,
    /// The most that can come in.
    pub room: Vec<f64>,
    /// What a source wants to bring in.
    pub entry_demand: Vec<f64>,
}

impl Offers {
    pub(crate) fn new(links: usize) -> Self {
        let zeros = || vec![0.0; links];
        Self { leaving: zeros(), capacity: zeros(), room: zeros(), entry_demand: zeros() }
    }

    pub(crate) fn clear(&mut self) {
        for list in [&mut self.leaving, &mut self.capacity, &mut self.room, &mut self.entry_demand]
        {
            list.fill(0.0);
        }
    }
}

/// What passes, in vehicles a minute, and what its derivative needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfers {
    /// Into each link, sources included.
    pub inflow: Vec<f64>,
    /// Out of each link, exits included.
    pub outflow: Vec<f64>,
    /// From each source.
    pub entry: Vec<f64>,
    /// Out of the network at each link.
    pub exit: Vec<f64>,
    wish: Vec<f64>,
    asked: Vec<f64>,
    share: Vec<f64>,
    /// FIFO: what passes per unit of ratio, and the movement that holds it back.
    passing: Vec<f64>,
    slowest: Vec<u32>,
    d_wish: Vec<f64>,
    d_share: Vec<f64>,
    d_passing: Vec<f64>,
}

/// What a sub-step's exchange depends on besides the offers.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub graph: &'a RoadGraph,
    /// Per movement.
    pub ratios: &'a [f64],
    /// Per movement.
    pub green: &'a [f64],
    pub diverge: Diverge,
}

impl<'a> Rules<'a> {
    /// Those of a sub-step, given the greens of all.
    pub(crate) fn of(
        graph: &'a RoadGraph,
        ratios: &'a [f64],
        greens: &'a [f64],
        sub_step: usize,
        diverge: Diverge,
    ) -> Self {
        let movements = graph.movements();
        let green = &greens[sub_step * movements..][..movements];
        Self { graph, ratios, green, diverge }
    }
}

/// Cotangents of what passes, per link.
pub(crate) struct TransferCotangents<'a> {
    pub inflow: &'a [f64],
    pub outflow: &'a [f64],
    pub entry: &'a [f64],
}

const NONE: u32 = u32::MAX;

impl Transfers {
    pub(crate) fn new(graph: &RoadGraph) -> Self {
        let per_link = || vec![0.0; graph.links()];
        Self {
            inflow: per_link(),
            outflow: per_link(),
            entry: per_link(),
            exit: per_link(),
            wish: vec![0.0; graph.movements()],
            asked: per_link(),
            share: per_link(),
            passing: per_link(),
            slowest: vec![NONE; graph.links()],
            d_wish: vec![0.0; graph.movements()],
            d_share: per_link(),
            d_passing: per_link(),
        }
    }

    /// Fills in what passes.
    pub(crate) fn fill(&mut self, rules: Rules<'_>, offers: &Offers) {
        let Rules { graph, ratios, green, diverge } = rules;
        let turns = graph.turns();
        self.asked.copy_from_slice(&offers.entry_demand);
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let m = m as usize;
            let wish = (green[e] * offers.capacity[m]).min(offers.leaving[m]);
            self.wish[e] = wish;
            self.asked[n as usize] += ratios[e] * wish;
        }
        for link in 0..graph.links() {
            self.wish[turns + link] =
                (green[turns + link] * offers.capacity[link]).min(offers.leaving[link]);
            let (asked, room) = (self.asked[link], offers.room[link]);
            let share = if asked > room { room / asked } else { 1.0 };
            self.share[link] = share;
            self.entry[link] = offers.entry_demand[link] * share;
            self.inflow[link] = self.entry[link];
            self.outflow[link] = 0.0;
        }
        if diverge == Diverge::Fifo {
            self.hold_back(graph, ratios);
        }
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let (m, n) = (m as usize, n as usize);
            let flow = ratios[e]
                * match diverge {
                    Diverge::NonFifo => self.wish[e] * self.share[n],
                    Diverge::Fifo => self.passing[m],
                };
            self.inflow[n] += flow;
            self.outflow[m] += flow;
        }
        for link in 0..graph.links() {
            let passing = match diverge {
                Diverge::NonFifo => self.wish[turns + link],
                Diverge::Fifo => self.passing[link],
            };
            self.exit[link] = ratios[turns + link] * passing;
            self.outflow[link] += self.exit[link];
        }
    }

    /// FIFO: the branch that lets least through decides for all.
    fn hold_back(&mut self, graph: &RoadGraph, ratios: &[f64]) {
        let turns = graph.turns();
        for link in 0..graph.links() {
            let leaves = ratios[turns + link] > 0.0;
            self.passing[link] = if leaves { self.wish[turns + link] } else { f64::INFINITY };
            self.slowest[link] = if leaves { (turns + link) as u32 } else { NONE };
        }
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let m = m as usize;
            let passes = self.wish[e] * self.share[n as usize];
            if ratios[e] > 0.0 && passes < self.passing[m] {
                self.passing[m] = passes;
                self.slowest[m] = e as u32;
            }
        }
    }

    /// Adds the cotangents of the offers to `d_offers`, and of the ratios to `d_ratios`. Must follow
    /// [`Self::fill`] with the same offers.
    pub(crate) fn vjp(
        &mut self,
        rules: Rules<'_>,
        offers: &Offers,
        given: &TransferCotangents<'_>,
        d_offers: &mut Offers,
        mut d_ratios: Option<&mut [f64]>,
    ) {
        let Rules { graph, ratios, green, diverge } = rules;
        let turns = graph.turns();
        for link in 0..graph.links() {
            // entry = entry_demand · share
            let d_entry = given.entry[link] + given.inflow[link];
            d_offers.entry_demand[link] += self.share[link] * d_entry;
            self.d_share[link] = offers.entry_demand[link] * d_entry;
            self.d_passing[link] = ratios[turns + link] * given.outflow[link];
        }
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let (m, n) = (m as usize, n as usize);
            let d_flow = given.inflow[n] + given.outflow[m];
            match diverge {
                Diverge::NonFifo => {
                    self.d_wish[e] = ratios[e] * self.share[n] * d_flow;
                    self.d_share[n] += ratios[e] * self.wish[e] * d_flow;
                    if let Some(d_ratios) = &mut d_ratios {
                        d_ratios[e] += self.wish[e] * self.share[n] * d_flow;
                    }
                }
                Diverge::Fifo => {
                    self.d_wish[e] = 0.0;
                    self.d_passing[m] += ratios[e] * d_flow;
                    if let Some(d_ratios) = &mut d_ratios {
                        d_ratios[e] += self.passing[m] * d_flow;
                    }
                }
            }
        }
        for link in 0..graph.links() {
            let exit = turns + link;
            let passing = match diverge {
                Diverge::NonFifo => {
                    self.d_wish[exit] = self.d_passing[link];
                    self.wish[exit]
                }
                Diverge::Fifo => {
                    self.d_wish[exit] = 0.0;
                    self.passing[link]
                }
            };
            if let Some(d_ratios) = &mut d_ratios {
                d_ratios[exit] += passing * given.outflow[link];
            }
        }
        if diverge == Diverge::Fifo {
            for link in 0..graph.links() {
                let slowest = self.slowest[link] as usize;
                if let Some(&n) = graph.destinations().get(slowest) {
                    let n = n as usize;
                    self.d_wish[slowest] += self.share[n] * self.d_passing[link];
                    self.d_share[n] += self.wish[slowest] * self.d_passing[link];
                } else if slowest < self.d_wish.len() {
                    self.d_wish[slowest] += self.d_passing[link];
                }
            }
        }
        // share = room / asked where more is asked for than there is room: d_share turns into
        // the cotangent of `asked`, which every branch into the link has.
        for link in 0..graph.links() {
            let (asked, room) = (self.asked[link], offers.room[link]);
            let d_share = self.d_share[link];
            self.d_share[link] = 0.0;
            if asked > room {
                d_offers.room[link] += d_share / asked;
                self.d_share[link] = -d_share * room / (asked * asked);
            }
            d_offers.entry_demand[link] += self.d_share[link];
        }
        for (e, &n) in graph.destinations().iter().enumerate() {
            let d_asked = self.d_share[n as usize];
            self.d_wish[e] += ratios[e] * d_asked;
            if let Some(d_ratios) = &mut d_ratios {
                d_ratios[e] += self.wish[e] * d_asked;
            }
        }
        let exits = (0..graph.links()).map(|link| link as u32);
        for (e, m) in graph.origins().iter().copied().chain(exits).enumerate() {
            let m = m as usize;
            if offers.leaving[m] <= green[e] * offers.capacity[m] {
                d_offers.leaving[m] += self.d_wish[e];
            } else {
                d_offers.capacity[m] += green[e] * self.d_wish[e];
            }
        }
    }
}
