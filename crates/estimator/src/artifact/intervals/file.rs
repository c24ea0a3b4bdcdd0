//! Intervals beside the model that they belong to: `intervals.json`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Intervals;
use crate::artifact::model_folder::ModelFolderError;
use crate::artifact::whole_file::{content, read_bounded, write_whole};

/// The format that this version writes and reads.
const FORMAT: &str = "fedtse-intervals/2";
/// Longer than any file of a network that a model can be trained for.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntervalsFile {
    format: String,
    intervals: Intervals,
}

impl Intervals {
    /// Writes the file of a folder, whole or not at all.
    pub fn save(&self, folder: &Path) -> Result<(), ModelFolderError> {
        let path = path(folder);
        let file = IntervalsFile { format: FORMAT.into(), intervals: self.clone() };
        let text = serde_json::to_string(&file).map_err(|error| content(&path, error))?;
        write_whole(&path, &(text + "\n"))
    }

    /// Reads the file of a folder, for a network of so many links.
    pub fn load(folder: &Path, links: usize) -> Result<Self, ModelFolderError> {
        let path = path(folder);
        let text = read_bounded(&path, MOST_BYTES)?;
        let file: IntervalsFile =
            serde_json::from_str(&text).map_err(|error| content(&path, error))?;
        if file.format != FORMAT {
            let problem = format!("format: found \"{}\", expected \"{FORMAT}\"", file.format);
            return Err(content(&path, problem));
        }
        let intervals = file.intervals;
        intervals.check().map_err(|error| content(&path, error))?;
        if intervals.links() != links {
            let problem = format!("found {} links, expected {links}", intervals.links());
            return Err(content(&path, problem));
        }
        Ok(intervals)
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("intervals.json")
}

#[cfg(test)]
mod tests {
    use traffic::{LinkState, VehPerKmLane, VehPerMinLane};

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_broken_refused() {
        let folder = tempfile::tempdir().unwrap();
        let states: Vec<LinkState> = (0..200)
            .map(|i| LinkState {
                density: VehPerKmLane::new(f64::from(i)),
                flow: VehPerMinLane::new(f64::from(i % 7)),
            })
            .collect();
        let mut truths = states.clone();
        truths.rotate_left(4);
        let intervals = Intervals::calibrate(&states, &truths, 2).unwrap();
        intervals.save(folder.path()).unwrap();
        assert_eq!(Intervals::load(folder.path(), 2).unwrap(), intervals);
        let error = Intervals::load(folder.path(), 3).unwrap_err().to_string();
        assert!(error.ends_with("intervals.json: found 2 links, expected 3"), "{error}");
        let path = path(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("intervals/2", "intervals/9"),
            ("\"from\":[", "\"from\":[1e9,"),
            ("\"links\":[[[[", "\"links\":[[[[1e9,"),
        ] {
            assert!(text.contains(from), "{text}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
            assert!(Intervals::load(folder.path(), 2).is_err(), "{to}");
        }
        let error = Intervals::load(&folder.path().join("none"), 2).unwrap_err().to_string();
        assert!(error.contains("intervals.json"), "{error}");
    }
}
