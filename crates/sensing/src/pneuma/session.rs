//! What the name of a pNEUMA file says: `20181024_d1_0830_0900.csv`.

use std::path::Path;

use thiserror::Error;
use traffic::Seconds;

/// The day, time and place of a recording.
///
/// ```
/// let session = sensing::pneuma::Session::of_file("data/20181024_d1_0830_0900.csv")?;
/// assert_eq!(session.date, (2018, 10, 24));
/// assert_eq!(session.start.get(), 8.5 * 3600.0);
/// # Ok::<(), sensing::pneuma::SessionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Year, month and day.
    pub date: (u16, u8, u8),
    /// Which drone or area: `d1` to `d10`, or `dX` for all.
    pub area: String,
    /// Start, since midnight in local time.
    pub start: Seconds,
    /// End, since midnight in local time.
    pub end: Seconds,
}

/// A file name that is not of the published form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "file name `{found}`: {field}: expected the form YYYYMMDD_AREA_HHMM_HHMM, as in 20181024_d1_0830_0900.csv"
)]
pub struct SessionError {
    /// The name found.
    pub found: String,
    /// The part at fault.
    pub field: &'static str,
}

impl Session {
    /// Reads a file's name; folders and endings do not matter.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let name = path.as_ref().file_name().map(|name| name.to_string_lossy().into_owned());
        let found = name.unwrap_or_default();
        let stem = found.split('.').next().unwrap_or_default();
        let fail = |field| SessionError { found: found.clone(), field };
        let parts: Vec<&str> = stem.split('_').collect();
        let [day, area, start, end] = parts[..] else { return Err(fail("name")) };
        let date = date(day).ok_or_else(|| fail("date"))?;
        if area.is_empty() {
            return Err(fail("area"));
        }
        let start = time_of_day(start).ok_or_else(|| fail("start"))?;
        let end = time_of_day(end).filter(|&end| end > start).ok_or_else(|| fail("end"))?;
        Ok(Self { date, area: area.into(), start, end })
    }
}

fn digits(text: &str, from: usize, to: usize) -> Option<u16> {
    let digits = text.get(from..to)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn date(text: &str) -> Option<(u16, u8, u8)> {
    if text.len() != 8 {
        return None;
    }
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 4, 6)?, digits(text, 6, 8)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u16::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some((year, month as u8, day as u8))
}

fn time_of_day(text: &str) -> Option<Seconds> {
    if text.len() != 4 {
        return None;
    }
    let (hour, minute) = (digits(text, 0, 2)?, digits(text, 2, 4)?);
    (hour < 24 && minute < 60).then(|| Seconds::new(f64::from(hour * 60 + minute) * 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_name_is_read() {
        let session = Session::of_file("/data/20181101_d10_0900_0930.csv.gz").unwrap();
        assert_eq!(session.date, (2018, 11, 1));
        assert_eq!(session.area, "d10");
        assert_eq!(session.end - session.start, Seconds::new(1800.0));
        assert_eq!(session.start, Seconds::new(9.0 * 3600.0));
    }

    #[test]
    fn other_names_are_refused_by_field() {
        for (name, field) in [
            ("sample.csv", "name"),
            ("20181301_d1_0830_0900.csv", "date"),
            ("20190229_d1_0830_0900.csv", "date"),
            ("20181024__0830_0900.csv", "area"),
            ("20181024_d1_2460_0900.csv", "start"),
            ("20181024_d1_0900_0830.csv", "end"),
        ] {
            assert_eq!(Session::of_file(name).unwrap_err().field, field, "{name}");
        }
    }
}
