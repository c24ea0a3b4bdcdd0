//! Lines to records, and back.

use std::borrow::Cow;

use traffic::{LinkId, Network};

use super::RecordError;
use crate::journey::is_time;

/// Longest line, in bytes.
pub const MAX_LINE: usize = 1024;
/// Longest part of a line that an error shows.
const SHOWN: usize = 64;

/// A line of a fleet's stream.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetRecord<'a> {
    /// A vehicle was seen.
    Seen {
        /// When, in seconds.
        time: f64,
        /// Its name.
        vehicle: Cow<'a, str>,
        /// Where.
        link: LinkId,
        /// Metres from the link's start.
        position: f32,
    },
    /// All that happened up to this time has been sent.
    Time(f64),
}

/// A line of a stream of loop counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopRecord {
    /// A loop has counted.
    Count {
        /// Its number in the network.
        detector: usize,
        /// Beginning of the interval, in seconds.
        begin: f64,
        /// Its end.
        end: f64,
        /// Vehicles.
        count: u32,
    },
    /// All that was counted up to this time has been sent.
    Time(f64),
}

/// Where the columns of a fleet's stream are.
#[derive(Clone, Copy, Debug)]
pub struct FleetColumns {
    /// `time`, `vehicle`, `link`, `position`.
    at: [usize; 4],
    count: usize,
}

/// Where the columns of a stream of loop counts are.
#[derive(Clone, Copy, Debug)]
pub struct LoopColumns {
    /// `loop`, `begin`, `end`, `count`.
    at: [usize; 4],
    count: usize,
}

impl FleetColumns {
    /// The line that [`FleetColumns::of`] understands.
    pub const HEADER: &'static str = "time,vehicle,link,position";

    /// From the first line.
    pub fn of(header: &str) -> Result<Self, RecordError> {
        let (at, count) = find(header, ["time", "vehicle", "link", "position"], Self::HEADER)?;
        Ok(Self { at, count })
    }

    /// The time of a line, if it has one that can be true.
    pub fn time(&self, line: &str) -> Option<f64> {
        time_in(line, self.at[0])
    }

    /// Any other line.
    pub fn parse<'a>(
        &self,
        line: &'a str,
        network: &Network,
    ) -> Result<FleetRecord<'a>, RecordError> {
        let [time, vehicle, link, position] = pick(line, self.at, self.count)?;
        let time = number("time", &time)?;
        if vehicle.is_empty() && link.is_empty() && position.is_empty() {
            return Ok(FleetRecord::Time(time));
        }
        if vehicle.is_empty() {
            return Err(wrong("vehicle", &vehicle, "a name"));
        }
        let found = network.link_named(&link);
        let link = found.ok_or_else(|| wrong("link", &link, "a link of the network"))?;
        let position = number("position", &position)? as f32;
        Ok(FleetRecord::Seen { time, vehicle, link, position })
    }
}

impl LoopColumns {
    /// The line that [`LoopColumns::of`] understands.
    pub const HEADER: &'static str = "loop,begin,end,count";

    /// From the first line.
    pub fn of(header: &str) -> Result<Self, RecordError> {
        let (at, count) = find(header, ["loop", "begin", "end", "count"], Self::HEADER)?;
        Ok(Self { at, count })
    }

    /// The time at which a line is known: the end of its interval, if that can be true.
    pub fn time(&self, line: &str) -> Option<f64> {
        time_in(line, self.at[2])
    }

    /// Any other line.
    pub fn parse(&self, line: &str, network: &Network) -> Result<LoopRecord, RecordError> {
        let [name, begin, end, count] = pick(line, self.at, self.count)?;
        let end = number("end", &end)?;
        if name.is_empty() && begin.is_empty() && count.is_empty() {
            return Ok(LoopRecord::Time(end));
        }
        let detector = network.loops().iter().position(|detector| detector.name == name);
        let detector = detector.ok_or_else(|| wrong("loop", &name, "a loop of the network"))?;
        let begin = number("begin", &begin)?;
        if begin >= end {
            return Err(wrong("end", &end.to_string(), &format!("later than {begin}")));
        }
        let count = count.parse().map_err(|_| wrong("count", &count, "a whole number"))?;
        Ok(LoopRecord::Count { detector, begin, end, count })
    }
}

fn find(
    header: &str,
    names: [&str; 4],
    expected: &'static str,
) -> Result<([usize; 4], usize), RecordError> {
    let columns: Vec<Cow<'_, str>> = fields(header.trim_start_matches('\u{feff}')).collect();
    let mut at = [0; 4];
    for (at, name) in at.iter_mut().zip(names) {
        let found = columns.iter().position(|column| *column == name);
        *at = found.ok_or_else(|| RecordError::Columns { found: shown(header), expected })?;
    }
    Ok((at, columns.len()))
}

/// The fields of a line. One in quotation marks may hold commas, and each mark of its own twice, as in any CSV.
fn fields(line: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        if let Some((field, after)) = quoted_field(text) {
            rest = after;
            return Some(field);
        }
        let (field, after) = match text.split_once(',') {
            Some((field, after)) => (field, Some(after)),
            None => (text, None),
        };
        rest = after;
        Some(Cow::Borrowed(field.trim()))
    })
}

/// A field in quotation marks, and what follows its comma; none if the line does not begin with a whole one.
fn quoted_field(text: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
    let inner = text.trim_start().strip_prefix('"')?;
    let mut end = 0;
    loop {
        end += inner[end..].find('"')?;
        if !inner[end + 1..].starts_with('"') {
            break;
        }
        end += 2;
    }
    let (field, after) = (&inner[..end], inner[end + 1..].trim());
    let after = match after.strip_prefix(',') {
        Some(after) => Some(after),
        None if after.is_empty() => None,
        None => return None,
    };
    let plain = !field.contains('"');
    let field = if plain { Cow::Borrowed(field) } else { Cow::Owned(field.replace("\"\"", "\"")) };
    Some((field, after))
}

/// A name as a field of a line: in quotation marks where it would end or begin one.
pub fn name_field(name: &str) -> Cow<'_, str> {
    let plain = name.trim() == name && !name.contains([',', '"']);
    if plain {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

fn pick(line: &str, at: [usize; 4], count: usize) -> Result<[Cow<'_, str>; 4], RecordError> {
    let mut picked = [const { Cow::Borrowed("") }; 4];
    let mut found = 0;
    for (index, field) in fields(line).enumerate() {
        found += 1;
        if let Some(place) = at.iter().position(|at| *at == index) {
            picked[place] = field;
        }
    }
    if found == count { Ok(picked) } else { Err(RecordError::Fields { found, expected: count }) }
}

fn time_in(line: &str, column: usize) -> Option<f64> {
    fields(line).nth(column)?.parse().ok().filter(|time| is_time(*time))
}

fn number(field: &'static str, found: &str) -> Result<f64, RecordError> {
    let number = found.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| wrong(field, found, "a number"))
}

fn wrong(field: &'static str, found: &str, expected: &str) -> RecordError {
    RecordError::Field { field, found: shown(found), expected: expected.to_owned() }
}

/// The beginning of what was found, fit for a log.
fn shown(found: &str) -> String {
    found.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
