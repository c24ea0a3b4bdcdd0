//! What passes between places in one sub-step: merges, diverges, signals, sources and sinks.
//!
//! For a turn from m to n with ratio p and green share γ, in vehicles a minute:
//!
//! ```text
//!  wish_mn  = min( γ_mn · capacity_m , leaving_m )       the paper's min{q_c, v_f·k}, cut by red
//!  S_mn     = p_mn · wish_mn
//!  asked_n  = Σ_m S_mn + entry_demand_n                       entry_demand: a source, as one more branch
//!  share_n  = min( 1 , R_n / asked_n )                    so that Q_n = min{ΣS, R} (paper)
//!  q_mn     = S_mn · share_n                        proportional merge (paper)
//! ```
//!
//! Leaving the network is a movement with share 1. [`Transfers::vjp`] is the transpose of the
//! derivative. Where two terms of a minimum are equal it takes one side: for `wish` the leaving
//! flow, for `share` the free case.

use crate::graph::RoadGraph;

/// What places offer and ask for, in vehicles a minute; also the cotangents of that.
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
    pub(crate) fn new(places: usize) -> Self {
        let zeros = || vec![0.0; places];
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
    /// Into each place, sources included.
    pub inflow: Vec<f64>,
    /// Out of each place, exits included.
    pub outflow: Vec<f64>,
    /// From each source.
    pub entry: Vec<f64>,
    /// Out of the network at each place.
    pub exit: Vec<f64>,
    wish: Vec<f64>,
    asked: Vec<f64>,
    share: Vec<f64>,
    d_wish: Vec<f64>,
    d_share: Vec<f64>,
}

/// What a sub-step's exchange depends on besides the offers.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub graph: &'a RoadGraph,
    /// Per movement.
    pub ratios: &'a [f64],
    /// Per movement.
    pub green: &'a [f64],
}

impl<'a> Rules<'a> {
    /// Those of a sub-step, given the greens of all.
    pub(crate) fn of(
        graph: &'a RoadGraph,
        ratios: &'a [f64],
        greens: &'a [f64],
        sub_step: usize,
    ) -> Self {
        let movements = graph.movements();
        let green = &greens[sub_step * movements..][..movements];
        Self { graph, ratios, green }
    }
}

/// Cotangents of what passes, per place.
pub(crate) struct TransferCotangents<'a> {
    pub inflow: &'a [f64],
    pub outflow: &'a [f64],
    pub entry: &'a [f64],
}

impl Transfers {
    pub(crate) fn new(graph: &RoadGraph) -> Self {
        let per_place = || vec![0.0; graph.places()];
        Self {
            inflow: per_place(),
            outflow: per_place(),
            entry: per_place(),
            exit: per_place(),
            wish: vec![0.0; graph.movements()],
            asked: per_place(),
            share: per_place(),
            d_wish: vec![0.0; graph.movements()],
            d_share: per_place(),
        }
    }

    /// Fills in what passes.
    pub(crate) fn fill(&mut self, rules: Rules<'_>, offers: &Offers) {
        let Rules { graph, ratios, green } = rules;
        let turns = graph.turns();
        self.asked.copy_from_slice(&offers.entry_demand);
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let m = m as usize;
            let wish = (green[e] * offers.capacity[m]).min(offers.leaving[m]);
            self.wish[e] = wish;
            self.asked[n as usize] += ratios[e] * wish;
        }
        for place in 0..graph.places() {
            self.wish[turns + place] =
                (green[turns + place] * offers.capacity[place]).min(offers.leaving[place]);
            let (asked, room) = (self.asked[place], offers.room[place]);
            let share = if asked > room { room / asked } else { 1.0 };
            self.share[place] = share;
            self.entry[place] = offers.entry_demand[place] * share;
            self.inflow[place] = self.entry[place];
            self.outflow[place] = 0.0;
        }
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let (m, n) = (m as usize, n as usize);
            let flow = ratios[e] * (self.wish[e] * self.share[n]);
            self.inflow[n] += flow;
            self.outflow[m] += flow;
        }
        for place in 0..graph.places() {
            self.exit[place] = ratios[turns + place] * self.wish[turns + place];
            self.outflow[place] += self.exit[place];
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
        let Rules { graph, ratios, green } = rules;
        let turns = graph.turns();
        for place in 0..graph.places() {
            // entry = entry_demand · share
            let d_entry = given.entry[place] + given.inflow[place];
            d_offers.entry_demand[place] += self.share[place] * d_entry;
            self.d_share[place] = offers.entry_demand[place] * d_entry;
        }
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            let (m, n) = (m as usize, n as usize);
            let d_flow = given.inflow[n] + given.outflow[m];
            self.d_wish[e] = ratios[e] * self.share[n] * d_flow;
            self.d_share[n] += ratios[e] * self.wish[e] * d_flow;
            if let Some(d_ratios) = &mut d_ratios {
                d_ratios[e] += self.wish[e] * self.share[n] * d_flow;
            }
        }
        for place in 0..graph.places() {
            let exit = turns + place;
            self.d_wish[exit] = ratios[exit] * given.outflow[place];
            if let Some(d_ratios) = &mut d_ratios {
                d_ratios[exit] += self.wish[exit] * given.outflow[place];
            }
        }
        // share = room / asked where more is asked for than there is room: d_share turns into
        // the cotangent of `asked`, which every branch into the place has.
        for place in 0..graph.places() {
            let (asked, room) = (self.asked[place], offers.room[place]);
            let d_share = self.d_share[place];
            self.d_share[place] = 0.0;
            if asked > room {
                d_offers.room[place] += d_share / asked;
                self.d_share[place] = -d_share * room / (asked * asked);
            }
            d_offers.entry_demand[place] += self.d_share[place];
        }
        for (e, &n) in graph.destinations().iter().enumerate() {
            let d_asked = self.d_share[n as usize];
            self.d_wish[e] += ratios[e] * d_asked;
            if let Some(d_ratios) = &mut d_ratios {
                d_ratios[e] += self.wish[e] * d_asked;
            }
        }
        let exits = (0..graph.places()).map(|place| place as u32);
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
