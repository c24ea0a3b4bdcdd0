//! Points in a flat plane of metres, and where that plane lies on the Earth.

use serde::{Deserialize, Serialize};

/// A point in metres east (`x`) and north (`y`) of the network's origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Point {
    /// Metres east of the origin.
    pub x: f64,
    /// Metres north of the origin.
    pub y: f64,
}

impl From<[f64; 2]> for Point {
    fn from([x, y]: [f64; 2]) -> Self {
        Self { x, y }
    }
}

impl From<Point> for [f64; 2] {
    fn from(point: Point) -> Self {
        [point.x, point.y]
    }
}

impl Point {
    /// The straight-line distance to another point, in metres.
    pub fn distance(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// The point a share of the way to another.
    pub fn towards(self, other: Self, share: f64) -> Self {
        Self { x: self.x + share * (other.x - self.x), y: self.y + share * (other.y - self.y) }
    }
}

/// A place on the Earth in degrees (WGS 84).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatLon {
    /// Degrees north.
    pub lat: f64,
    /// Degrees east.
    pub lon: f64,
}

/// The Earth's mean radius in metres (IUGG R1).
const EARTH_RADIUS: f64 = 6_371_008.8;

/// The flat plane that touches the Earth at an origin.
///
/// Equirectangular: over the few kilometres of a city its error is below the metre that matters
/// for matching (at 5 km from the origin in Athens the scale is off by less than 0.1 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalPlane {
    origin: LatLon,
    metres_per_degree_lat: f64,
    metres_per_degree_lon: f64,
}

impl LocalPlane {
    /// The plane that touches the Earth at `origin`.
    pub fn at(origin: LatLon) -> Self {
        let metres_per_degree_lat = EARTH_RADIUS.to_radians();
        let metres_per_degree_lon = metres_per_degree_lat * origin.lat.to_radians().cos();
        Self { origin, metres_per_degree_lat, metres_per_degree_lon }
    }

    /// The point of the plane over a place.
    pub fn point(&self, place: LatLon) -> Point {
        Point {
            x: (place.lon - self.origin.lon) * self.metres_per_degree_lon,
            y: (place.lat - self.origin.lat) * self.metres_per_degree_lat,
        }
    }

    /// The place under a point of the plane.
    pub fn place(&self, point: Point) -> LatLon {
        LatLon {
            lat: self.origin.lat + point.y / self.metres_per_degree_lat,
            lon: self.origin.lon + point.x / self.metres_per_degree_lon,
        }
    }
}

/// The length of a polyline in metres.
pub fn polyline_length(points: &[Point]) -> f64 {
    points.windows(2).map(|pair| pair[0].distance(pair[1])).sum()
}

/// The point a share (0 to 1) of the way along a polyline.
///
/// Positions on a link are mapped to its drawn shape by share, because a link's stated length and
/// the length of its drawing need not be equal.
pub fn point_along(points: &[Point], share: f64) -> Option<Point> {
    let (first, last) = (*points.first()?, *points.last()?);
    let mut left = share.clamp(0.0, 1.0) * polyline_length(points);
    for pair in points.windows(2) {
        let length = pair[0].distance(pair[1]);
        if left <= length {
            let within = if length > 0.0 { left / length } else { 0.0 };
            return Some(pair[0].towards(pair[1], within));
        }
        left -= length;
    }
    Some(if share <= 0.0 { first } else { last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_to_the_plane_and_back() {
        let plane = LocalPlane::at(LatLon { lat: 37.98, lon: 23.73 });
        let place = LatLon { lat: 37.985, lon: 23.736 };
        let back = plane.place(plane.point(place));
        assert!((back.lat - place.lat).abs() < 1e-12 && (back.lon - place.lon).abs() < 1e-12);
        // One degree of latitude is 111.195 km on the mean sphere.
        let north = plane.point(LatLon { lat: 38.98, lon: 23.73 });
        assert!((north.y - 111_195.08).abs() < 0.1, "{}", north.y);
    }

    #[test]
    fn half_way_along_a_corner() {
        let corner = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0]].map(Point::from);
        assert_eq!(polyline_length(&corner), 20.0);
        assert_eq!(point_along(&corner, 0.75), Some(Point { x: 10.0, y: 5.0 }));
        assert_eq!(point_along(&corner, 7.0), Some(Point { x: 10.0, y: 10.0 }));
        assert_eq!(point_along(&[], 0.5), None);
    }

    #[test]
    fn a_polyline_without_length_is_one_point() {
        let point = Point { x: 3.0, y: -4.0 };
        for line in [vec![point], vec![point; 2], vec![point; 5]] {
            assert_eq!(polyline_length(&line), 0.0);
            for share in [-1.0, 0.0, 0.5, 1.0, f64::NAN] {
                assert_eq!(point_along(&line, share), Some(point), "{share} of {line:?}");
            }
        }
        assert_eq!(polyline_length(&[]), 0.0);
    }

    #[test]
    fn a_point_that_is_repeated_takes_no_share() {
        let line = [[0.0, 0.0], [0.0, 0.0], [8.0, 0.0], [8.0, 0.0], [8.0, 8.0]].map(Point::from);
        assert_eq!(point_along(&line, 0.0), Some(line[0]));
        assert_eq!(point_along(&line, 0.25), Some(Point { x: 4.0, y: 0.0 }));
        assert_eq!(point_along(&line, 0.5), Some(line[2]));
        assert_eq!(point_along(&line, 0.625), Some(Point { x: 8.0, y: 2.0 }));
    }

    #[test]
    fn distances_in_the_plane_are_those_of_the_sphere() {
        // On the mean sphere, by the haversine formula; at 1.5 km the plane is right to 0.01 %.
        let (lat, lon) = (52.52, 13.405);
        let plane = LocalPlane::at(LatLon { lat, lon });
        for (north, east) in [(0.01, 0.0), (0.0, 0.015), (0.008, -0.012), (-0.01, 0.01)] {
            let place = LatLon { lat: lat + north, lon: lon + east };
            let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
            let haversine =
                half(north) + lat.to_radians().cos() * place.lat.to_radians().cos() * half(east);
            let on_sphere = 2.0 * EARTH_RADIUS * haversine.sqrt().asin();
            let in_plane = plane.point(place).distance(Point { x: 0.0, y: 0.0 });
            assert!((in_plane / on_sphere - 1.0).abs() < 1.5e-4, "{in_plane} and {on_sphere}");
        }
    }

    #[test]
    fn points_go_along_a_line_in_proportion() {
        let (a, b) = (Point { x: 1.0, y: 2.0 }, Point { x: 4.0, y: 6.0 });
        assert_eq!(a.distance(b), 5.0);
        assert_eq!(b.distance(a), 5.0);
        assert_eq!((a.towards(b, 0.0), a.towards(b, 1.0)), (a, b));
        assert_eq!(a.towards(b, 0.5), b.towards(a, 0.5));
        assert_eq!(<[f64; 2]>::from(a), [1.0, 2.0]);
    }

    proptest::proptest! {
        /// The way walked to a share of a line is that share of its length.
        #[test]
        fn a_share_of_a_line_is_a_share_of_its_length(
            corners in proptest::collection::vec((-1e3..1e3_f64, -1e3..1e3_f64), 2..9),
            share in 0.0..1.0_f64,
        ) {
            let line: Vec<Point> = corners.into_iter().map(|(x, y)| Point { x, y }).collect();
            let length = polyline_length(&line);
            let end = point_along(&line, share).unwrap();
            // Some piece of the line holds the point, and the way up to it has the right length.
            let mut before = 0.0;
            let on_a_piece = line.windows(2).any(|pair| {
                let piece = pair[0].distance(pair[1]);
                let walked = before + pair[0].distance(end);
                let straight = pair[0].distance(end) + end.distance(pair[1]) - piece;
                before += piece;
                // Roundings of sums of up to 2e4 m.
                straight.abs() < 1e-8 && (walked - share * length).abs() < 1e-8
            });
            proptest::prop_assert!(on_a_piece, "{end:?} at {share} of {line:?}");
        }
    }
}
