//! The host's matrix A, from its actual model: how gradients depend on what the guest measures.

use anyhow::{Context, Result};
use attacks::least_squares::EACH;
use estimator::{MeasurementSource, Objective, PhysicsInformed, Readings};
use neural::{Fusion, Layer, Learner};
use traffic::Window;

use super::scene::{MOST, Scene};
use super::training::GUEST;

/// How the gradient of the estimates depends on what is measured, `[sample, scored link, measurement, output]`:
/// it is linear in it, so differences tell.
pub(super) fn slopes(
    scene: &Scene,
    batch: &[Window],
    readings: &Readings<'_>,
    y: &[f32],
    measurements: &mut PhysicsInformed,
) -> Result<Vec<f64>> {
    let links = scene.study.network().links().len();
    let each = scene.measured.entries().len();
    let mut gradient = |ones: Option<usize>| -> Result<Vec<f32>> {
        let is_one = |i: usize| ones == Some(i % each / links);
        let values: Vec<f32> =
            (0..readings.values.len()).map(|i| f32::from(u8::from(is_one(i)))).collect();
        let given = Readings { values: &values, weights: readings.weights };
        let mut dy = vec![0.0; y.len()];
        measurements.train(batch, &[(GUEST, given)].into(), y, &mut dy)?;
        Ok(dy)
    };
    let none = gradient(None)?;
    let by = [gradient(Some(0))?, gradient(Some(1))?];
    let mut slopes = Vec::new();
    for sample in 0..batch.len() {
        for link in scene.study.targets() {
            for (by, most) in by.iter().zip(MOST) {
                for output in 0..EACH {
                    let at = (sample * links + link.index()) * EACH + output;
                    slopes.push(f64::from(by[at] - none[at]) * most);
                }
            }
        }
    }
    Ok(slopes)
}

/// What enters the last layer of the paper's head, `[sample, unit]`: the gradient of an output's weights there.
pub(super) fn last_layer_inputs(host: &mut Learner<Fusion>, x: &[f32]) -> Result<Vec<f64>> {
    let outputs = host.model().output_len();
    let weights = host.layout().parameters().iter().find(|one| one.name == "head.out.weight");
    let range = weights.context("the head's last layer")?.range.clone();
    let mut hidden = Vec::new();
    for x in x.chunks_exact(host.model().input_len()) {
        backward(host, x, 0, None);
        let of_first = host.gradient()[range.clone()].iter().step_by(outputs);
        hidden.extend(of_first.map(|&unit| f64::from(unit)));
    }
    Ok(hidden)
}

/// Rows of A for every weight of the host, over the measurements of a batch. Weights that nothing depends on are
/// left out.
pub(super) fn host_jacobian(
    scene: &Scene,
    host: &mut Learner<Fusion>,
    x: &[f32],
    slopes: &[f64],
) -> Vec<Vec<f64>> {
    let (weights, columns) = (host.parameters().len(), slopes.len() / EACH);
    let mut rows = vec![vec![0.0; columns]; weights];
    let links = scene.study.targets().len();
    for (sample, x) in x.chunks_exact(host.model().input_len()).enumerate() {
        for (at, link) in scene.study.targets().iter().enumerate() {
            for output in 0..EACH {
                backward(host, x, EACH * link.index() + output, None);
                for measurement in 0..EACH {
                    let column = (sample * links + at) * EACH + measurement;
                    let slope = slopes[column * EACH + output];
                    if slope != 0.0 {
                        for (row, &by) in rows.iter_mut().zip(host.gradient()) {
                            row[column] += slope * f64::from(by);
                        }
                    }
                }
            }
        }
    }
    rows.retain(|row| row.iter().any(|&entry| entry != 0.0));
    rows
}

/// Rows of A for each number of the guest's embedding, sample by sample, over that sample's measurements.
pub(super) fn to_embedding(
    scene: &Scene,
    host: &mut Learner<Fusion>,
    x: &[f32],
    slopes: &[f64],
    width: usize,
) -> Result<Vec<Vec<Vec<f64>>>> {
    let inputs = host.model().input_len();
    let columns = scene.study.targets().len() * EACH;
    let mut all = Vec::new();
    for (x, slopes) in x.chunks_exact(inputs).zip(slopes.chunks_exact(columns * EACH)) {
        let mut rows = vec![vec![0.0; columns]; width];
        for (at, link) in scene.study.targets().iter().enumerate() {
            for output in 0..EACH {
                let mut dx = vec![0.0; inputs];
                backward(host, x, EACH * link.index() + output, Some(&mut dx));
                // The guest's numbers are the last ones.
                for (row, &by) in rows.iter_mut().zip(&dx[inputs - width..]) {
                    for measurement in 0..EACH {
                        let column = at * EACH + measurement;
                        row[column] += slopes[column * EACH + output] * f64::from(by);
                    }
                }
            }
        }
        all.push(rows);
    }
    Ok(all)
}

/// The gradient of one output of one sample.
fn backward(host: &mut Learner<Fusion>, x: &[f32], output: usize, dx: Option<&mut [f32]>) {
    let outputs = host.model().output_len();
    let (mut y, mut dy) = (vec![0.0; outputs], vec![0.0; outputs]);
    dy[output] = 1.0;
    host.forward(x, &mut y, None);
    host.backward(x, &dy, dx, None);
}
