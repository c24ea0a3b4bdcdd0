//! A guest's numbers: what it makes of its fleet.

use std::sync::Arc;

use traffic::{LinkId, Step, Window};

use super::{Arrangement, InputsError, Table, Writer, window_rows};
use crate::data::scales::{GuestScales, cell_numbers};
use crate::data::sources::FleetData;
use crate::data::study::GuestFeatures;
use crate::data::timeline::Timeline;
use crate::data::window_source::WindowSource;

/// Steps whose cells are seen by link, the last ones of the window.
const CELL_STEPS: usize = crate::data::study::LEAST_WINDOW;

/// A guest's features, ready to be copied into samples.
pub struct GuestInputs {
    timeline: Arc<Timeline>,
    arrangement: Arrangement,
    links: usize,
    /// `[row, link, channel]`
    totals: Table,
    /// `[row, link, cell]`
    cells: Table,
}

impl GuestInputs {
    /// Reads a fleet with known scales.
    pub fn new(
        fleet: &FleetData,
        features: GuestFeatures,
        arrangement: Arrangement,
        scales: &GuestScales,
    ) -> Result<Self, InputsError> {
        let timeline = Arc::clone(fleet.timeline());
        let links = timeline.network().links().len();
        let (mut totals, mut cells) = (Table::default(), Table::default());
        let with_cells = features == GuestFeatures::TotalsAndCells;
        let half = if with_cells { cell_numbers(fleet)? / 2 } else { 1 };
        // The paper's model with cells sees nothing else: they add up to the totals.
        let with_totals = arrangement == Arrangement::ByLink || !with_cells;
        for step in timeline.steps() {
            for link in timeline.network().link_ids() {
                if with_totals {
                    let to = &mut totals.values;
                    push_totals(to, fleet, features, arrangement, scales, step, link);
                }
                if with_cells {
                    let numbers = fleet.scaled_up_cells(step, link).enumerate();
                    let scaled = numbers.map(|(i, number)| scales.cells[i / half].apply(number));
                    cells.values.extend(scaled);
                }
            }
        }
        totals.finish(&timeline, "fleet features")?;
        cells.finish(&timeline, "cells")?;
        Ok(Self { arrangement, links, totals, cells, timeline })
    }

    /// Steps of a window.
    pub(crate) fn window(&self) -> usize {
        self.timeline.window()
    }

    fn widths(&self) -> [usize; 2] {
        [self.totals.width / self.links, self.cells.width / self.links]
    }

    /// Numbers for each link, in one sample; by step: in one step.
    pub(crate) fn channels(&self) -> usize {
        let [totals, cells] = self.widths();
        match self.arrangement {
            Arrangement::ByLink => self.window() * totals + CELL_STEPS * cells,
            Arrangement::ByStep => totals + cells,
        }
    }

    /// Numbers of one sample.
    pub fn len(&self) -> usize {
        let steps = if self.arrangement == Arrangement::ByLink { 1 } else { self.window() };
        steps * self.links * self.channels()
    }

    /// Whether a sample holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the sample of a window that the data hold, given by its last step.
    ///
    /// # Panics
    /// If `sample` has not [`len`](Self::len) numbers.
    pub fn write(&self, last: Step, sample: &mut [f32]) {
        let rows = window_rows(&self.timeline, last);
        let mut writer = Writer::new(sample, self.len());
        match self.arrangement {
            Arrangement::ByLink => {
                let [totals, cells] = self.widths();
                for link in 0..self.links {
                    for row in rows.clone() {
                        writer.put(&self.totals.row(row)[link * totals..][..totals]);
                    }
                    for row in rows.clone().skip(self.window() - CELL_STEPS) {
                        writer.put(&self.cells.row(row)[link * cells..][..cells]);
                    }
                }
            }
            Arrangement::ByStep => {
                let table = if self.cells.width > 0 { &self.cells } else { &self.totals };
                rows.for_each(|row| writer.put(table.row(row)));
            }
        }
    }
}

impl WindowSource for GuestInputs {
    fn row_len(&self) -> usize {
        self.len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.write(window.last, to);
    }
}

fn push_totals(
    to: &mut Vec<f32>,
    fleet: &FleetData,
    features: GuestFeatures,
    arrangement: Arrangement,
    scales: &GuestScales,
    step: Step,
    link: LinkId,
) {
    let speed = fleet.speed(step, link);
    let seen = f32::from(u8::from(speed.is_some()));
    if features == GuestFeatures::Speeds {
        let speed = speed.map_or(0.0, |speed| scales.links[0].apply(speed.get()));
        to.extend([speed, seen]);
        return;
    }
    let state = fleet.scaled_up(step, link);
    let numbers = [state.density.get(), state.flow.get()];
    to.extend(numbers.iter().zip(&scales.links).map(|(number, scale)| scale.apply(*number)));
    to.extend((arrangement == Arrangement::ByLink).then_some(seen));
}
