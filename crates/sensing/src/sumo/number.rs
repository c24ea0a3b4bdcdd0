//! Fast reading of the plain decimals that SUMO writes, such as `12.50`.

/// Powers of ten that a double holds exactly.
const TENTHS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A number, not rounded otherwise than the standard library does; `None` if it is none.
#[inline]
pub(super) fn parse_number(text: &[u8]) -> Option<f64> {
    // Digits with at most one point, 15 digits in all: mantissa and power of ten are both exact
    // doubles, so their quotient is correctly rounded.
    if text.is_empty() || text.len() > 15 {
        return parse_rarely(text);
    }
    let mut mantissa: u64 = 0;
    let mut decimals = 0;
    let mut after_point = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa * 10 + u64::from(digit);
            decimals += after_point;
        } else if byte == b'.' && after_point == 0 {
            after_point = 1;
        } else {
            return parse_rarely(text);
        }
    }
    if text.len() == after_point { None } else { Some(mantissa as f64 / TENTHS[decimals]) }
}

#[cold]
fn parse_rarely(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A number of 0 or more, not infinite.
#[inline]
pub(super) fn parse_magnitude(text: &[u8]) -> Option<f64> {
    parse_number(text).filter(|number| *number >= 0.0 && number.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_numbers_are_numbers() {
        for text in ["", ".", "-", "1.2.3", "abc", "1,5", "--1", "0x10", "1 2"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text}");
        }
        for text in ["NaN", "-0.5", "inf", "-inf", "-1", ""] {
            assert_eq!(parse_magnitude(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_number(b"1e3"), Some(1000.0));
        assert_eq!(parse_number(b"5."), Some(5.0));
        assert_eq!(parse_number(b".5"), Some(0.5));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(text in "[0-9]{0,17}\\.?[0-9]{0,17}") {
            let expected = text.parse::<f64>().ok();
            prop_assert_eq!(parse_number(text.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = parse_magnitude(&bytes);
        }
    }
}
