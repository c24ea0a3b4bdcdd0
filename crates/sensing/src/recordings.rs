//! When there were eyes on the road: recordings, the steps they hold, windows over them.

use serde::{Deserialize, Serialize};
use traffic::{Seconds, Step};

use crate::journey::is_time;

/// A span of time without blind gaps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// First moment.
    pub begin: Seconds,
    /// Last moment.
    pub end: Seconds,
}

/// What is wrong with recordings that a file claims, if anything: they are spans of time in order.
pub(crate) fn problem(recordings: &[Recording]) -> Option<String> {
    let mut last = f64::NEG_INFINITY;
    for (index, recording) in recordings.iter().enumerate() {
        let (begin, end) = (recording.begin.get(), recording.end.get());
        if !(is_time(begin) && is_time(end) && begin > last && begin <= end) {
            return Some(format!(
                "recording {}: found {begin} to {end} s, expected times from 0 to 1e11 s, in order and apart",
                index + 1
            ));
        }
        last = end;
    }
    None
}

/// Finds recordings in a sequence of moments: a pause longer than the gap begins a new one.
#[derive(Clone, Debug)]
pub struct RecordingWatch {
    gap: Seconds,
    recordings: Vec<Recording>,
}

impl RecordingWatch {
    /// Moments further apart than `gap` belong to different recordings.
    pub fn new(gap: Seconds) -> Self {
        Self { gap, recordings: Vec::new() }
    }

    /// Notes a moment; true if a recording begins with it.
    pub(crate) fn note(&mut self, time: Seconds) -> bool {
        match self.recordings.last_mut() {
            Some(last) if time - last.end <= self.gap => {
                last.end = last.end.max(time);
                false
            }
            _ => {
                self.recordings.push(Recording { begin: time, end: time });
                true
            }
        }
    }

    /// The recordings so far.
    pub fn recordings(&self) -> &[Recording] {
        &self.recordings
    }
}

/// Steps in a row, all complete; both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRange {
    /// The first.
    pub first: Step,
    /// The last.
    pub last: Step,
}

/// The complete steps that a party holds, as ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<StepRange>")]
pub struct HeldSteps(Vec<StepRange>);

/// The most steps of a dataset, thirty years of 10 s: more is a mistake in a time or in the step,
/// and would not end.
pub(crate) const MAX_STEPS: i64 = 100_000_000;
/// No step has a larger number: the shortest steps to the end of time.
const MAX_STEP: i64 = 100_000_000_000_000;

impl TryFrom<Vec<StepRange>> for HeldSteps {
    type Error = String;

    fn try_from(ranges: Vec<StepRange>) -> Result<Self, String> {
        let (mut last, mut steps) = (-MAX_STEP - 1, 0);
        for range in &ranges {
            let (first, end) = (range.first.0, range.last.0);
            if !(last < first && first <= end && end <= MAX_STEP) {
                return Err(format!(
                    "steps held: found {first} to {end}, expected ranges within ±{MAX_STEP}, in order and apart"
                ));
            }
            last = end;
            steps += end - first + 1;
            if steps > MAX_STEPS {
                return Err(format!(
                    "steps held: found {steps} or more, expected at most {MAX_STEPS}"
                ));
            }
        }
        Ok(Self(ranges))
    }
}

impl HeldSteps {
    /// From the first to the last, both included; none if the last comes first.
    pub fn of_range(first: Step, last: Step) -> Self {
        Self(if first <= last { vec![StepRange { first, last }] } else { Vec::new() })
    }

    /// Adds a step later than all before.
    pub fn push(&mut self, step: Step) {
        match self.0.last_mut() {
            Some(range) if range.last.0 + 1 == step.0 => range.last = step,
            _ => self.0.push(StepRange { first: step, last: step }),
        }
    }

    /// The ranges.
    pub fn ranges(&self) -> &[StepRange] {
        &self.0
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.0.iter().map(|range| (range.last.0 - range.first.0 + 1) as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All steps in order.
    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        self.0.iter().flat_map(|range| (range.first.0..=range.last.0).map(Step))
    }

    /// The last step of every window of `length` steps that lies within one range: windows never
    /// cross a gap.
    ///
    /// ```
    /// use sensing::HeldSteps;
    /// use traffic::Step;
    /// let mut held = HeldSteps::default();
    /// [0, 1, 2, 3, 7, 8, 9].map(Step).into_iter().for_each(|step| held.push(step));
    /// assert_eq!(held.windows(3), [2, 3, 9].map(Step));
    /// ```
    pub fn windows(&self, length: usize) -> Vec<Step> {
        let before = length.max(1) as i64 - 1;
        self.0.iter().flat_map(|range| (range.first.0 + before..=range.last.0).map(Step)).collect()
    }
}

/// Windows split in time: training first, then validation, the last part for the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// First 70 %.
    pub train: Vec<Step>,
    /// Next 10 %.
    pub validation: Vec<Step>,
    /// Last 20 %.
    pub test: Vec<Step>,
}

/// Splits windows 70/10/20 in time.
pub fn split(windows: &[Step]) -> Split {
    let (train, validation) = (windows.len() * 7 / 10, windows.len() * 8 / 10);
    Split {
        train: windows[..train].to_vec(),
        validation: windows[train..validation].to_vec(),
        test: windows[validation..].to_vec(),
    }
}

/// One to learn from, one to judge by, one for the test.
pub const LEAST_RECORDINGS: usize = 3;

/// Splits windows by recording, not within one: of 16 recordings the last three are for the test
/// and the one before them validates; of more or fewer as many in proportion, at least one each.
/// A recording is a run of windows without a gap. `Err`: how many there are, if too few.
///
/// ```
/// use sensing::split_by_recording;
/// use traffic::Step;
/// let windows = [8, 9, 18, 19, 28, 29].map(Step);
/// let split = split_by_recording(&windows)?;
/// assert_eq!(split.train, [8, 9].map(Step));
/// assert_eq!(split.test, [28, 29].map(Step));
/// # Ok::<(), usize>(())
/// ```
pub fn split_by_recording(windows: &[Step]) -> Result<Split, usize> {
    let mut recordings: Vec<&[Step]> =
        windows.chunk_by(|before, after| after.0 - before.0 == 1).collect();
    let found = recordings.len();
    if found < LEAST_RECORDINGS {
        return Err(found);
    }
    let part = |sixteenths: usize| ((sixteenths * found + 8) / 16).max(1);
    let test = recordings.split_off(found - part(3)).concat();
    let validation = recordings.split_off(recordings.len() - part(1)).concat();
    Ok(Split { train: recordings.concat(), validation, test })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest that ends a recording one bit early would refuse the last sample.
    #[test]
    fn times_survive_the_manifest_to_the_last_bit() {
        // The first is one that a fast parser reads as the number below it.
        let times = [1.0000000000054645].into_iter().chain((1..2000).map(|n| 1e5 / f64::from(n)));
        for time in times {
            let recording = Recording { begin: Seconds::new(0.0), end: Seconds::new(time) };
            let text = serde_json::to_string(&recording).unwrap();
            assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), recording, "{text}");
        }
    }

    #[test]
    fn a_pause_begins_a_new_recording() {
        let mut watch = RecordingWatch::new(Seconds::new(60.0));
        let begins: Vec<bool> =
            [0.0, 30.0, 90.0, 151.0, 152.0].map(|t| watch.note(Seconds::new(t))).to_vec();
        assert_eq!(begins, [true, false, false, true, false]);
        let ends: Vec<f64> = watch.recordings().iter().map(|r| r.end.get()).collect();
        assert_eq!(ends, [90.0, 152.0]);
    }

    #[test]
    fn recordings_that_cannot_be_are_named() {
        let recordings = |spans: &[(f64, f64)]| {
            let span = |&(begin, end): &(f64, f64)| Recording {
                begin: Seconds::new(begin),
                end: Seconds::new(end),
            };
            problem(&spans.iter().map(span).collect::<Vec<_>>())
        };
        assert_eq!(recordings(&[(0.0, 10.0), (20.0, 20.0)]), None);
        for spans in [
            [(0.0, 1e300), (2e300, 3e300)],
            [(0.0, 10.0), (f64::NAN, 20.0)],
            [(20.0, 30.0), (0.0, 10.0)],
            [(0.0, 10.0), (10.0, 20.0)],
            [(10.0, 0.0), (20.0, 30.0)],
        ] {
            assert!(recordings(&spans).is_some_and(|problem| problem.contains("recording ")));
        }
    }

    #[test]
    fn the_paper_s_sample_gives_its_number_of_windows() {
        // 800 minutes of 10 s steps, windows of 9: 4,792 samples.
        let mut held = HeldSteps::default();
        (60..4860).for_each(|step| held.push(Step(step)));
        let windows = held.windows(9);
        assert_eq!((held.len(), windows.len()), (4800, 4792));
        let split = split(&windows);
        assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (3354, 479, 959));
        assert!(split.train.last() < split.validation.first());
        assert!(split.validation.last() < split.test.first());
    }

    #[test]
    fn recordings_are_split_as_the_authors_did() {
        let parts = |recordings: i64| {
            let windows: Vec<Step> =
                (0..recordings).flat_map(|n| [100 * n, 100 * n + 1].map(Step)).collect();
            let split = split_by_recording(&windows)?;
            let all = [&split.train[..], &split.validation[..], &split.test[..]];
            assert_eq!(all.concat(), windows);
            Ok(all.map(|part| part.len() / 2))
        };
        assert_eq!(parts(16), Ok([12, 1, 3]));
        assert_eq!(parts(3), Ok([1, 1, 1]));
        assert_eq!(parts(5), Ok([3, 1, 1]));
        assert_eq!(parts(32), Ok([24, 2, 6]));
        assert_eq!((parts(2), parts(0)), (Err(2), Err(0)));
    }

    #[test]
    fn steps_that_cannot_be_held_are_refused() {
        // Found by fuzzing: a manifest's steps were counted without looking at them.
        let read = |text: &str| serde_json::from_str::<HeldSteps>(text);
        let held = read(r#"[{"first": -2, "last": 3}, {"first": 5, "last": 5}]"#).unwrap();
        assert_eq!(held.len(), 7);
        assert_eq!(serde_json::to_string(&held).unwrap().matches("first").count(), 2);
        for wrong in [
            r#"[{"first": 3, "last": 2}]"#,
            r#"[{"first": 0, "last": 5}, {"first": 5, "last": 6}]"#,
            r#"[{"first": 0, "last": 9223372036854775807}]"#,
            r#"[{"first": -9223372036854775808, "last": 0}]"#,
            r#"[{"first": 0, "last": 200000000}]"#,
        ] {
            assert!(read(wrong).unwrap_err().to_string().contains("steps held: found"), "{wrong}");
        }
    }

    #[test]
    fn short_ranges_have_no_window() {
        let mut held = HeldSteps::default();
        [0, 1, 5].map(Step).into_iter().for_each(|step| held.push(step));
        assert!(held.windows(3).is_empty());
        assert_eq!(held.iter().count(), 3);
    }
}
