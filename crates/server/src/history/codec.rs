//! Records as bytes, for the embedded store.
//!
//! ```text
//! 1 byte version · 8 made_s · 8 latency_s · 4 length + participants as JSON
//! 4 links · 1 whether intervals follow · of each link 2 or 6 numbers of 8 bytes
//! ```
//!
//! All little-endian. Every number keeps its bits, so that the past reads as it was published.

use anyhow::{Context, Result, ensure};
use estimator::LinkInterval;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use crate::serve::record::{LinkRecord, Record};

const VERSION: u8 = 1;
const PLAIN: usize = 2;
const WITH_INTERVALS: usize = 6;

pub fn encode(record: &Record) -> Result<Vec<u8>> {
    let participants = serde_json::to_vec(&record.participants)?;
    let mut bytes = vec![VERSION];
    bytes.extend(record.made_s.to_le_bytes());
    bytes.extend(record.latency_s.to_le_bytes());
    bytes.extend(u32::try_from(participants.len())?.to_le_bytes());
    bytes.extend(participants);
    bytes.extend(u32::try_from(record.states.len())?.to_le_bytes());
    bytes.push(u8::from(record.intervals.is_some()));
    for link in record.links() {
        let mut numbers = vec![link.state.density.get(), link.state.flow.get()];
        if record.intervals.is_some() {
            let interval = link.interval.context("an interval of each link")?;
            numbers.extend(interval.density.into_iter().chain(interval.flow));
        }
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    Ok(bytes)
}

pub fn decode(step: Step, bytes: &[u8]) -> Result<Record> {
    let (head, rows) = Head::read(bytes)?;
    let all: Vec<LinkRecord> =
        (0..head.links).map(|at| head.link(rows, at)).collect::<Result<_>>()?;
    Ok(Record {
        step,
        made_s: head.made_s,
        latency_s: head.latency_s,
        participants: serde_json::from_slice(head.participants).context("participants")?,
        states: all.iter().map(|link| link.state).collect(),
        intervals: all.iter().map(|link| link.interval).collect(),
    })
}

/// One link of a record, without reading the others.
pub fn decode_link(step: Step, bytes: &[u8], link: usize) -> Result<super::LinkMoment> {
    let (head, rows) = Head::read(bytes)?;
    ensure!(link < head.links, "history: found {} links, expected more than {link}", head.links);
    let participants = serde_json::from_slice(head.participants).context("participants")?;
    Ok(super::LinkMoment { step, link: head.link(rows, link)?, participants })
}

struct Head<'a> {
    made_s: f64,
    latency_s: f64,
    participants: &'a [u8],
    links: usize,
    numbers: usize,
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut reader = Reader(bytes);
        let [version] = reader.take()?;
        ensure!(version == VERSION, "history: found version {version}, expected {VERSION}");
        let (made_s, latency_s) = (reader.number()?, reader.number()?);
        let length = reader.length()?;
        let participants = reader.slice(length)?;
        let links = reader.length()?;
        let [intervals] = reader.take()?;
        ensure!(intervals <= 1, "history: intervals: found {intervals}, expected 0 or 1");
        let numbers = if intervals == 1 { WITH_INTERVALS } else { PLAIN };
        let (found, expected) = (reader.0.len(), links.checked_mul(8 * numbers));
        ensure!(
            Some(found) == expected,
            "history: found {found} bytes of {links} links, expected {expected:?}"
        );
        Ok((Head { made_s, latency_s, participants, links, numbers }, reader.0))
    }

    fn link(&self, rows: &[u8], at: usize) -> Result<LinkRecord> {
        let mut reader = Reader(rows.get(8 * self.numbers * at..).unwrap_or_default());
        let state = LinkState {
            density: VehPerKmLane::new(reader.number()?),
            flow: VehPerMinLane::new(reader.number()?),
        };
        let interval = if self.numbers == WITH_INTERVALS {
            let density = [reader.number()?, reader.number()?];
            Some(LinkInterval { density, flow: [reader.number()?, reader.number()?] })
        } else {
            None
        };
        Ok(LinkRecord { state, interval })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(length).context("history: a record is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.slice(N)?.try_into()?)
    }

    fn number(&mut self) -> Result<f64> {
        let number = f64::from_le_bytes(self.take()?);
        ensure!(number.is_finite(), "history: found {number}, expected a finite number");
        Ok(number)
    }

    fn length(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }
}
