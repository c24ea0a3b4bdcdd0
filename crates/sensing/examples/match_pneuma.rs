//! Matches a pNEUMA file on one thread and compares with the truth; the counterpart of
//! `scripts/peer_leuven.py`:
//!
//! ```text
//! cargo run --release -p sensing --example match_pneuma -- NETWORK.toml TRACKS.csv TRUTH.csv [SECONDS]
//! ```
//!
//! Tracks are thinned to one place in SECONDS (1 by default). Prints one line of JSON with the
//! time spent matching (without reading the file), and the report on standard error.

use std::error::Error;
use std::time::Instant;

use sensing::matching::{MatchParameters, MatchReport, MatchScratch, Matcher, Track, accuracy};
use sensing::pneuma::{ReadOptions, open_pneuma};
use traffic::{Network, Seconds, VehicleId, VehiclePosition, parse_network};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [network, tracks, truth, rest @ ..] = &arguments[..] else {
        return Err("expected NETWORK.toml TRACKS.csv TRUTH.csv [SECONDS]".into());
    };
    let interval: f64 = rest.first().map_or(Ok(1.0), |text| text.parse())?;
    let network = parse_network(&std::fs::read_to_string(network)?)?;
    let options = ReadOptions { interval: Some(Seconds::new(interval)), ..ReadOptions::default() };
    let reading = Instant::now();
    let tracks: Vec<Track> = open_pneuma(tracks, options)?.collect::<Result<_, _>>()?;
    let reading = reading.elapsed();
    let truth = read_truth(&network, truth, interval)?;

    let matching = Instant::now();
    let matcher = Matcher::new(&network, MatchParameters::default())?;
    let mut scratch = MatchScratch::default();
    let mut report = MatchReport::default();
    let mut matched: Vec<VehiclePosition> = Vec::new();
    for track in &tracks {
        let vehicle = VehicleId(track.name.parse()?);
        let result = matcher.match_track(track, vehicle, &mut scratch);
        report.add(&result.report);
        matched.extend(result.parts.iter().flatten());
    }
    let matching = matching.elapsed();
    eprint!("{report}");
    let agreement = accuracy(&network, &truth, &matched).ok_or("no truth for this interval")?;
    println!(
        "{{\"tool\": \"fedtse\", \"read_seconds\": {:.6}, \"seconds\": {:.6}, \"tracks\": {}, \"places\": {}, \"points\": {}, \"matched\": {}, \"right_link\": {:.6}, \"median_error\": {:.3}, \"error_95\": {:.3}}}",
        reading.as_secs_f64(),
        matching.as_secs_f64(),
        tracks.len(),
        report.points,
        agreement.points,
        agreement.matched,
        agreement.right_link,
        agreement.median_error.get(),
        agreement.error_95.get(),
    );
    Ok(())
}

/// The true samples at multiples of the interval.
fn read_truth(
    network: &Network,
    path: &str,
    interval: f64,
) -> Result<Vec<VehiclePosition>, Box<dyn Error>> {
    let mut truth = Vec::new();
    for row in csv::Reader::from_path(path)?.into_deserialize() {
        let (vehicle, time, link, position): (u32, f64, String, f32) = row?;
        let steps = time / interval;
        if (steps - steps.round()).abs() * interval > 1e-3 {
            continue;
        }
        let link = network.link_named(&link).ok_or("truth names a link that is not there")?;
        let vehicle = VehicleId(vehicle);
        truth.push(VehiclePosition { time, vehicle, link, position, lane: 0, speed: 0.0 });
    }
    Ok(truth)
}
