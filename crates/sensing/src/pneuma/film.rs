//! Films a simulated vehicle: a place every 0.04 s, beside the centre line as its lane lies, with
//! the errors of a receiver.

use thiserror::Error;
use traffic::{LatLon, LinkId, LocalPlane, Metres, Network, Point, VehiclePosition};

use super::FRAME;
use super::noise::{NoiseStream, PositionNoise};

/// The width of a lane, by which vehicles are filmed beside the centre line.
pub(crate) const LANE_WIDTH: Metres = Metres::new(3.2);

/// Half the stretch of road over which a vehicle's heading is taken, in metres: it rounds corners.
const HEADING_REACH: f64 = 4.0;
/// Links that a vehicle may pass between two samples.
const MAX_TURNS: usize = 8;
/// The rate of the film.
const FRAMES_PER_SECOND: f64 = 25.0;

/// A vehicle as it was filmed, with what is true of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Film {
    /// What the film shows.
    pub frames: Vec<Frame>,
    /// Where the vehicle was at each frame, on the network, without errors.
    pub truth: Vec<VehiclePosition>,
}

/// One frame of one vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Seconds since the epoch.
    pub time: f64,
    /// Where it seems to be.
    pub place: LatLon,
    /// Metres per second.
    pub speed: f64,
    /// Acceleration along the road, in m/s².
    pub along: f64,
    /// Acceleration to the left, in m/s².
    pub across: f64,
}

/// Why a vehicle could not be filmed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FilmError {
    /// The network does not say where on the Earth it lies.
    #[error("network `{0}` has no origin, expected `origin = {{ lat = …, lon = … }}`")]
    NoOrigin(String),
    /// Times do not increase.
    #[error("sample at {time} s: expected a time after {before} s")]
    Time {
        /// The time of the sample.
        time: f64,
        /// The time of the sample before.
        before: f64,
    },
    /// Two samples cannot be joined by driving forward.
    #[error("sample at {time} s: there is no way from {from} to {to} within {MAX_TURNS} turns")]
    NoWay {
        /// The time of the second sample.
        time: f64,
        /// The first sample's link and position.
        from: String,
        /// The second sample's link and position.
        to: String,
    },
}

impl Film {
    /// Films one vehicle, whose samples come in the order of time.
    ///
    /// Between two samples it moves evenly along the road. Equal seeds give equal errors.
    pub fn of(
        network: &Network,
        samples: &[VehiclePosition],
        noise: PositionNoise,
        seed: u64,
    ) -> Result<Self, FilmError> {
        let plane = network.plane().ok_or_else(|| FilmError::NoOrigin(network.name().into()))?;
        let drive = Drive::along(network, samples)?;
        let mut film = Self::default();
        let mut errors = NoiseStream::new(noise, FRAME, seed);
        let mut heading_before = None;
        for (index, pair) in samples.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            let duration = to.time - from.time;
            let along = f64::from(to.speed - from.speed) / duration;
            for number in first_frame(from.time)..first_frame(to.time) {
                // Division gives the very number that the file's digits read back as.
                let time = number as f64 / FRAMES_PER_SECOND;
                let share = ((time - from.time) / duration).clamp(0.0, 1.0);
                let mix = |a: f64, b: f64| a + share * (b - a);
                let at = mix(drive.at[index], drive.at[index + 1]);
                let speed = mix(f64::from(from.speed), f64::from(to.speed));
                let left = mix(left_of_centre(network, from), left_of_centre(network, to));
                let (point, heading) = drive.point(network, at);
                let yaw = heading_before.map_or(0.0, |before| turn_between(before, heading));
                heading_before = Some(heading);
                film.frames.push(Frame {
                    time,
                    place: place_beside(&plane, point, heading, left, errors.draw()),
                    speed,
                    along,
                    across: speed * yaw / FRAME,
                });
                let (link, position) = drive.link(network, at);
                let lane = if share < 0.5 { from.lane } else { to.lane };
                let lane = lane.min(network.link(link).lanes.saturating_sub(1));
                film.truth.push(VehiclePosition {
                    time,
                    vehicle: from.vehicle,
                    link,
                    position: position as f32,
                    lane,
                    speed: speed as f32,
                });
            }
        }
        Ok(film)
    }
}

/// The number of the first frame at or after a time.
fn first_frame(time: f64) -> i64 {
    (time / FRAME - 1e-6).ceil() as i64
}

fn left_of_centre(network: &Network, sample: &VehiclePosition) -> f64 {
    let lanes = f64::from(network.link(sample.link).lanes);
    (f64::from(sample.lane) - (lanes - 1.0) / 2.0) * LANE_WIDTH.get()
}

fn place_beside(
    plane: &LocalPlane,
    point: Point,
    heading: f64,
    left: f64,
    error: [f64; 2],
) -> LatLon {
    let (sin, cos) = heading.sin_cos();
    plane.place(Point { x: point.x - left * sin + error[0], y: point.y + left * cos + error[1] })
}

/// From one heading to another, in radians to the left, the shorter way.
fn turn_between(before: f64, after: f64) -> f64 {
    let turn = (after - before).rem_euclid(std::f64::consts::TAU);
    if turn > std::f64::consts::PI { turn - std::f64::consts::TAU } else { turn }
}

/// The links that a vehicle drives along, one after the other.
struct Drive {
    /// Each link, and how far along the drive it begins.
    links: Vec<(LinkId, f64)>,
    /// How far along the drive each sample is.
    at: Vec<f64>,
}

impl Drive {
    fn along(network: &Network, samples: &[VehiclePosition]) -> Result<Self, FilmError> {
        let mut drive = Self { links: Vec::new(), at: Vec::with_capacity(samples.len()) };
        for (index, sample) in samples.iter().enumerate() {
            let position = f64::from(sample.position);
            let Some(before) = index.checked_sub(1).and_then(|before| samples.get(before)) else {
                drive.links.push((sample.link, 0.0));
                drive.at.push(position);
                continue;
            };
            if sample.time.partial_cmp(&before.time) != Some(std::cmp::Ordering::Greater) {
                return Err(FilmError::Time { time: sample.time, before: before.time });
            }
            let backwards = sample.link == before.link && sample.position < before.position;
            let way = network.path(before.link, sample.link, MAX_TURNS);
            let Some(way) = way.filter(|_| !backwards) else {
                let shown = |sample: &VehiclePosition| {
                    format!("`{}` at {} m", network.link(sample.link).name, sample.position)
                };
                return Err(FilmError::NoWay {
                    time: sample.time,
                    from: shown(before),
                    to: shown(sample),
                });
            };
            for &link in &way[1..] {
                if let Some(&(last, begin)) = drive.links.last() {
                    drive.links.push((link, begin + network.link(last).length.get()));
                }
            }
            let begin = drive.links.last().map_or(0.0, |&(_, begin)| begin);
            drive.at.push(begin + position);
        }
        Ok(drive)
    }

    /// The link at a distance along the drive, and the position on it.
    fn link(&self, network: &Network, at: f64) -> (LinkId, f64) {
        let after = self.links.partition_point(|&(_, begin)| begin <= at);
        let (link, begin) = self.links[after.saturating_sub(1)];
        (link, (at - begin).clamp(0.0, network.link(link).length.get()))
    }

    /// The point of the centre line, and the heading in radians from east to north.
    fn point(&self, network: &Network, at: f64) -> (Point, f64) {
        let point = |at: f64| {
            let (link, position) = self.link(network, at);
            network.link(link).point_at(Metres::new(position))
        };
        let (behind, ahead) = (point(at - HEADING_REACH), point(at + HEADING_REACH));
        (point(at), (ahead.y - behind.y).atan2(ahead.x - behind.x))
    }
}

#[cfg(test)]
mod tests;
