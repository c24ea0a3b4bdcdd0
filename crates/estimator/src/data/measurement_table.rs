//! Measurements ready to be read: loop flows, fleet speeds, densities by queue profiles, held-out folds.
//!
//! | measurement | quantity | variance |
//! |---|---|---|
//! | loop | flow | half the mean square of what neighbouring steps differ by |
//! | fleet | speed | σ_v²·(1 − p)/n, n = vehicles of the fleet on the link, on the mean of the step |
//! | queue profile | density | as the profile tells it |
//! | usual flow | flow | a constant, see [`usual_flows`](MeasurementTable::usual_flows) |
//! | held-out fold | density and flow | from how the folds differ |
//!
//! `docs/physics.md` says why.

use std::ops::RangeInclusive;
use std::sync::Arc;

use traffic::{LinkId, MeasurementEntry, Quantity, Step};

use crate::baseline::queue_states::QueueStates;
use crate::data::measurements::MeasurementSource;
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::Timeline;
use traffic::{FleetView, Window};

/// Standard deviation of a vehicle's mean speed over a step from that of all vehicles on the link,
/// m/s: at signals, some stand while others drive. On the built-in world 2.4 were found; 2.3 are what
/// SUMO's truth told when this was checked with it, and were taken.
const SPEED_DEVIATION: f64 = 2.3;
/// No fleet's speed is taken to be surer than if a twentieth of the vehicles were not in it.
const LEAST_UNSEEN: f64 = 0.05;
/// Standard deviation of a step's flow from the link's usual one, as far as that is to count, veh/min/lane. It is
/// more in truth: but a mean is known far better than a step.
const USUAL_FLOW_DEVIATION: f64 = 1.0;
/// No street is faster, m/s.
const FASTEST: f64 = 40.0;

/// A party's measurements in all steps held.
#[derive(Clone)]
pub struct MeasurementTable {
    timeline: Arc<Timeline>,
    entries: Vec<MeasurementEntry>,
    /// By view; a single one holds for all views.
    views: Vec<Readings>,
}

/// `[row, entry]` each.
#[derive(Clone, Default)]
struct Readings {
    values: Vec<f32>,
    weights: Vec<f32>,
}

impl MeasurementTable {
    /// Flow at each loop. Its variance, that of a count at one place within 10 s as a link's mean flow,
    /// is estimated by half the mean square of what neighbouring steps of the training part differ by:
    /// a link's mean is one over a time about as long.
    pub fn loop_flows(loops: &LoopData, training: &RangeInclusive<Step>) -> Self {
        Self::weighted_loop_flows(loops, &Self::loop_flow_weights(loops, training))
    }

    /// One over the variance of each loop's flow, as [`loop_flows`](Self::loop_flows) finds it.
    pub(crate) fn loop_flow_weights(loops: &LoopData, training: &RangeInclusive<Step>) -> Vec<f64> {
        let timeline = loops.timeline();
        let flow = |step, at| loop_flow(loops, step, at);
        let weight = |at: usize| {
            let (mut sum, mut count) = (0.0, 0.0);
            let steps: Vec<Step> =
                timeline.steps().filter(|step| training.contains(step)).collect();
            for pair in steps.windows(2).filter(|pair| pair[0].0 + 1 == pair[1].0) {
                if let (Some(one), Some(next)) = (flow(pair[0], at), flow(pair[1], at)) {
                    sum += (next - one).powi(2);
                    count += 1.0;
                }
            }
            if sum > 0.0 { 2.0 * count / sum } else { 0.0 }
        };
        (0..timeline.network().loops().len()).map(weight).collect()
    }

    /// Flow at each loop, with these weights.
    pub(crate) fn weighted_loop_flows(loops: &LoopData, weights: &[f64]) -> Self {
        let timeline = Arc::clone(loops.timeline());
        let entries = timeline.network().loops().iter();
        let entries =
            entries.map(|l| MeasurementEntry { link: l.link, quantity: Quantity::Flow }).collect();
        Self::filled(&timeline, entries, |step, at, _| {
            loop_flow(loops, step, at).map(|flow| (flow, weights[at]))
        })
    }

    /// Mean speed of a fleet's vehicles on each link. Weights grow with the time that they spent there:
    /// then the expected best answer is distance over time of all vehicles, which a mean of speeds
    /// is not.
    ///
    /// A fleet that is all of its dataset does not know its share of all vehicles: its speeds are trusted as if that were small.
    pub fn fleet_speeds(fleet: &FleetData) -> Self {
        let timeline = fleet.timeline();
        let unseen = match fleet.rate() {
            rate if rate < 1.0 => (1.0 - rate).max(LEAST_UNSEEN),
            _ => 1.0,
        };
        let each = 1.0 / (SPEED_DEVIATION.powi(2) * unseen * timeline.step().get());
        Self::filled(timeline, each_link(timeline, &[Quantity::Speed]), |step, _, entry| {
            let weight = each * fleet.totals(step, entry.link).time.get();
            fleet.speed(step, entry.link).map(|speed| (speed.get(), weight))
        })
    }

    /// The usual flow of each link in every step: what fleets of this share of all vehicles passed in some steps, those of
    /// the training part, over their share. One number of each link leaves the guests.
    ///
    /// Speeds are ratios: twice the density and twice the flow have the same. Two loops tell how much traffic there is on
    /// two links, and on the others a loss of speeds and a traffic model is least where there is nearly none.
    pub fn usual_flows(
        timeline: &Arc<Timeline>,
        fleets: &[FleetData],
        rate: f64,
        steps: &RangeInclusive<Step>,
    ) -> Self {
        let held: Vec<Step> = timeline.steps().filter(|step| steps.contains(step)).collect();
        let usual = |link: LinkId| {
            let of_fleet = |fleet: &FleetData| -> f64 {
                let flows = held.iter().map(|&step| fleet.scaled_up(step, link).flow.get());
                fleet.rate() * flows.sum::<f64>()
            };
            fleets.iter().map(of_fleet).sum::<f64>() / (rate * held.len().max(1) as f64)
        };
        let usual: Vec<f64> = timeline.network().link_ids().map(usual).collect();
        let weight = 1.0 / USUAL_FLOW_DEVIATION.powi(2);
        Self::filled(timeline, each_link(timeline, &[Quantity::Flow]), |_, _, entry| {
            Some((usual[entry.link.index()], weight))
        })
    }

    /// Density of each link by queue profiles, with the variances that these tell.
    pub fn queue_densities(queues: &QueueStates) -> Self {
        let timeline = queues.timeline();
        Self::filled(timeline, each_link(timeline, &[Quantity::Density]), |step, _, entry| {
            let queue = queues.state(step, entry.link);
            Some((queue.state.density.get(), 1.0 / queue.density_variance))
        })
    }

    /// The same with nothing where a party does not want to say anything.
    pub fn restricted(mut self, keep: impl Fn(Step, LinkId) -> bool) -> Self {
        for view in &mut self.views {
            let places = self
                .timeline
                .steps()
                .flat_map(|step| self.entries.iter().map(move |entry| (step, entry.link)));
            let numbers = view.values.iter_mut().zip(&mut view.weights);
            for ((step, link), (value, weight)) in places.zip(numbers) {
                if !keep(step, link) {
                    (*value, *weight) = (0.0, 0.0);
                }
            }
        }
        self
    }

    /// Mean speeds by totals that carry noise of these deviations by link, of time and of distance, where at least so
    /// many vehicles are seen. What noise does to them is part of their variance, to first order.
    pub fn noised_speeds(
        fleet: &FleetData,
        deviations: impl Fn(LinkId) -> [f64; 2],
        least: f64,
    ) -> Self {
        let timeline = fleet.timeline();
        let (unseen, step_s) = ((1.0 - fleet.rate()).max(LEAST_UNSEEN), timeline.step().get());
        Self::filled(timeline, each_link(timeline, &[Quantity::Speed]), |step, _, entry| {
            let totals = fleet.totals(step, entry.link);
            let (spent, driven) = (totals.time.get(), totals.distance.get());
            if spent < least * step_s || spent <= 0.0 {
                return None;
            }
            let [time, distance] = deviations(entry.link);
            let speed = (driven / spent).clamp(0.0, FASTEST);
            let sampled = SPEED_DEVIATION.powi(2) * unseen * step_s / spent;
            let noised = (distance.powi(2) + (speed * time).powi(2)) / spent.powi(2);
            Some((speed, 1.0 / (sampled + noised)))
        })
    }

    /// Densities of each link, with a variance of the link.
    pub fn densities(
        timeline: &Arc<Timeline>,
        variance: impl Fn(LinkId) -> f64,
        density: impl Fn(Step, LinkId) -> f64,
    ) -> Self {
        Self::filled(timeline, each_link(timeline, &[Quantity::Density]), |step, _, entry| {
            Some((density(step, entry.link), 1.0 / variance(entry.link)))
        })
    }

    /// Values and weights by step, number of the entry and entry; nothing where nothing is measured.
    pub(crate) fn filled(
        timeline: &Arc<Timeline>,
        entries: Vec<MeasurementEntry>,
        read: impl Fn(Step, usize, MeasurementEntry) -> Option<(f64, f64)>,
    ) -> Self {
        let mut readings = Readings::default();
        for step in timeline.steps() {
            for (at, &entry) in entries.iter().enumerate() {
                let (value, weight) = read(step, at, entry).unwrap_or_default();
                readings.values.push(value as f32);
                readings.weights.push(weight as f32);
            }
        }
        Self { timeline: Arc::clone(timeline), entries, views: vec![readings] }
    }

    /// One table for each view without a fold, and nothing for whole fleets.
    pub(crate) fn of_views(tables: Vec<Self>) -> Option<Self> {
        let first = tables.first()?;
        let (timeline, entries) = (Arc::clone(&first.timeline), first.entries.clone());
        let none = vec![0.0; first.views[0].values.len()];
        let none = Readings { values: none.clone(), weights: none };
        let each = tables.into_iter().flat_map(|table| table.views.into_iter().take(1));
        Some(Self { timeline, entries, views: [none].into_iter().chain(each).collect() })
    }

    /// The same with other weights: as if errors were `1/√share` times as large.
    pub fn trusted(mut self, share: f64) -> Self {
        let weights = self.views.iter_mut().flat_map(|view| &mut view.weights);
        weights.for_each(|weight| *weight = (f64::from(*weight) * share) as f32);
        self
    }

    /// One party's measurements of two kinds, in the same steps.
    pub fn beside(self, other: Self) -> Self {
        let views = self.views.len().max(other.views.len());
        let of = |table: &Self, view: usize| table.views[view.min(table.views.len() - 1)].clone();
        let joined = (0..views).map(|view| {
            let (one, two) = (of(&self, view), of(&other, view));
            let join = |a: &[f32], b: &[f32]| -> Vec<f32> {
                let rows =
                    a.chunks(self.entries.len().max(1)).zip(b.chunks(other.entries.len().max(1)));
                rows.flat_map(|(a, b)| [a, b].concat()).collect()
            };
            let values = join(&one.values, &two.values);
            Readings { values, weights: join(&one.weights, &two.weights) }
        });
        let views = joined.collect();
        let entries = [&self.entries[..], &other.entries[..]].concat();
        Self { timeline: self.timeline, entries, views }
    }

    /// Values of a step, each with its weight.
    pub(crate) fn of_step(&self, step: Step) -> impl Iterator<Item = (f64, f64)> {
        let (each, row) = (self.entries.len(), self.timeline.row(step));
        let readings = self.view(FleetView::WHOLE);
        let numbers = readings.values.iter().zip(&readings.weights).skip(row * each).take(each);
        numbers.map(|(value, weight)| (f64::from(*value), f64::from(*weight)))
    }

    fn view(&self, view: FleetView) -> &Readings {
        let at = if self.views.len() == 1 { 0 } else { usize::from(view.0) };
        &self.views[at.min(self.views.len() - 1)]
    }
}

impl MeasurementSource for MeasurementTable {
    fn entries(&self) -> &[MeasurementEntry] {
        &self.entries
    }

    fn write(&self, sample: Window, values: &mut [f32], weights: &mut [f32]) {
        let each = self.entries.len();
        let from = self.timeline.row(sample.last) * each;
        let readings = self.view(sample.view);
        values.copy_from_slice(&readings.values[from..from + each]);
        weights.copy_from_slice(&readings.weights[from..from + each]);
    }
}

/// Some quantities of all links, link by link.
pub(crate) fn each_link(timeline: &Timeline, quantities: &[Quantity]) -> Vec<MeasurementEntry> {
    let of =
        |link: LinkId| quantities.iter().map(move |&quantity| MeasurementEntry { link, quantity });
    timeline.network().link_ids().flat_map(of).collect()
}

/// What a loop counted in a step as flow, veh/min/lane; none where it did not report.
fn loop_flow(loops: &LoopData, step: Step, at: usize) -> Option<f64> {
    let timeline = loops.timeline();
    let network = timeline.network();
    let lanes = f64::from(network.link(network.loops()[at].link).lanes);
    loops.counts(step)[at].map(|count| count * 60.0 / (timeline.step().get() * lanes))
}
