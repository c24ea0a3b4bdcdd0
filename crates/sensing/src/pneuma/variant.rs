//! The two published forms, told apart by their header.

use traffic::VehicleClass;

/// Which of the published forms a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The open data: `traveled_d`, `lon_acc`, `lat_acc`, time in seconds.
    Seconds,
    /// The sample of 2020: `traveled_distance`, `tan_accel`, `lat_accel`, time in milliseconds.
    Milliseconds,
}

/// The columns before the groups, and of one group.
pub(super) const COLUMNS: usize = 10;
/// The fields of one group.
pub(super) const GROUP: usize = 6;

impl Variant {
    /// Both forms.
    pub(crate) const ALL: [Self; 2] = [Self::Seconds, Self::Milliseconds];

    /// The names of the columns; the last six repeat.
    pub fn columns(self) -> [&'static str; COLUMNS] {
        let (distance, along, across) = match self {
            Self::Seconds => ("traveled_d", "lon_acc", "lat_acc"),
            Self::Milliseconds => ("traveled_distance", "tan_accel", "lat_accel"),
        };
        ["track_id", "type", distance, "avg_speed", "lat", "lon", "speed", along, across, "time"]
    }

    /// The form with these column names, if it is one of ours.
    pub(super) fn of_header(names: &[String]) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.columns().iter().eq(names.iter()))
    }

    /// How many of its units of time make a second.
    pub(super) fn units_per_second(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1000.0,
        }
    }

    /// The unit of its times.
    pub(super) fn time_unit(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
        }
    }
}

/// The types of vehicles, as the data spell them.
pub(super) const TYPES: [(&str, VehicleClass); 6] = [
    ("Car", VehicleClass::Car),
    ("Taxi", VehicleClass::Taxi),
    ("Bus", VehicleClass::Bus),
    ("Medium Vehicle", VehicleClass::Medium),
    ("Heavy Vehicle", VehicleClass::Heavy),
    ("Motorcycle", VehicleClass::Motorcycle),
];

/// The name of a class in the data.
pub(super) fn type_name(class: VehicleClass) -> &'static str {
    TYPES.iter().find(|(_, known)| *known == class).map_or("Car", |(name, _)| name)
}
