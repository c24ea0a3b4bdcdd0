//! From samples to motion: what a vehicle did between two sightings.
//!
//! Between two samples a vehicle is taken to move at constant speed along the shortest chain of
//! links between them. Where that cannot be (a gap longer than the patience, no chain, an impossible
//! speed, a jump backwards) the track is broken there, counted, and begins anew.

use serde::Serialize;
use thiserror::Error;
use traffic::{LinkId, MetresPerSecond, Motion, Network, Seconds, VehicleId, VehiclePosition};

/// How many turns a vehicle may make between two samples.
const MAX_TURNS: usize = 4;
/// No road vehicle is faster (250 km/h): such a jump is a teleport, not motion. In a second on the road no vehicle adds more
/// metres than this to features, whatever its positions are: the noise of guests relies on it.
pub const MAX_SPEED: MetresPerSecond = MetresPerSecond::new(70.0);
/// Positions may go back by this much through noise; the vehicle is taken to stand.
const BACKWARD_NOISE: f32 = 5.0;
/// Positions may lie past the end of a link by this much through rounding.
const END_TOLERANCE: f32 = 1.0;

/// Times are at most this far from the epoch, three thousand years: beyond it numbers no longer
/// tell milliseconds, and steps could not be counted through.
pub(crate) const MAX_TIME: f64 = 1e11;

/// A sample that cannot be true.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PositionError {
    /// Time is not a number.
    #[error("time: found {0}, expected 0 s to 1e11 s")]
    Time(f64),
    /// Time runs backwards.
    #[error("time: found {found}, expected {last} or later")]
    Backwards {
        /// The time found.
        found: f64,
        /// The time before it.
        last: f64,
    },
    /// A sample that is not of the moment it was given with.
    #[error("time: found {found}, expected the moment's {moment}")]
    OtherMoment {
        /// The time found.
        found: f64,
        /// The time of the moment.
        moment: f64,
    },
    /// A vehicle twice at the same moment.
    #[error("found twice at time {time}, expected once")]
    Duplicate {
        /// When.
        time: f64,
    },
    /// A vehicle that nobody announced.
    #[error("vehicle: found number {found}, expected less than {vehicles}")]
    Vehicle {
        /// The number found.
        found: u32,
        /// Vehicles known.
        vehicles: usize,
    },
    /// A link that the network does not have.
    #[error("link: found number {found}, expected less than {links}")]
    Link {
        /// The number found.
        found: u32,
        /// Links in the network.
        links: usize,
    },
    /// A position off the link.
    #[error("position: found {found} m, expected 0 to {length} m on link `{link}`")]
    Position {
        /// The position found.
        found: f32,
        /// Length of the link.
        length: f64,
        /// Name of the link.
        link: String,
    },
    /// A speed that is negative or not a number.
    #[error("speed: found {0} m/s, expected 0 or more")]
    Speed(f32),
}

/// Whether it is a number that can be a time: nothing happens before the epoch.
pub(crate) fn is_time(seconds: f64) -> bool {
    (0.0..=MAX_TIME).contains(&seconds)
}

/// Checks one sample by itself against its network.
pub fn check_position(network: &Network, sample: &VehiclePosition) -> Result<(), PositionError> {
    if !is_time(sample.time) {
        return Err(PositionError::Time(sample.time));
    }
    check_place(network, sample.link, sample.position)?;
    if !(sample.speed >= 0.0 && sample.speed.is_finite()) {
        return Err(PositionError::Speed(sample.speed));
    }
    Ok(())
}

/// Checks that a place is on the network.
pub(crate) fn check_place(
    network: &Network,
    link: LinkId,
    position: f32,
) -> Result<(), PositionError> {
    let links = network.links();
    let Some(found) = links.get(link.index()) else {
        return Err(PositionError::Link { found: link.0, links: links.len() });
    };
    let length = found.length.get();
    if position >= 0.0 && position <= length as f32 + END_TOLERANCE {
        return Ok(());
    }
    Err(PositionError::Position { found: position, length, link: found.name.clone() })
}

/// Where a vehicle is at a moment: what features need of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Who.
    pub vehicle: VehicleId,
    /// On which link.
    pub link: LinkId,
    /// Metres from the start of the link.
    pub metres: f32,
}

/// Where tracks were broken, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Breaks {
    /// Not seen for longer than the patience, then seen again.
    pub gaps: u64,
    /// No chain of links between two samples.
    pub unreachable: u64,
    /// Faster than any vehicle.
    pub too_fast: u64,
    /// Back along the link by more than noise.
    pub backwards: u64,
}

/// When and where a vehicle was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub time: f64,
    pub link: LinkId,
    /// From the start of the link, and not past its end.
    pub metres: f32,
}

/// What a new sample means for a vehicle under way.
pub(crate) enum Progress {
    /// It moved within its link.
    Along(Motion),
    /// It moved over one or more turns, from the link's end onwards: see [`over_turns`].
    Over { path: Path, metres: f64 },
    /// Its track is broken here.
    Broken(BreakReason),
}

#[derive(Clone, Copy)]
pub(crate) enum BreakReason {
    Gap,
    Unreachable,
    TooFast,
    Backwards,
}

impl Breaks {
    pub(crate) fn count(&mut self, reason: BreakReason) {
        match reason {
            BreakReason::Gap => self.gaps += 1,
            BreakReason::Unreachable => self.unreachable += 1,
            BreakReason::TooFast => self.too_fast += 1,
            BreakReason::Backwards => self.backwards += 1,
        }
    }
}

/// The furthest that a vehicle can get in some seconds.
pub(crate) fn furthest(seconds: f64) -> f64 {
    MAX_SPEED.get() * seconds
}

/// Compares a sighting with the next one, which is later.
#[inline]
pub(crate) fn progress(
    network: &Network,
    last: &Sighting,
    next: &Sighting,
    patience: Seconds,
) -> Progress {
    let elapsed = next.time - last.time;
    if elapsed > patience.get() {
        return Progress::Broken(BreakReason::Gap);
    }
    if next.link == last.link {
        if next.metres < last.metres - BACKWARD_NOISE {
            return Progress::Broken(BreakReason::Backwards);
        }
        let (x0, x1) = (f64::from(last.metres), f64::from(next.metres.max(last.metres)));
        if x1 - x0 > furthest(elapsed) {
            return Progress::Broken(BreakReason::TooFast);
        }
        return Progress::Along(Motion { t0: last.time, x0, t1: next.time, x1 });
    }
    let Some(path) = path(network, last.link, next.link) else {
        return Progress::Broken(BreakReason::Unreachable);
    };
    let links = path.links();
    let between: f64 =
        links[1..links.len() - 1].iter().map(|&l| network.link(l).length.get()).sum();
    let left = network.link(last.link).length.get() - f64::from(last.metres);
    let metres = left.max(0.0) + between + f64::from(next.metres);
    if metres > furthest(elapsed) {
        return Progress::Broken(BreakReason::TooFast);
    }
    Progress::Over { path, metres }
}

/// The links from one sighting to the next.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    links: [LinkId; MAX_TURNS + 1],
    count: usize,
}

impl Path {
    fn of(links: &[LinkId]) -> Self {
        let mut path = Self { links: [LinkId(0); MAX_TURNS + 1], count: 0 };
        for (place, &link) in path.links.iter_mut().zip(links) {
            *place = link;
            path.count += 1;
        }
        path
    }

    pub(crate) fn links(&self) -> &[LinkId] {
        &self.links[..self.count]
    }
}

fn path(network: &Network, from: LinkId, to: LinkId) -> Option<Path> {
    if network.turn_between(from, to).is_some() {
        return Some(Path::of(&[from, to]));
    }
    network.path(from, to, MAX_TURNS).map(|links| Path::of(&links))
}

/// Splits motion over turns into motion along each link of the path, at constant speed.
pub(crate) fn over_turns(
    network: &Network,
    last: &Sighting,
    next: &Sighting,
    path: &[LinkId],
    metres: f64,
    mut along: impl FnMut(LinkId, Motion),
) {
    let elapsed = next.time - last.time;
    let mut done = 0.0;
    let mut t0 = last.time;
    for (index, &id) in path.iter().enumerate() {
        let is_last = index + 1 == path.len();
        let length = network.link(id).length.get();
        let x0 = if index == 0 { f64::from(last.metres).min(length) } else { 0.0 };
        let x1 = if is_last { f64::from(next.metres) } else { length };
        done += x1 - x0;
        // Standing on the border: all the time belongs to the link ahead.
        let share = if metres > 0.0 { done / metres } else { 0.0 };
        let t1 = if is_last { next.time } else { last.time + elapsed * share };
        if t1 > t0 || x1 > x0 {
            along(id, Motion { t0, x0, t1, x1 });
        }
        t0 = t1;
    }
}

/// Tells who was seen when, to refuse time running backwards and double sightings of one vehicle.
#[derive(Clone, Debug, Default)]
pub struct LastSeen {
    times: Vec<f64>,
}

impl LastSeen {
    /// Notes a sighting; an error if the vehicle was seen at that time or later before.
    pub(crate) fn note(&mut self, vehicle: VehicleId, time: f64) -> Result<(), PositionError> {
        if self.times.len() <= vehicle.index() {
            self.times.resize(vehicle.index() + 1, f64::NEG_INFINITY);
        }
        let last = std::mem::replace(&mut self.times[vehicle.index()], time);
        if time > last {
            Ok(())
        } else if time == last {
            Err(PositionError::Duplicate { time })
        } else {
            Err(PositionError::Backwards { found: time, last })
        }
    }
}
