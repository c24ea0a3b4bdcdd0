//! Trains the paper's model from given weights on given data in a given order, for
//! `scripts/train_curves.py`, which does the same in PyTorch.
//!
//! Argument: a safetensors file with f32 tensors `parameters` (flat, our layout), `turns`
//! `[turn, (from, to, weight)]`, `x`, `y`, `x_validation`, `y_validation` (a row for each sample) and
//! `order` `[epoch, sample]`. Prints the mean training loss and the validation loss of each epoch.

use neural::{
    Adam, Decay, Fusion, Layer, Learner, Loss, Plan, Sparse, Squared, StgcnShape, head,
    scaled_laplacian, stgcn,
};
use safetensors::SafeTensors;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const NODES: usize = 17;
const BATCH: usize = 128;
const RATE: f32 = 1e-3;
const DECAY: f32 = 1e-3;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).ok_or("expected the path of a safetensors file")?;
    let bytes = std::fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let get = |name: &str| -> Result<Vec<f32>> {
        let values = file.tensor(name)?.data().as_chunks::<4>().0;
        Ok(values.iter().map(|&value| f32::from_le_bytes(value)).collect())
    };
    let turns: Vec<_> = get("turns")?
        .as_chunks::<3>()
        .0
        .iter()
        .map(|t| (t[0] as usize, t[1] as usize, t[2]))
        .collect();
    let laplacian = scaled_laplacian(&Sparse::new(NODES, &turns)?, 1.0);
    let joint = Fusion::new(head(18, 272, 2 * NODES))
        .with("host", stgcn(&StgcnShape::paper(1), &laplacian)?)
        .with("guest", stgcn(&StgcnShape::paper(2), &laplacian)?);
    let mut learner = Learner::new(joint, 0, Plan::default());
    learner.set_parameters(&get("parameters")?)?;
    let mut adam = Adam::new(learner.parameters().len(), Decay::InGradient(DECAY));
    let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
    let weights = vec![1.0 / outputs as f32; outputs];

    let (x, y) = (get("x")?, get("y")?);
    let (x_validation, y_validation) = (get("x_validation")?, get("y_validation")?);
    let mut estimate = vec![0.0; y_validation.len()];
    let mut unused = vec![0.0; y_validation.len()];
    for order in get("order")?.chunks_exact(x.len() / inputs) {
        let (mut total, mut batches) = (0.0, 0);
        for batch in order.chunks(BATCH) {
            let rows = |values: &[f32], width: usize| -> Vec<f32> {
                let row = |&sample: &f32| &values[sample as usize * width..][..width];
                batch.iter().flat_map(row).copied().collect()
            };
            let (x, y) = (rows(&x, inputs), rows(&y, outputs));
            total += learner.train(&x, &Squared::new(&y, &weights), None);
            learner.step(&mut adam, RATE);
            batches += 1;
        }
        learner.infer(&x_validation, &mut estimate);
        let loss = Squared::new(&y_validation, &weights);
        let validation = loss.evaluate(0, &estimate, &mut unused);
        println!("{} {validation}", total / f64::from(batches));
    }
    Ok(())
}
