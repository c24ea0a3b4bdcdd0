//! What rounding may do to a state, and its repair.

/// How far rounding may carry a number past its bounds, relative to what it was.
const ROUNDING: f64 = 1e-12;

/// Takes back what rounding carried past 0 or `most`. A state that was outside before (an estimate
/// may be) is not touched: the derivative would be wrong there.
pub(crate) fn snap(before: f64, value: f64, most: f64) -> f64 {
    let slack = ROUNDING * (1.0 + before.abs());
    if value < 0.0 && value >= -slack {
        0.0
    } else if value > most && value <= most + slack {
        most
    } else {
        value
    }
}
