use std::io::Write;

use super::*;

/// Remembers lines; those that begin with `bad` cannot be true.
#[derive(Default)]
struct Lines {
    header: String,
    taken: Vec<String>,
    finished: bool,
}

impl Taker for Lines {
    fn header(&mut self, line: &str) -> Result<(), RecordError> {
        self.header = line.to_owned();
        Ok(())
    }
    fn time(&self, _line: &str) -> Option<f64> {
        None
    }
    fn gap(&self) -> f64 {
        10.0
    }
    fn record(&mut self, line: &str) -> Result<bool, RecordError> {
        if line.starts_with("bad") {
            return Err(RecordError::Fields { found: 1, expected: 4 });
        }
        self.taken.push(line.to_owned());
        Ok(line != "enough")
    }
    fn finish(&mut self) -> Result<(), RecordError> {
        self.finished = true;
        Ok(())
    }
}

fn read(text: &str, bad_lines: &str) -> (Lines, Counts, Result<()>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("records.csv"), text).unwrap();
    let section: RecordsSection =
        toml::from_str(&format!("source = \"file:records.csv\"\nbad-lines = \"{bad_lines}\""))
            .unwrap();
    let (mut lines, counts) = (Lines::default(), Counts::default());
    let done = section.read(folder.path(), &mut lines, &counts);
    (lines, counts, done)
}

#[test]
fn bad_lines_are_left_out_and_counted_or_end_it_all() {
    let long = "x".repeat(3 * MAX_LINE);
    let text = format!("columns\r\n1\n\nbad\n2\r\n{long}\n3\n\u{0}4");
    let (lines, counts, done) = read(&text, "skip");
    done.unwrap();
    assert_eq!((lines.header.as_str(), lines.finished), ("columns", true));
    assert_eq!(lines.taken, ["1", "2", "3", "\u{0}4"]);
    assert_eq!(counts.lines.load(Ordering::Relaxed), 8);
    assert_eq!(counts.bad.load(Ordering::Relaxed), 2);
    let (lines, _, done) = read(&text, "stop");
    let error = format!("{:#}", done.unwrap_err());
    assert!(error.contains("records.csv, line 4: found 1 fields, expected 4"), "{error}");
    assert_eq!((lines.taken.as_slice(), lines.finished), (&["1".to_owned()][..], false));
}

#[test]
fn a_reader_that_has_heard_enough_is_told_no_more() {
    let (lines, _, done) = read("columns\nenough\n2\n", "skip");
    done.unwrap();
    assert_eq!(lines.taken, ["enough"]);
}

#[test]
fn a_line_of_the_longest_length_is_read() {
    let text = format!("columns\n{}\n{}\n", "x".repeat(MAX_LINE), "y".repeat(MAX_LINE + 1));
    let (lines, counts, done) = read(&text, "skip");
    done.unwrap();
    assert_eq!(lines.taken.len(), 1);
    assert_eq!(counts.bad.load(Ordering::Relaxed), 1);
}

#[test]
fn the_place_of_a_silent_sender_is_given_to_the_next_and_no_piece_of_a_line_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let send = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    // They wait in the order in which they connect: one that is cut off, one that falls silent.
    drop(send("columns\n1\n2,piece"));
    let silent = send("columns\n3\n4,piece");
    let last = send("columns\n5\nenough\n");
    let section: RecordsSection =
        toml::from_str("source = \"tcp:127.0.0.1:1\"\nbad-lines = \"stop\"").unwrap();
    let (mut lines, counts) = (Lines::default(), Counts::default());
    section.serve(&listener, Duration::from_millis(50), &mut lines, &counts).unwrap();
    assert_eq!(lines.taken, ["1", "3", "5", "enough"]);
    assert_eq!(counts.bad.load(Ordering::Relaxed), 0);
    drop((silent, last));
}

/// As [`Lines`], with the times of a fleet's records.
#[derive(Default)]
struct Timed(Lines);

impl Taker for Timed {
    fn header(&mut self, line: &str) -> Result<(), RecordError> {
        self.0.header(line)
    }
    fn time(&self, line: &str) -> Option<f64> {
        sensing::stream::FleetColumns::of(&self.0.header).ok()?.time(line)
    }
    fn gap(&self) -> f64 {
        10.0
    }
    fn record(&mut self, line: &str) -> Result<bool, RecordError> {
        self.0.record(line)
    }
    fn finish(&mut self) -> Result<(), RecordError> {
        self.0.finish()
    }
}

#[test]
fn no_time_in_a_file_makes_it_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let times = ["9e10", "600", "nan", "inf", "1e300", "-1", "600", "99999", "600"];
    let text = times.map(|time| format!("{time},,,\n")).concat();
    let text = format!("time,vehicle,link,position\n{text}");
    std::fs::write(folder.path().join("records.csv"), text).unwrap();
    let section: RecordsSection = toml::from_str("source = \"file:records.csv\"").unwrap();
    let (mut timed, counts) = (Timed::default(), Counts::default());
    section.read(folder.path(), &mut timed, &counts).unwrap();
    assert_eq!(timed.0.taken.len(), times.len());
}
