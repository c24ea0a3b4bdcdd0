//! Estimates as files: CSV and Parquet of a span of time.
//!
//! A file is written on a blocking thread into a short queue of chunks, which the response takes from: a slow client
//! slows the thread instead of filling memory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use futures_util::{StreamExt, stream};
use sensing::{Column, ColumnKind, TableWriter};
use tokio::sync::mpsc::{self, Receiver, Sender};
use traffic::Step;

use super::error::ApiError;
use crate::estimate::{Estimate, LinkEstimate, SeriesInfo};
use crate::history::History;

/// Rows of a file: a day of the corridor are 147,000.
pub(super) const MAX_ROWS: usize = 500_000;
/// Rows of a Parquet row group, which is held in memory.
const GROUP_ROWS: usize = 50_000;
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for the client.
const QUEUE: usize = 4;

/// A part of a file, or its end. A queue that ends without `End` is a file that is not whole.
enum Chunk {
    Data(Bytes),
    End,
}

/// Writes chunks to a response.
pub(super) struct ChunkWriter {
    to: Sender<Chunk>,
    buffer: Vec<u8>,
}

/// The response's end of the queue.
pub(super) struct ChunkReader(Receiver<Chunk>);

/// A queue from a blocking thread to a response.
pub(super) fn chunks() -> (ChunkWriter, ChunkReader) {
    let (to, from) = mpsc::channel(QUEUE);
    (ChunkWriter { to, buffer: Vec::with_capacity(CHUNK_BYTES) }, ChunkReader(from))
}

impl ChunkWriter {
    fn send(&mut self, chunk: Chunk) -> io::Result<()> {
        self.to.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(Chunk::End)
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.send(Chunk::Data(full.into()))
    }
}

impl ChunkReader {
    /// Waits for the first chunk; none if the writer has failed before it.
    pub(super) async fn begin(mut self) -> Option<Body> {
        let first = self.0.recv().await?;
        let state = (Some(first), self.0);
        let chunks = stream::unfold(Some(state), async |state| {
            let (held, mut from) = state?;
            let chunk = match held {
                Some(chunk) => Some(chunk),
                None => from.recv().await,
            };
            match chunk {
                Some(Chunk::Data(bytes)) => Some((Ok(bytes), Some((None, from)))),
                Some(Chunk::End) => None,
                // Ends the connection, so that the client does not take it for a whole file.
                None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
            }
        });
        // Compression polls once more after the end, which `unfold` does not allow.
        Some(Body::from_stream(chunks.fuse()))
    }
}

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Parquet,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Csv => "text/csv; charset=utf-8",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    pub(super) fn disposition(self) -> &'static str {
        match self {
            Format::Csv => "attachment; filename=\"estimates.csv\"",
            Format::Parquet => "attachment; filename=\"estimates.parquet\"",
        }
    }

    /// Writes the estimates of some steps.
    pub(super) fn write(
        self,
        info: &SeriesInfo,
        history: &dyn History,
        (from, to): (Step, Step),
        out: ChunkWriter,
    ) -> Result<(), ApiError> {
        match self {
            Format::Csv => write_csv(info, history, (from, to), out),
            Format::Parquet => write_parquet(info, history, (from, to), out),
        }
    }
}

const NUMBERS: [&str; 7] = [
    "density_veh_km_lane",
    "flow_veh_min_lane",
    "speed_km_h",
    "density_low",
    "density_high",
    "flow_low",
    "flow_high",
];

fn numbers(link: &LinkEstimate) -> [Option<f64>; 7] {
    let density = link.interval.map(|interval| interval.density);
    let flow = link.interval.map(|interval| interval.flow);
    [
        Some(link.state.density.get()),
        Some(link.state.flow.get()),
        link.speed_km_h(),
        density.map(|[low, _]| low),
        density.map(|[_, high]| high),
        flow.map(|[low, _]| low),
        flow.map(|[_, high]| high),
    ]
}

/// As `fleet-a:in fleet-b:late`.
fn participants(estimate: &Estimate) -> String {
    let mut text = String::new();
    for (guest, participation) in &estimate.participants {
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{guest}:{}", participation.name());
    }
    text
}

/// Visits estimates until writing one fails.
fn visit(
    history: &dyn History,
    (from, to): (Step, Step),
    mut write: impl FnMut(&Estimate) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let mut failed = None;
    history.for_each(from, to, &mut |estimate| {
        failed = write(&estimate).err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), Err)
}

fn write_csv(
    info: &SeriesInfo,
    history: &dyn History,
    span: (Step, Step),
    out: ChunkWriter,
) -> Result<(), ApiError> {
    let failed = |error: csv::Error| ApiError::Internal(format!("CSV export: {error}"));
    let mut writer = csv::Writer::from_writer(out);
    let names = ["step", "begin_s", "link"].into_iter().chain(NUMBERS).chain(["participants"]);
    writer.write_record(names).map_err(failed)?;
    let shown = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    visit(history, span, |estimate| {
        let step = estimate.step.0.to_string();
        let begin = (estimate.step.0 as f64 * info.step_s).to_string();
        let participants = participants(estimate);
        for (link, state) in info.network.links().iter().zip(estimate.links()) {
            for field in [&step, &begin, &link.name] {
                writer.write_field(field).map_err(failed)?;
            }
            for number in numbers(&state) {
                writer.write_field(shown(number)).map_err(failed)?;
            }
            writer.write_field(&participants).map_err(failed)?;
            writer.write_record(None::<&[u8]>).map_err(failed)?;
        }
        Ok(())
    })?;
    let out = writer.into_inner().map_err(|error| failed(error.into_error().into()))?;
    out.finish().map_err(|error| failed(error.into()))
}

/// Columns of a row group.
#[derive(Default)]
struct Group {
    step: Vec<i64>,
    begin: Vec<f64>,
    link: Vec<String>,
    numbers: [Vec<Option<f64>>; 7],
    participants: Vec<String>,
}

impl Group {
    fn add(&mut self, info: &SeriesInfo, estimate: &Estimate) {
        let participants = participants(estimate);
        for (link, state) in info.network.links().iter().zip(estimate.links()) {
            self.step.push(estimate.step.0);
            self.begin.push(estimate.step.0 as f64 * info.step_s);
            self.link.push(link.name.clone());
            for (column, number) in self.numbers.iter_mut().zip(numbers(&state)) {
                column.push(number);
            }
            self.participants.push(participants.clone());
        }
    }

    fn columns(self) -> Vec<Column> {
        let mut columns =
            vec![Column::I64(self.step), Column::F64(self.begin), Column::Text(self.link)];
        columns.extend(self.numbers.into_iter().map(Column::OptionalF64));
        columns.push(Column::Text(self.participants));
        columns
    }
}

/// By way of a temporary file: a Parquet file ends with its index.
fn write_parquet(
    info: &SeriesInfo,
    history: &dyn History,
    span: (Step, Step),
    mut out: ChunkWriter,
) -> Result<(), ApiError> {
    let failed = |error: &dyn std::fmt::Display| ApiError::Internal(format!("Parquet: {error}"));
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let path = folder.path().join("estimates.parquet");
    let mut columns =
        vec![("step", ColumnKind::I64), ("begin_s", ColumnKind::F64), ("link", ColumnKind::Text)];
    columns.extend(NUMBERS.map(|name| (name, ColumnKind::OptionalF64)));
    columns.push(("participants", ColumnKind::Text));
    let mut writer = TableWriter::create(&path, &columns).map_err(|error| failed(&error))?;
    let mut group = Group::default();
    visit(history, span, |estimate| {
        group.add(info, estimate);
        if group.step.len() >= GROUP_ROWS {
            let full = std::mem::take(&mut group).columns();
            writer.write(&full).map_err(|error| failed(&error))?;
        }
        Ok(())
    })?;
    if !group.step.is_empty() {
        writer.write(&group.columns()).map_err(|error| failed(&error))?;
    }
    writer.finish().map_err(|error| failed(&error))?;
    let mut file = File::open(&path).map_err(|error| failed(&error))?;
    io::copy(&mut file, &mut out).map_err(|error| failed(&error))?;
    out.finish().map_err(|error| failed(&error))
}
