//! The data that attacks are run on: a dataset's loops, one fleet, and what it measures.

use std::path::Path;
use traffic::Window;

use anyhow::{Context, Result};
use estimator::data::Gathered;
use estimator::{
    MeasurementSource, MeasurementTable, QueueKnowledge, QueueStates, Readings, Study,
};

/// Most of what can be measured, which is public: density in veh/km/lane and speed in m/s.
pub(super) const MOST: [f64; 2] = [150.0, 20.0];
/// What is measured of a link.
pub(super) const QUANTITIES: [(&str, &str); 2] = [("density", "veh/km/lane"), ("speed", "m/s")];

/// A dataset with one guest.
pub(super) struct Scene {
    pub study: Study,
    /// Densities by queue profiles of all links, then speeds of all links.
    pub measured: MeasurementTable,
}

/// A guest's measurements of the links that are scored, `[sample, link, (density, speed)]`.
pub(super) struct Batch {
    /// As shares of [`MOST`].
    pub values: Vec<f64>,
    /// Whether anything was measured.
    pub known: Vec<bool>,
}

impl Scene {
    pub(super) fn open(folder: &Path, rate: f64) -> Result<Self> {
        let fleet = format!("fleet-{rate}");
        let study = Study::open(folder, &fleet).with_context(|| {
            format!("rate: found {rate}, expected one with features, by `fedtse features`")
        })?;
        let queues = QueueStates::read_union(folder, &[&fleet], QueueKnowledge::Fleet)?;
        let speeds = MeasurementTable::fleet_speeds(&study.fleets()[0]);
        let measured = MeasurementTable::queue_densities(&queues).beside(speeds);
        Ok(Self { study, measured })
    }

    /// Measurements of a batch.
    pub(super) fn gather(&self, samples: &[Window]) -> Gathered {
        let mut gathered = Gathered::default();
        gathered.gather(&self.measured, samples);
        gathered
    }

    /// The trivial guess: what is measured of each link on average, where anything is.
    pub(super) fn trivial(&self, samples: &[Window]) -> Vec<f64> {
        let gathered = self.gather(samples);
        let all = self.of_targets(&gathered.readings());
        let each = self.study.targets().len() * MOST.len();
        let mut sums = vec![(0.0f64, 0.0f64); each];
        for (i, (value, known)) in all.values.iter().zip(&all.known).enumerate() {
            if *known {
                sums[i % each].0 += value;
                sums[i % each].1 += 1.0;
            }
        }
        sums.into_iter().map(|(sum, count)| sum / count.max(1.0)).collect()
    }

    /// The scored links' part of measurements.
    pub(super) fn of_targets(&self, readings: &Readings<'_>) -> Batch {
        let (links, targets) = (self.study.network().links().len(), self.study.targets());
        let each = self.measured.entries().len();
        let (mut values, mut known) = (Vec::new(), Vec::new());
        for (row, weights) in
            readings.values.chunks_exact(each).zip(readings.weights.chunks_exact(each))
        {
            for link in targets {
                for (kind, most) in MOST.iter().enumerate() {
                    let at = kind * links + link.index();
                    values.push((f64::from(row[at]) / most).clamp(0.0, 1.0));
                    known.push(weights[at] > 0.0);
                }
            }
        }
        Batch { values, known }
    }
}
