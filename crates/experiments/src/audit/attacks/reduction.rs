//! Lattice reduction on the gradient of a guest's embedding: nine products of eighteen measurements, sample by sample.
//!
//! In the paper's algorithm the host computes this gradient and sends it on, so it sees the products. In ours it goes
//! to the guest alone (`MaskedGradient`): what is measured here is what that spares the guest.

use anyhow::Result;
use attacks::lattice::whole_numbers;
use attacks::{Mode, SealedBatch};
use sealed::Agreement;

use super::products::{Choices, noise};
use super::report::Attack;
use super::versions::{Versions, outcomes};

/// Samples that are attacked.
const SAMPLES: usize = 20;

pub(super) fn attack(
    rows: &[Vec<Vec<f64>>],
    versions: &Versions,
    width: usize,
    choices: &Choices,
) -> Result<Attack> {
    let samples = SAMPLES.min(rows.len());
    let mut results = Vec::new();
    for mode in Mode::ALL {
        let (vector, grid) = versions.of_mode(mode);
        let seen = &vector.values()[..samples * width];
        if !mode.is_sealed() {
            results.extend(outcomes(mode, 1, versions, seen, "seen as they are"));
            continue;
        }
        let agreement = Agreement { width, grid, most_rows: 1 << 10, most_blocks: samples };
        let mut sealed = SealedBatch::new(agreement, &vector.levels()[..samples * width])?;
        let mut guess = versions.trivial[..samples * width].to_vec();
        let mut whole = 0;
        for (sample, rows) in rows.iter().take(samples).enumerate() {
            let (weights, products) = sealed.whole(sample..sample + 1, rows)?;
            // What was not measured has no weight in any row, and cannot be told.
            let told: Vec<usize> =
                (0..width).filter(|&j| weights.iter().any(|row| row[j] != 0)).collect();
            let weights: Vec<Vec<i64>> =
                weights.iter().map(|row| told.iter().map(|&j| row[j]).collect()).collect();
            let Some(levels) = whole_numbers(&weights, &products, grid.levels().into()) else {
                continue;
            };
            whole += 1;
            for (j, level) in told.into_iter().zip(levels) {
                guess[sample * width + j] = grid.value(level as i32);
            }
        }
        let note = format!("{whole} of {samples} samples whole");
        results.extend(outcomes(mode, 1, versions, &guess, &note));
    }
    let products = rows.first().map_or(0, Vec::len);
    Ok(Attack {
        name: "lattice",
        adversary: "the host",
        victim: "a guest's measurements",
        setting: format!(
            "FedTSE-PI as the paper has it, where the host sees the gradient of the guest's embedding: {products} products of {width} values a sample (here that gradient goes to the guest alone)"
        ),
        noise: noise(choices),
        results,
        memberships: Vec::new(),
    })
}
