//! Streaming the counts of SUMO's induction loops, summed over lanes.

use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;

use rustc_hash::FxHashMap;
use traffic::{LoopCount, Network, Seconds};

use super::names::loop_names;
use super::xml::{Element, XmlFile};
use super::{SumoFileError, quoted};

/// Which SUMO detectors make up each loop of a network: one a lane.
#[derive(Clone, Debug, Default)]
pub struct LoopMap {
    loop_of: FxHashMap<String, usize>,
    /// By loop: how many SUMO detectors it has.
    lanes: Vec<u32>,
}

impl LoopMap {
    /// For the detectors of a network that we wrote for SUMO.
    pub fn of(network: &Network) -> Self {
        let mut map = Self::default();
        for (index, (detector, name)) in network.loops().iter().zip(loop_names(network)).enumerate()
        {
            for lane in 0..network.link(detector.link).lanes {
                map.add(format!("{name}_{lane}"), index);
            }
        }
        map
    }

    pub(super) fn add(&mut self, detector: String, index: usize) {
        if self.loop_of.insert(detector, index).is_none() {
            if self.lanes.len() <= index {
                self.lanes.resize(index + 1, 0);
            }
            self.lanes[index] += 1;
        }
    }
}

/// The counts of an induction loop output file.
pub struct LoopReader {
    file: XmlFile,
    map: LoopMap,
    /// By loop: the interval being summed.
    open: Vec<Option<Interval>>,
    /// By loop: the end of its last interval.
    last_end: Vec<f64>,
    ready: VecDeque<LoopCount>,
    skipped: u64,
    failed: bool,
}

#[derive(Clone, Copy)]
struct Interval {
    begin: f64,
    end: f64,
    count: u32,
    lanes: u32,
}

impl LoopReader {
    /// Opens a file.
    pub fn open(path: &Path, map: LoopMap) -> Result<Self, SumoFileError> {
        Ok(Self::new(XmlFile::open(path, "detector")?, map))
    }

    /// Reads from anything; the name is for messages.
    pub fn from_reader(
        name: &Path,
        bytes: Box<dyn Read + Send>,
        map: LoopMap,
    ) -> Result<Self, SumoFileError> {
        Ok(Self::new(XmlFile::from_reader(name, bytes, "detector")?, map))
    }

    fn new(file: XmlFile, map: LoopMap) -> Self {
        let loops = map.lanes.len();
        Self {
            file,
            map,
            open: vec![None; loops],
            last_end: vec![f64::NEG_INFINITY; loops],
            ready: VecDeque::new(),
            skipped: 0,
            failed: false,
        }
    }

    fn advance(&mut self) -> Result<Option<LoopCount>, SumoFileError> {
        while self.ready.is_empty() {
            let Some(element) = self.file.next_element()? else { break };
            if element.name() != b"interval" {
                continue;
            }
            let id = element.text("id")?;
            let Some(&index) = self.map.loop_of.get(id) else {
                self.skipped += 1;
                continue;
            };
            let (begin, end, count) = fields(&element)?;
            let open = &mut self.open[index];
            match open {
                Some(interval) if interval.begin == begin && interval.end == end => {
                    interval.count = interval.count.saturating_add(count);
                    interval.lanes += 1;
                }
                Some(_) => {
                    let found = quoted(element.text("begin")?.as_bytes());
                    let expected = "the other lanes of its loop first";
                    return Err(element.wrong("begin", &found, expected));
                }
                None if begin < self.last_end[index] => {
                    let found = quoted(element.text("begin")?.as_bytes());
                    let expected = format!("{} or later", self.last_end[index]);
                    return Err(element.wrong("begin", &found, &expected));
                }
                None => *open = Some(Interval { begin, end, count, lanes: 1 }),
            }
            if let Some(done) = open.take_if(|interval| interval.lanes == self.map.lanes[index]) {
                self.last_end[index] = done.end;
                self.ready.push_back(LoopCount {
                    detector: index,
                    begin: Seconds::new(done.begin),
                    end: Seconds::new(done.end),
                    count: done.count,
                });
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// The interval of a row, and how many vehicles passed in it.
fn fields(element: &Element<'_>) -> Result<(f64, f64, u32), SumoFileError> {
    let (begin, end) = (element.number("begin")?, element.number("end")?);
    if end <= begin {
        return Err(element.wrong("end", &end.to_string(), &format!("more than {begin}")));
    }
    let count = element.number("nVehContrib")?;
    if count.fract() != 0.0 || count > f64::from(u32::MAX) {
        return Err(element.wrong("nVehContrib", &count.to_string(), "a whole number"));
    }
    Ok((begin, end, count as u32))
}

impl Iterator for LoopReader {
    type Item = Result<LoopCount, SumoFileError>;

    /// Intervals that lack a lane at the end of the file are dropped: they were not finished.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(body: &str) -> Result<Vec<LoopCount>, SumoFileError> {
        let mut map = LoopMap::default();
        for (id, index) in [("L1_0", 0), ("L1_1", 0), ("L5_0", 1)] {
            map.add(id.into(), index);
        }
        let text = format!("<detector>\n{body}</detector>\n");
        let bytes = Box::new(std::io::Cursor::new(text.into_bytes()));
        LoopReader::from_reader(Path::new("loops.xml"), bytes, map)?.collect()
    }

    fn row(begin: &str, end: &str, id: &str, count: &str) -> String {
        format!(
            "<interval begin=\"{begin}\" end=\"{end}\" id=\"{id}\" nVehContrib=\"{count}\" \
             speed=\"-1.00\"/>\n"
        )
    }

    #[test]
    fn lanes_are_summed_and_strangers_skipped() {
        let body = row("0.00", "10.00", "L1_0", "2")
            + &row("0.00", "10.00", "L1_1", "3")
            + &row("0.00", "10.00", "L5_0", "1")
            + &row("0.00", "10.00", "other", "9")
            + &row("10.00", "20.00", "L1_0", "0")
            + &row("10.00", "20.00", "L1_1", "4");
        let found: Vec<(usize, f64, u32)> = counts(&body)
            .unwrap()
            .iter()
            .map(|count| (count.detector, count.begin.get(), count.count))
            .collect();
        assert_eq!(found, [(0, 0.0, 5), (1, 0.0, 1), (0, 10.0, 4)]);
    }

    #[test]
    fn mistakes_are_named() {
        let good = row("10.00", "20.00", "L5_0", "1");
        for (body, expected) in [
            (row("0.00", "10.00", "L5_0", "-1"), "line 2: interval nVehContrib: found `-1`"),
            (row("0.00", "10.00", "L5_0", "1.5"), "nVehContrib: found 1.5"),
            (row("NaN", "10.00", "L5_0", "1"), "interval begin: found `NaN`"),
            (row("10.00", "10.00", "L5_0", "1"), "interval end: found 10, expected more than 10"),
            (good.clone() + &row("0.00", "10.00", "L5_0", "1"), "line 3: interval begin"),
            (good.replace("begin=", "start="), "interval begin: found nothing"),
            (
                row("0.00", "10.00", "L1_0", "1") + &row("10.00", "20.00", "L1_0", "1"),
                "expected the other lanes of its loop first",
            ),
            ("<interval".into(), "loops.xml: line 2: "),
        ] {
            let error = counts(&body).unwrap_err().to_string();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(body in "[ -~\n]{0,200}") {
            let _ = counts(&body);
        }
    }
}
