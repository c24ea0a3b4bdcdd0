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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(xml: &str) -> Result<SumoStatistics, SumoFileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistics.xml");
        std::fs::write(&path, xml).unwrap();
        read_statistics(&path)
    }

    #[test]
    fn every_count_is_taken_from_its_own_element() {
        let found = read(
            "<statistics>\n\
             <vehicles loaded=\"9\" inserted=\"8\" running=\"7\" waiting=\"6\"/>\n\
             <teleports total=\"5\" jam=\"1\"/>\n\
             <safety collisions=\"4\" emergencyStops=\"2\" emergencyBraking=\"3\"/>\n\
             <persons loaded=\"99\" running=\"99\"/>\n\
             </statistics>\n",
        )
        .unwrap();
        let expected = SumoStatistics {
            loaded: 9,
            inserted: 8,
            running: 7,
            waiting: 6,
            teleports: 5,
            collisions: 4,
            emergency_brakings: 3,
        };
        assert_eq!(found, expected);
        assert_eq!(read("<statistics/>").unwrap(), SumoStatistics::default());
    }

    #[test]
    fn counts_that_are_missing_or_no_numbers_are_refused() {
        let error =
            read("<statistics><teleports jam=\"1\"/></statistics>").unwrap_err().to_string();
        assert!(error.contains("total"), "{error}");
        let error =
            read("<statistics><teleports total=\"many\"/></statistics>").unwrap_err().to_string();
        assert!(error.contains("many"), "{error}");
        let error = read("<routes/>").unwrap_err().to_string();
        assert!(error.contains("statistics"), "{error}");
    }
}
