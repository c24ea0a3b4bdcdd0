//! Losses by epoch, as CSV.

use std::path::Path;

use anyhow::{Context, Result};

use super::Row;

/// Writes a line for each epoch of some fits; of rows that sum up several seeds, for each epoch of each seed.
pub(super) fn write<'a>(path: &Path, rows: impl IntoIterator<Item = &'a Row>) -> Result<()> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let named = || path.display().to_string();
    let header = ["method", "rate", "target", "seed", "epoch", "train", "validation", "best"];
    table.write_record(header).with_context(named)?;
    for row in rows {
        for fit in if row.runs.is_empty() { std::slice::from_ref(row) } else { &row.runs } {
            for epoch in &fit.losses {
                let fields = [
                    fit.method.name().to_owned(),
                    fit.rate.to_string(),
                    format!("{:?}", fit.target).to_lowercase(),
                    fit.seeds.first().map_or_else(String::new, u64::to_string),
                    epoch.number.to_string(),
                    epoch.train.to_string(),
                    epoch.validation.to_string(),
                    (fit.best_epoch == Some(epoch.number)).to_string(),
                ];
                table.write_record(fields).with_context(named)?;
            }
        }
    }
    let bytes = table.into_inner().map_err(|error| error.into_error()).with_context(named)?;
    Ok(durable::write(path, bytes)?)
}
