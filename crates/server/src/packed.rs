//! Estimates in few bytes, for pages that show thousands of links: numbers rounded to what a page shows, as differences to
//! the estimate before, deflated.
//!
//! Three numbers of 16 bits for each link: density in tenths, flow in tenths, speed in halves ([`NO_SPEED`] without
//! vehicles). Each is sent as its difference to the same number of the estimate before (to 0 in a whole one), modulo 2^16,
//! in zigzag form (0, -1, 1, -2 … as 0, 1, 2, 3 …). The low bytes of a quantity stand before its high bytes, so that the many
//! zeros stand together; then raw deflate (RFC 1951) and base64.

use std::io::Write as _;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::estimate::Estimate;

/// In place of the speed of a link without vehicles.
const NO_SPEED: u16 = u16::MAX;
/// Units of one: tenths of vehicles, halves of kilometres per hour.
const PER_DENSITY: f64 = 10.0;
const PER_FLOW: f64 = 10.0;
const PER_SPEED: f64 = 2.0;

/// An estimate's numbers, rounded.
#[derive(Debug, PartialEq)]
pub(crate) struct RoundedStates([Vec<u16>; 3]);

impl RoundedStates {
    pub(crate) fn of(estimate: &Estimate) -> Self {
        let round = |number: f64, per: f64| (number * per).round().clamp(0.0, 65_534.0) as u16;
        let states = estimate.states.iter();
        RoundedStates([
            states.clone().map(|state| round(state.density.get(), PER_DENSITY)).collect(),
            states.map(|state| round(state.flow.get(), PER_FLOW)).collect(),
            estimate
                .links()
                .map(|link| link.speed_km_h().map_or(NO_SPEED, |speed| round(speed, PER_SPEED)))
                .collect(),
        ])
    }

    /// As text: differences to another estimate of the same links, or to zeros.
    pub(crate) fn pack(&self, base: Option<&RoundedStates>) -> String {
        let mut bytes = Vec::with_capacity(6 * self.0[0].len());
        for (quantity, numbers) in self.0.iter().enumerate() {
            let before = base.and_then(|base| base.0.get(quantity));
            let before = |at: usize| before.and_then(|all| all.get(at)).copied().unwrap_or(0);
            let coded = numbers.iter().enumerate().map(|(at, &number)| {
                let difference = number.wrapping_sub(before(at)) as i16;
                ((difference << 1) ^ (difference >> 15)).to_le_bytes()
            });
            bytes.extend(coded.clone().map(|[low, _]| low));
            bytes.extend(coded.map(|[_, high]| high));
        }
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        // Cannot fail: the output is in memory.
        let _ = encoder.write_all(&bytes);
        BASE64.encode(&encoder.finish().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::DeflateDecoder;
    use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

    use super::*;

    fn estimate(states: &[(f64, f64)]) -> Estimate {
        let state = |&(density, flow): &(f64, f64)| LinkState {
            density: VehPerKmLane::new(density),
            flow: VehPerMinLane::new(flow),
        };
        Estimate {
            step: Step(0),
            made_s: 0.0,
            latency_s: 0.0,
            participants: Default::default(),
            states: states.iter().map(state).collect(),
            intervals: None,
        }
    }

    /// What a page does.
    fn unpack(text: &str, base: Option<&RoundedStates>) -> RoundedStates {
        let mut bytes = Vec::new();
        let packed = BASE64.decode(text.as_bytes()).unwrap();
        DeflateDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        let links = bytes.len() / 6;
        RoundedStates([0, 1, 2].map(|quantity| {
            let number = |at: usize| {
                let low = bytes[2 * quantity * links + at];
                let coded = u16::from_le_bytes([low, bytes[(2 * quantity + 1) * links + at]]);
                let difference = (coded >> 1) ^ (coded & 1).wrapping_neg();
                base.map_or(0, |base| base.0[quantity][at]).wrapping_add(difference)
            };
            (0..links).map(number).collect()
        }))
    }

    #[test]
    fn numbers_are_rounded_to_what_a_page_shows() {
        // 20 veh/min at 30 veh/km is 40 km/h.
        let rounded = RoundedStates::of(&estimate(&[(30.04, 20.06), (0.0, 0.0), (1e9, 0.0)]));
        assert_eq!(rounded.0[0], [300, 0, 65_534]);
        assert_eq!(rounded.0[1], [201, 0, 0]);
        assert_eq!(rounded.0[2], [80, NO_SPEED, 0]);
    }

    #[test]
    fn what_is_packed_is_unpacked_with_and_without_a_base() {
        let first = RoundedStates::of(&estimate(&[(30.0, 20.0), (0.0, 0.0), (80.0, 1.0)]));
        let second = RoundedStates::of(&estimate(&[(29.9, 20.1), (5.0, 3.0), (0.0, 0.0)]));
        assert_eq!(unpack(&first.pack(None), None), first);
        assert_eq!(unpack(&second.pack(Some(&first)), Some(&first)), second);
        assert_ne!(second.pack(Some(&first)), second.pack(None));
    }

    #[test]
    fn an_estimate_that_has_not_changed_takes_few_bytes() {
        let states: Vec<(f64, f64)> = (0..20_000)
            .map(|at| (f64::from(at % 977) / 10.0, f64::from(at % 211) / 10.0))
            .collect();
        let rounded = RoundedStates::of(&estimate(&states));
        // 120,000 zeros: deflate's greatest ratio is about 1,000.
        assert!(rounded.pack(Some(&rounded)).len() < 300);
    }
}
