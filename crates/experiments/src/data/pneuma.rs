//! Imports drone recordings in the pNEUMA format, map-matched onto a network.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use sensing::matching::{Accuracy, MatchReport, MatchScratch, Matcher, Track, accuracy};
use sensing::pneuma::{ReadOptions, Session, open_pneuma};
use sensing::{DatasetManifest, Sorter, VehicleTable, write_sorted};
use traffic::{Network, Seconds, VehicleClass, VehiclePosition};

use super::import::{ImportTarget, file_names};
use super::load_network;

/// Tracks matched at once, on all cores.
const TRACKS_AT_ONCE: usize = 256;
/// Seconds between the positions that are kept.
pub const INTERVAL: f64 = 1.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// Which recordings to import.
#[derive(Clone, Debug)]
pub struct PneumaImport {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Keep one position in this many seconds.
    pub interval: f64,
    /// Where the vehicles really were (CSV: vehicle, time, link, position), to measure the matching; for a single
    /// file.
    pub truth: Option<PathBuf>,
    /// Network, folder and matching.
    pub target: ImportTarget,
}

/// A file and when its film starts.
struct Film<'a> {
    path: &'a Path,
    start: Seconds,
    /// Put before the names of its vehicles, which are numbered from 1 in each file.
    prefix: String,
}

/// What an import has led to.
pub struct Imported {
    /// The dataset's.
    pub manifest: DatasetManifest,
    /// How many positions were matched, and why the others were not.
    pub report: MatchReport,
    /// Errors of the matching, where the truth is known.
    pub measured: Option<Accuracy>,
}

impl PneumaImport {
    /// Files in the usual setting, into a new folder.
    pub fn new(files: &[PathBuf], network: Option<&Path>, out: &Path) -> Self {
        let target = ImportTarget::new(network, out);
        Self { files: files.to_vec(), interval: INTERVAL, truth: None, target }
    }

    /// Imports the files as one dataset with a recording each.
    pub fn import(&self) -> Result<Imported> {
        let arguments = self;
        ensure!(
            arguments.interval > 0.0 && arguments.interval.is_finite(),
            "--interval: found {}, expected more than 0 s",
            arguments.interval
        );
        let target = &arguments.target;
        let network = load_network(target.network.as_deref())?;
        let (films, epoch) = films(&arguments.files)?;
        let matcher = Matcher::new(&network, target.matching())?;
        let mut vehicles = VehicleTable::default();
        let mut samples: Sorter<VehiclePosition> = Sorter::default();
        let mut report = MatchReport::default();
        let mut to_measure = Vec::new();
        ensure!(
            arguments.truth.is_none() || films.len() == 1,
            "--truth: found {} files, expected one",
            films.len()
        );
        let spinner = progress::spinner("matching tracks");
        for film in &films {
            let options =
                ReadOptions { interval: Some(Seconds::new(arguments.interval)), start: film.start };
            let mut tracks = open_pneuma(film.path, options)?;
            loop {
                let chunk: Vec<Track> =
                    tracks.by_ref().take(TRACKS_AT_ONCE).collect::<Result<_, _>>()?;
                if chunk.is_empty() {
                    break;
                }
                let numbered: Vec<_> = chunk
                    .iter()
                    .map(|track| {
                        let name = format!("{}{}", film.prefix, track.name);
                        (track, vehicles.number(&name, track.class))
                    })
                    .collect();
                let matched: Vec<_> = numbered
                    .par_iter()
                    .map_init(MatchScratch::default, |scratch, &(track, vehicle)| {
                        matcher.match_track(track, vehicle, scratch)
                    })
                    .collect();
                for track in matched {
                    report.add(&track.report);
                    for &sample in track.parts.iter().flatten() {
                        samples.push(sample).context("sorting in the temporary folder")?;
                        if arguments.truth.is_some() {
                            to_measure.push(sample);
                        }
                    }
                }
                spinner.inc(chunk.len() as u64);
            }
        }
        let mut source = vec![("import", file_names(&arguments.files))];
        source.push(("interval", arguments.interval.to_string()));
        let mut writer = target.writer(&network, epoch, &source)?;
        write_sorted(samples, &mut writer)?;
        let manifest = writer.finish(&vehicles, &[])?;
        spinner.finish_and_clear();
        let measured = match &arguments.truth {
            Some(path) => {
                let truth = read_truth(path, &network, &films[0], &mut vehicles)?;
                accuracy(&network, &truth, &to_measure)
            }
            None => None,
        };
        Ok(Imported { manifest, report, measured })
    }
}

fn read_truth(
    path: &Path,
    network: &Network,
    film: &Film<'_>,
    vehicles: &mut VehicleTable,
) -> Result<Vec<VehiclePosition>> {
    let mut reader = csv::Reader::from_path(path).with_context(|| format!("{}", path.display()))?;
    let mut truth = Vec::new();
    for row in reader.deserialize() {
        let (vehicle, time, link, position): (String, f64, String, f32) =
            row.with_context(|| format!("{}", path.display()))?;
        let link = network.link_named(&link).with_context(|| {
            format!("{}: link: found \"{link}\", expected a link of the network", path.display())
        })?;
        truth.push(VehiclePosition {
            time: time + film.start.get(),
            vehicle: vehicles.number(&format!("{}{vehicle}", film.prefix), VehicleClass::Car),
            link,
            position,
            lane: 0,
            speed: 0.0,
        });
    }
    Ok(truth)
}

/// Puts the files on one clock by their names. A single file may have any name.
fn films(files: &[PathBuf]) -> Result<(Vec<Film<'_>>, Option<String>)> {
    let sessions: Vec<_> = files.iter().map(Session::of_file).collect();
    if let [Err(_)] = sessions[..] {
        let film = Film { path: &files[0], start: Seconds::ZERO, prefix: String::new() };
        return Ok((vec![film], None));
    }
    let sessions: Vec<Session> = sessions.into_iter().collect::<Result<_, _>>()?;
    let first_day = sessions.iter().map(|session| day_number(session.date)).min().unwrap_or(0);
    let films = files.iter().zip(&sessions).map(|(path, session)| {
        let days = (day_number(session.date) - first_day) as f64;
        let (year, month, day) = session.date;
        let minutes = session.start.get() as u64 / 60;
        Film {
            path,
            start: session.start + Seconds::new(days * SECONDS_A_DAY),
            prefix: format!(
                "{year:04}{month:02}{day:02}_{}_{:02}{:02}:",
                session.area,
                minutes / 60,
                minutes % 60
            ),
        }
    });
    let first = sessions.iter().min_by_key(|session| session.date);
    let epoch = first.map(|session| {
        let (year, month, day) = session.date;
        format!("{year:04}-{month:02}-{day:02}T00:00:00")
    });
    Ok((films.collect(), epoch))
}

/// Days since 1 March of the year 0 in the Gregorian calendar: years that begin in March have
/// their leap day last, so that months need no table of their own.
fn day_number((year, month, day): (u16, u8, u8)) -> i64 {
    let (year, month) = (i64::from(year), i64::from(month));
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * month + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + days_before_month
        + i64::from(day)
        - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_across_months_and_leap_years() {
        let between = |a, b| day_number(b) - day_number(a);
        assert_eq!(between((2018, 10, 24), (2018, 11, 1)), 8);
        assert_eq!(between((2020, 2, 28), (2020, 3, 1)), 2);
        assert_eq!(between((1900, 2, 28), (1900, 3, 1)), 1);
        assert_eq!(between((2000, 1, 1), (2001, 1, 1)), 366);
        assert_eq!(between((1970, 1, 1), (2026, 11, 15)), 20_772);
    }

    #[test]
    fn files_of_several_days_share_a_clock() {
        let files: Vec<PathBuf> = ["b/20181029_d2_0800_0830.csv", "20181024_d1_0830_0900.csv"]
            .map(PathBuf::from)
            .to_vec();
        let (films, epoch) = films(&files).unwrap();
        assert_eq!(epoch.as_deref(), Some("2018-10-24T00:00:00"));
        assert_eq!(films[1].start.get(), 8.5 * 3600.0);
        assert_eq!(films[0].start.get(), 5.0 * SECONDS_A_DAY + 8.0 * 3600.0);
        assert_eq!(films[1].prefix, "20181024_d1_0830:");
        assert!(super::films(&["x.csv".into(), "20181024_d1_0830_0900.csv".into()]).is_err());
    }
}
