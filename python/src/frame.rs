//! Tables in memory: their features, and datasets made of them.
//!
//! Columns are borrowed, not copied; vehicles' names become numbers on the way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fedtse::FeatureOptions;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;
use sensing::{
    DatasetWriter, FleetFeatures, Frame, Position, Provenance, Sorter, StepFeatures, VehicleTable,
    check_position, extract_frame, write_sorted,
};
use traffic::{LinkId, Seconds, VehicleClass, VehicleId, VehiclePosition};

use crate::errors::raised;
use crate::network::Network;
use crate::options::options;
use crate::watched::watched;

/// The columns of a table, of equal length.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Columns<'py> {
    time: PyReadonlyArray1<'py, f64>,
    /// Whole numbers that are names themselves, or places in `vehicle_names`.
    vehicle: PyReadonlyArray1<'py, i64>,
    vehicle_names: Option<Vec<String>>,
    /// Places in `link_names`.
    link: PyReadonlyArray1<'py, i32>,
    link_names: Vec<String>,
    position: Metres<'py>,
}

/// Positions come as they are stored.
#[derive(FromPyObject)]
enum Metres<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    F64(PyReadonlyArray1<'py, f64>),
}

/// The same, borrowed and checked, with names as numbers.
struct Rows<'a> {
    times: &'a [f64],
    vehicles: VehicleTable,
    /// Of each row.
    numbers: Vec<u32>,
    links: Vec<Option<LinkId>>,
    link_names: &'a [String],
    link: &'a [i32],
    metres: MetresOf<'a>,
    network: Arc<traffic::Network>,
}

#[derive(Clone, Copy)]
enum MetresOf<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl Columns<'_> {
    fn rows(&self, network: &Arc<traffic::Network>) -> Result<Rows<'_>> {
        let whole = "expected a column in one piece";
        let times = self.time.as_slice().context(whole)?;
        let metres = match &self.position {
            Metres::F32(metres) => MetresOf::F32(metres.as_slice().context(whole)?),
            Metres::F64(metres) => MetresOf::F64(metres.as_slice().context(whole)?),
        };
        let names = self.vehicle.as_slice().context(whole)?;
        let link = self.link.as_slice().context(whole)?;
        let lengths = [names.len(), link.len(), metres.len()];
        let rows = times.len();
        ensure!(
            lengths.iter().all(|&length| length == rows) && rows > 0,
            "columns: found lengths {rows}, {lengths:?}, expected one length of 1 or more"
        );
        let (vehicles, numbers) = numbered(names, self.vehicle_names.as_deref())?;
        let links = self.link_names.iter().map(|name| network.link_named(name)).collect();
        Ok(Rows {
            times,
            vehicles,
            numbers,
            links,
            link_names: &self.link_names,
            link,
            metres,
            network: Arc::clone(network),
        })
    }
}

impl MetresOf<'_> {
    fn len(&self) -> usize {
        match self {
            MetresOf::F32(metres) => metres.len(),
            MetresOf::F64(metres) => metres.len(),
        }
    }

    fn at(&self, row: usize) -> f32 {
        match self {
            MetresOf::F32(metres) => metres[row],
            MetresOf::F64(metres) => metres[row] as f32,
        }
    }
}

impl Rows<'_> {
    fn position(&self, row: usize) -> Result<Position, String> {
        let place = usize::try_from(self.link[row]).ok();
        let Some(link) = place.and_then(|place| self.links.get(place).copied().flatten()) else {
            let found = place.and_then(|place| self.link_names.get(place));
            let found = found.map_or("nothing".to_owned(), |name| format!("\"{name}\""));
            let network = self.network.name();
            return Err(format!("link: found {found}, expected a link of network \"{network}\""));
        };
        let metres = self.metres.at(row);
        Ok(Position { vehicle: VehicleId(self.numbers[row]), link, metres })
    }
}

/// Whole numbers below this that name vehicles are looked up by place.
const DENSE: i64 = 1 << 22;

/// The vehicles in the order of first sight, and the number of each row's.
fn numbered(names: &[i64], texts: Option<&[String]>) -> Result<(VehicleTable, Vec<u32>)> {
    let mut vehicles = VehicleTable::default();
    let mut name = |key: i64| -> Result<u32> {
        let text = match texts {
            None => key.to_string(),
            Some(texts) => {
                let text = usize::try_from(key).ok().and_then(|place| texts.get(place));
                text.context("vehicle: found nothing, expected a name in every row")?.clone()
            }
        };
        ensure!(!text.is_empty(), "vehicle: found an empty name, expected one in every row");
        Ok(vehicles.number(&text, VehicleClass::Car).0)
    };
    let largest = names.iter().copied().max().unwrap_or(0);
    let smallest = names.iter().copied().min().unwrap_or(0);
    let mut numbers = Vec::with_capacity(names.len());
    if smallest >= 0 && largest < DENSE {
        let mut known = vec![u32::MAX; largest as usize + 1];
        for &key in names {
            let number = &mut known[key as usize];
            if *number == u32::MAX {
                *number = name(key)?;
            }
            numbers.push(*number);
        }
    } else {
        let mut known: FxHashMap<i64, u32> = FxHashMap::default();
        for &key in names {
            let number = match known.get(&key) {
                Some(&number) => number,
                None => *known.entry(key).or_insert(name(key)?),
            };
            numbers.push(number);
        }
    }
    Ok((vehicles, numbers))
}

/// Numbers of one fleet, step after step.
#[derive(Default)]
struct Gathered {
    time: Vec<f64>,
    distance: Vec<f64>,
    vehicles: Vec<i64>,
    cell_time: Vec<f32>,
    cell_distance: Vec<f32>,
}

impl Gathered {
    fn step(&mut self, features: &FleetFeatures, links: usize) {
        for link in 0..links {
            let totals = features.link_totals(LinkId(link as u32));
            self.time.push(totals.time.get());
            self.distance.push(totals.distance.get());
        }
        self.vehicles.extend(features.vehicles.iter().map(|&count| i64::from(count)));
        if features.boxes.len() > links {
            self.cell_time.extend(features.boxes.iter().map(|piece| piece.time.get() as f32));
            let distances = features.boxes.iter().map(|piece| piece.distance.get() as f32);
            self.cell_distance.extend(distances);
        }
    }

    fn python<'py>(
        self,
        py: Python<'py>,
        links: usize,
        parts: [usize; 2],
    ) -> PyResult<Bound<'py, PyDict>> {
        let steps = self.time.len() / links.max(1);
        let fleet = PyDict::new(py);
        fleet.set_item("travel_time_s", table(py, self.time, [steps, links])?)?;
        fleet.set_item("travel_distance_m", table(py, self.distance, [steps, links])?)?;
        fleet.set_item("vehicles", table(py, self.vehicles, [steps, links])?)?;
        if !self.cell_time.is_empty() {
            let [sub_steps, cells] = parts;
            let shape = [steps, links, sub_steps, cells];
            fleet.set_item("cell_time_s", table(py, self.cell_time, shape)?)?;
            fleet.set_item("cell_distance_m", table(py, self.cell_distance, shape)?)?;
        }
        Ok(fleet)
    }
}

/// An array of some shape, without a copy.
fn table<'py, T: numpy::Element, const N: usize>(
    py: Python<'py>,
    values: Vec<T>,
    shape: [usize; N],
) -> PyResult<Bound<'py, PyAny>>
where
    [usize; N]: numpy::ndarray::IntoDimension,
{
    Ok(PyArray1::from_vec(py, values).reshape(shape)?.into_any())
}

/// The features of a table, in memory.
#[pyfunction]
pub fn frame_features<'py>(
    py: Python<'py>,
    network: &Bound<'py, Network>,
    columns: Columns<'py>,
    request: &Bound<'py, PyDict>,
    gap_s: f64,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let request: FeatureOptions = options(request)?;
    let (plan, from) = request.plan().map_err(|error| raised(py, &error))?;
    let network = Arc::clone(&network.get().0);
    let rows = columns.rows(&network).map_err(|error| raised(py, &error))?;
    let links = network.links().len();
    let parts = [plan.sub_steps, plan.cells];
    let mut names = vec![("all".to_owned(), 1.0)];
    names.extend(plan.fleets.all().iter().map(|fleet| (fleet.name.clone(), fleet.rate())));
    let step_s = plan.clock.length.get();
    let (steps, fleets, loops, samples) = watched(py, progress, || {
        let (mut steps, mut loops) = (Vec::new(), Vec::new());
        let mut fleets: Vec<Gathered> = names.iter().map(|_| Gathered::default()).collect();
        let on_step = |step: &StepFeatures| {
            if !step.complete {
                return;
            }
            steps.push(step.step.0);
            let all = std::iter::once(&step.all).chain(&step.fleets);
            fleets.iter_mut().zip(all).for_each(|(to, from)| to.step(from, links));
            loops.extend(step.loops.iter().map(|&count| i64::from(count)));
        };
        let frame = Frame {
            times: rows.times,
            position: |row| rows.position(row),
            vehicles: &rows.vehicles,
            gap: Seconds::new(gap_s),
            from,
        };
        let counting = fedtse::Counting::begin("features", rows.times.len() as u64);
        let report = extract_frame(&network, plan, &frame, on_step, |done, _| counting.at(done))?;
        Ok((steps, fleets, loops, report.samples))
    })?;
    let made = PyDict::new(py);
    let detectors = loops.len() / steps.len().max(1);
    made.set_item("loops", table(py, loops, [steps.len(), detectors])?)?;
    made.set_item("steps", PyArray1::from_vec(py, steps))?;
    made.set_item("links", network.links().iter().map(|l| l.name.as_str()).collect::<Vec<_>>())?;
    made.set_item("step_s", step_s)?;
    made.set_item("samples", samples)?;
    let all = PyDict::new(py);
    for ((name, rate), fleet) in names.into_iter().zip(fleets) {
        let fleet = fleet.python(py, links, parts)?;
        fleet.set_item("rate", rate)?;
        all.set_item(name, fleet)?;
    }
    made.set_item("fleets", all)?;
    Ok(made)
}

/// Makes a dataset of a table.
#[pyfunction]
pub fn store_frame<'py>(
    py: Python<'py>,
    network: &Bound<'py, Network>,
    columns: Columns<'py>,
    out: PathBuf,
    gap_s: f64,
    epoch: Option<String>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<u64> {
    let network = Arc::clone(&network.get().0);
    let rows = columns.rows(&network).map_err(|error| raised(py, &error))?;
    watched(py, progress, || {
        let counting = fedtse::Counting::begin("sorting rows", rows.times.len() as u64);
        let mut sorter = Sorter::default();
        for (row, &time) in rows.times.iter().enumerate() {
            let sample = rows.position(row).and_then(|Position { vehicle, link, metres }| {
                let (lane, position) = (0, metres);
                let sample = VehiclePosition { time, vehicle, link, position, lane, speed: 0.0 };
                check_position(&network, &sample).map_err(|error| error.to_string())?;
                // Speeds follow from the positions.
                Ok(VehiclePosition { speed: f32::NAN, ..sample })
            });
            let sample = sample.map_err(|problem| anyhow::anyhow!("row {row}: {problem}"))?;
            sorter.push(sample).context("sorting in the temporary folder")?;
            if row % 65_536 == 0 && !counting.at(row as u64) {
                return Err(fedtse::Stopped.into());
            }
        }
        ensure!(gap_s > 0.0, "gap_s: found {gap_s}, expected more than 0 s");
        let provenance = Provenance {
            epoch: epoch.unwrap_or_else(|| "time zero of the source".into()),
            source: BTreeMap::from([("import".to_owned(), "a table in Python".to_owned())]),
        };
        let mut writer = DatasetWriter::create(&out, &network, provenance, Seconds::new(gap_s))?;
        write_sorted(sorter, &mut writer)?;
        Ok(writer.finish(&rows.vehicles, &[])?.samples)
    })
}
