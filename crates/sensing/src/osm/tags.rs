//! What the tags of a way say to cars: direction, lanes, speed.

use traffic::MetresPerSecond;

/// Tags that matter, as key and value.
pub(super) type Tags = Vec<(String, String)>;

/// The keys that are kept while reading.
pub(super) const KEYS: [&str; 15] = [
    "highway",
    "oneway",
    "junction",
    "lanes",
    "lanes:forward",
    "lanes:backward",
    "maxspeed",
    "maxspeed:forward",
    "maxspeed:backward",
    "name",
    "access",
    "motor_vehicle",
    "motorcar",
    "vehicle",
    "area",
];

/// One direction of a road.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carriageway {
    pub lanes: u8,
    pub speed: MetresPerSecond,
}

/// A road as cars see it, along its way and against it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Road {
    pub along: Option<Carriageway>,
    pub against: Option<Carriageway>,
    pub street: Option<String>,
}

/// What a way is.
pub(super) enum Reading {
    /// A road, and how many of its values could not be read.
    Road(Road, usize),
    /// A road that cars may not use, or not always in the same direction.
    Closed,
    /// No road of ours.
    Other,
}

/// Defaults of a class: lanes of each direction, and the usual limit in towns in km/h.
const CLASSES: [(&str, u8, f64); 14] = [
    ("motorway", 2, 110.0),
    ("motorway_link", 1, 60.0),
    ("trunk", 2, 80.0),
    ("trunk_link", 1, 50.0),
    ("primary", 2, 50.0),
    ("primary_link", 1, 50.0),
    ("secondary", 1, 50.0),
    ("secondary_link", 1, 50.0),
    ("tertiary", 1, 50.0),
    ("tertiary_link", 1, 50.0),
    ("unclassified", 1, 50.0),
    ("residential", 1, 30.0),
    ("living_street", 1, 10.0),
    ("road", 1, 50.0),
];

const MAX_LANES: u8 = 16;
const KMH_PER_MPH: f64 = 1.609_344;
const KMH_PER_KNOT: f64 = 1.852;

/// Reads a way's tags.
pub(super) fn read_road(tags: &Tags) -> Reading {
    let get = |key: &str| tags.iter().find(|(known, _)| known == key).map(|(_, v)| v.as_str());
    let highway = get("highway").unwrap_or_default();
    let Some(&(class, default_lanes, default_kmh)) =
        CLASSES.iter().find(|(class, _, _)| *class == highway)
    else {
        return Reading::Other;
    };
    // The more special key wins: access=private with motor_vehicle=yes is open.
    let access = ["motorcar", "motor_vehicle", "vehicle", "access"].into_iter().find_map(get);
    if matches!(access, Some("no" | "private")) || get("area") == Some("yes") {
        return Reading::Closed;
    }
    let roundabout = matches!(get("junction"), Some("roundabout" | "circular"));
    let (along, against) = match get("oneway") {
        Some("yes" | "true" | "1") => (true, false),
        Some("-1" | "reverse") => (false, true),
        Some("reversible" | "alternating") => return Reading::Closed,
        Some("no" | "false" | "0") => (true, true),
        _ if roundabout || class == "motorway" => (true, false),
        _ => (true, true),
    };
    let mut unreadable = 0;
    let mut read = |key: &str, parse: fn(&str) -> Option<f64>| {
        let value = get(key)?;
        let parsed = parse(value);
        unreadable += usize::from(parsed.is_none());
        parsed
    };
    let total = read("lanes", lanes);
    let (lanes_along, lanes_against) =
        (read("lanes:forward", lanes), read("lanes:backward", lanes));
    let kmh = read("maxspeed", kmh_of).unwrap_or(default_kmh);
    let kmh_along = read("maxspeed:forward", kmh_of).unwrap_or(kmh);
    let kmh_against = read("maxspeed:backward", kmh_of).unwrap_or(kmh);
    let one_way = along != against;
    let lanes_of = |own: Option<f64>, other: Option<f64>| {
        let rest = total.and_then(|total| if one_way { Some(total) } else { Some(total - other?) });
        let half = total.map(|total| (total / 2.0).floor());
        let lanes = own.or(rest).or(half).unwrap_or(f64::from(default_lanes));
        lanes.clamp(1.0, f64::from(MAX_LANES)) as u8
    };
    let carriageway = |open: bool, lanes: u8, kmh: f64| {
        open.then(|| Carriageway { lanes, speed: MetresPerSecond::from_kmh(kmh) })
    };
    let road = Road {
        along: carriageway(along, lanes_of(lanes_along, lanes_against), kmh_along),
        against: carriageway(against, lanes_of(lanes_against, lanes_along), kmh_against),
        street: get("name").map(Into::into),
    };
    Reading::Road(road, unreadable)
}

fn lanes(text: &str) -> Option<f64> {
    let lanes: u8 = text.trim().parse().ok()?;
    (1..=MAX_LANES).contains(&lanes).then_some(f64::from(lanes))
}

fn kmh_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let by_word = match text {
        "none" => Some(130.0),
        "walk" => Some(7.0),
        _ => match text.split_once(':').map(|(_, zone)| zone) {
            Some("urban") => Some(50.0),
            Some("rural") => Some(90.0),
            Some("trunk") => Some(100.0),
            Some("motorway") => Some(130.0),
            Some("living_street") => Some(10.0),
            _ => None,
        },
    };
    if by_word.is_some() {
        return by_word;
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let kmh = match text[end..].trim() {
        "" | "km/h" | "kmh" | "kph" => number,
        "mph" => number * KMH_PER_MPH,
        "knots" => number * KMH_PER_KNOT,
        _ => return None,
    };
    (1.0..=300.0).contains(&kmh).then_some(kmh)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn road(pairs: &[(&str, &str)]) -> (Road, usize) {
        let tags = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        match read_road(&tags) {
            Reading::Road(road, unreadable) => (road, unreadable),
            _ => panic!("expected a road: {pairs:?}"),
        }
    }

    fn lanes_of(pairs: &[(&str, &str)]) -> [Option<u8>; 2] {
        let road = road(pairs).0;
        [road.along, road.against].map(|way| way.map(|way| way.lanes))
    }

    #[test]
    fn directions_and_lanes() {
        for (tags, expected) in [
            (&[("highway", "primary")][..], [Some(2), Some(2)]),
            (&[("highway", "residential"), ("lanes", "1")], [Some(1), Some(1)]),
            (&[("highway", "primary"), ("lanes", "4")], [Some(2), Some(2)]),
            (
                &[("highway", "primary"), ("lanes", "3"), ("lanes:backward", "1")],
                [Some(2), Some(1)],
            ),
            (&[("highway", "primary"), ("lanes", "3"), ("oneway", "yes")], [Some(3), None]),
            (&[("highway", "primary"), ("lanes", "3"), ("oneway", "-1")], [None, Some(3)]),
            (&[("highway", "tertiary"), ("junction", "roundabout")], [Some(1), None]),
            (&[("highway", "motorway")], [Some(2), None]),
            (&[("highway", "motorway"), ("oneway", "no")], [Some(2), Some(2)]),
        ] {
            assert_eq!(lanes_of(tags), expected, "{tags:?}");
        }
    }

    #[test]
    fn speeds_in_all_units_and_words() {
        let speed =
            |text| road(&[("highway", "primary"), ("maxspeed", text)]).0.along.unwrap().speed;
        assert_eq!(speed("36"), MetresPerSecond::new(10.0));
        // 30 mph = 48.28 km/h = 13.4112 m/s exactly, up to rounding.
        assert!((speed("30 mph").get() - 13.4112).abs() < 1e-9);
        assert_eq!(speed("GR:urban"), MetresPerSecond::from_kmh(50.0));
        assert_eq!(speed("walk"), MetresPerSecond::from_kmh(7.0));
        let (default, unreadable) =
            road(&[("highway", "residential"), ("maxspeed", "fast"), ("lanes", "2;3")]);
        assert_eq!(default.along.unwrap().speed, MetresPerSecond::from_kmh(30.0));
        assert_eq!(unreadable, 2);
    }

    #[test]
    fn what_cars_may_not_use_is_closed() {
        let reading = |pairs: &[(&str, &str)]| {
            read_road(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
        };
        assert!(matches!(reading(&[("highway", "footway")]), Reading::Other));
        assert!(matches!(
            reading(&[("highway", "residential"), ("access", "private")]),
            Reading::Closed
        ));
        assert!(matches!(
            reading(&[("highway", "residential"), ("access", "no"), ("motor_vehicle", "yes")]),
            Reading::Road(..)
        ));
        assert!(matches!(
            reading(&[("highway", "primary"), ("oneway", "reversible")]),
            Reading::Closed
        ));
    }
}
