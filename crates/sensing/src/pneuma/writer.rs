//! Writes films in the published forms.

use std::io::{self, Write};

use traffic::VehicleClass;

use super::FRAME;
use super::film::Film;
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
    start: f64,
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
        let time = frame.time - start;
        match variant {
            Variant::Seconds => write!(out, "{time:.6}; ")?,
            Variant::Milliseconds => write!(out, "{:.0}; ", time * 1000.0)?,
        }
    }
    writeln!(out)
}
