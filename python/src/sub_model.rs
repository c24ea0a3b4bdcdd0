//! Sub-models that are Python objects.
//!
//! | method | of the object |
//! |---|---|
//! | `forward(x) -> z` | outputs of a batch, in training |
//! | `backward(grad_z)` | one update, from the gradient of the last outputs |
//! | `state_dict()`, `load_state_dict(state)` | all that changes in training |
//! | `infer(x) -> z` | optional: outputs with nothing left to chance; `forward` if there is none |
//! | `set_learning_rate(rate)` | optional: the plan's rate, before each update |

use std::sync::{Arc, Mutex, PoisonError};

use federation::ModelFailure;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use training::learner::CustomSubModel;

/// The first exception that a sub-model has raised.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Takes it.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps it, and says what it is.
    fn note(&self, py: Python<'_>, error: PyErr) -> ModelFailure {
        let text = error.to_string();
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.clone_ref(py));
        ModelFailure(text)
    }
}

/// A Python object as a sub-model.
pub struct PythonSubModel {
    object: Py<PyAny>,
    /// Of one sample.
    shape: Vec<usize>,
    raised: Raised,
}

impl PythonSubModel {
    /// With the state that it was first given.
    pub fn new(
        object: Py<PyAny>,
        shape: Vec<usize>,
        first: &[u8],
        raised: Raised,
    ) -> Result<Self, ModelFailure> {
        let mut model = Self { object, shape, raised };
        model.load(first)?;
        Ok(model)
    }

    /// Does something with the object; what it raises is kept.
    fn with<T>(
        &self,
        does: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, ModelFailure> {
        Python::attach(|py| does(self.object.bind(py)).map_err(|error| self.raised.note(py, error)))
    }

    fn outputs(&self, method: &str, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure> {
        self.with(|object| {
            let mut shape = vec![samples];
            shape.extend(&self.shape);
            let x = PyArray1::from_slice(object.py(), x).reshape(shape)?;
            let z = object.call_method1(method, (x,))?;
            numbers(&z)
        })
    }
}

/// Any array of numbers as 32-bit floats, in C's order.
pub fn numbers(array: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let numpy = array.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (array, numpy.getattr("float32")?))?;
    let array: PyReadonlyArrayDyn<'_, f32> = array.extract()?;
    Ok(array.as_slice()?.to_vec())
}

/// The state of an object, as bytes.
pub fn state(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let state = object.call_method0("state_dict")?;
    let bytes = object.py().import("fedtse._state")?.call_method1("pack", (state,))?;
    bytes.extract()
}

impl CustomSubModel for PythonSubModel {
    fn forward(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure> {
        self.outputs("forward", x, samples)
    }

    fn backward(
        &mut self,
        gradient: &[f32],
        samples: usize,
        rate: f32,
    ) -> Result<(), ModelFailure> {
        self.with(|object| {
            if object.hasattr("set_learning_rate")? {
                object.call_method1("set_learning_rate", (rate,))?;
            }
            let shape = [samples, gradient.len() / samples.max(1)];
            let gradient = PyArray1::from_slice(object.py(), gradient).reshape(shape)?;
            object.call_method1("backward", (gradient,))?;
            Ok(())
        })
    }

    fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure> {
        let has = self.with(|object| object.hasattr("infer"))?;
        self.outputs(if has { "infer" } else { "forward" }, x, samples)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        self.with(state)
    }

    fn load(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        self.with(|object| {
            let py = object.py();
            let bytes = PyBytes::new(py, saved);
            let state = py.import("fedtse._state")?.call_method1("unpack", (bytes,))?;
            object.call_method1("load_state_dict", (state,))?;
            Ok(())
        })
    }
}
