//! What a neural estimator reads and is asked, as f32 in the order of its parts.
//!
//! Per step and link, or per step for the whole network:
//!
//! | part | `link` architecture | `paper` |
//! |---|---|---|
//! | host, whole network | loop counts and masks, signal clock | |
//! | host, each link | share of green at its end | loop count, 0 without a loop |
//! | guest, each link | see [`Party`]; each with a mask | the same, without masks of totals |
//!
//! Numbers are scaled by mean and deviation of the training part, pooled over links, so that links
//! stay comparable. Masks, clock and green are left as they are.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkId, Movement, Network, Step, StepClock};

use crate::scales::{InputScales, cell_numbers};
use crate::study::{Party, Study, WINDOW};

/// Overtones of the signal cycle that make up the clock.
const HARMONICS: usize = 4;
/// Steps whose cells the `link` architecture sees, the last ones of the window.
const CELL_STEPS: usize = 3;

/// How the features are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// For the `link` architecture: `[shared | link, (step, channel)]`.
    ByLink,
    /// For the `paper` architecture: `[step, link, channel]`.
    ByStep,
}

/// Why features cannot be read by an estimator.
#[derive(Debug, Error, PartialEq)]
pub enum InputsError {
    /// NaN or infinite.
    #[error("step {step}: {what}: found {found}, expected a finite number")]
    NotFinite {
        /// The step.
        step: i64,
        /// Which number.
        what: String,
        /// Its value.
        found: f64,
    },
    /// A loop that never reported in the training part.
    #[error("loop `{detector}`: found no count in the training part, expected at least one")]
    SilentLoop {
        /// Its name.
        detector: String,
    },
    /// The data have other loops than the scales.
    #[error("found {found} loops, expected {expected}")]
    Loops {
        /// In the data.
        found: usize,
        /// In the model.
        expected: usize,
    },
    /// The features have no cells.
    #[error(
        "found features without cells, expected cells and sub-steps; make the features with more of either"
    )]
    NoCells,
}

/// The features of a study, ready to be copied into samples.
pub struct Inputs {
    arrangement: Arrangement,
    links: usize,
    first_rows: Vec<(Step, usize)>,
    /// `[row, loop]`: scaled counts and masks; `paper`: `[row, link]`.
    loops: Table,
    /// `[row, clock]`
    clock: Table,
    /// `[row, link]`: share of green.
    green: Table,
    /// `[row, link, channel]`
    fleet: Table,
    /// `[row, link, cell]`
    cells: Table,
}

/// Numbers of each row, side by side.
#[derive(Default)]
struct Table {
    width: usize,
    values: Vec<f32>,
}

impl Table {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

impl Inputs {
    /// Reads a study with known scales.
    pub fn new(
        study: &Study,
        party: Party,
        arrangement: Arrangement,
        scales: &InputScales,
    ) -> Result<Self, InputsError> {
        let network = study.network();
        let (found, expected) = (network.loops().len(), scales.loops.len());
        if found != expected {
            return Err(InputsError::Loops { found, expected });
        }
        let by_link = arrangement == Arrangement::ByLink;
        let mut inputs = Self {
            arrangement,
            links: network.links().len(),
            first_rows: Vec::new(),
            loops: Table::default(),
            clock: Table::default(),
            green: Table::default(),
            fleet: Table::default(),
            cells: Table::default(),
        };
        let clock = StepClock { length: study.step() };
        let cycle = common_cycle(network);
        let mut last = None;
        let mut rows = 0;
        for step in study.steps() {
            if last.is_none_or(|last: Step| step.0 != last.0 + 1) {
                inputs.first_rows.push((step, rows));
            }
            last = Some(step);
            rows += 1;
            inputs.push_loops(study, scales, step);
            if by_link {
                let middle = clock.start_of(step).get() + study.step().get() / 2.0;
                for harmonic in 1..=if cycle.is_some() { HARMONICS } else { 0 } {
                    let angle = std::f64::consts::TAU * harmonic as f64 * middle
                        / cycle.unwrap_or(f64::INFINITY);
                    inputs.clock.values.extend([angle.sin() as f32, angle.cos() as f32]);
                }
                for link in network.link_ids() {
                    inputs.green.values.push(green_share(network, clock, step, link) as f32);
                }
            }
            for link in network.link_ids() {
                inputs.push_fleet(study, party, scales, step, link)?;
            }
        }
        let rows = rows.max(1);
        for (table, what) in [
            (&mut inputs.loops, "loop counts"),
            (&mut inputs.clock, "signal clock"),
            (&mut inputs.green, "green shares"),
            (&mut inputs.fleet, "fleet features"),
            (&mut inputs.cells, "cells"),
        ] {
            table.width = table.values.len() / rows;
            if let Some(at) = table.values.iter().position(|value| !value.is_finite()) {
                let row = at / table.width.max(1);
                return Err(InputsError::NotFinite {
                    step: study.steps().nth(row).map_or(0, |step| step.0),
                    what: what.into(),
                    found: f64::from(table.values[at]),
                });
            }
        }
        Ok(inputs)
    }

    fn push_loops(&mut self, study: &Study, scales: &InputScales, step: Step) {
        let counts = study.loop_counts(step).iter().zip(&scales.loops);
        let scaled = counts.map(|(count, scale)| count.map(|count| scale.apply(count)));
        match self.arrangement {
            Arrangement::ByLink => {
                for count in scaled {
                    let seen = f32::from(u8::from(count.is_some()));
                    self.loops.values.extend([count.unwrap_or(0.0), seen]);
                }
            }
            Arrangement::ByStep => {
                let from = self.loops.values.len();
                self.loops.values.resize(from + self.links, 0.0);
                for (count, detector) in scaled.zip(study.network().loops()) {
                    self.loops.values[from + detector.link.index()] = count.unwrap_or(0.0);
                }
            }
        }
    }

    fn push_fleet(
        &mut self,
        study: &Study,
        party: Party,
        scales: &InputScales,
        step: Step,
        link: LinkId,
    ) -> Result<(), InputsError> {
        let by_link = self.arrangement == Arrangement::ByLink;
        let speed = study.fleet_speed(step, link);
        let seen = f32::from(u8::from(speed.is_some()));
        match party {
            Party::Host => {}
            Party::HostAndSpeeds => {
                let speed = speed.map_or(0.0, |speed| scales.fleet[0].apply(speed.get()));
                self.fleet.values.extend([speed, seen]);
            }
            Party::Both | Party::BothAndCells => {
                let cells = party == Party::BothAndCells;
                // The paper's model with cells sees nothing else: they add up to the totals.
                if by_link || !cells {
                    let state = study.scaled_up(step, link);
                    let numbers = [state.density.get(), state.flow.get()];
                    let scaled = numbers.iter().zip(&scales.fleet).map(|(n, s)| s.apply(*n));
                    self.fleet.values.extend(scaled);
                    self.fleet.values.extend(by_link.then_some(seen));
                }
                if cells {
                    let half = cell_numbers(study)? / 2;
                    let numbers = study.scaled_up_cells(step, link).enumerate();
                    let scaled = numbers.map(|(i, number)| scales.cells[i / half].apply(number));
                    self.cells.values.extend(scaled);
                }
            }
        }
        Ok(())
    }

    /// Numbers that the host has for the whole network, in one sample.
    pub fn shared(&self) -> usize {
        match self.arrangement {
            Arrangement::ByLink => WINDOW * self.loops.width + self.clock.width,
            Arrangement::ByStep => 0,
        }
    }

    /// Numbers that the host has for each link, in one sample (`paper`: in one step).
    pub fn host_channels(&self) -> usize {
        match self.arrangement {
            Arrangement::ByLink => WINDOW,
            Arrangement::ByStep => 1,
        }
    }

    /// Numbers that the guest has for each link, in one sample (`paper`: in one step).
    pub fn guest_channels(&self) -> usize {
        let (fleet, cells) = (self.fleet.width / self.links, self.cells.width / self.links);
        match self.arrangement {
            Arrangement::ByLink => WINDOW * fleet + CELL_STEPS * cells,
            Arrangement::ByStep => fleet + cells,
        }
    }

    /// Numbers of one sample: the host's, then the guest's.
    pub fn len(&self) -> usize {
        let steps = if self.arrangement == Arrangement::ByLink { 1 } else { WINDOW };
        self.shared() + steps * self.links * (self.host_channels() + self.guest_channels())
    }

    /// Whether a sample holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the sample of the window that ends with a step.
    ///
    /// # Panics
    /// If `sample` has not [`len`](Self::len) numbers.
    pub fn write(&self, last: Step, sample: &mut [f32]) {
        let first = self.row(last) + 1 - WINDOW;
        let rows = first..first + WINDOW;
        let mut writer = Writer { sample, at: 0 };
        match self.arrangement {
            Arrangement::ByLink => {
                rows.clone().for_each(|row| writer.put(self.loops.row(row)));
                writer.put(self.clock.row(rows.end - 1));
                for link in 0..self.links {
                    rows.clone().for_each(|row| writer.put(&self.green.row(row)[link..=link]));
                }
                let (fleet, cells) = (self.fleet.width / self.links, self.cells.width / self.links);
                for link in 0..self.links {
                    for row in rows.clone() {
                        writer.put(&self.fleet.row(row)[link * fleet..][..fleet]);
                    }
                    for row in rows.clone().skip(WINDOW - CELL_STEPS) {
                        writer.put(&self.cells.row(row)[link * cells..][..cells]);
                    }
                }
            }
            Arrangement::ByStep => {
                rows.clone().for_each(|row| writer.put(self.loops.row(row)));
                let table = if self.cells.width > 0 { &self.cells } else { &self.fleet };
                rows.for_each(|row| writer.put(table.row(row)));
            }
        }
        assert_eq!(writer.at, writer.sample.len(), "numbers of a sample");
    }

    fn row(&self, step: Step) -> usize {
        let range = self.first_rows.partition_point(|&(first, _)| first <= step).saturating_sub(1);
        let (first, row) = self.first_rows[range];
        row + (step.0 - first.0) as usize
    }
}

struct Writer<'a> {
    sample: &'a mut [f32],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, values: &[f32]) {
        self.sample[self.at..self.at + values.len()].copy_from_slice(values);
        self.at += values.len();
    }
}

/// The cycle that all signals share, in seconds; the first one's where they differ.
fn common_cycle(network: &Network) -> Option<f64> {
    network.signals().first().map(|signal| signal.cycle().get())
}

/// Share of a step during which traffic may leave a link: the mean over its movements.
fn green_share(network: &Network, clock: StepClock, step: Step, link: LinkId) -> f64 {
    let (from, to) = (clock.start_of(step), clock.start_of(Step(step.0 + 1)));
    let share = |to_link: Option<LinkId>| {
        let movement = Movement { from: link, to: to_link };
        network.signal_of(movement).map_or(1.0, |signal| signal.green_share(movement, from, to))
    };
    let turns = network.outgoing(link);
    if turns.is_empty() {
        return share(None);
    }
    turns.iter().map(|&turn| share(Some(network.turn(turn).to))).sum::<f64>() / turns.len() as f64
}
