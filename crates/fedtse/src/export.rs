//! `fedtse export`: simulated vehicles in the form of real recordings.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sensing::Dataset;
use sensing::pneuma::{Film, PositionNoise, Variant, write_header, write_track};
use serde_json::json;
use traffic::{Metres, Samples, VehicleSample};

/// Film a dataset as a drone would: the pNEUMA format, with position noise
///
/// The real recordings may not be passed on, so this makes a stand-in in the exact format, with the
/// truth beside it.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse export data/corridor --minutes 5 --out film.csv --truth truth.csv"
)]
pub struct ExportArguments {
    /// The dataset
    folder: PathBuf,
    /// Where to write the film
    #[arg(long)]
    out: PathBuf,
    /// Where to write the true link and position of each second (vehicle,time,link,position)
    #[arg(long)]
    truth: Option<PathBuf>,
    /// First minute, since the start of the dataset's first recording
    #[arg(long, default_value_t = 0.0)]
    from_minute: f64,
    /// Minutes to film
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Standard deviation of the white position noise in metres
    #[arg(long, default_value_t = 1.0)]
    noise: f64,
    /// Seed of the noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The older form: other column names, times in milliseconds
    #[arg(long)]
    milliseconds: bool,
}

pub fn run(arguments: &ExportArguments, json: bool) -> Result<()> {
    let dataset = Dataset::open(&arguments.folder)?;
    ensure!(
        arguments.minutes > 0.0 && arguments.minutes <= 60.0,
        "--minutes: found {}, expected more than 0 and at most 60",
        arguments.minutes
    );
    ensure!(arguments.noise >= 0.0, "--noise: found {}, expected 0 m or more", arguments.noise);
    let begin = dataset.manifest().recordings.first().map_or(0.0, |first| first.begin.get())
        + arguments.from_minute * 60.0;
    let end = begin + arguments.minutes * 60.0;
    let tracks = tracks(&dataset, begin, end)?;
    let noise = PositionNoise {
        white: Metres::new(arguments.noise),
        ..if arguments.noise > 0.0 { PositionNoise::default() } else { PositionNoise::NONE }
    };
    let variant = if arguments.milliseconds { Variant::Milliseconds } else { Variant::Seconds };
    let mut out = create(&arguments.out)?;
    let mut truth = arguments.truth.as_ref().map(create).transpose()?;
    if let Some(truth) = &mut truth {
        writeln!(truth, "vehicle,time,link,position")?;
    }
    write_header(&mut out, variant)?;
    let mut filmed = 0;
    for track in &tracks {
        if track.len() < 2 {
            continue;
        }
        filmed += 1;
        let id = track[0].vehicle;
        let film = Film::of(dataset.network(), track, noise, arguments.seed ^ u64::from(id.0))?;
        let class = dataset.vehicles().get(id).map_or_else(Default::default, |v| v.class);
        write_track(&mut out, variant, filmed, class, &film, begin)?;
        if let Some(truth) = &mut truth {
            for sample in film.truth.iter().filter(|s| (s.time - begin).rem_euclid(1.0) < 1e-6) {
                let link = &dataset.network().link(sample.link).name;
                writeln!(
                    truth,
                    "{filmed},{:.2},{link},{:.3}",
                    sample.time - begin,
                    sample.position
                )?;
            }
        }
    }
    out.flush().with_context(|| format!("{}", arguments.out.display()))?;
    if let Some(truth) = &mut truth {
        truth.flush()?;
    }
    if json {
        println!("{}", json!({ "tracks": filmed, "out": arguments.out }));
    } else {
        println!("{}: {filmed} tracks over {} minutes", arguments.out.display(), arguments.minutes);
    }
    Ok(())
}

/// The samples between two times, one list per vehicle, in order of first sight.
fn tracks(dataset: &Dataset, begin: f64, end: f64) -> Result<Vec<Vec<VehicleSample>>> {
    let mut by_vehicle: std::collections::BTreeMap<u32, Vec<VehicleSample>> = Default::default();
    let (mut samples, mut moment) = (dataset.samples()?, Vec::new());
    while let Some(time) = samples.next_moment(&mut moment)? {
        if time.get() > end {
            break;
        }
        if time.get() >= begin {
            for &sample in &moment {
                by_vehicle.entry(sample.vehicle.0).or_default().push(sample);
            }
        }
    }
    Ok(by_vehicle.into_values().collect())
}

fn create(path: &PathBuf) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).with_context(|| format!("{}", path.display()))?))
}
