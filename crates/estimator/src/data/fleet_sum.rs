//! Fleets as rows of numbers that add up over guests.
//!
//! Time and distance are additive (Edie): the sum of the guests' totals is the totals of the joined fleet. One row per step:
//!
//! | columns | unit | which |
//! |---|---|---|
//! | per fold and link: time, distance | s, m | always |
//! | per fold, link, sub-step and cell: times, then distances | s, m | with [`cells`](SumColumns::cells) |
//! | turns made by turn, trips ended by link | vehicles | with [`movements`](SumColumns::movements) |
//! | per link: w·ρ and w, density by queue profiles and one over its variance | | with [`queues`](SumColumns::queues) |
//! | the guest's penetration rate | | always |
//! | its usual traffic: vehicles at a time, mean of the training part | vehicles | always |
//!
//! Speeds, scale-up and inputs are made of the sum. The last column tells which share of the joined fleet is in the sum of a
//! step: where a guest is absent, totals are scaled up by it, so that an absent guest costs no more than its data.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use sensing::{FeatureTable, FleetFeatures, MovementTable};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkId, Metres, Network, Quantity, Seconds, Step, Totals, TurnId};

use crate::data::measurement_table::{MeasurementTable, each_link};
use crate::data::sources::FleetData;
use crate::data::timeline::{StepSpec, Timeline};

/// Which numbers are summed besides totals of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumColumns {
    /// Totals of cells and sub-steps.
    pub cells: bool,
    /// Turns and ends of trips.
    pub movements: bool,
    /// Densities by queue profiles.
    pub queues: bool,
}

/// Why fleets cannot be summed.
#[derive(Debug, Error, PartialEq)]
pub enum FleetSumError {
    /// No fleet.
    #[error("fleets of a guest: found none, expected one or its folds")]
    NoFleet,
    /// Other folds, or other numbers of a cell.
    #[error("{what} of fleet `{fleet}`: found {found}, expected {expected}")]
    Shape {
        /// What differs.
        what: &'static str,
        /// The fleet.
        fleet: String,
        /// Of this fleet.
        found: usize,
        /// Of the others.
        expected: usize,
    },
    /// Densities by queue profiles are summed, and this guest has none.
    #[error("queue densities of fleet `{0}`: found none, expected one for each link")]
    NoQueues(String),
    /// A row of another length.
    #[error("sum of step {step}: found {found} numbers, expected {expected}")]
    Width {
        /// The step.
        step: i64,
        /// In the row.
        found: usize,
        /// By the layout.
        expected: usize,
    },
    /// A number that no sum of fleets has.
    #[error(
        "sum of step {step}: found {found} at place {place}, expected a finite number of 0 or more"
    )]
    Value {
        /// The step.
        step: i64,
        /// In the row.
        place: usize,
        /// The number.
        found: f64,
    },
    /// More or fewer steps.
    #[error("sum: found {found} steps, expected {expected}")]
    Steps {
        /// Summed.
        found: usize,
        /// Of the time line.
        expected: usize,
    },
}

/// The columns of a row, agreed by all guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumLayout {
    folds: usize,
    links: usize,
    /// Numbers of a cell block, 0 if cells are not summed.
    cells: usize,
    turns: usize,
    columns: SumColumns,
}

impl SumLayout {
    /// Of fleets in so many folds.
    pub fn new(timeline: &Timeline, folds: usize, columns: SumColumns) -> Self {
        let network = timeline.network();
        let [cells, sub_steps] = timeline.cell_shape();
        Self {
            folds,
            links: network.links().len(),
            // As in files, where a single cell has no columns.
            cells: if columns.cells && cells * sub_steps > 1 { cells * sub_steps } else { 0 },
            turns: network.turns().len(),
            columns,
        }
    }

    /// Which numbers are summed.
    pub fn columns(&self) -> SumColumns {
        self.columns
    }

    /// Time and distance of each link and, as a table has them, of its cells: those of a fold in a sum, scaled up to the whole.
    pub(crate) fn totals_of(
        &self,
        row: &[f64],
        fold: usize,
        whole: WholeFleet,
    ) -> (Vec<Totals>, Vec<f32>) {
        // Of the part that is there to the whole.
        let scale = match row[self.width() - 1] {
            there if there > 0.0 && there < whole.usual => whole.usual / there,
            _ => 1.0,
        };
        let each = self.links * (2 + 2 * self.cells);
        let (totals, cells) = row[fold * each..][..each].split_at(2 * self.links);
        let totals = totals.chunks_exact(2).map(|pair| Totals {
            time: Seconds::new(scale * pair[0].max(0.0)),
            distance: Metres::new(scale * pair[1].max(0.0)),
        });
        (totals.collect(), cells.iter().map(|total| (scale * total) as f32).collect())
    }

    /// Numbers of a link's cells and sub-steps, 0 if they are not summed.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        let each = self.folds * self.links * (2 + 2 * self.cells);
        let movements = if self.columns.movements { self.turns + self.links } else { 0 };
        let queues = if self.columns.queues { 2 * self.links } else { 0 };
        each + movements + queues + 2
    }
}

/// What one guest adds.
pub struct FleetRows {
    layout: SumLayout,
    folds: Vec<FleetData>,
    /// Turns by number, then ends by link.
    movements: BTreeMap<Step, Vec<(usize, u32)>>,
    queues: Option<MeasurementTable>,
    rate: f64,
    usual: f64,
}

impl FleetRows {
    /// Of a fleet, or its folds, that hold the same steps.
    pub fn new(
        layout: SumLayout,
        folds: Vec<FleetData>,
        queues: Option<MeasurementTable>,
        training: &RangeInclusive<Step>,
    ) -> Result<Self, FleetSumError> {
        let name = folds.first().ok_or(FleetSumError::NoFleet)?.name().to_owned();
        let other = |what, found, expected| {
            Err(FleetSumError::Shape { what, fleet: name.clone(), found, expected })
        };
        if folds.len() != layout.folds {
            return other("folds", folds.len(), layout.folds);
        }
        let found = folds[0].table().cell_count;
        if layout.columns.cells && found != layout.cells {
            return other("cells and sub-steps", found, layout.cells);
        }
        if layout.columns.queues && queues.is_none() {
            return Err(FleetSumError::NoQueues(name));
        }
        let mut movements: BTreeMap<Step, Vec<(usize, u32)>> = BTreeMap::new();
        for fold in folds.iter().filter(|_| layout.columns.movements) {
            let MovementTable { turns, ends } = fold.movements();
            let turns = turns.iter().map(|&(step, turn, count)| (step, turn.index(), count));
            let of_link = |link: LinkId| layout.turns + link.index();
            let ends = ends.iter().map(|&(step, link, count)| (step, of_link(link), count));
            for (step, place, count) in turns.chain(ends) {
                movements.entry(step).or_default().push((place, count));
            }
        }
        let timeline = folds[0].timeline();
        let (mut time, mut steps) = (Seconds::ZERO, 0.0);
        for step in timeline.steps().filter(|step| training.contains(step)) {
            steps += 1.0;
            for (fold, link) in
                folds.iter().flat_map(|fold| timeline.network().link_ids().map(move |l| (fold, l)))
            {
                time += fold.totals(step, link).time;
            }
        }
        let usual = if steps > 0.0 { time / timeline.step() / steps } else { 0.0 };
        let rate = folds.iter().map(FleetData::rate).sum::<f64>().min(1.0);
        Ok(Self { layout, folds, movements, queues, rate, usual })
    }

    /// Of a fleet, live: rows of links and cells alone, whose last columns its training has found.
    pub fn live(
        network: Arc<Network>,
        steps: &StepSpec,
        columns: SumColumns,
        (rate, usual): (f64, f64),
    ) -> Self {
        let columns = SumColumns { cells: columns.cells, ..SumColumns::default() };
        let timeline = Arc::new(Timeline::live(network, steps));
        let layout = SumLayout::new(&timeline, 1, columns);
        let table = FeatureTable::live(layout.links, layout.cells);
        let folds = vec![FleetData::live(timeline, String::new(), rate, table)];
        Self { layout, folds, movements: BTreeMap::new(), queues: None, rate, usual }
    }

    /// The row of a step that has just come in.
    pub fn row_of(&mut self, step: Step, features: &FleetFeatures) -> Vec<f64> {
        let mut row = Vec::with_capacity(self.layout.width());
        if let [fleet] = &mut self.folds[..] {
            let table = fleet.table_mut();
            table.push(step, features, 1);
            let held = table.held.clone();
            fleet.hold(held);
            self.write(step, &mut row);
        }
        row
    }

    /// Its penetration rate, and its usual traffic.
    pub fn size(&self) -> (f64, f64) {
        (self.rate, self.usual)
    }

    /// Its columns.
    pub fn layout(&self) -> SumLayout {
        self.layout
    }

    /// Writes the row of a step that is held.
    pub fn write(&self, step: Step, to: &mut Vec<f64>) {
        let begin = to.len();
        let links = || self.folds[0].timeline().network().link_ids();
        for fold in &self.folds {
            for link in links() {
                let totals = fold.totals(step, link);
                to.extend([totals.time.get(), totals.distance.get()]);
            }
            if self.layout.cells > 0 {
                to.extend(fold.cells_of_step(step).iter().map(|&total| f64::from(total)));
            }
        }
        if self.layout.columns.movements {
            let from = to.len();
            to.resize(from + self.layout.turns + self.layout.links, 0.0);
            for &(place, count) in self.movements.get(&step).into_iter().flatten() {
                to[from + place] += f64::from(count);
            }
        }
        if let Some(queues) = self.queues.as_ref().filter(|_| self.layout.columns.queues) {
            let readings = queues.of_step(step);
            to.extend(readings.flat_map(|(density, weight)| [weight * density, weight]));
        }
        to.extend([self.rate, self.usual]);
        debug_assert_eq!(to.len() - begin, self.layout.width());
    }
}

/// The sum over guests, step by step.
pub struct FleetSum {
    layout: SumLayout,
    timeline: Arc<Timeline>,
    rows: Vec<f64>,
    /// Guests have added noise: totals may be below 0.
    noised: bool,
}

/// Fleets made of a sum: one, or its folds, with what queue profiles measure if that was summed.
pub struct SummedFleets {
    /// One fleet or its folds.
    pub fleets: Vec<FleetData>,
    /// Densities by queue profiles.
    pub queues: Option<MeasurementTable>,
    /// What all guests have together.
    pub whole: WholeFleet,
}

/// What all guests have together: sums of which some are absent are scaled up to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeFleet {
    /// Penetration rate; 1 of fleets that do not know it.
    pub rate: f64,
    /// Usual traffic: vehicles at a time, mean of the training part.
    pub usual: f64,
}

impl FleetSum {
    /// Before the first step.
    pub fn new(layout: SumLayout, timeline: &Arc<Timeline>) -> Self {
        Self { layout, timeline: Arc::clone(timeline), rows: Vec::new(), noised: false }
    }

    /// The same of totals with noise whose mean is 0: what is below 0 in the sum counts as 0.
    pub fn with_noise(self) -> Self {
        Self { noised: true, ..self }
    }

    /// Adds the sum of the next step that the time line holds.
    pub fn push(&mut self, row: &[f64]) -> Result<(), FleetSumError> {
        let width = self.layout.width();
        let step = || {
            let step = self.timeline.steps().nth(self.rows.len() / width);
            step.map_or(i64::MAX, |step| step.0)
        };
        if row.len() != width {
            return Err(FleetSumError::Width { step: step(), found: row.len(), expected: width });
        }
        let is_wrong = |number: &f64| !number.is_finite() || (*number < 0.0 && !self.noised);
        if let Some(place) = row.iter().position(is_wrong) {
            return Err(FleetSumError::Value { step: step(), place, found: row[place] });
        }
        self.rows.extend_from_slice(row);
        Ok(())
    }

    /// The fleets, of the rate that all guests have together. `whole`: what they have, if that is known; else it is that of
    /// the step in which most of them were there.
    pub fn finish(
        self,
        name: &str,
        whole: Option<WholeFleet>,
    ) -> Result<SummedFleets, FleetSumError> {
        let Self { layout, timeline, rows, .. } = self;
        let width = layout.width();
        let (found, expected) = (rows.len() / width, timeline.steps().count());
        if found != expected {
            return Err(FleetSumError::Steps { found, expected });
        }
        let most = |column: usize| rows.chunks(width).map(|row| row[column]).fold(0.0, f64::max);
        let whole = whole.unwrap_or_else(|| WholeFleet {
            rate: Some(most(width - 2))
                .filter(|rate| *rate > 0.0)
                .map_or(1.0, |rate| rate.min(1.0)),
            usual: most(width - 1),
        });
        let (links, cells) = (layout.links, layout.cells);
        let table = |fold: usize| {
            let mut table = FeatureTable::live(links, cells);
            table.held = timeline.held().clone();
            table.vehicles = vec![0; expected * links];
            for row in rows.chunks(width) {
                let (totals, cells) = layout.totals_of(row, fold, whole);
                table.totals.extend(totals);
                table.cells.extend(cells);
            }
            table
        };
        let movements = if layout.columns.movements {
            movements(layout, &timeline, &rows)
        } else {
            MovementTable::default()
        };
        let named = |fold: usize| match layout.folds {
            1 => name.to_owned(),
            folds => sensing::part_name(name, fold + 1, folds),
        };
        let fleets = (0..layout.folds).map(|fold| {
            // They count once, whatever the folds.
            let movements = if fold == 0 { movements.clone() } else { MovementTable::default() };
            let rate = whole.rate / layout.folds as f64;
            FleetData::of_tables(&timeline, named(fold), rate, table(fold), movements)
        });
        let queues = layout.columns.queues.then(|| {
            let entries = each_link(&timeline, &[Quantity::Density]);
            MeasurementTable::filled(&timeline, entries, |step, at, _| {
                let from = timeline.row(step) * width + width - 2 - 2 * links + 2 * at;
                let (weighted, weight) = (rows[from], rows[from + 1]);
                (weight > 0.0).then(|| (weighted / weight, weight))
            })
        });
        Ok(SummedFleets { fleets: fleets.collect(), queues, whole })
    }
}

/// Counts of all steps as a fleet has them.
fn movements(layout: SumLayout, timeline: &Timeline, rows: &[f64]) -> MovementTable {
    let mut table = MovementTable::default();
    let from = layout.folds * layout.links * (2 + 2 * layout.cells);
    for (step, row) in timeline.steps().zip(rows.chunks(layout.width())) {
        let (turns, ends) = row[from..][..layout.turns + layout.links].split_at(layout.turns);
        let some = |counts: &[f64]| -> Vec<(u32, u32)> {
            let counts = (0_u32..).zip(counts.iter().map(|count| count.round() as u32));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        table.turns.extend(some(turns).into_iter().map(|(turn, n)| (step, TurnId(turn), n)));
        table.ends.extend(some(ends).into_iter().map(|(link, n)| (step, LinkId(link), n)));
    }
    table
}
