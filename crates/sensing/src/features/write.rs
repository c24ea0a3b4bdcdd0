//! Writing features, step by step.

use std::collections::VecDeque;
use std::path::Path;

use rayon::prelude::*;
use traffic::{LinkState, Network, Seconds, Step, Totals, VehPerKmLane, VehPerMinLane};

use super::loops::LoopSteps;
use crate::dataset::DatasetError;
use crate::extract::{FeaturePlan, FleetFeatures, StepFeatures};
use crate::table::{Column, ColumnKind, Packing, TableError, TableWriter};

/// Length of the trailing mean of the smooth targets, as the paper's labels were averaged.
pub(super) const SMOOTH: Seconds = Seconds::new(60.0);
/// Rows of the first row group: few enough that those of all columns stay in the cache, and that
/// writing soon begins.
const FEWEST_ROWS: usize = 1 << 13;
/// Rows of the largest.
const MOST_ROWS: usize = 1 << 17;

/// A table whose rows are gathered until they make a row group.
struct Rows {
    table: TableWriter,
    columns: Vec<Column>,
    written: usize,
}

impl Rows {
    fn create(path: &Path, columns: &[(&str, ColumnKind)]) -> Result<Self, TableError> {
        let table = TableWriter::create_packed(path, columns, Packing::Fast)?;
        let columns = columns.iter().map(|&(_, kind)| Column::new(kind)).collect();
        Ok(Self { table, columns, written: 0 })
    }

    /// Whether there are enough rows for a group. Groups grow with the table: a long one of many
    /// small groups would be slow to open.
    fn is_full(&self) -> bool {
        self.columns[0].len() >= (self.written / 8).clamp(FEWEST_ROWS, MOST_ROWS)
    }

    fn flush(&mut self) -> Result<(), TableError> {
        if self.columns[0].is_empty() {
            return Ok(());
        }
        self.table.write(&self.columns)?;
        self.written += self.columns[0].len();
        self.columns.iter_mut().for_each(Column::clear);
        Ok(())
    }

    fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        self.table.finish()
    }

    fn i64(&mut self, column: usize, value: i64) {
        if let Column::I64(values) = &mut self.columns[column] {
            values.push(value);
        }
    }

    fn i32(&mut self, column: usize, value: u32) {
        if let Column::I32(values) = &mut self.columns[column] {
            values.push(value as i32);
        }
    }

    fn f64(&mut self, column: usize, value: f64) {
        match &mut self.columns[column] {
            Column::F64(values) => values.push(value),
            Column::F32(values) => values.push(value as f32),
            _ => {}
        }
    }

    fn optional(&mut self, column: usize, value: Option<f64>) {
        if let Column::OptionalF64(values) = &mut self.columns[column] {
            values.push(value);
        }
    }
}

/// The three tables of one fleet, or of all vehicles.
struct FleetRows {
    boxes: Rows,
    turns: Rows,
    trips: Rows,
    with_squares: bool,
}

/// Names of the columns for cells and sub-steps.
pub(super) fn cell_columns(cells: usize, sub_steps: usize) -> Vec<String> {
    let mut names = Vec::new();
    if cells * sub_steps > 1 {
        for what in ["time", "distance"] {
            for sub_step in 0..sub_steps {
                for cell in 0..cells {
                    names.push(format!("{what}_c{cell}s{sub_step}"));
                }
            }
        }
    }
    names
}

impl FleetRows {
    fn create(
        folder: &Path,
        name: &str,
        plan: &FeaturePlan,
        with_squares: bool,
    ) -> Result<Self, TableError> {
        let mut columns = vec![
            ("step", ColumnKind::I64),
            ("link", ColumnKind::I32),
            ("travel_time_s", ColumnKind::F64),
            ("travel_distance_m", ColumnKind::F64),
            ("speed_m_s", ColumnKind::OptionalF64),
            ("vehicles", ColumnKind::I32),
        ];
        if with_squares {
            columns.extend([
                ("time_square_s2", ColumnKind::F64),
                ("distance_square_m2", ColumnKind::F64),
            ]);
        }
        let cells = cell_columns(plan.cells, plan.sub_steps);
        columns.extend(cells.iter().map(|name| (name.as_str(), ColumnKind::F32)));
        let turns =
            [("step", ColumnKind::I64), ("turn", ColumnKind::I32), ("count", ColumnKind::I32)];
        let trips = [
            ("step", ColumnKind::I64),
            ("origin", ColumnKind::I32),
            ("destination", ColumnKind::I32),
            ("count", ColumnKind::I32),
        ];
        Ok(Self {
            boxes: Rows::create(&folder.join(format!("{name}.parquet")), &columns)?,
            turns: Rows::create(&folder.join(format!("turns-{name}.parquet")), &turns)?,
            trips: Rows::create(&folder.join(format!("trips-{name}.parquet")), &trips)?,
            with_squares,
        })
    }

    fn step(&mut self, step: Step, features: &FleetFeatures, squares: &[[f64; 2]]) {
        let per_link = features.boxes.len() / features.vehicles.len().max(1);
        for (link, boxes) in features.boxes.chunks(per_link.max(1)).enumerate() {
            let mut totals = Totals::default();
            boxes.iter().for_each(|&piece| totals += piece);
            let rows = &mut self.boxes;
            rows.i64(0, step.0);
            rows.i32(1, link as u32);
            rows.f64(2, totals.time.get());
            rows.f64(3, totals.distance.get());
            rows.optional(4, totals.speed().map(|speed| speed.get()));
            rows.i32(5, features.vehicles[link]);
            let mut column = 6;
            if self.with_squares {
                rows.f64(6, squares[link][0]);
                rows.f64(7, squares[link][1]);
                column = 8;
            }
            if per_link > 1 {
                for (at, piece) in boxes.iter().enumerate() {
                    rows.f64(column + at, piece.time.get());
                    rows.f64(column + per_link + at, piece.distance.get());
                }
            }
        }
        for (turn, &count) in features.turns.iter().enumerate().filter(|&(_, &count)| count > 0) {
            self.turns.i64(0, step.0);
            self.turns.i32(1, turn as u32);
            self.turns.i32(2, count);
        }
        for &(origin, destination, count) in &features.trips {
            self.trips.i64(0, step.0);
            self.trips.i32(1, origin.0);
            self.trips.i32(2, destination.0);
            self.trips.i32(3, count);
        }
    }

    fn tables(&mut self) -> [&mut Rows; 3] {
        [&mut self.boxes, &mut self.turns, &mut self.trips]
    }

    fn into_tables(self) -> [Rows; 3] {
        [self.boxes, self.turns, self.trips]
    }
}

/// Writes all feature files of a dataset.
pub(super) struct FeatureWriter<'n> {
    network: &'n Network,
    step: Seconds,
    all: FleetRows,
    fleets: Vec<FleetRows>,
    loops: Rows,
    targets: Rows,
    /// The states of the steps before, for the trailing mean; empty at the start of a range.
    recent: VecDeque<Vec<LinkState>>,
    last_step: Option<Step>,
}

impl<'n> FeatureWriter<'n> {
    pub(super) fn create(
        folder: &Path,
        network: &'n Network,
        plan: &FeaturePlan,
    ) -> Result<Self, DatasetError> {
        let fleets = plan.fleets.all().iter();
        let fleets = fleets.map(|fleet| FleetRows::create(folder, &fleet.name, plan, false));
        let loops = [
            ("step", ColumnKind::I64),
            ("loop", ColumnKind::I32),
            ("count", ColumnKind::OptionalF64),
        ];
        let targets = [
            ("step", ColumnKind::I64),
            ("link", ColumnKind::I32),
            ("density", ColumnKind::F64),
            ("flow", ColumnKind::F64),
            ("density_smooth", ColumnKind::F64),
            ("flow_smooth", ColumnKind::F64),
        ];
        Ok(Self {
            network,
            step: plan.clock.length,
            all: FleetRows::create(folder, "all", plan, true)?,
            fleets: fleets.collect::<Result<_, _>>()?,
            loops: Rows::create(&folder.join("loops.parquet"), &loops)?,
            targets: Rows::create(&folder.join("targets.parquet"), &targets)?,
            recent: VecDeque::new(),
            last_step: None,
        })
    }

    pub(super) fn step(
        &mut self,
        features: &StepFeatures,
        sensors: Option<&LoopSteps>,
    ) -> Result<(), TableError> {
        let step = features.step;
        self.all.step(step, &features.all, &features.squares);
        for (rows, fleet) in self.fleets.iter_mut().zip(&features.fleets) {
            rows.step(step, fleet, &[]);
        }
        for (detector, &counted) in features.loops.iter().enumerate() {
            self.loops.i64(0, step.0);
            self.loops.i32(1, detector as u32);
            let count = match sensors {
                Some(steps) => steps.get(&step).and_then(|counts| counts[detector]),
                None => Some(counted),
            };
            self.loops.optional(2, count.map(f64::from));
        }
        self.targets_step(features);
        // The tables of fleets are full at the same time.
        let fleets = self.fleets.iter_mut().chain([&mut self.all]);
        let mut full: Vec<&mut Rows> = fleets.flat_map(FleetRows::tables).collect();
        full.extend([&mut self.targets, &mut self.loops]);
        full.retain(|rows| rows.is_full());
        if full.is_empty() {
            return Ok(());
        }
        full.into_par_iter().try_for_each(Rows::flush)
    }

    fn targets_step(&mut self, features: &StepFeatures) {
        if self.last_step.is_none_or(|last| last.0 + 1 != features.step.0) {
            self.recent.clear();
        }
        self.last_step = Some(features.step);
        let states = self
            .network
            .link_ids()
            .map(|id| features.all.link_totals(id).state(self.network.link(id), self.step));
        self.recent.push_back(states.collect());
        if self.recent.len() > smooth_steps(self.step) {
            self.recent.pop_front();
        }
        for link in 0..self.network.links().len() {
            let mean = trailing_mean(self.recent.iter().map(|states| states[link]));
            let raw = self.recent.back().map_or(LinkState::default(), |states| states[link]);
            self.targets.i64(0, features.step.0);
            self.targets.i32(1, link as u32);
            self.targets.f64(2, raw.density.get());
            self.targets.f64(3, raw.flow.get());
            self.targets.f64(4, mean.density.get());
            self.targets.f64(5, mean.flow.get());
        }
    }

    /// Completes all tables.
    pub(super) fn finish(self) -> Result<(), TableError> {
        let fleets = self.fleets.into_iter().chain([self.all]);
        let mut tables: Vec<Rows> = fleets.flat_map(FleetRows::into_tables).collect();
        tables.extend([self.targets, self.loops]);
        tables.into_par_iter().try_for_each(Rows::finish)
    }
}

/// Steps of the trailing mean; a step longer than that is its own mean.
pub(super) fn smooth_steps(step: Seconds) -> usize {
    ((SMOOTH / step).floor() as usize).max(1)
}

pub(super) fn trailing_mean(states: impl ExactSizeIterator<Item = LinkState>) -> LinkState {
    let count = states.len().max(1) as f64;
    let sum = states.fold(LinkState::default(), |sum, state| LinkState {
        density: sum.density + state.density,
        flow: sum.flow + state.flow,
    });
    LinkState {
        density: VehPerKmLane::new(sum.density.get() / count),
        flow: VehPerMinLane::new(sum.flow.get() / count),
    }
}
