//! `fedtse export`: simulated vehicles in the form of real recordings.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sensing::Dataset;
use sensing::pneuma::{PneumaWriter, PositionNoise, Variant};
use serde_json::json;
use traffic::{Metres, Network, PositionSource, Seconds, VehicleClass, VehicleId, VehiclePosition};

/// Film a dataset as a drone would: the pNEUMA format, with position noise
///
/// The real recordings may not be passed on, so this makes a stand-in in the exact format, with the
/// truth beside it.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse export data/corridor --minutes 5 --out film.csv --truth truth.csv"
)]
pub(crate) struct ExportArguments {
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

pub(crate) fn run(arguments: &ExportArguments, json: bool) -> Result<()> {
    let dataset = Dataset::open(&arguments.folder)?;
    ensure!(
        arguments.minutes > 0.0 && arguments.minutes <= 60.0,
        "--minutes: found {}, expected more than 0 and at most 60",
        arguments.minutes
    );
    ensure!(arguments.noise >= 0.0, "--noise: found {}, expected 0 m or more", arguments.noise);
    let first = dataset.manifest().recordings.first().map_or(0.0, |first| first.begin.get());
    let begin = Seconds::new(first + arguments.from_minute * 60.0);
    let end = begin + Seconds::new(arguments.minutes * 60.0);
    let noise = if arguments.noise > 0.0 {
        PositionNoise { white: Metres::new(arguments.noise), ..PositionNoise::default() }
    } else {
        PositionNoise::NONE
    };
    let variant = if arguments.milliseconds { Variant::Milliseconds } else { Variant::Seconds };
    let network = dataset.network();
    let out = create(&arguments.out)?;
    let mut film = PneumaWriter::new(network, out, variant, noise, arguments.seed, begin)
        .with_context(|| format!("{}", arguments.out.display()))?;
    let mut truth = Truth::create(arguments.truth.as_deref(), network, begin)?;
    let class = |id: VehicleId| {
        dataset.vehicles().get(id).map_or(VehicleClass::Car, |vehicle| vehicle.class)
    };
    let (mut samples, mut moment) = (dataset.samples()?, Vec::new());
    while let Some(time) = samples.next_moment(&mut moment)? {
        if time > end {
            break;
        }
        film.moment(&moment, class, |track| truth.add(track))?;
    }
    film.finish(|track| truth.add(track))?;
    let tracks = truth.finish()?;
    if json {
        println!("{}", json!({ "tracks": tracks, "out": arguments.out }));
    } else {
        println!("{}: {tracks} tracks over {} minutes", arguments.out.display(), arguments.minutes);
    }
    Ok(())
}

/// Where vehicles really were, once a second.
struct Truth<'n> {
    network: &'n Network,
    begin: Seconds,
    out: Option<csv::Writer<BufWriter<File>>>,
    tracks: u64,
    failure: Option<csv::Error>,
}

impl<'n> Truth<'n> {
    fn create(path: Option<&Path>, network: &'n Network, begin: Seconds) -> Result<Self> {
        let mut out = path.map(create).transpose()?.map(csv::Writer::from_writer);
        if let Some(out) = &mut out {
            out.write_record(["vehicle", "time", "link", "position"])?;
        }
        Ok(Self { network, begin, out, tracks: 0, failure: None })
    }

    fn add(&mut self, track: &[VehiclePosition]) {
        self.tracks += u64::from(!track.is_empty());
        let Some(out) = &mut self.out else { return };
        for sample in track {
            let time = sample.time - self.begin.get();
            if (time - time.round()).abs() > 1e-6 || self.failure.is_some() {
                continue;
            }
            let row = [
                sample.vehicle.0.to_string(),
                format!("{time:.0}"),
                self.network.link(sample.link).name.clone(),
                format!("{:.3}", sample.position),
            ];
            self.failure = out.write_record(row).err();
        }
    }

    fn finish(self) -> Result<u64> {
        if let Some(failure) = self.failure {
            return Err(failure).context("--truth");
        }
        if let Some(mut out) = self.out {
            out.flush().context("--truth")?;
        }
        Ok(self.tracks)
    }
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).with_context(|| format!("{}", path.display()))?))
}
