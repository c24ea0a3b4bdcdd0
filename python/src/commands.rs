//! What the command line does, as functions. Options are the library's own structs (`options`), so that names,
//! defaults and limits are the same; results come back as JSON or as arrays.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use fedtse::{
    CustomSubModelSpecs, EstimateRequest, FeatureOptions, LedgerArguments, ReproduceArguments,
    SimulateOptions,
};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::guests::{because, own};
use crate::network::Network;
use crate::options::options;
use crate::sub_model::Raised;
use crate::watched::watched;

/// A value as Python's own dictionaries, lists and numbers.
pub fn python<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

type Progress<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Simulates traffic and stores it as a dataset.
#[pyfunction]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
    network: Option<&Bound<'py, Network>>,
    progress: Progress<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let request: SimulateOptions = options(request)?;
    let network = network.map(|network| Arc::clone(&network.get().0));
    let json = watched(py, progress, || {
        let made = fedtse::simulate(&request, network.as_deref())?;
        Ok(serde_json::to_string(&made)?)
    })?;
    python(py, &json)
}

/// Makes and stores the features of a dataset.
#[pyfunction]
pub fn features<'py>(
    py: Python<'py>,
    folder: PathBuf,
    request: &Bound<'py, PyDict>,
    progress: Progress<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let request: FeatureOptions = options(request)?;
    let json = watched(py, progress, || {
        Ok(serde_json::to_string(&fedtse::features(&folder, &request)?)?)
    })?;
    python(py, &json)
}

/// Estimates all links: columns of equal length, window after window. Parties may have sub-models of their own.
#[pyfunction]
pub fn estimate<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
    sub_models: BTreeMap<String, Bound<'py, PyAny>>,
    progress: Progress<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let request: EstimateRequest = options(request)?;
    let raised = Raised::default();
    let models = sub_models.into_iter().map(|(name, object)| Ok((name, own(&object, &raised)?)));
    let models: CustomSubModelSpecs = models.collect::<PyResult<_>>()?;
    let estimated = watched(py, progress, || fedtse::estimate(&request, &models));
    let estimated = because(py, estimated, &raised)?;
    let columns = PyDict::new(py);
    let links = estimated.network().links();
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    columns.set_item("links", names)?;
    let steps: Vec<i64> = estimated.windows().iter().map(|step| step.0).collect();
    columns.set_item("steps", PyArray1::from_vec(py, steps))?;
    let states = &estimated.states;
    let density = states.iter().map(|state| state.density.get()).collect();
    let flow = states.iter().map(|state| state.flow.get()).collect();
    columns.set_item("density", PyArray1::from_vec(py, density))?;
    columns.set_item("flow", PyArray1::from_vec(py, flow))?;
    if let Some(intervals) = &estimated.intervals {
        for (name, at) in [("density_low", 0), ("density_high", 1)] {
            let border = intervals.iter().map(|interval| interval.density[at]).collect();
            columns.set_item(name, PyArray1::from_vec(py, border))?;
        }
        for (name, at) in [("flow_low", 0), ("flow_high", 1)] {
            let border = intervals.iter().map(|interval| interval.flow[at]).collect();
            columns.set_item(name, PyArray1::from_vec(py, border))?;
        }
    }
    Ok(columns)
}

/// A table or figure of the paper: its text and its numbers.
#[pyfunction]
pub fn reproduce<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
    progress: Progress<'_, 'py>,
) -> PyResult<(String, Bound<'py, PyAny>)> {
    let request: ReproduceArguments = options(request)?;
    let (text, json) = watched(py, progress, || fedtse::reproduce(&request))?;
    let numbers = python(py, &json)?;
    Ok((text, numbers))
}

/// Verifies a party's records and sums them up.
#[pyfunction]
pub(crate) fn audit<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let request: LedgerArguments = options(request)?;
    let report = watched(py, None, || fedtse::audit(&request))?;
    python(py, &report.to_string())
}

/// Runs the command line, beginning with the program's name, and says whether all went well.
#[pyfunction]
pub fn main(py: Python<'_>, words: Vec<OsString>) -> bool {
    py.detach(|| fedtse::run_with(words)) == ExitCode::SUCCESS
}
