//! Which records belong to a recording, and which begin a new one.

use super::RecordError;
use crate::journey::{PositionError, is_time};

/// Records in a row that must agree on another time before they are believed.
const ENOUGH: u32 = 3;

/// Whose word a time is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The sender's, for all of its records.
    Sender,
    /// A single vehicle's or loop's, whose clock may be wrong.
    Single,
}

/// Tells a wrong clock from a recording that begins anew.
pub(super) struct Jumps {
    gap: f64,
    /// The last of the records that were refused in a row: its time, and how many agree with it.
    refused: Option<(f64, u32)>,
}

impl Jumps {
    pub(super) fn new(gap: f64) -> Self {
        Self { gap, refused: None }
    }

    pub(super) fn gap(&self) -> f64 {
        self.gap
    }

    /// Whether a new recording begins with a record; refuses one that is too far from `now` to go on.
    pub(super) fn begins(
        &mut self,
        now: Option<f64>,
        time: f64,
        word: Word,
    ) -> Result<bool, RecordError> {
        if !is_time(time) {
            return Err(PositionError::Time(time).into());
        }
        let refused = self.refused.take();
        let Some(now) = now else { return Ok(true) };
        if (time - now).abs() <= self.gap {
            return Ok(false);
        }
        let agree = match refused {
            Some((last, agree)) if (time - last).abs() <= self.gap => agree + 1,
            _ => 1,
        };
        if word == Word::Sender || agree >= ENOUGH {
            return Ok(true);
        }
        self.refused = Some((time, agree));
        Err(RecordError::Jump { found: time, now, gap: self.gap })
    }
}
