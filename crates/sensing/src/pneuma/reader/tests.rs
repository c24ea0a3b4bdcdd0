use std::io::Write as _;

use proptest::prelude::*;

use super::*;

const SECONDS: &str = include_str!("../../../tests/data/pneuma_seconds.csv");
const MILLISECONDS: &str = include_str!("../../../tests/data/pneuma_milliseconds.csv");

fn read(text: &str, options: ReadOptions) -> Result<Vec<Track>, PneumaError> {
    PneumaReader::new(text.as_bytes(), "d1.csv", options)?.collect()
}

fn tracks(text: &str) -> Vec<Track> {
    read(text, ReadOptions::default()).unwrap()
}

fn refusal(text: &str) -> String {
    read(text, ReadOptions::default()).unwrap_err().to_string()
}

/// A file with one row of the fields given after the header.
fn row(fields: &str) -> String {
    format!("{}\n{fields}\n", Variant::Seconds.columns().join("; "))
}

#[test]
fn both_variants_say_the_same() {
    let tracks = tracks(SECONDS);
    assert_eq!(tracks, self::tracks(MILLISECONDS));
    let summary: Vec<(&str, VehicleClass, usize)> =
        tracks.iter().map(|track| (&*track.name, track.class, track.points.len())).collect();
    assert_eq!(
        summary,
        [
            ("1", VehicleClass::Car, 3),
            ("2", VehicleClass::Medium, 2),
            ("7", VehicleClass::Motorcycle, 1)
        ]
    );
    assert_eq!(
        tracks[0].points[1],
        TrackPoint {
            time: 0.04,
            place: LatLon { lat: 37.975703, lon: 23.734097 },
            speed: Some(10.0)
        }
    );
}

#[test]
fn layout_does_not_matter() {
    let plain = tracks(SECONDS);
    for text in [
        SECONDS.replace("; ", ";"),
        SECONDS.replace('\n', "\r\n"),
        SECONDS.replace("; \n", "\n"),
        SECONDS.replace('\n', "\n\n"),
        format!("\u{feff}{}", SECONDS.trim_end()),
        SECONDS.replacen("time\n", "time;\n", 1),
    ] {
        assert_eq!(tracks(&text), plain, "{text}");
    }
}

#[test]
fn thinning_keeps_all_vehicles_at_the_same_moments() {
    let mut text = Variant::Seconds.columns().join("; ") + "\n";
    for (id, first) in [(1, 0), (2, 7), (3, 25)] {
        text += &format!("{id}; Car; 1; 1; ");
        for frame in first..first + 60 {
            text += &format!("1; 2; 3; 0; 0; {:.6}; ", f64::from(frame) * FRAME);
        }
        text += "\n";
    }
    let options = ReadOptions { interval: Some(Seconds::new(1.0)), start: Seconds::new(1000.0) };
    let times: Vec<Vec<f64>> = read(&text, options)
        .unwrap()
        .iter()
        .map(|track| track.points.iter().map(|point| point.time).collect())
        .collect();
    // Frames 0–59, 7–66 and 25–84 of 25 a second: the multiples of 1 s among them.
    assert_eq!(
        times,
        [vec![1000.0, 1001.0, 1002.0], vec![1001.0, 1002.0], vec![1001.0, 1002.0, 1003.0]]
    );
}

#[test]
fn a_long_track_is_read_with_little_memory() {
    // 20,000 groups, as one real standing motorcycle; thinned, only 800 s are kept.
    let group = |n: u32| format!("38.0; 23.7; 0.0; 0.0; 0.0; {:.6}; ", f64::from(n) * FRAME);
    let text = row(&format!("1; Motorcycle; 0; 0; {}", (0..20_000).map(group).collect::<String>()));
    let options = ReadOptions { interval: Some(Seconds::new(1.0)), ..ReadOptions::default() };
    let track = &read(&text, options).unwrap()[0];
    assert_eq!(track.points.len(), 800);
    assert!(track.points.capacity() < 2000);
}

#[test]
fn errors_name_file_line_column_group_found_and_expected() {
    let group = "37.9; 23.7; 36.0; 0.1; 0.1; 0.000000";
    for (text, expected) in [
        (String::new(), "d1.csv: found no header, expected a header and one row for each vehicle"),
        (row(""), "d1.csv: found no tracks, expected a header and one row for each vehicle"),
        (
            "a,b,c\n1,2,3\n".into(),
            "d1.csv: line 1: header: found `a,b,c`, expected `track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time` or `track_id; type; traveled_distance; avg_speed; lat; lon; speed; tan_accel; lat_accel; time`",
        ),
        (
            row(&format!("1; Tram; 1; 1; {group};")),
            "d1.csv: line 2, column 2 (type): found `Tram`, expected one of Car, Taxi, Bus, Medium Vehicle, Heavy Vehicle, Motorcycle",
        ),
        (
            row(&format!("1; Car; -1; 1; {group};")),
            "d1.csv: line 2, column 3 (traveled_d): found `-1`, expected 0 or more",
        ),
        (
            row("1; Car; 1"),
            "d1.csv: line 2, column 3 (avg_speed): found the end of the row, expected four fields and then groups of six",
        ),
        (
            row("1; Car; 1; 1;"),
            "d1.csv: line 2, column 5 (lat, group 1): found the end of the row, expected groups of six fields, lat; lon; speed; lon_acc; lat_acc; time",
        ),
        (
            row(&format!("1; Car; 1; 1; {group}; 37.9; 23.7; 36.0")),
            "d1.csv: line 2, column 13 (lon_acc, group 2): found the end of the row, expected groups of six fields, lat; lon; speed; lon_acc; lat_acc; time",
        ),
        (
            row("1; Car; 1; 1; 37.9; 23.7; -36.0; 0; 0; 0;"),
            "d1.csv: line 2, column 7 (speed, group 1): found `-36.0`, expected km/h, 0 to 1000",
        ),
        (
            row("1; Car; 1; 1; 37.9; 23.7; NaN; 0; 0; 0;"),
            "d1.csv: line 2, column 7 (speed, group 1): found `NaN`, expected km/h, 0 to 1000",
        ),
        (
            row("1; Car; 1; 1; 37.9; 23.7; 1; inf; 0; 0;"),
            "d1.csv: line 2, column 8 (lon_acc, group 1): found `inf`, expected a number",
        ),
        (
            row("1; Car; 1; 1; 97.9; 23.7; 1; 0; 0; 0;"),
            "d1.csv: line 2, column 5 (lat, group 1): found `97.9`, expected degrees from -90 to 90",
        ),
        (
            row("1; Car; 1; 1; 37.9; 237; 1; 0; 0; 0;"),
            "d1.csv: line 2, column 6 (lon, group 1): found `237`, expected degrees from -180 to 180",
        ),
        (
            row(&format!("1; Car; 1; 1; {group}; {group};")),
            "d1.csv: line 2, column 16 (time, group 2): found `0.000000`, expected more than the time 0 s of the group before",
        ),
        (
            row(&format!("1; Car; 1; 1; {group}; 37.9; 23.7; 36.0; 0.1; 0.1; 40;")),
            "d1.csv: line 2, column 16 (time, group 2): found `40`, expected 0.04 s, or a small multiple of it, after the group before: by its header this file counts time in s",
        ),
        (
            MILLISECONDS.replace("; 40;", "; 0.04;"),
            "d1.csv: line 2, column 16 (time, group 2): found `0.04`, expected 40 ms, or a small multiple of it, after the group before: by its header this file counts time in ms",
        ),
        (
            SECONDS.replace("\n7;", "\n2;"),
            "d1.csv: line 4, column 1 (track_id): found `2`, expected each track once",
        ),
        (
            row(&format!("1; Car; 1; 1; {}1; 23.7; 36.0; 0.1; 0.1; 0.0;", "0".repeat(100))),
            "d1.csv: line 2, column 5 (lat, group 1): found `00000000000000000000000000000000000000000000000000000000000000000…`, expected degrees from -90 to 90",
        ),
    ] {
        assert_eq!(refusal(&text), expected);
    }
}

#[test]
fn reading_ends_after_an_error() {
    let text = SECONDS.replace("Medium Vehicle", "Tram");
    let mut reader = PneumaReader::new(text.as_bytes(), "d1.csv", ReadOptions::default()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), tracks(SECONDS)[0]);
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("d1.csv: line 3") && error.contains("found `Tram`"), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn files_are_read_plain_and_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), SECONDS).unwrap();
    let packed = File::create(path("b.csv.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, Default::default());
    packed.write_all(SECONDS.as_bytes()).unwrap();
    packed.finish().unwrap();
    for name in ["a.csv", "b.csv.gz"] {
        let reader = open_pneuma(path(name), ReadOptions::default()).unwrap();
        assert_eq!(reader.variant, Variant::Seconds);
        assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), tracks(SECONDS));
    }
    // A packed file that breaks off is an error, not a shorter file.
    let bytes = std::fs::read(path("b.csv.gz")).unwrap();
    std::fs::write(path("c.csv.gz"), &bytes[..bytes.len() - 12]).unwrap();
    let result: Result<Vec<Track>, PneumaError> =
        open_pneuma(path("c.csv.gz"), ReadOptions::default()).and_then(Iterator::collect);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("c.csv.gz"), "{error}");
}

proptest! {
    /// Any damage gives tracks whose times increase, or an error: never a panic.
    #[test]
    fn damaged_files_are_read_or_refused(
        at in 0usize..SECONDS.len(),
        cut in 0usize..30,
        garbage in proptest::collection::vec(any::<u8>(), 0..10),
    ) {
        let mut bytes = SECONDS.as_bytes().to_vec();
        bytes.splice(at..(at + cut).min(SECONDS.len()), garbage);
        let Ok(reader) = PneumaReader::new(&bytes[..], "d1.csv", ReadOptions::default()) else {
            return Ok(());
        };
        for track in reader.map_while(Result::ok) {
            for pair in track.points.windows(2) {
                prop_assert!(pair[0].time < pair[1].time);
            }
            for point in &track.points {
                prop_assert!(point.place.lat.abs() <= 90.0 && point.place.lon.abs() <= 180.0);
                prop_assert!(point.speed.is_some_and(|speed| speed >= 0.0));
            }
        }
    }

    /// Bytes that were never a file are refused.
    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(PneumaReader::new(&bytes[..], "d1.csv", ReadOptions::default()).is_err());
    }
}
