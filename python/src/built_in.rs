//! The built-in sub-models as objects, to look at, to compare with and to build on.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimator::{
    Architecture, EmbeddingShape, GuestShape, LayerSubModel, PARTY_CHECKPOINT, PartyWeights,
    Recipe, Sizes, SubModel, SubModelKind, UpdateRule, WINDOW,
};
use neural::DropoutRng;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{raised, wrong};
use crate::network::Network;
use crate::sub_model::numbers;

/// A built-in sub-model with its first weights, as a federation of the same seed has them.
#[pyclass(frozen, module = "fedtse")]
pub struct BuiltIn {
    kind: SubModelKind,
    embedding: EmbeddingShape,
    seed: u64,
    state: Mutex<State>,
}

struct State {
    layers: LayerSubModel,
    rate: f32,
    updates: u64,
    /// Of the last forward pass.
    x: Vec<f32>,
}

/// Where bytes of a state come from, in messages.
const STATE: &str = "the state of a built-in sub-model";

impl BuiltIn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dropout as a federation draws it.
    fn noise(&self, updates: u64) -> DropoutRng {
        DropoutRng { seed: self.seed, step: updates, first_sample: 0 }
    }
}

fn failed(py: Python<'_>, error: impl std::error::Error + Send + Sync + 'static) -> PyErr {
    raised(py, &error.into())
}

#[pymethods]
impl BuiltIn {
    /// `link`, `stgcn`, `mlp` or `linear`; `channels` numbers for each link (`stgcn`: in one step).
    #[new]
    #[pyo3(signature = (kind, network, *, channels=None, per_link=None, whole=None, seed=1, name="guest"))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new(
        py: Python<'_>,
        kind: &str,
        network: &Bound<'_, Network>,
        channels: Option<usize>,
        per_link: Option<usize>,
        whole: Option<usize>,
        seed: u64,
        name: &str,
    ) -> PyResult<Self> {
        let kind = match kind {
            "link" => SubModelKind::Link,
            "stgcn" => SubModelKind::Stgcn,
            "mlp" => SubModelKind::Mlp,
            "linear" => SubModelKind::Linear,
            other => {
                let text = format!("kind: found \"{other}\", expected link, stgcn, mlp or linear");
                return Err(wrong(py, text));
            }
        };
        let architecture = match kind {
            SubModelKind::Stgcn => Architecture::Paper,
            _ => Architecture::Link,
        };
        let embedding = match (per_link, whole) {
            (Some(each), None) => EmbeddingShape::PerLink(each),
            (None, Some(all)) => EmbeddingShape::Whole(all),
            (None, None) => architecture.embedding(),
            (Some(_), Some(_)) => {
                return Err(wrong(py, "found `per_link` and `whole`, expected one of them"));
            }
        };
        let usual = if kind == SubModelKind::Stgcn { 2 } else { 3 * WINDOW };
        let shape = GuestShape {
            name: name.to_owned(),
            sub_model: kind,
            channels: channels.unwrap_or(usual),
            totals: kind != SubModelKind::Stgcn,
            embedding,
            sizes: Sizes::default(),
            window: WINDOW,
        };
        let rule = UpdateRule::of(&Recipe::of(architecture));
        let layers = LayerSubModel::of(&shape, &network.get().0, seed, rule);
        let layers = layers.map_err(|error| failed(py, error))?;
        let rate = Recipe::of(architecture).rate;
        let state = Mutex::new(State { layers, rate, updates: 0, x: Vec::new() });
        Ok(Self { kind, embedding, seed, state })
    }

    #[getter]
    fn by_step(&self) -> bool {
        self.kind == SubModelKind::Stgcn
    }

    #[getter]
    fn per_link(&self) -> Option<usize> {
        match self.embedding {
            EmbeddingShape::PerLink(each) => Some(each),
            EmbeddingShape::Whole(_) => None,
        }
    }

    #[getter]
    fn whole(&self) -> Option<usize> {
        match self.embedding {
            EmbeddingShape::Whole(all) => Some(all),
            EmbeddingShape::PerLink(_) => None,
        }
    }

    /// All weights, one after the other.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, self.state().layers.parameters())
    }

    /// Outputs of a batch in training, `[sample, number]`.
    fn forward<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, samples) = (x.py(), x.len()?);
        // Before the lock: what runs Python may need a thread that waits for it.
        let given = numbers(x)?;
        let mut state = self.state();
        let State { layers, updates, x: kept, .. } = &mut *state;
        *kept = given;
        let mut z = vec![0.0; samples * layers.output_len()];
        let done = layers.forward(kept, &mut z, self.noise(*updates));
        done.map_err(|error| failed(py, error))?;
        Ok(PyArray1::from_vec(py, z).reshape([samples, layers.output_len()])?.into_any())
    }

    /// One update, from the gradient of the last outputs.
    fn backward(&self, grad_z: &Bound<'_, PyAny>) -> PyResult<()> {
        let gradient = numbers(grad_z)?;
        let mut state = self.state();
        let State { layers, rate, updates, x } = &mut *state;
        let done = layers.backward(x, &gradient, self.noise(*updates));
        done.map_err(|error| failed(grad_z.py(), error))?;
        layers.update(*rate);
        *updates += 1;
        Ok(())
    }

    /// Outputs of a batch by the weights that are judged, without dropout.
    fn infer<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, samples) = (x.py(), x.len()?);
        let (x, state) = (numbers(x)?, self.state());
        let width = state.layers.output_len();
        let mut z = vec![0.0; samples * width];
        state.layers.infer(&x, &mut z).map_err(|error| failed(py, error))?;
        Ok(PyArray1::from_vec(py, z).reshape([samples, width])?.into_any())
    }

    fn set_learning_rate(&self, rate: f32) {
        self.state().rate = rate;
    }

    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state();
        let bytes = state.layers.save().to_bytes(Path::new(STATE));
        let bytes = bytes.map_err(|error| failed(py, error))?;
        let dict = PyDict::new(py);
        dict.set_item("checkpoint", PyArray1::from_vec(py, bytes))?;
        dict.set_item("updates", state.updates)?;
        Ok(dict)
    }

    fn load_state_dict(&self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = given.py();
        let bytes = given.get_item("checkpoint")?.call_method0("tobytes")?;
        let bytes = bytes.cast_into::<PyBytes>()?;
        let saved = PartyWeights::parse(bytes.as_bytes(), Path::new(STATE), PARTY_CHECKPOINT);
        let saved = saved.map_err(|error| failed(py, error))?;
        let updates = given.get_item("updates")?.extract()?;
        let mut state = self.state();
        state.layers.load(&saved).map_err(|error| failed(py, error))?;
        (state.updates, state.x) = (updates, Vec::new());
        Ok(())
    }
}
