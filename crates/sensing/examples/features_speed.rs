//! Makes the features of a dataset and says how long it took; the counterpart of
//! `scripts/peer_pandas.py`:
//!
//! ```text
//! cargo run --release -p sensing --example features_speed -- DATASET [RATE,...]
//! ```
//!
//! Without rates it makes no fleets: only the totals of all vehicles, and what comes with them.
//! Prints one line of JSON with the seconds from the first byte read to the last written.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use sensing::{Dataset, FeaturePlan, Fleets, make_features};
use traffic::Seconds;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected DATASET [RATE,...]")?;
    let rates = arguments.next().unwrap_or_default();
    let rates = rates.split(',').filter(|rate| !rate.is_empty()).map(str::parse);
    let fleets = Fleets::nested(&rates.collect::<Result<Vec<f64>, _>>()?, 1)?;
    let begin = Instant::now();
    let dataset = Dataset::open(Path::new(&folder))?;
    let from = Seconds::new(f64::NEG_INFINITY);
    let manifest = make_features(&dataset, FeaturePlan::paper(fleets), from, |_, _| {})?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{{\"tool\": \"fedtse\", \"seconds\": {seconds:.6}, \"samples\": {}}}",
        manifest.report.samples
    );
    Ok(())
}
