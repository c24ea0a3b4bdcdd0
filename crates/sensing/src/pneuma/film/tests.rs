use traffic::{Seconds, VehicleClass, VehicleId};

use super::*;
use crate::matching::Track;
use crate::pneuma::{PneumaReader, PneumaWriter, ReadOptions, Variant, write_header, write_track};
use crate::test_roads::corridor;

/// From the end of E1 over the line to E2, at 10 m/s, changing from lane 0 to lane 1.
fn samples(network: &Network) -> Vec<VehiclePosition> {
    let sample = |time, link, position, lane| VehiclePosition {
        time,
        vehicle: VehicleId(3),
        link: network.link_named(link).unwrap(),
        position,
        lane,
        speed: 10.0,
    };
    vec![
        sample(100.0, "E1", 135.0, 0),
        sample(101.0, "E1", 145.0, 0),
        sample(102.0, "E2", 5.0, 1),
        sample(103.0, "E2", 15.0, 1),
    ]
}

#[test]
fn the_truth_is_even_motion_over_the_stop_line() {
    let network = corridor().unwrap();
    let film = Film::of(&network, &samples(&network), PositionNoise::NONE, 0).unwrap();
    assert_eq!(film.frames.len(), 75);
    for (number, real) in film.truth.iter().enumerate() {
        // E1 is 150 m long; the last sample itself belongs to the frames that would follow.
        let driven = 135.0 + 10.0 * number as f64 * FRAME;
        let (name, position) =
            if driven < 150.0 - 1e-9 { ("E1", driven) } else { ("E2", driven - 150.0) };
        assert_eq!(network.link(real.link).name, name, "frame {number}");
        // Positions are kept in single precision: 150 m to 1e-5 m.
        assert!((f64::from(real.position) - position).abs() < 1e-4);
        assert!((real.time - (100.0 + number as f64 * FRAME)).abs() < 1e-9);
    }
}

#[test]
fn vehicles_are_filmed_in_their_lanes() {
    let network = corridor().unwrap();
    let film = Film::of(&network, &samples(&network), PositionNoise::NONE, 0).unwrap();
    let plane = network.plane().unwrap();
    let beside = |index: usize| {
        let real = film.truth[index];
        let centre = network.link(real.link).point_at(Metres::new(f64::from(real.position)));
        plane.point(film.frames[index].place).distance(centre)
    };
    // Five lanes: lane 0 is two lanes off the centre line, lane 1 one. The two links are drawn as
    // one straight line up to the rounding of their points to centimetres.
    assert!((beside(0) - 2.0 * 3.2).abs() < 0.01, "{}", beside(0));
    assert!((beside(70) - 3.2).abs() < 0.01, "{}", beside(70));
    // Half way through the change.
    assert!((beside(37) - 1.5 * 3.2).abs() < 0.1, "{}", beside(37));
}

#[test]
fn a_written_film_reads_back() {
    let network = corridor().unwrap();
    let film = Film::of(&network, &samples(&network), PositionNoise::default(), 5).unwrap();
    for variant in Variant::ALL {
        let mut text = Vec::new();
        write_header(&mut text, variant).unwrap();
        write_track(&mut text, variant, 3, VehicleClass::Taxi, &film, Seconds::new(60.0)).unwrap();
        let options = ReadOptions { start: Seconds::new(60.0), ..ReadOptions::default() };
        let reader = PneumaReader::new(&text[..], "film.csv", options).unwrap();
        assert_eq!(reader.variant, variant);
        let tracks: Vec<Track> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!((&*tracks[0].name, tracks[0].class), ("3", VehicleClass::Taxi));
        assert_eq!(tracks[0].points.len(), film.frames.len());
        for (point, frame) in tracks[0].points.iter().zip(&film.frames) {
            assert!((point.time - frame.time).abs() < 1e-9);
            // Places are written to 1e-6 degrees.
            assert!((point.place.lat - frame.place.lat).abs() <= 0.51e-6);
            assert!((point.place.lon - frame.place.lon).abs() <= 0.51e-6);
            assert_eq!(point.speed, Some(10.0));
        }
    }
}

#[test]
fn equal_seeds_give_equal_films() {
    let network = corridor().unwrap();
    let film =
        |seed| Film::of(&network, &samples(&network), PositionNoise::default(), seed).unwrap();
    assert_eq!(film(1), film(1));
    // Another seed has other errors in every frame, and the same truth under them.
    let (one, two) = (film(1), film(2));
    assert_eq!((one.truth, one.frames.len()), (two.truth, two.frames.len()));
    for (a, b) in one.frames.iter().zip(&two.frames) {
        assert_eq!((a.time, a.speed), (b.time, b.speed));
        assert_ne!(a.place, b.place);
    }
}

#[test]
fn what_cannot_be_driven_is_refused() {
    let network = corridor().unwrap();
    let film = |samples: &[VehiclePosition]| {
        Film::of(&network, samples, PositionNoise::NONE, 0).map_err(|error| error.to_string())
    };
    let mut late = samples(&network);
    late[2].time = 101.0;
    assert_eq!(film(&late).unwrap_err(), "sample at 101 s: expected a time after 101 s");
    let mut back = samples(&network);
    back[1].position = 130.0;
    assert_eq!(
        film(&back).unwrap_err(),
        "sample at 101 s: there is no way from `E1` at 135 m to `E1` at 130 m within 8 turns"
    );
    assert_eq!(film(&[]).unwrap(), Film::default());
}

#[test]
fn a_simulation_is_written_as_vehicles_leave() {
    let network = corridor().unwrap();
    let first = samples(&network);
    // A second vehicle, one second later on the same way, which stays until the end.
    let second: Vec<VehiclePosition> = first
        .iter()
        .map(|sample| VehiclePosition { time: sample.time + 1.0, vehicle: VehicleId(9), ..*sample })
        .collect();
    let noise = PositionNoise::default();
    let mut writer =
        PneumaWriter::new(&network, Vec::new(), Variant::Seconds, noise, 11, Seconds::new(100.0))
            .unwrap();
    let mut truth = Vec::new();
    let class = |vehicle: VehicleId| {
        if vehicle.0 == 9 { VehicleClass::Bus } else { VehicleClass::Car }
    };
    for time in 100..105 {
        let now = |sample: &&VehiclePosition| sample.time == f64::from(time);
        let moment: Vec<VehiclePosition> =
            first.iter().chain(&second).filter(now).copied().collect();
        writer.moment(&moment, class, |real| truth.extend_from_slice(real)).unwrap();
        // The first vehicle is gone at 104 s, and written then.
        assert_eq!(truth.len(), if time < 104 { 0 } else { 75 });
    }
    let text = writer.finish(|real| truth.extend_from_slice(real)).unwrap();
    assert_eq!(truth.len(), 150);
    let reader = PneumaReader::new(&text[..], "film.csv", ReadOptions::default()).unwrap();
    let tracks: Vec<Track> = reader.collect::<Result<_, _>>().unwrap();
    let summary: Vec<(&str, VehicleClass, f64)> =
        tracks.iter().map(|track| (&*track.name, track.class, track.points[0].time)).collect();
    assert_eq!(summary, [("3", VehicleClass::Car, 0.0), ("9", VehicleClass::Bus, 1.0)]);
    // Different vehicles, different errors: the same places a second later would be equal in all of 75 frames, and are so
    // in none but by the digits written, of which a metre has nine.
    let pairs = tracks[0].points.iter().zip(&tracks[1].points);
    let same = pairs.filter(|(a, b)| a.place == b.place).count();
    assert!(same <= 5, "{same}");
}
