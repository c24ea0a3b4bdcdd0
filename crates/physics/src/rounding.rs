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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rounding_did_is_taken_back() {
        assert_eq!(snap(1.0, -1e-12, 10.0), 0.0);
        assert_eq!(snap(1.0, 10.0 + 1e-12, 10.0), 10.0);
        assert_eq!(snap(1.0, 5.0, 10.0), 5.0);
        // More than that is a state that was given: it stays, on either side.
        assert_eq!(snap(1.0, -1e-11, 10.0), -1e-11);
        assert_eq!(snap(1.0, 10.0 + 1e-11, 10.0), 10.0 + 1e-11);
        assert_eq!(snap(-3.0, -3.0, 10.0), -3.0);
        // The slack grows with what it was.
        assert_eq!(snap(1e3, -1e-9, 10.0), 0.0);
        assert!(snap(1.0, f64::NAN, 10.0).is_nan());
    }
}
