//! Makes a large dataset of a small one: the same traffic again and again, each time later and with
//! new vehicles.
//!
//! ```text
//! cargo run --release -p sensing --example repeat_dataset -- DATASET OUT ROWS
//! ```
//!
//! Stops after the first repetition that reaches ROWS. Streams: memory grows with vehicles only.

use std::error::Error;
use std::path::Path;

use sensing::{Dataset, DatasetWriter, Provenance, VehicleTable};
use traffic::{PositionSource, Seconds, VehicleId, VehiclePosition};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dataset, out, rows] = &arguments[..] else {
        return Err("expected DATASET OUT ROWS".into());
    };
    let rows: u64 = rows.parse()?;
    let dataset = Dataset::open(Path::new(dataset))?;
    let [recording] = dataset.manifest().recordings[..] else {
        return Err("expected a dataset of one recording".into());
    };
    // One second more, so that the next repetition begins after the last moment of this one.
    let period = (recording.end - recording.begin).get() + 1.0;
    let gap = Seconds::new(60.0);
    let mut writer =
        DatasetWriter::create(Path::new(out), dataset.network(), Provenance::default(), gap)?;
    let (mut vehicles, mut samples) = (VehicleTable::default(), Vec::new());
    let (mut written, mut repetition) = (0, 0);
    while written < rows {
        let before = vehicles.all().len() as u32;
        for vehicle in dataset.vehicles().all() {
            vehicles.number(&format!("{repetition}-{}", vehicle.name), vehicle.class);
        }
        let mut moments = dataset.samples()?;
        while let Some(time) = moments.next_moment(&mut samples)? {
            let time = time.get() + f64::from(repetition) * period;
            for sample in &mut samples {
                let vehicle = VehicleId(sample.vehicle.0 + before);
                *sample = VehiclePosition { time, vehicle, ..*sample };
            }
            writer.moment(Seconds::new(time), &samples)?;
            written += samples.len() as u64;
        }
        if written == 0 {
            return Err("expected a dataset that is not empty".into());
        }
        repetition += 1;
    }
    writer.finish(&vehicles, &[])?;
    println!("{written} rows, {} vehicles, {repetition} repetitions", vehicles.all().len());
    Ok(())
}
