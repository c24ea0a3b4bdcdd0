use proptest::prelude::*;
use traffic::PositionSource;

use super::*;
use crate::dataset::{Dataset, Provenance};
use crate::table::{Column, ColumnKind, TableWriter};
use crate::test_roads::corridor;

fn import(path: &Path, kind: FileKind) -> Result<Vec<VehiclePosition>, ImportError> {
    let network = corridor().unwrap();
    let mut import = TrajectoryImport::new(&network);
    import.read(path, kind, &mut |_| {})?;
    let folder = tempfile::tempdir().unwrap();
    let gap = Seconds::new(60.0);
    let mut writer = DatasetWriter::create(folder.path(), &network, Provenance::default(), gap)?;
    let (vehicles, _) = import.write(&mut writer, MatchParameters::default())?;
    writer.finish(&vehicles, &[])?;
    let dataset = Dataset::open(folder.path())?;
    let (mut samples, mut out, mut all) = (dataset.samples()?, Vec::new(), Vec::new());
    while samples.next_moment(&mut out)?.is_some() {
        all.extend_from_slice(&out);
    }
    Ok(all)
}

fn import_csv(text: &str) -> Result<Vec<VehiclePosition>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, text).unwrap();
    import(&path, FileKind::Csv)
        .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

const BY_VEHICLE: &str = "\
time, vehicle, link, position, lane, speed, colour
0, a, E1, 10, 2, 5, red
1, a, E1, 15, 2, 5.5, red
2, a, E1, 21, 2, 6, red
0.5, b, E2, 0, 0, , blue
1.5, b, E2, 8, 0, , blue
";

#[test]
fn rows_by_vehicle_come_out_by_time() {
    let samples = import_csv(BY_VEHICLE).unwrap();
    let order: Vec<(f64, u32)> = samples.iter().map(|s| (s.time, s.vehicle.0)).collect();
    assert_eq!(order, [(0.0, 0), (0.5, 1), (1.0, 0), (1.5, 1), (2.0, 0)]);
    assert_eq!((samples[2].position, samples[2].lane, samples[2].speed), (15.0, 2, 5.5));
    // Without a speed: from the way made since the row before, 8 m in 1 s.
    assert_eq!(samples[3].speed, 8.0);
}

#[test]
fn parquet_gives_what_csv_gives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let columns = [
        ("vehicle", ColumnKind::Text),
        ("time", ColumnKind::F64),
        ("link", ColumnKind::Text),
        ("position", ColumnKind::F64),
        ("speed", ColumnKind::OptionalF64),
        ("lane", ColumnKind::I32),
    ];
    let text = |values: [&str; 5]| Column::Text(values.map(String::from).to_vec());
    let mut table = TableWriter::create(&path, &columns).unwrap();
    table
        .write(&[
            text(["a", "a", "a", "b", "b"]),
            Column::F64(vec![0.0, 1.0, 2.0, 0.5, 1.5]),
            text(["E1", "E1", "E1", "E2", "E2"]),
            Column::F64(vec![10.0, 15.0, 21.0, 0.0, 8.0]),
            Column::OptionalF64(vec![Some(5.0), Some(5.5), Some(6.0), None, None]),
            Column::I32(vec![2, 2, 2, 0, 0]),
        ])
        .unwrap();
    table.finish().unwrap();
    assert_eq!(import(&path, FileKind::Parquet).unwrap(), import_csv(BY_VEHICLE).unwrap());
}

#[test]
fn places_are_matched_onto_links() {
    let network = corridor().unwrap();
    let e1 = network.link(network.link_named("E1").unwrap());
    let plane = network.plane().unwrap();
    let mut text = String::from("vehicle,time,lat,lon\n");
    for second in 0..13 {
        let place = plane.place(e1.point_at(traffic::Metres::new(5.0 + 10.0 * f64::from(second))));
        text += &format!("x,{second},{},{}\n", place.lat, place.lon);
    }
    let samples = import_csv(&text).unwrap();
    assert_eq!(samples.len(), 13);
    for (second, sample) in samples.iter().enumerate() {
        assert_eq!(sample.link.0, 0);
        // Places without noise: the drawing's length is rounded to the centimetre.
        assert!((sample.position - (5.0 + 10.0 * second as f32)).abs() < 0.1, "{sample:?}");
    }
}

/// Metres within 1e-300 s are more than a number can hold: they tell no speed.
#[test]
fn times_next_to_each_other_tell_no_speed() {
    let on_link = "vehicle,time,link,position\na,0,E1,0\na,1e-300,E1,8\n";
    let network = corridor().unwrap();
    let e1 = network.link(network.link_named("E1").unwrap());
    let plane = network.plane().unwrap();
    let mut on_earth = String::from("vehicle,time,lat,lon\n");
    let drive = (1..13).map(|second| (f64::from(second), 5.0 + 10.0 * f64::from(second)));
    for (time, metres) in [(0.0, 5.0), (1e-300, 5.5), (2e-300, 6.0)].into_iter().chain(drive) {
        let place = plane.place(e1.point_at(traffic::Metres::new(metres)));
        on_earth += &format!("a,{time:e},{},{}\n", place.lat, place.lon);
    }
    for (text, rows) in [(on_link, 2), (on_earth.as_str(), 15)] {
        let samples = import_csv(text).unwrap();
        assert_eq!(samples.len(), rows);
        assert!(samples[..2].iter().all(|sample| sample.speed == 0.0), "{samples:?}");
    }
}

#[test]
fn bad_rows_are_named_by_line_and_field() {
    let header = "vehicle,time,link,position,lane,speed\n";
    for (rows, expected) in [
        ("a,0,E1,1,0\n", "rows.csv: line 2: found 5 fields, expected 6"),
        ("a,0,E1,1,0,1\na,x,E1,1,0,1\n", "rows.csv: line 3: time: found \"x\", expected a number"),
        ("a,NaN,E1,1,0,1\n", "rows.csv: line 2: time: found NaN, expected 0 s to 1e11 s"),
        ("a,0,E1,1,0,-2\n", "rows.csv: line 2: speed: found -2, expected 0 m/s or more"),
        (
            "a,0,E1,1,0,1e300\n",
            "rows.csv: line 2: speed: found 1e300, expected at most 3.4028235e38 m/s",
        ),
        (
            "a,0,E1,NaN,0,2\n",
            "rows.csv: line 2: position: found NaN m, expected 0 to 150 m on link `E1`",
        ),
        (
            "a,0,E9,1,0,2\n",
            "rows.csv: line 2: link: found \"E9\", expected a link of network \"Panepistimiou corridor\"",
        ),
        ("a,0,E1,1,7,2\n", "rows.csv: line 2: lane: found 7, expected less than 5"),
        (
            "a,1,E1,1,0,1\na,0,E1,1,0,1\n",
            "rows.csv: line 3: vehicle \"a\": time: found 0, expected 1 or later",
        ),
        (
            "a,1,E1,1,0,1\na,1,E1,2,0,1\n",
            "rows.csv: line 3: vehicle \"a\": found twice at time 1, expected once",
        ),
        ("", "rows.csv: found no rows, expected a header and at least one row"),
    ] {
        assert_eq!(import_csv(&format!("{header}{rows}")).unwrap_err(), expected);
    }
    let columns = import_csv("vehicle,time,where\n").unwrap_err();
    assert!(
        columns.starts_with("rows.csv: columns: found vehicle, time, where; expected"),
        "{columns}"
    );
    assert!(import_csv("").unwrap_err().contains("columns: found none"));
}

#[test]
fn loop_counts_are_read_and_checked() {
    let network = corridor().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loops.csv");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read_loop_counts(&path, FileKind::Csv, &network).map_err(|error| error.to_string())
    };
    let counts = read("loop,begin,end,count\nL5,0,10,4\nL1,0,10,7\n").unwrap();
    assert_eq!((counts[0].detector, counts[1].count), (1, 7));
    for (row, problem) in [
        ("L9,0,10,4", "line 2: loop: found \"L9\""),
        ("L1,10,10,4", "line 2: begin, end: found 10, 10"),
        ("L1,0,10,-4", "line 2: count: found -4"),
        ("L1,0,10,1.5", "line 2: count: found 1.5"),
    ] {
        let error = read(&format!("loop,begin,end,count\n{row}\n")).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}

proptest! {
    /// Any bytes are imported or refused, never a panic.
    #[test]
    fn any_bytes_are_imported_or_refused(rows in prop::collection::vec("[0-9a,.E1\\-\n\"]{0,30}", 0..8)) {
        let _ = import_csv(&format!("vehicle,time,link,position\n{}", rows.join("\n")));
    }
}
