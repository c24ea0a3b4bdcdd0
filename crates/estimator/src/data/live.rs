//! A party's numbers as steps come in: the same tables and inputs as for training, of one window.

use std::path::Path;
use std::sync::Arc;

use sensing::{FeatureTable, FleetFeatures, HeldSteps, LoopTable};
use traffic::{Network, Step};

use crate::artifact::record::{GuestRecord, HostRecord};
use crate::data::fleet_sum::{FleetSumError, SumColumns, SumLayout, WholeFleet};
use crate::data::inputs::{Arrangement, GuestInputs, HostInputs, InputsError};
use crate::data::observed::Observed;
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::{StepSpec, Timeline};

/// A guest's fleet, live: the steps of the last window.
pub struct LiveFleet {
    fleet: FleetData,
    record: GuestRecord,
    arrangement: Arrangement,
}

/// The host's loops, live: the steps of the last window.
pub struct LiveLoops {
    loops: LoopData,
    record: HostRecord,
    arrangement: Arrangement,
}

impl LiveFleet {
    /// Before the first step.
    pub fn new(
        network: Arc<Network>,
        record: GuestRecord,
        steps: &StepSpec,
        arrangement: Arrangement,
    ) -> Self {
        // As in files, where a single cell has no columns.
        let cells = steps.cells * steps.sub_steps;
        let table = FeatureTable::live(network.links().len(), if cells > 1 { cells } else { 0 });
        let timeline = Timeline::live(network, steps).windowed(record.common.window);
        let timeline = Arc::new(timeline);
        let fleet = FleetData::live(timeline, record.fleets.join(", "), record.rate, table);
        Self { fleet, record, arrangement }
    }

    /// Adds a complete step. One that does not follow the last begins a new window.
    pub fn push(&mut self, step: Step, features: &FleetFeatures) {
        self.fleet.push(step, features);
    }

    /// The sample of the window that ends with the last step; none while there is no whole window.
    pub fn sample(&self) -> Result<Option<(Step, Vec<f32>)>, InputsError> {
        let Some(&last) = self.fleet.timeline().windows().last() else { return Ok(None) };
        let record = &self.record;
        let inputs =
            GuestInputs::new(&self.fleet, record.features, self.arrangement, &record.inputs)?;
        let mut sample = vec![0.0; inputs.len()];
        inputs.write(last, &mut sample);
        Ok(Some((last, sample)))
    }
}

impl LiveLoops {
    /// Before the first step.
    pub fn new(
        network: Arc<Network>,
        record: HostRecord,
        steps: &StepSpec,
        arrangement: Arrangement,
    ) -> Self {
        let table = LoopTable::live(network.loops().len());
        let timeline = Timeline::live(network, steps).windowed(record.common.window);
        let loops = LoopData::live(Arc::new(timeline), table);
        Self { loops, record, arrangement }
    }

    /// Adds a step with what each loop counted. One that does not follow the last begins a new
    /// window.
    pub fn push(&mut self, step: Step, counts: &[Option<u32>]) {
        self.loops.push(step, counts);
    }

    /// The sample of the window that ends with the last step; none while there is no whole window.
    pub fn sample(&self) -> Result<Option<(Step, Vec<f32>)>, InputsError> {
        let Some(&last) = self.loops.timeline().windows().last() else { return Ok(None) };
        let inputs = HostInputs::new(&self.loops, self.arrangement, &self.record.inputs)?;
        let mut sample = vec![0.0; inputs.len()];
        inputs.write(last, &mut sample);
        Ok(Some((last, sample)))
    }
}

/// The host's loops and the sum over guests, live: the steps of the last window of each.
pub struct LiveSum {
    loops: LoopData,
    fleets: Vec<FleetData>,
    layout: SumLayout,
    whole: WholeFleet,
}

impl LiveSum {
    /// Before the first step, of a fleet that all guests are together, with windows of so many steps.
    pub fn new(
        network: &Arc<Network>,
        (steps, window): (&StepSpec, usize),
        columns: SumColumns,
        whole: WholeFleet,
    ) -> Self {
        let columns = SumColumns { cells: columns.cells, ..SumColumns::default() };
        let timeline = Arc::new(Timeline::live(Arc::clone(network), steps).windowed(window));
        let layout = SumLayout::new(&timeline, 1, columns);
        let table = FeatureTable::live(network.links().len(), layout.cells());
        let name = "all guests".to_owned();
        let fleet = FleetData::live(Arc::clone(&timeline), name, whole.rate, table);
        let loops = LoopData::live(timeline, LoopTable::live(network.loops().len()));
        Self { loops, fleets: vec![fleet], layout, whole }
    }

    /// Steps of a window.
    pub fn steps(&self) -> usize {
        self.loops.timeline().window()
    }

    /// The columns of a sum.
    pub fn layout(&self) -> SumLayout {
        self.layout
    }

    /// Adds a step, with what each loop counted and the sum, if there is one. Says whether both have a whole window that ends with it.
    ///
    /// # Errors
    /// If the sum has other columns.
    pub fn push(
        &mut self,
        step: Step,
        counts: &[Option<u32>],
        sum: Option<&[f64]>,
    ) -> Result<bool, FleetSumError> {
        self.loops.push(step, counts);
        let Some(row) = sum else { return Ok(false) };
        let (found, expected) = (row.len(), self.layout.width());
        if found != expected {
            return Err(FleetSumError::Width { step: step.0, found, expected });
        }
        let (totals, cells) = self.layout.totals_of(row, 0, self.whole);
        let window = self.loops.timeline().window();
        for fleet in &mut self.fleets {
            let table = fleet.table_mut();
            table.push_totals(step, &totals, &cells, window);
            let held = table.held.clone();
            fleet.hold(held);
        }
        let whole = |timeline: &Timeline| timeline.has_window(step);
        Ok(whole(self.loops.timeline()) && self.fleets.iter().all(|fleet| whole(fleet.timeline())))
    }

    /// What a model reads.
    pub fn observed(&self) -> Observed<'_> {
        Observed { folder: Path::new(""), loops: &self.loops, fleets: &self.fleets }
    }
}

impl FleetData {
    fn push(&mut self, step: Step, features: &FleetFeatures) {
        let window = self.timeline().window();
        let table = self.table_mut();
        table.push(step, features, window);
        let held = table.held.clone();
        self.hold(held);
    }
}

impl LoopData {
    fn push(&mut self, step: Step, counts: &[Option<u32>]) {
        let held = self.timeline().held().ranges().first().copied();
        let follows = held.filter(|range| range.last.0 + 1 == step.0);
        let window = self.timeline().window() as i64;
        let table = self.table_mut();
        if follows.is_none() {
            table.counts.clear();
        }
        table.counts.extend(counts.iter().map(|count| count.map(f64::from)));
        let mut first = follows.map_or(step, |range| range.first);
        if step.0 - first.0 + 1 > window {
            first = Step(first.0 + 1);
            table.counts.drain(..table.detectors);
        }
        self.hold(HeldSteps::of_range(first, step));
    }
}
