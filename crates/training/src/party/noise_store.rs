//! Noised numbers of a fleet on disk: each step's are drawn once, and a new day extends them.
//!
//! ```text
//! FLEET.noise    a line of JSON (what was noised, and how), then records, each written and synced before it is used
//!   kind         1 byte: totals or queues
//!   step         8 bytes
//!   fingerprint  16 bytes: of the numbers before they got noise, with the file's salt
//!   numbers      a noised vector, as `sealed` writes it; of the same length in all records of a kind
//!   check        8 bytes: SHA-256 of the record up to here
//! FOLDER.drawn   beside the folder: the fleets whose noise was drawn, one name a line
//! ```
//!
//! Noise that is drawn twice for the same data averages out. So a file that was there once and is missing is an error,
//! and so is a step whose data are others than when its noise was drawn. What a power cut left of the last record was
//! never used, and is cut off.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sealed::noise::{DiscreteGaussian, NoisedVector};
use sealed::{Grid, Randomness};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use traffic::Step;

use super::noise::NoiseTerms;
use crate::error::{Context, Result, TrainingError, bail, ensure};

/// Format 1 counted distances by the fastest vehicle on all links alike; format 2 had one vector for all steps.
const FORMAT: u32 = 3;
/// Bytes of a header, at most.
const MOST_HEADER: u64 = 4096;
/// Bytes of a record before its numbers, and after.
const HEAD: usize = 1 + 8 + FINGERPRINT;
const FINGERPRINT: usize = 16;
const CHECK: usize = 8;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoisedKind {
    /// Time and distance of each link.
    Totals = 1,
    /// Density by queue profiles of each link.
    Queues = 2,
}

impl NoisedKind {
    fn of(byte: u8) -> Option<Self> {
        [NoisedKind::Totals, NoisedKind::Queues].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What was noised, and how: the first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoiseHeader {
    pub format: u32,
    pub fleet: String,
    pub network_hash: String,
    pub step_s: f64,
    pub links: usize,
    /// Numbers of a link and step for which σ was made: time, distance, and density by queue profiles if that was there.
    pub numbers: usize,
    pub terms: NoiseTerms,
    /// Of fingerprints, in hexadecimal digits.
    pub salt: String,
}

/// The grid, σ and limits of the numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoiseShape {
    pub grid: Grid,
    pub sigma: f64,
    /// Numbers are clipped to 0 and this.
    pub most: f64,
}

/// See the [module](self).
pub(super) struct NoiseStore {
    path: PathBuf,
    file: File,
    header: NoiseHeader,
    shape: NoiseShape,
    /// Where each record begins, and its fingerprint.
    records: BTreeMap<(Step, NoisedKind), (u64, [u8; FINGERPRINT])>,
    /// Where the records begin that were not read yet.
    end: u64,
}

impl NoiseHeader {
    /// For a fleet, with a salt of its own.
    pub(super) fn new(
        (fleet, network_hash): (&str, &str),
        (step_s, links, numbers): (f64, usize, usize),
        terms: NoiseTerms,
    ) -> Result<Self> {
        let (fleet, network_hash) = (fleet.to_owned(), network_hash.to_owned());
        let salt = HEXLOWER.encode(&Randomness::from_os()?.seed());
        Ok(Self { format: FORMAT, fleet, network_hash, step_s, links, numbers, terms, salt })
    }

    /// Reads that of a file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Ok(Self::read_line(path)?.0)
    }

    fn read_line(path: &Path) -> Result<(Self, u64)> {
        let file = File::open(path).map_err(|error| TrainingError::file(path, error))?;
        let mut line = Vec::new();
        let read = BufReader::new(file).take(MOST_HEADER).read_until(b'\n', &mut line);
        read.map_err(|error| TrainingError::file(path, error))?;
        let shown = || format!("{}: expected a line that says what was noised", path.display());
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let Any { format } = serde_json::from_slice(&line).with_context(shown)?;
        ensure!(
            format == FORMAT,
            "{}: found noise of format {format}, expected {FORMAT}; what was released stays released: noise drawn anew, in another folder, costs its ε besides",
            path.display()
        );
        Ok((serde_json::from_slice(&line).with_context(shown)?, line.len() as u64))
    }

    /// Refuses a file of another fleet, of other terms, or with too little noise for as many numbers.
    fn check(&self, expected: &Self, path: &Path) -> Result<()> {
        let shown = path.display();
        let same = (&self.fleet, &self.network_hash, self.step_s, self.links)
            == (&expected.fleet, &expected.network_hash, expected.step_s, expected.links);
        ensure!(
            same,
            "{shown}: found noise of fleet `{}` on another network or with other steps, expected that of `{}`",
            self.fleet,
            expected.fleet
        );
        ensure!(
            self.terms == expected.terms,
            "{shown}: found noise drawn for {}, expected {}; a second release of the same data would add to the first",
            self.terms,
            expected.terms
        );
        ensure!(
            self.numbers >= expected.numbers,
            "{shown}: found noise for {} numbers of each link, expected {}: with densities by queue profiles more of it is needed, and a second release would add to the first",
            self.numbers,
            expected.numbers
        );
        Ok(())
    }

    fn payload(&self, kind: NoisedKind) -> usize {
        let numbers = match kind {
            NoisedKind::Totals => 2 * self.links,
            NoisedKind::Queues => self.links,
        };
        NoisedVector::encoded_len(numbers)
    }

    fn fingerprint(&self, kind: NoisedKind, step: Step, raw: &[f64]) -> [u8; FINGERPRINT] {
        let mut hash = Sha256::new();
        hash.update(self.salt.as_bytes());
        hash.update([kind as u8]);
        hash.update(step.0.to_le_bytes());
        raw.iter().for_each(|value| hash.update(value.to_le_bytes()));
        let mut fingerprint = [0; FINGERPRINT];
        fingerprint.copy_from_slice(&hash.finalize()[..FINGERPRINT]);
        fingerprint
    }
}

impl NoiseStore {
    /// Opens the file of a fleet in a folder. One that was never there is begun with this header; its noise is made for
    /// the numbers that the header says, which a file that is there may exceed.
    pub(super) fn open(
        folder: &Path,
        header: NoiseHeader,
        shape: impl FnOnce(&NoiseHeader) -> Result<NoiseShape>,
    ) -> Result<Self> {
        let path = file_of(folder, &header.fleet);
        let drawn = drawn_list(folder);
        if !path.exists() {
            let known = read_if_there(&drawn)?;
            ensure!(
                !known.lines().any(|fleet| fleet == header.fleet),
                "{}: not found, expected the noise that was drawn for this fleet, as {} says: noise drawn again would average out; restore the file",
                path.display(),
                drawn.display()
            );
            std::fs::create_dir_all(folder).map_err(|error| TrainingError::file(folder, error))?;
            let mut line = serde_json::to_vec(&header)?;
            line.push(b'\n');
            ensure!(line.len() as u64 <= MOST_HEADER, "{}: too long a header", path.display());
            durable::write_private(&path, line)?;
            durable::write_private(&drawn, format!("{known}{}\n", header.fleet))?;
        }
        Self::of_file(path, &header, shape)
    }

    /// Opens the file of a fleet that must be there.
    pub(super) fn existing(
        folder: &Path,
        expected: &NoiseHeader,
        shape: impl FnOnce(&NoiseHeader) -> Result<NoiseShape>,
    ) -> Result<Self> {
        Self::of_file(file_of(folder, &expected.fleet), expected, shape)
    }

    fn of_file(
        path: PathBuf,
        expected: &NoiseHeader,
        shape: impl FnOnce(&NoiseHeader) -> Result<NoiseShape>,
    ) -> Result<Self> {
        let (header, end) = NoiseHeader::read_line(&path)?;
        header.check(expected, &path)?;
        let shape = shape(&header)?;
        let file = OpenOptions::new().read(true).append(true).open(&path);
        let file = file.map_err(|error| TrainingError::file(&path, error))?;
        let mut store = Self { path, file, header, shape, records: BTreeMap::new(), end };
        store.locked(Self::read_new_records)?;
        Ok(store)
    }

    /// Of the file.
    pub(super) fn header(&self) -> &NoiseHeader {
        &self.header
    }

    /// Draws noise for all that has none yet, and syncs it to disk. Refuses data that differ from those whose noise was drawn.
    pub(super) fn draw_missing(
        &mut self,
        all: impl IntoIterator<Item = (Step, NoisedKind, Vec<f64>)>,
    ) -> Result<()> {
        self.locked(|store| {
            store.read_new_records()?;
            let mut random = Randomness::from_os()?;
            let mut bytes = Vec::new();
            for (step, kind, raw) in all {
                let fingerprint = store.header.fingerprint(kind, step, &raw);
                if let Some((_, known)) = store.records.get(&(step, kind)) {
                    ensure!(
                        *known == fingerprint,
                        "{}: found noise of other data in step {}, expected that of this fleet's: noise is never drawn again for a step",
                        store.path.display(),
                        step.0
                    );
                    continue;
                }
                let NoiseShape { grid, sigma, most } = store.shape;
                let drawn = NoisedVector::draw(&raw, (0.0, most), grid, sigma, &mut random)?;
                let begin = bytes.len();
                bytes.push(kind as u8);
                bytes.extend(step.0.to_le_bytes());
                bytes.extend(fingerprint);
                bytes.extend(drawn.encode());
                let check = Sha256::digest(&bytes[begin..]);
                bytes.extend(&check[..CHECK]);
                store.records.insert((step, kind), (store.end + begin as u64, fingerprint));
            }
            if !bytes.is_empty() {
                let written = store.file.write_all(&bytes).and_then(|()| store.file.sync_data());
                if let Err(error) = written {
                    // What was not synced must not be used: it might be drawn again.
                    store.records.retain(|_, (at, _)| *at < store.end);
                    return Err(TrainingError::file(&store.path, error));
                }
                store.end += bytes.len() as u64;
            }
            Ok(())
        })
    }

    /// The noised numbers of a step, if its noise was drawn.
    pub(super) fn values(&mut self, step: Step, kind: NoisedKind) -> Result<Option<Vec<f64>>> {
        let Some((at, _)) = self.records.get(&(step, kind)) else { return Ok(None) };
        let mut bytes = vec![0; self.header.payload(kind)];
        let read = self.file.seek(SeekFrom::Start(at + HEAD as u64));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| TrainingError::file(&self.path, error))?;
        let vector = NoisedVector::decode(&bytes, self.shape.grid, self.shape.sigma)
            .with_context(|| self.path.display().to_string())?;
        Ok(Some(vector.values()))
    }

    /// Standard deviation of the noise in the numbers' unit: as it is drawn, rounded up.
    pub(super) fn deviation(&self) -> Result<f64> {
        let NoiseShape { grid, sigma, .. } = self.shape;
        Ok(DiscreteGaussian::new(sigma / grid.step())?.sigma() * grid.step())
    }

    /// Whoever else has the file open, in another process too, waits meanwhile.
    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.file.lock().map_err(|error| TrainingError::file(&self.path, error))?;
        let done = work(self);
        self.file.unlock().map_err(|error| TrainingError::file(&self.path, error))?;
        done
    }

    /// Reads what was appended since, and cuts off a last record that is not whole.
    fn read_new_records(&mut self) -> Result<()> {
        let failed = |error| TrainingError::file(&self.path, error);
        self.file.seek(SeekFrom::Start(self.end)).map_err(failed)?;
        let mut reader = BufReader::new(&self.file);
        let (mut rest, mut torn) = (Vec::new(), false);
        while !reader.fill_buf().map_err(failed)?.is_empty() {
            let kind = NoisedKind::of(reader.fill_buf().map_err(failed)?[0]);
            let length = kind.map(|kind| HEAD + self.header.payload(kind) + CHECK);
            let part = reader.by_ref().take(length.map_or(u64::MAX, |length| length as u64));
            rest.clear();
            { part }.read_to_end(&mut rest).map_err(failed)?;
            let Some((kind, fingerprint, step)) = kind.and_then(|kind| whole(kind, length, &rest))
            else {
                let is_end = length.is_some_and(|length| rest.len() < length);
                torn = is_end || rest.iter().all(|byte| *byte == 0);
                ensure!(
                    torn,
                    "{}: found a damaged record at byte {}, expected noise as it was drawn; restore the file",
                    self.path.display(),
                    self.end
                );
                break;
            };
            if self.records.insert((step, kind), (self.end, fingerprint)).is_some() {
                bail!("{}: found step {} twice, expected it once", self.path.display(), step.0);
            }
            self.end += rest.len() as u64;
        }
        if torn {
            self.file.set_len(self.end).and_then(|()| self.file.sync_all()).map_err(failed)?;
        }
        Ok(())
    }
}

/// A record's kind, fingerprint and step, if all of it is there as it was written.
fn whole(
    kind: NoisedKind,
    length: Option<usize>,
    bytes: &[u8],
) -> Option<(NoisedKind, [u8; FINGERPRINT], Step)> {
    let (content, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
    let is_whole = length == Some(bytes.len()) && Sha256::digest(content)[..CHECK] == *check;
    let (step, rest) = content.get(1..)?.split_first_chunk::<8>()?;
    let fingerprint = rest.first_chunk::<FINGERPRINT>()?;
    is_whole.then_some((kind, *fingerprint, Step(i64::from_le_bytes(*step))))
}

/// The file of a fleet.
pub(super) fn file_of(folder: &Path, fleet: &str) -> PathBuf {
    folder.join(format!("{fleet}.noise"))
}

/// Beside the folder, so that it is still there when the folder is not.
fn drawn_list(folder: &Path) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".drawn");
    PathBuf::from(path)
}

fn read_if_there(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(TrainingError::file(path, error)),
    }
}

#[cfg(test)]
mod tests;
