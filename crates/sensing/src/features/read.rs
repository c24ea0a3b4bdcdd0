//! Reading features into memory.

use traffic::{LinkState, Metres, Network, Seconds, Step, Totals};

use super::write::{cell_columns, smooth_steps, trailing_mean};
use super::{Features, FeaturesError};
use crate::extract::FleetFeatures;
use crate::recordings::HeldSteps;
use crate::table::{Column, ColumnKind, TableReader};

const BATCH_ROWS: usize = 1 << 16;

/// One fleet's features, or the truth, for all stored steps.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureTable {
    /// The steps, in order; `[step]` below counts along these.
    pub held: HeldSteps,
    /// Number of links.
    pub links: usize,
    /// Numbers of a cell block: cells × sub-steps, 0 where cells were not made.
    pub cell_count: usize,
    /// `[step][link]`
    pub totals: Vec<Totals>,
    /// `[step][link]`: vehicles in the box.
    pub vehicles: Vec<u32>,
    /// `[step][link]`, of the truth only: Σ time² (s²) and Σ distance² (m²) over vehicles.
    pub squares: Vec<[f64; 2]>,
    /// `[step][link][sub-step][cell]`: seconds, then the same again in metres.
    pub cells: Vec<f32>,
}

impl FeatureTable {
    pub(super) fn read(features: &Features, name: &str) -> Result<Self, FeaturesError> {
        let path = features.folder.join(format!("{name}.parquet"));
        let manifest = &features.manifest;
        let cells = cell_columns(manifest.cells, manifest.sub_steps);
        let mut table = TableReader::open(&path)?;
        table.want("step", ColumnKind::I64)?;
        table.want("link", ColumnKind::I32)?;
        table.want("travel_time_s", ColumnKind::F64)?;
        table.want("travel_distance_m", ColumnKind::F64)?;
        table.want("vehicles", ColumnKind::I32)?;
        let with_squares = name == "all";
        if with_squares {
            table.want("time_square_s2", ColumnKind::F64)?;
            table.want("distance_square_m2", ColumnKind::F64)?;
        }
        for column in &cells {
            table.want(column, ColumnKind::F32)?;
        }
        let mut read = Self {
            held: manifest.held.clone(),
            links: features.links,
            cell_count: cells.len() / 2,
            totals: Vec::new(),
            vehicles: Vec::new(),
            squares: Vec::new(),
            cells: Vec::new(),
        };
        let mut steps = manifest.held.iter();
        let mut step = Step(0);
        let mut columns = Vec::new();
        while table.next_batch(BATCH_ROWS, &mut columns)? > 0 {
            let (fixed, rest) = columns.split_at(5);
            let [
                Column::I64(step_numbers),
                Column::I32(link_numbers),
                Column::F64(times),
                Column::F64(distances),
                Column::I32(vehicles),
            ] = fixed
            else {
                continue;
            };
            for row in 0..times.len() {
                let link = read.totals.len() % read.links;
                if link == 0 {
                    step = steps.next().unwrap_or(Step(i64::MIN));
                }
                let (time, distance) = (times[row], distances[row]);
                let sound = time >= 0.0 && distance >= 0.0 && (time + distance).is_finite();
                if step_numbers[row] != step.0 || link_numbers[row] != link as i32 || !sound {
                    return Err(FeaturesError::Mismatch {
                        path,
                        problem: format!(
                            "row {}: found step {}, link {}, time {time}, distance {distance}; expected step {}, link {link} and totals of 0 or more",
                            read.totals.len() + 1,
                            step_numbers[row],
                            link_numbers[row],
                            step.0
                        ),
                    });
                }
                read.totals
                    .push(Totals { time: Seconds::new(time), distance: Metres::new(distance) });
                read.vehicles.push(vehicles[row].max(0) as u32);
                let mut cell_columns = rest;
                if with_squares {
                    if let [Column::F64(t), Column::F64(d), ..] = rest {
                        read.squares.push([t[row], d[row]]);
                    }
                    cell_columns = &rest[2..];
                }
                for column in cell_columns {
                    if let Column::F32(values) = column {
                        read.cells.push(values[row]);
                    }
                }
            }
        }
        let expected = manifest.held.len() * features.links;
        if read.totals.len() != expected {
            return Err(FeaturesError::Mismatch {
                path,
                problem: format!("found {} rows, expected {expected}", read.totals.len()),
            });
        }
        Ok(read)
    }

    /// A table without steps yet, for those that come live.
    pub fn live(links: usize, cell_count: usize) -> Self {
        Self {
            held: HeldSteps::default(),
            links,
            cell_count,
            totals: Vec::new(),
            vehicles: Vec::new(),
            squares: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Adds the step after the last one, as it would be read from a file, and forgets the first if
    /// there are more than `most` then. Any other step begins the table anew.
    pub fn push(&mut self, step: Step, fleet: &FleetFeatures, most: usize) {
        self.push_with(step, most, |table| {
            let per_link = fleet.boxes.len() / table.links.max(1);
            for (boxes, &vehicles) in fleet.boxes.chunks(per_link.max(1)).zip(&fleet.vehicles) {
                let mut totals = Totals::default();
                boxes.iter().for_each(|&piece| totals += piece);
                table.totals.push(totals);
                table.vehicles.push(vehicles);
                if table.cell_count > 0 {
                    table.cells.extend(boxes.iter().map(|piece| piece.time.get() as f32));
                    table.cells.extend(boxes.iter().map(|piece| piece.distance.get() as f32));
                }
            }
        });
    }

    /// The same of totals of links, and of their cells as a table has them.
    pub fn push_totals(&mut self, step: Step, totals: &[Totals], cells: &[f32], most: usize) {
        self.push_with(step, most, |table| {
            table.totals.extend_from_slice(totals);
            table.vehicles.resize(table.totals.len(), 0);
            table.cells.extend_from_slice(cells);
        });
    }

    fn push_with(&mut self, step: Step, most: usize, add: impl FnOnce(&mut Self)) {
        let ranges = self.held.ranges();
        let range = ranges.first().filter(|range| range.last.0 + 1 == step.0).copied();
        if range.is_none() {
            *self = Self::live(self.links, self.cell_count);
        }
        let mut first = range.map_or(step, |range| range.first);
        add(self);
        if step.0 - first.0 + 1 > most as i64 {
            first = Step(first.0 + 1);
            self.totals.drain(..self.links);
            self.vehicles.drain(..self.links);
            self.cells.drain(..2 * self.cell_count * self.links);
        }
        self.held = HeldSteps::of_range(first, step);
    }

    /// Density and flow `[step][link]`.
    pub fn states(&self, network: &Network, step: Seconds) -> Vec<LinkState> {
        let links = network.links();
        self.totals
            .iter()
            .enumerate()
            .map(|(at, totals)| totals.state(&links[at % self.links], step))
            .collect()
    }

    /// Density and flow `[step][link]` as a trailing mean over 60 s; at the start of each range of
    /// steps over as many as there are.
    pub fn smooth_states(&self, network: &Network, step: Seconds) -> Vec<LinkState> {
        let raw = self.states(network, step);
        let window = smooth_steps(step);
        let mut smooth = Vec::with_capacity(raw.len());
        let mut start = 0;
        for range in self.held.ranges() {
            let length = (range.last.0 - range.first.0 + 1) as usize;
            for at in start..start + length {
                let first = (at + 1).saturating_sub(window).max(start);
                for link in 0..self.links {
                    let states = (first..at + 1).map(|step| raw[step * self.links + link]);
                    smooth.push(trailing_mean(states));
                }
            }
            start += length;
        }
        smooth
    }
}

/// What loops counted, for all stored steps.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopTable {
    /// Number of loops.
    pub detectors: usize,
    /// `[step][loop]`; none where the loop did not report.
    pub counts: Vec<Option<f64>>,
}

impl LoopTable {
    /// A table without steps yet, for those that come live.
    pub fn live(detectors: usize) -> Self {
        Self { detectors, counts: Vec::new() }
    }

    pub(super) fn read(features: &Features, detectors: usize) -> Result<Self, FeaturesError> {
        let path = features.folder.join("loops.parquet");
        let mut table = TableReader::open(&path)?;
        table.want("step", ColumnKind::I64)?;
        table.want("loop", ColumnKind::I32)?;
        table.want("count", ColumnKind::OptionalF64)?;
        let (mut counts, mut columns) = (Vec::new(), Vec::new());
        while table.next_batch(BATCH_ROWS, &mut columns)? > 0 {
            if let Column::OptionalF64(values) = &columns[2] {
                counts.extend_from_slice(values);
            }
        }
        let expected = features.manifest.held.len() * detectors;
        if counts.len() != expected {
            return Err(FeaturesError::Mismatch {
                path,
                problem: format!("found {} rows, expected {expected}", counts.len()),
            });
        }
        Ok(Self { detectors, counts })
    }
}
