//! The day, for a table that says when it was made.

use std::time::SystemTime;

use anyhow::{Context, Result};

/// Such as 2026-11-15, in UTC.
pub fn today() -> Result<String> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(day(since.context("the clock is before 1970")?.as_secs() / 86_400))
}

/// The date that is some days after 1 January 1970.
fn day(mut days: u64) -> String {
    let every = |year: u64, years| year.is_multiple_of(years);
    let leap = |year| every(year, 4) && (!every(year, 100) || every(year, 400));
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        // Seconds since 1970 of known moments, divided by 86,400: 10⁹ s is 9 September 2001.
        let cases = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (1_000_000_000 / 86_400, "2001-09-09"),
            (951_782_400 / 86_400, "2000-02-29"),
            (1_709_164_800 / 86_400, "2024-02-29"),
            (1_735_603_200 / 86_400, "2024-12-31"),
        ];
        for (days, date) in cases {
            assert_eq!(day(days), date);
        }
    }
}
