//! How a SUMO run went: its statistic output.

use std::path::Path;

use sensing::sumo::{SumoFileError, XmlFile};

/// What the statistic output tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SumoStatistics {
    /// Vehicles read from the route file.
    pub loaded: u64,
    /// Vehicles that entered the network.
    pub inserted: u64,
    /// Vehicles still driving at the end.
    pub running: u64,
    /// Vehicles that still waited to enter at the end.
    pub waiting: u64,
    /// Vehicles lifted out of a jam or collision; more than a handful spoils a run.
    pub teleports: u64,
    /// Collisions.
    pub collisions: u64,
    /// Times that a vehicle braked harder than its comfortable limit.
    pub emergency_brakings: u64,
}

pub(super) fn read_statistics(path: &Path) -> Result<SumoStatistics, SumoFileError> {
    let mut file = XmlFile::open(path, "statistics")?;
    let mut statistics = SumoStatistics::default();
    while let Some(element) = file.next_element()? {
        let fields: &mut [(&str, &mut u64)] = match element.name() {
            b"vehicles" => &mut [
                ("loaded", &mut statistics.loaded),
                ("inserted", &mut statistics.inserted),
                ("running", &mut statistics.running),
                ("waiting", &mut statistics.waiting),
            ],
            b"teleports" => &mut [("total", &mut statistics.teleports)],
            b"safety" => &mut [
                ("collisions", &mut statistics.collisions),
                ("emergencyBraking", &mut statistics.emergency_brakings),
            ],
            _ => &mut [],
        };
        for (name, value) in fields {
            **value = element.number(name)? as u64;
        }
    }
    Ok(statistics)
}
