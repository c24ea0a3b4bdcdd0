//! Parties that bring Python objects along as their sub-models, in one process and over the network.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use estimator::{EmbeddingShape, SubModelKind};
use federation::AbsencePolicy;
use fedtse::{CustomSubModelSpec, CustomSubModels, MakeCustomSubModel, TrainArguments};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use training::learner::CustomSubModel;

use crate::commands::python;
use crate::errors::wrong;
use crate::options::options;
use crate::sub_model::{PythonSubModel, Raised, state};
use crate::watched::watched;

/// A Python object as a guest's sub-model; its attributes say how it wants its features and how many numbers
/// it gives.
pub(crate) fn own(object: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<CustomSubModelSpec> {
    let py = object.py();
    for method in ["forward", "backward", "state_dict", "load_state_dict"] {
        if !object.hasattr(method)? {
            let kind = object.get_type().qualname()?;
            return Err(wrong(
                py,
                format!(
                    "sub-model: found a {kind} without `{method}`, expected forward, backward, state_dict and load_state_dict"
                ),
            ));
        }
    }
    let attribute =
        |name: &str| object.getattr_opt(name).map(|value| value.filter(|value| !value.is_none()));
    let number = |name: &str| attribute(name)?.map(|value| value.extract::<usize>()).transpose();
    let by_step = attribute("by_step")?.map_or(Ok(false), |value| value.is_truthy())?;
    let embedding = match (number("per_link")?, number("whole")?) {
        (Some(each), None) => Some(EmbeddingShape::PerLink(each)),
        (None, Some(all)) => Some(EmbeddingShape::Whole(all)),
        (None, None) => None,
        (Some(_), Some(_)) => {
            return Err(wrong(py, "sub-model: found `per_link` and `whole`, expected one of them"));
        }
    };
    let (first, raised, object) = (state(object)?, raised.clone(), object.clone().unbind());
    let make: MakeCustomSubModel = Arc::new(move |shape: &[usize]| {
        let object = Python::attach(|py| object.clone_ref(py));
        let model = PythonSubModel::new(object, shape.to_vec(), &first, raised.clone())?;
        Ok(Box::new(model) as Box<dyn CustomSubModel>)
    });
    let kind = if by_step { SubModelKind::CustomByStep } else { SubModelKind::Custom };
    Ok(CustomSubModelSpec { kind, embedding, make })
}

/// What was raised in a sub-model is the cause of what is raised here.
pub(crate) fn because<T>(py: Python<'_>, result: PyResult<T>, raised: &Raised) -> PyResult<T> {
    result.inspect_err(|error| {
        if let Some(cause) = raised.take() {
            error.set_cause(py, Some(cause));
        }
    })
}

/// Fits an estimator and scores it; the host's and guests' sub-models are these, if any are given.
#[pyfunction]
pub(crate) fn train<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
    host: Option<&Bound<'py, PyAny>>,
    guests: Vec<Option<Bound<'py, PyAny>>>,
    absent: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let request: TrainArguments = options(request)?;
    let raised = Raised::default();
    let absent = match absent {
        "wait" => AbsencePolicy::Wait,
        "skip" => AbsencePolicy::Skip,
        "stop" => AbsencePolicy::Stop,
        other => {
            let text = format!("absent: found \"{other}\", expected wait, skip or stop");
            return Err(wrong(py, text));
        }
    };
    let host = host.map(|object| own(object, &raised)).transpose()?;
    let mut custom = CustomSubModels { host, guests: BTreeMap::new(), absent };
    for (number, guest) in guests.iter().enumerate() {
        let name = match guests.len() {
            1 => "guest".to_owned(),
            _ => format!("guest-{}", number + 1),
        };
        if let Some(object) = guest {
            custom.guests.insert(name, own(object, &raised)?);
        }
    }
    let made =
        watched(py, progress, || Ok(serde_json::to_string(&fedtse::train(&request, &custom)?)?));
    python(py, &because(py, made, &raised)?)
}

/// A function that runs a party by its configuration file, with a sub-model of its own if there is one.
macro_rules! party {
    ($($(#[$doc:meta])* $name:ident = $run:path;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            config: PathBuf,
            sub_model: Option<&Bound<'py, PyAny>>,
            progress: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            as_party(py, sub_model, progress, |own| $run(&config, own))
        }
    )*};
}

party! {
    /// Estimates live as the host of trained parties.
    live_host = fedtse::lead_live;
    /// Embeds each step live as a trained guest.
    live_guest = fedtse::join_live;
    /// Leads a federation over the network, as its host.
    host = fedtse::lead;
    /// Takes part in a federation over the network.
    guest = fedtse::join;
}

/// Does what a party does with its sub-model, if it has one of its own, and tells how it went.
fn as_party<'py, T: Display>(
    py: Python<'py>,
    sub_model: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    work: impl FnOnce(Option<&CustomSubModelSpec>) -> anyhow::Result<T> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let raised = Raised::default();
    let own = sub_model.map(|object| own(object, &raised)).transpose()?;
    let ended = watched(py, progress, || Ok(work(own.as_ref())?.to_string()));
    python(py, &because(py, ended, &raised)?)
}
