//! Makes a file in the form of pNEUMA, with the truth beside it, by driving vehicles along random
//! routes with stops at the ends of links:
//!
//! ```text
//! cargo run --release -p sensing --example pneuma_fixture -- DIR [corridor|grid] [VEHICLES]
//! ```
//!
//! Writes `DIR/network.toml`, `DIR/20181024_d1_0830_0900.csv` and `DIR/truth.csv`
//! (vehicle, time, link, position; every 0.2 s).

use std::error::Error;
use std::fs::{File, create_dir_all, write};
use std::io::{BufWriter, Write};
use std::path::Path;

use seeded::SplitMix64;
use sensing::pneuma::{Film, PositionNoise, Variant, write_header, write_track};
use traffic::{
    GridPlan, LinkId, Network, Seconds, VehicleClass, VehicleId, VehiclePosition, corridor, grid,
    write_network,
};

/// The film is half an hour long; vehicles depart in its first 25 minutes.
const DEPARTURES: f64 = 1500.0;
const MAX_LINKS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder to write to")?;
    let network = match arguments.next().as_deref() {
        None | Some("corridor") => corridor()?,
        Some("grid") => grid(GridPlan { rows: 8, columns: 8, ..GridPlan::default() })?,
        Some(other) => return Err(format!("found `{other}`, expected corridor or grid").into()),
    };
    let vehicles: u32 = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let folder = Path::new(&folder);
    create_dir_all(folder)?;
    write(folder.join("network.toml"), write_network(&network))?;
    let mut tracks = BufWriter::new(File::create(folder.join("20181024_d1_0830_0900.csv"))?);
    let mut truth = BufWriter::new(File::create(folder.join("truth.csv"))?);
    write_header(&mut tracks, Variant::Seconds)?;
    writeln!(truth, "vehicle,time,link,position")?;
    for number in 0..vehicles {
        let mut random = Random(SplitMix64::new(u64::from(number) << 32));
        let samples = drive(&network, VehicleId(number), &mut random);
        let film = Film::of(&network, &samples, PositionNoise::default(), random.0.state())?;
        let start = Seconds::ZERO;
        write_track(&mut tracks, Variant::Seconds, number, VehicleClass::Car, &film, start)?;
        for real in film.truth.iter().filter(|real| (real.time * 25.0).round() as i64 % 5 == 0) {
            let link = &network.link(real.link).name;
            writeln!(truth, "{number},{:.2},{link},{:.3}", real.time, real.position)?;
        }
    }
    Ok(())
}

/// One vehicle on a random route, at 1 s steps: it speeds up, slows down for the end of some links
/// and waits there.
fn drive(network: &Network, vehicle: VehicleId, random: &mut Random) -> Vec<VehiclePosition> {
    let entries: Vec<LinkId> = network.entries().collect();
    let mut link = entries[random.below(entries.len())];
    let mut time = (random.share() * DEPARTURES).floor();
    let (mut position, mut speed) = (0.0_f64, 8.0_f64);
    let mut lane = random.below(usize::from(network.link(link).lanes)) as u8;
    let (mut wait, mut links) = (stop(random), 1);
    let mut samples = Vec::new();
    loop {
        let length = network.link(link).length.get();
        let sample = VehiclePosition {
            time,
            vehicle,
            link,
            position: position as f32,
            lane,
            speed: speed as f32,
        };
        samples.push(sample);
        time += 1.0;
        if wait > 0.0 && length - position < 2.0 {
            speed = 0.0;
            wait -= 1.0;
            continue;
        }
        let wanted = network.link(link).speed.get() * 0.8;
        speed = (speed + 2.0).min(wanted);
        if wait > 0.0 {
            // Half of what is left in the next second: it comes to rest at the stop line.
            speed = speed.min((length - position) * 0.5);
        }
        position += speed;
        while position > network.link(link).length.get() {
            let turns = network.outgoing(link);
            if turns.is_empty() || links == MAX_LINKS {
                return samples;
            }
            position -= network.link(link).length.get();
            link = network.turn(turns[random.below(turns.len())]).to;
            lane = random.below(usize::from(network.link(link).lanes)) as u8;
            wait = stop(random);
            links += 1;
        }
    }
}

/// Seconds to wait at the end of a link: half of the time none, else up to 40.
fn stop(random: &mut Random) -> f64 {
    if random.share() < 0.5 { 0.0 } else { (random.share() * 40.0).floor() }
}

struct Random(SplitMix64);

impl Random {
    fn share(&mut self) -> f64 {
        self.0.next_f64()
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.share() * count as f64) as usize).min(count.saturating_sub(1))
    }
}
