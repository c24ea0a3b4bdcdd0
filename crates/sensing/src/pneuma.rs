//! pNEUMA: the drone recordings of Athens, in their published form.
//!
//! One row is one vehicle: its number, type, travelled distance and mean speed, then a group of six
//! fields for every frame of 0.04 s, so that rows differ in length:
//!
//! ```text
//! track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time
//! 1; Car; 48.85; 9.77; 37.977391; 23.737688; 4.9178; 0.0518; -0.0299; 0.000000; 37.977391; …
//! ```
//!
//! 1. [`PneumaReader`] reads both published [`Variant`]s, one track at a time.
//! 2. [`Film`] shows a simulated vehicle as a drone would, and [`write_header`] and
//!    [`write_track`] put it into the same form, [`PneumaWriter`] a whole simulation: the real data
//!    may not be passed on.
//! 3. [`Session`] is what a file's name says of the day and time.

mod fields;
mod film;
mod noise;
mod reader;
mod session;
mod variant;
mod writer;

pub use film::{Film, FilmError, Frame};
pub use noise::PositionNoise;
pub use reader::{PneumaError, PneumaReader, ReadOptions, open_pneuma};
pub use session::{Session, SessionError};
pub use variant::Variant;
pub use writer::{PneumaWriteError, PneumaWriter, write_header, write_track};

/// Seconds between two frames of the film.
pub(crate) const FRAME: f64 = 0.04;
