//! One row of FCD, whatever the file's form: checked, and placed on a link.

use traffic::{VehicleClass, VehicleId, VehiclePosition};

use super::super::edges::{EdgeMap, LanePlace};
use super::super::number::parse_magnitude;
use super::super::{Fault, quoted};
use super::SkippedRows;
use crate::vehicles::VehicleTable;

/// The fields of a row as written.
#[derive(Clone, Copy, Default)]
pub(super) struct FcdRow<'a> {
    pub(super) id: Option<&'a [u8]>,
    pub(super) lane: Option<&'a [u8]>,
    pub(super) pos: Option<&'a [u8]>,
    pub(super) speed: Option<&'a [u8]>,
    pub(super) kind: Option<&'a [u8]>,
}

/// Turns rows into samples.
pub(super) struct Placing {
    edges: EdgeMap,
    pub(super) vehicles: VehicleTable,
    pub(super) skipped: SkippedRows,
    /// Seconds added to every time.
    pub(super) shift: f64,
    /// The current moment: its number from 1, and its time.
    moment: u32,
    time: f64,
    /// By vehicle, the moment in which it was last seen.
    seen: Vec<u32>,
    last_kind: (Vec<u8>, VehicleClass),
}

/// How far beyond its lane's end a vehicle may be written: SUMO rounds to centimetres, and its
/// numbers may be made coarser by an option.
const BEYOND: f64 = 1.0;

impl Placing {
    pub(super) fn new(edges: EdgeMap) -> Self {
        Self {
            edges,
            vehicles: VehicleTable::default(),
            skipped: SkippedRows::default(),
            shift: 0.0,
            moment: 0,
            time: f64::NEG_INFINITY,
            seen: Vec::new(),
            last_kind: (Vec::new(), VehicleClass::Car),
        }
    }

    pub(super) fn set_vehicles(&mut self, vehicles: VehicleTable) {
        self.seen = vec![0; vehicles.all().len()];
        self.vehicles = vehicles;
    }

    /// Begins the next moment; returns its time.
    pub(super) fn begin(&mut self, text: Option<&[u8]>) -> Result<f64, Fault> {
        let text = text.unwrap_or_default();
        let time = parse_magnitude(text)
            .ok_or_else(|| Fault::new("time", quoted(text), "a number of 0 or more"))?
            + self.shift;
        if time <= self.time {
            let before = self.time - self.shift;
            return Err(Fault::new("time", quoted(text), format!("more than {before}, the last")));
        }
        self.moment += 1;
        self.time = time;
        Ok(time)
    }

    /// The sample of a row; `None` if it is on no link.
    #[inline]
    pub(super) fn place(&mut self, row: FcdRow<'_>) -> Result<Option<VehiclePosition>, Fault> {
        let name = row.id.filter(|id| !id.is_empty()).ok_or_else(|| missing("vehicle id"))?;
        let lane = row.lane.ok_or_else(|| missing("vehicle lane"))?;
        let speed = magnitude("vehicle speed", row.speed)?;
        let position = magnitude("vehicle pos", row.pos)?;
        let on = match self.edges.place(lane) {
            Some(LanePlace::On(on)) => on,
            Some(LanePlace::Outside) => {
                self.skipped.outside += 1;
                return Ok(None);
            }
            None => return Err(self.unknown_lane(lane)),
        };
        if position > on.length + BEYOND {
            let found = format!("{position} m on lane {}", quoted(lane));
            return Err(Fault::new("vehicle pos", found, format!("at most {} m", on.length)));
        }
        let vehicle = self.vehicle(name, row)?;
        Ok(Some(VehiclePosition {
            time: self.time,
            vehicle,
            link: on.link,
            position: (on.start + on.scale * position.min(on.length)) as f32,
            lane: on.lane,
            speed: speed as f32,
        }))
    }

    fn vehicle(&mut self, name: &[u8], row: FcdRow<'_>) -> Result<VehicleId, Fault> {
        let class = match row.kind {
            None => VehicleClass::Car,
            Some(kind) if kind == self.last_kind.0 => self.last_kind.1,
            Some(kind) => {
                self.last_kind = (kind.into(), class_of(kind));
                self.last_kind.1
            }
        };
        let text = std::str::from_utf8(name)
            .map_err(|_| Fault::new("vehicle id", quoted(name), "text in UTF-8"))?;
        let vehicle = self.vehicles.number(text, class);
        if vehicle.index() >= self.seen.len() {
            self.seen.resize(vehicle.index() + 1, 0);
        }
        let seen = &mut self.seen[vehicle.index()];
        if *seen == self.moment {
            let found = format!("{} twice at time {}", quoted(name), self.time - self.shift);
            return Err(Fault::new("vehicle id", found, "each vehicle once a time step"));
        }
        *seen = self.moment;
        Ok(vehicle)
    }

    #[cold]
    fn unknown_lane(&self, lane: &[u8]) -> Fault {
        Fault::new("vehicle lane", quoted(lane), "a lane of the SUMO net")
    }
}

#[inline]
fn magnitude(field: &str, text: Option<&[u8]>) -> Result<f64, Fault> {
    let text = text.ok_or_else(|| missing(field))?;
    parse_magnitude(text).ok_or_else(|| Fault::new(field, quoted(text), "a number of 0 or more"))
}

#[cold]
fn missing(field: &str) -> Fault {
    Fault::new(field, "nothing", "a value")
}

/// The class that the name of a SUMO vehicle type tells; cars where it tells nothing.
fn class_of(kind: &[u8]) -> VehicleClass {
    let name = String::from_utf8_lossy(kind).to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["motor", "moped", "bike"]) {
        VehicleClass::Motorcycle
    } else if has(&["bus", "coach"]) {
        VehicleClass::Bus
    } else if has(&["taxi"]) {
        VehicleClass::Taxi
    } else if has(&["heavy", "truck", "trailer"]) {
        VehicleClass::Heavy
    } else if has(&["medium", "delivery", "van"]) {
        VehicleClass::Medium
    } else {
        VehicleClass::Car
    }
}
