//! What single parties see: the host its loops, a guest its fleet.
//!
//! Each reads its own table beside the network and the features' manifest, and needs no file of
//! another party.
//!
//! Fleet features are in *scale-up units*: the fleet's totals over `L·lanes·Δt·p` are density and
//! flow as the fleet alone would estimate them, comparable between links.

use std::path::Path;
use std::sync::Arc;

use sensing::{FeatureTable, Features, FeaturesError, HeldSteps, LoopTable, MovementTable};
use traffic::{LinkId, LinkState, MetresPerSecond, Step, Totals};

use crate::artifact::record::GuestRecord;
use crate::data::timeline::Timeline;

/// The host's loops.
#[derive(Clone, Debug)]
pub struct LoopData {
    timeline: Arc<Timeline>,
    table: LoopTable,
}

/// A guest's fleet.
#[derive(Clone, Debug)]
pub struct FleetData {
    timeline: Arc<Timeline>,
    name: String,
    rate: f64,
    table: FeatureTable,
    movements: MovementTable,
    /// Where its share is not the same everywhere.
    local: Option<Arc<LocalShares>>,
}

impl LoopData {
    /// Without steps yet.
    pub(crate) fn live(timeline: Arc<Timeline>, table: LoopTable) -> Self {
        Self { timeline, table }
    }

    pub(crate) fn table_mut(&mut self) -> &mut LoopTable {
        &mut self.table
    }

    /// Says which steps the table holds now.
    pub(crate) fn hold(&mut self, held: HeldSteps) {
        self.timeline = Arc::new(self.timeline.holding(held));
    }

    /// Reads the loops of a features folder.
    pub fn open(folder: &Path) -> Result<Self, FeaturesError> {
        let (timeline, features) = Timeline::read(folder)?;
        Self::read(Arc::new(timeline), &features)
    }

    pub(crate) fn read(
        timeline: Arc<Timeline>,
        features: &Features,
    ) -> Result<Self, FeaturesError> {
        let table = features.loops(timeline.network().loops().len())?;
        Ok(Self { timeline, table })
    }

    /// The same in some of the steps, given by their rows.
    pub(crate) fn of_rows(&self, timeline: &Arc<Timeline>, rows: &[usize]) -> Self {
        let detectors = self.table.detectors;
        let of_row = |&row: &usize| self.table.counts[row * detectors..][..detectors].iter();
        let counts = rows.iter().flat_map(of_row).copied().collect();
        Self { timeline: Arc::clone(timeline), table: LoopTable { detectors, counts } }
    }

    /// The steps it holds.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// Names of the loops.
    pub fn names(&self) -> Vec<String> {
        self.timeline.network().loops().iter().map(|detector| detector.name.clone()).collect()
    }

    /// What each loop counted in a step; none where it did not report.
    pub fn counts(&self, step: Step) -> &[Option<f64>] {
        let detectors = self.table.detectors;
        &self.table.counts[self.timeline.row(step) * detectors..][..detectors]
    }
}

impl FleetData {
    /// Without steps yet.
    pub(crate) fn live(
        timeline: Arc<Timeline>,
        name: String,
        rate: f64,
        table: FeatureTable,
    ) -> Self {
        Self { timeline, name, rate, table, movements: MovementTable::default(), local: None }
    }

    /// Of numbers that were not read from a dataset.
    pub(crate) fn of_tables(
        timeline: &Arc<Timeline>,
        name: String,
        rate: f64,
        table: FeatureTable,
        movements: MovementTable,
    ) -> Self {
        Self { timeline: Arc::clone(timeline), name, rate, table, movements, local: None }
    }

    pub(crate) fn table(&self) -> &FeatureTable {
        &self.table
    }

    pub(crate) fn table_mut(&mut self) -> &mut FeatureTable {
        &mut self.table
    }

    /// Says which steps the table holds now.
    pub(crate) fn hold(&mut self, held: HeldSteps) {
        self.timeline = Arc::new(self.timeline.holding(held));
    }

    /// Reads one fleet of a features folder.
    pub fn open(folder: &Path, fleet: &str) -> Result<Self, FeaturesError> {
        let (timeline, features) = Timeline::read(folder)?;
        Self::read(Arc::new(timeline), &features, fleet)
    }

    pub(crate) fn read(
        timeline: Arc<Timeline>,
        features: &Features,
        fleet: &str,
    ) -> Result<Self, FeaturesError> {
        let table = features.fleet(fleet)?;
        let fleets = &features.manifest().fleets;
        let rate = fleets.iter().find(|entry| entry.name == fleet).map_or(1.0, |entry| entry.rate);
        let movements = features.movements(fleet, timeline.network())?;
        Ok(Self { timeline, name: fleet.to_owned(), rate, table, movements, local: None })
    }

    /// The fleet of a guest's record, for its model: one fleet or its folds as one. A fleet that did not know its share
    /// when it was trained does not know it now.
    pub fn open_for(folder: &Path, record: &GuestRecord) -> Result<Self, FeaturesError> {
        let parts = record.fleets.iter().map(|fleet| Self::open(folder, fleet));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let fleet = Self::union(&parts).ok_or_else(|| FeaturesError::NoFleet {
            path: folder.to_owned(),
            found: String::new(),
            expected: "one fleet or its folds".into(),
        })?;
        let rate = if record.rate == 1.0 { 1.0 } else { fleet.rate };
        Ok(Self { rate, ..fleet })
    }

    /// Fleets that have no vehicle in common and hold the same steps, as one of the rate that they have together; none of
    /// no fleets.
    pub(crate) fn union(fleets: &[Self]) -> Option<Self> {
        let [one] = fleets else {
            let all: Vec<&Self> = fleets.iter().collect();
            let rate = fleets.iter().map(Self::rate).sum::<f64>().min(1.0);
            return Self::together(&all, fleets.first()?.name(), rate);
        };
        Some(one.clone())
    }

    /// Fleets that have no vehicle in common and hold the same steps, as one of this rate; none of
    /// no fleets.
    pub(crate) fn together(fleets: &[&Self], name: &str, rate: f64) -> Option<Self> {
        let (first, others) = fleets.split_first()?;
        let (timeline, mut table) = (Arc::clone(&first.timeline), first.table.clone());
        let mut movements = first.movements.clone();
        for other in others {
            table.totals.iter_mut().zip(&other.table.totals).for_each(|(sum, own)| *sum += *own);
            let vehicles = table.vehicles.iter_mut().zip(&other.table.vehicles);
            vehicles.for_each(|(sum, own)| *sum += own);
            table.cells.iter_mut().zip(&other.table.cells).for_each(|(sum, own)| *sum += own);
            movements.turns.extend_from_slice(&other.movements.turns);
            movements.ends.extend_from_slice(&other.movements.ends);
        }
        Some(Self { timeline, name: name.to_owned(), rate, table, movements, local: None })
    }

    /// The same fleet, scaled up by shares that differ by link and step.
    pub(crate) fn shared_as(self, local: Option<&Arc<LocalShares>>) -> Self {
        Self { local: local.cloned(), ..self }
    }

    /// Its totals, step by step and in each link by link.
    pub fn all_totals(&self) -> &[Totals] {
        &self.table.totals
    }

    /// The same fleet with other totals, as many, and nothing else of it: no cells, no vehicles counted, no
    /// movements.
    pub fn with_totals(&self, totals: Vec<Totals>) -> Self {
        let mut other = self.clone();
        other.table.vehicles.fill(0);
        other.table.cells.fill(0.0);
        other.movements = MovementTable::default();
        for (own, totals) in other.table.totals.iter_mut().zip(totals) {
            *own = totals;
        }
        other
    }

    /// The steps it holds.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// Whether a vehicle of it is seen on any link in some steps.
    pub(crate) fn is_seen_in(&self, steps: &std::ops::RangeInclusive<Step>) -> bool {
        self.links_seen_in(steps).any(|seen| seen)
    }

    /// Of each link, whether a vehicle of it is seen there in some steps.
    pub fn links_seen_in(
        &self,
        steps: &std::ops::RangeInclusive<Step>,
    ) -> impl Iterator<Item = bool> {
        let held: Vec<Step> = self.timeline.steps().filter(|step| steps.contains(step)).collect();
        let links = self.timeline.network().link_ids();
        links.map(move |link| held.iter().any(|&step| self.totals(step, link).time.get() > 0.0))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its penetration rate.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The fleet's totals on a link in a step.
    pub fn totals(&self, step: Step, link: LinkId) -> Totals {
        self.table.totals[self.at(step, link)]
    }

    /// The fleet's totals in the cells and sub-steps of all links in a step: of each link times, then distances.
    pub(crate) fn cells_of_step(&self, step: Step) -> &[f32] {
        let each = 2 * self.table.cell_count * self.table.links;
        &self.table.cells[self.timeline.row(step) * each..][..each]
    }

    /// The state of a link in a step as the fleet alone would estimate it.
    pub fn scaled_up(&self, step: Step, link: LinkId) -> LinkState {
        let network = self.timeline.network();
        let state = self.totals(step, link).state(network.link(link), self.timeline.step());
        let rate = self.rate_at(step, link);
        LinkState { density: state.density / rate, flow: state.flow / rate }
    }

    /// Its penetration rate on a link in a step.
    fn rate_at(&self, step: Step, link: LinkId) -> f64 {
        let factor = self.local.as_ref().map_or(1.0, |local| local.factor(step, link));
        (self.rate * factor).min(1.0)
    }

    /// What the fleet did at the ends of links.
    pub(crate) fn movements(&self) -> &MovementTable {
        &self.movements
    }

    /// Mean speed of the fleet on a link in a step; none where it had no vehicle.
    pub fn speed(&self, step: Step, link: LinkId) -> Option<MetresPerSecond> {
        self.totals(step, link).speed()
    }

    /// The fleet's totals in the cells and sub-steps of a link in a step, in scale-up units: all
    /// densities, then all flows.
    pub(crate) fn scaled_up_cells(
        &self,
        step: Step,
        link: LinkId,
    ) -> impl Iterator<Item = f64> + '_ {
        let count = self.table.cell_count;
        let at = self.at(step, link) * 2 * count;
        let length = self.timeline.network().link(link).lane_length().get();
        let boxes = length * self.timeline.step().get() / count as f64;
        let rate = self.rate_at(step, link);
        let cells = &self.table.cells[at..at + 2 * count];
        cells.iter().enumerate().map(move |(i, &total)| {
            let unit = if i < count { 1000.0 } else { 60.0 };
            f64::from(total) * unit / (boxes * rate)
        })
    }

    fn at(&self, step: Step, link: LinkId) -> usize {
        self.timeline.row(step) * self.table.links + link.index()
    }
}

/// A fleet's share of the traffic by link and step, relative to its mean share.
#[derive(Clone, Debug)]
pub struct LocalShares {
    timeline: Arc<Timeline>,
    links: usize,
    /// `[row, link]`
    factors: Vec<f32>,
}

impl LocalShares {
    /// Of all steps that a timeline holds, link by link.
    pub(crate) fn new(timeline: Arc<Timeline>, links: usize, factors: Vec<f32>) -> Self {
        Self { timeline, links, factors }
    }

    /// The local share over the mean one.
    pub fn factor(&self, step: Step, link: LinkId) -> f64 {
        f64::from(self.factors[self.timeline.row(step) * self.links + link.index()])
    }
}
