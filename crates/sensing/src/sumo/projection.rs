//! From a SUMO net's coordinates to places on the Earth, for nets projected by UTM.
//!
//! Inverse transverse Mercator by Krüger's series to the third order of the flattening (errors
//! below a millimetre within a zone); formulas as in Karney 2011, "Transverse Mercator with an
//! accuracy of a few nanometers", section 2.

use traffic::{LatLon, Point};

use super::net::SumoLocation;

/// A UTM zone and the offset that SUMO added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Utm {
    central_meridian: f64,
    south: bool,
    offset: Point,
}

/// WGS 84: equatorial radius in metres and flattening.
const RADIUS: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// UTM's scale on the central meridian, and false easting and northing.
const SCALE: f64 = 0.9996;
const EASTING: f64 = 500_000.0;
const NORTHING_SOUTH: f64 = 10_000_000.0;

impl Utm {
    /// If the location says UTM, as nets made from maps do.
    pub(super) fn of(location: &SumoLocation) -> Option<Self> {
        let mut words = location.projection.split_ascii_whitespace();
        if !words.clone().any(|word| word == "+proj=utm") {
            return None;
        }
        let zone: u8 = words.clone().find_map(|word| word.strip_prefix("+zone=")?.parse().ok())?;
        if !(1..=60).contains(&zone) {
            return None;
        }
        Some(Self {
            central_meridian: f64::from(zone) * 6.0 - 183.0,
            south: words.any(|word| word == "+south"),
            offset: location.offset,
        })
    }

    /// The place of a point of the net.
    pub(super) fn place(&self, point: Point) -> LatLon {
        let easting = point.x - self.offset.x - EASTING;
        let false_northing = if self.south { NORTHING_SOUTH } else { 0.0 };
        let northing = point.y - self.offset.y - false_northing;
        let n = FLATTENING / (2.0 - FLATTENING);
        let (n2, n3) = (n * n, n * n * n);
        let rectifying = RADIUS / (1.0 + n) * (1.0 + n2 / 4.0 + n2 * n2 / 64.0);
        let (xi, eta) = (northing / (SCALE * rectifying), easting / (SCALE * rectifying));
        let beta =
            [n / 2.0 - 2.0 / 3.0 * n2 + 37.0 / 96.0 * n3, n2 / 48.0 + n3 / 15.0, 17.0 / 480.0 * n3];
        let (mut xi_sphere, mut eta_sphere) = (xi, eta);
        for (order, beta) in beta.iter().enumerate() {
            let twice = 2.0 * (order + 1) as f64;
            xi_sphere -= beta * (twice * xi).sin() * (twice * eta).cosh();
            eta_sphere -= beta * (twice * xi).cos() * (twice * eta).sinh();
        }
        let conformal = (xi_sphere.sin() / eta_sphere.cosh()).asin();
        let delta = [
            2.0 * n - 2.0 / 3.0 * n2 - 2.0 * n3,
            7.0 / 3.0 * n2 - 8.0 / 5.0 * n3,
            56.0 / 15.0 * n3,
        ];
        let lat = delta.iter().enumerate().fold(conformal, |lat, (order, delta)| {
            lat + delta * (2.0 * (order + 1) as f64 * conformal).sin()
        });
        let lon = eta_sphere.sinh().atan2(xi_sphere.cos());
        LatLon { lat: lat.to_degrees(), lon: self.central_meridian + lon.to_degrees() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utm(projection: &str) -> Option<Utm> {
        let location =
            SumoLocation { offset: Point { x: -100.0, y: 200.0 }, projection: projection.into() };
        Utm::of(&location)
    }

    /// Zone, easting, northing, latitude, longitude: as projected by netconvert 1.28.
    const KNOWN: [(u8, f64, f64, f64, f64); 3] = [
        (34, 740_148.198_298, 4_206_646.118_586, 37.9757, 23.7341),
        (32, 507_358.079_288, 5_394_111.900_843, 48.7, 9.1),
        (33, 398_178.396_969, 5_817_709.526_408, 52.5, 13.5),
    ];

    #[test]
    fn known_places_are_found() {
        // The series is good to a millimetre, which is a hundred-millionth of a degree.
        for (zone, x, y, lat, lon) in KNOWN {
            let zone = utm(&format!("+proj=utm +zone={zone} +ellps=WGS84")).unwrap();
            let place = zone.place(Point { x: x - 100.0, y: y + 200.0 });
            assert!((place.lat - lat).abs() < 1e-8 && (place.lon - lon).abs() < 1e-8, "{place:?}");
        }
    }

    #[test]
    fn other_projections_are_not_taken_for_utm() {
        assert_eq!(utm("!"), None);
        assert_eq!(utm("-"), None);
        assert_eq!(utm("+proj=tmerc +lat_0=0"), None);
        assert_eq!(utm("+proj=utm +zone=99"), None);
    }
}
