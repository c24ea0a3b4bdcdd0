//! Networks as objects.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traffic::{GridPlan, Metres, network_hash, parse_network, write_network};

use crate::errors::{raised, wrong};

/// A road network: links from stop line to stop line, turns, signals, loops.
#[pyclass(frozen, module = "fedtse")]
pub struct Network(pub Arc<traffic::Network>);

impl Network {
    fn of(network: traffic::Network) -> Self {
        Self(Arc::new(network))
    }

    fn numbers(&self, number: impl Fn(&traffic::Link) -> f64) -> Vec<f64> {
        self.0.links().iter().map(number).collect()
    }
}

#[pymethods]
impl Network {
    /// The corridor of the paper: 17 links, 7 signals.
    #[staticmethod]
    fn corridor(py: Python<'_>) -> PyResult<Self> {
        let network = traffic::corridor().map_err(|error| raised(py, &error.into()))?;
        Ok(Self::of(network))
    }

    /// A grid city of any size.
    #[staticmethod]
    #[pyo3(signature = (rows=5, columns=5, block_m=150.0, lanes=2, loop_every=5))]
    fn grid(
        py: Python<'_>,
        rows: usize,
        columns: usize,
        block_m: f64,
        lanes: u8,
        loop_every: usize,
    ) -> PyResult<Self> {
        let plan = GridPlan { rows, columns, block: Metres::new(block_m), lanes, loop_every };
        let network = traffic::grid(plan).map_err(|error| raised(py, &error.into()))?;
        Ok(Self::of(network))
    }

    /// Reads a network file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let network = sensing::read_network(&path).map_err(|error| raised(py, &error.into()))?;
        Ok(Self::of(network))
    }

    /// Reads the text of a network file.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        let network = parse_network(text).map_err(|error| raised(py, &error.into()))?;
        Ok(Self::of(network))
    }

    /// Writes a network file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        Ok(std::fs::write(path, write_network(&self.0))?)
    }

    /// The text of its file.
    fn to_toml(&self) -> String {
        write_network(&self.0)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What parties that train together must agree on.
    #[getter]
    fn hash(&self) -> String {
        network_hash(&self.0)
    }

    /// Names of its links, in their order.
    #[getter]
    fn links(&self) -> Vec<&str> {
        self.0.links().iter().map(|link| link.name.as_str()).collect()
    }

    #[getter]
    fn length_m<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_vec(py, self.numbers(|link| link.length.get()))
    }

    #[getter]
    fn speed_m_s<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_vec(py, self.numbers(|link| link.speed.get()))
    }

    #[getter]
    fn lanes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let lanes = self.0.links().iter().map(|link| i64::from(link.lanes));
        PyArray1::from_vec(py, lanes.collect())
    }

    /// Each link's line on the plane, `[point, (x, y)]` in metres.
    #[getter]
    fn shapes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let shape = |link: &traffic::Link| {
            let points: Vec<Vec<f64>> = link.shape.iter().map(|p| vec![p.x, p.y]).collect();
            Ok(PyArray2::from_vec2(py, &points)?)
        };
        self.0.links().iter().map(shape).collect()
    }

    /// Its turns, as pairs of numbers of links.
    #[getter]
    fn turns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let turns = self.0.turns().iter().map(|turn| vec![turn.from.0.into(), turn.to.0.into()]);
        let turns: Vec<Vec<i64>> = turns.collect();
        if turns.is_empty() {
            return Ok(PyArray2::zeros(py, [0, 2], false));
        }
        Ok(PyArray2::from_vec2(py, &turns)?)
    }

    /// Its loops: name, link and distance from the link's start.
    #[getter]
    fn loops<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let detector = |detector: &traffic::LoopDetector| {
            let dict = PyDict::new(py);
            dict.set_item("name", &detector.name)?;
            dict.set_item("link", &self.0.link(detector.link).name)?;
            dict.set_item("position_m", detector.position.get())?;
            Ok(dict)
        };
        self.0.loops().iter().map(detector).collect()
    }

    /// Names of the links whose estimates are scored.
    #[getter]
    fn targets(&self) -> Vec<String> {
        self.0.targets().iter().map(|&link| self.0.link(link).name.clone()).collect()
    }

    /// Latitude and longitude of the plane's zero, if it lies on Earth.
    #[getter]
    fn origin(&self) -> Option<(f64, f64)> {
        self.0.parts().origin.map(|origin| (origin.lat, origin.lon))
    }

    /// The number of a link.
    fn index(&self, py: Python<'_>, link: &str) -> PyResult<usize> {
        let id = self.0.link_named(link).map(traffic::LinkId::index);
        id.ok_or_else(|| {
            let name = self.0.name();
            wrong(py, format!("link: found \"{link}\", expected a link of network \"{name}\""))
        })
    }

    fn __len__(&self) -> usize {
        self.0.links().len()
    }

    fn __repr__(&self) -> String {
        let (links, signals) = (self.0.links().len(), self.0.signals().len());
        format!("<Network \"{}\": {links} links, {signals} signals>", self.0.name())
    }
}
