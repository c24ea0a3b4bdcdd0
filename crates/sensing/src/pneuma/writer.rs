//! Writes films in the published forms.

use std::collections::BTreeMap;
use std::io::{self, Write};

use thiserror::Error;
use traffic::{Network, Seconds, VehicleClass, VehicleId, VehiclePosition};

use super::FRAME;
use super::film::{Film, FilmError};
use super::noise::PositionNoise;
use super::variant::{Variant, type_name};

/// Writes the first line of a file.
pub fn write_header(out: &mut impl Write, variant: Variant) -> io::Result<()> {
    writeln!(out, "{}", variant.columns().join("; "))
}

/// Writes one vehicle's row; `start` is when the film starts, since the epoch.
///
/// Digits are as many as the published files have: places to 1e-6 degrees (0.1 m), speeds and
/// accelerations to 1e-4.
pub fn write_track(
    out: &mut impl Write,
    variant: Variant,
    track_id: u32,
    class: VehicleClass,
    film: &Film,
    start: Seconds,
) -> io::Result<()> {
    let metres: f64 = film.frames.iter().map(|frame| frame.speed * FRAME).sum();
    let seconds = film.frames.len() as f64 * FRAME;
    let mean_kmh = if seconds > 0.0 { metres / seconds * 3.6 } else { 0.0 };
    write!(out, "{track_id}; {}; {metres:.2}; {mean_kmh:.6}; ", type_name(class))?;
    for frame in &film.frames {
        let (lat, lon) = (frame.place.lat, frame.place.lon);
        let kmh = frame.speed.max(0.0) * 3.6;
        let (along, across) = (frame.along, frame.across);
        write!(out, "{lat:.6}; {lon:.6}; {kmh:.4}; {along:.4}; {across:.4}; ")?;
        let time = frame.time - start.get();
        match variant {
            Variant::Seconds => write!(out, "{time:.6}; ")?,
            Variant::Milliseconds => write!(out, "{:.0}; ", time * 1000.0)?,
        }
    }
    writeln!(out)
}

/// Films a whole simulation as it runs: a vehicle's row is written when it has left.
///
/// Holds only the vehicles that are present.
pub struct PneumaWriter<'n, W> {
    network: &'n Network,
    out: W,
    variant: Variant,
    noise: PositionNoise,
    seed: u64,
    start: Seconds,
    present: BTreeMap<VehicleId, (VehicleClass, Vec<VehiclePosition>)>,
}

/// Why writing stopped.
#[derive(Debug, Error)]
pub enum PneumaWriteError {
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A vehicle cannot be filmed.
    #[error("vehicle {vehicle}: {error}")]
    Film {
        /// Its number.
        vehicle: u32,
        /// What is wrong.
        error: FilmError,
    },
}

impl<'n, W: Write> PneumaWriter<'n, W> {
    /// Writes the header. `start` is when the film starts, since the epoch; each vehicle's errors
    /// follow from `seed` and its number.
    pub fn new(
        network: &'n Network,
        mut out: W,
        variant: Variant,
        noise: PositionNoise,
        seed: u64,
        start: Seconds,
    ) -> io::Result<Self> {
        write_header(&mut out, variant)?;
        Ok(Self { network, out, variant, noise, seed, start, present: BTreeMap::new() })
    }

    /// Takes all vehicles of a moment; one before the start is passed over. Hands the true samples of those that have left since the
    /// last one, frame by frame, to `truth`.
    pub fn moment(
        &mut self,
        samples: &[VehiclePosition],
        class: impl Fn(VehicleId) -> VehicleClass,
        truth: impl FnMut(&[VehiclePosition]),
    ) -> Result<(), PneumaWriteError> {
        let now = samples.first().map_or(f64::INFINITY, |sample| sample.time);
        for sample in samples.iter().filter(|sample| sample.time >= self.start.get()) {
            let new = || (class(sample.vehicle), Vec::new());
            self.present.entry(sample.vehicle).or_insert_with(new).1.push(*sample);
        }
        self.write_gone(now, truth)
    }

    /// Writes the vehicles that are still present, and gives the file back.
    pub fn finish(mut self, truth: impl FnMut(&[VehiclePosition])) -> Result<W, PneumaWriteError> {
        self.write_gone(f64::INFINITY, truth)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_gone(
        &mut self,
        now: f64,
        mut truth: impl FnMut(&[VehiclePosition]),
    ) -> Result<(), PneumaWriteError> {
        let Self { network, out, variant, noise, seed, start, present } = self;
        let mut result = Ok(());
        present.retain(|vehicle, (class, samples)| {
            let here = samples.last().is_some_and(|sample| sample.time >= now);
            if here || result.is_err() {
                return true;
            }
            // Odd and large: neighbouring vehicles draw from far apart.
            let own_seed = *seed ^ u64::from(vehicle.0).wrapping_mul(0xd134_2543_de82_ef95);
            result = Film::of(network, samples, *noise, own_seed)
                .map_err(|error| PneumaWriteError::Film { vehicle: vehicle.0, error })
                .and_then(|film| {
                    truth(&film.truth);
                    if film.frames.is_empty() {
                        return Ok(());
                    }
                    Ok(write_track(out, *variant, vehicle.0, *class, &film, *start)?)
                });
            false
        });
        result
    }
}
