//! Variances of errors: of the model from step to step, and of sensors.
//!
//! Variances are robust: 1.4826·median|e − median e| is the standard deviation of a normal
//! distribution, and a tenth of wild values moves it little. Where more than half of the errors are
//! equal (a quiet link) the median deviation is zero, and the plain variance is taken instead.

use super::error::CalibrationError;
use crate::model::{Inputs, TrafficModel};
use crate::residual::Segment;

/// Fewer errors give a variance that is wrong by more than a third.
const LEAST: usize = 30;
/// Normal deviations in units of the median deviation.
const NORMAL: f64 = 1.482_602_218_505_602;

/// Mean and variance of errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseEstimate {
    /// Their median: how far off on average.
    pub bias: f64,
    /// Their variance about it.
    pub variance: f64,
    /// Standard error of the variance, were they normal and independent: robust ones vary 1.64 times
    /// as much as plain ones, variance·√(2/n).
    pub variance_error: f64,
    /// How many there were.
    pub count: usize,
}

/// Bias and variance of errors, some of which may be wild.
pub(crate) fn robust_variance(
    what: &str,
    mut errors: Vec<f64>,
) -> Result<NoiseEstimate, CalibrationError> {
    if let Some(&found) = errors.iter().find(|error| !error.is_finite()) {
        let (what, expected) = (what.to_string(), "numbers");
        return Err(CalibrationError::Number { what, found, expected });
    }
    let count = errors.len();
    if count < LEAST {
        let what = format!("variance of {what}, errors");
        return Err(CalibrationError::TooLittle { what, found: count, needed: LEAST });
    }
    let plain_mean = errors.iter().sum::<f64>() / count as f64;
    let plain = errors.iter().map(|e| (e - plain_mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let bias = median(&mut errors);
    errors.iter_mut().for_each(|error| *error = (*error - bias).abs());
    let robust = (NORMAL * median(&mut errors)).powi(2);
    let (variance, factor) = if robust > 0.0 { (robust, 1.64) } else { (plain, 1.0) };
    if variance <= 0.0 {
        let what = format!("variance of {what}");
        return Err(CalibrationError::Unidentified { what, why: "all errors are equal" });
    }
    let variance_error = factor * variance * (2.0 / count as f64).sqrt();
    Ok(NoiseEstimate { bias, variance, variance_error, count })
}

/// How far measurements lie from labels of the same link and step; pairs of (measured, true).
pub fn measurement_noise(
    what: &str,
    pairs: impl IntoIterator<Item = (f64, f64)>,
) -> Result<NoiseEstimate, CalibrationError> {
    robust_variance(what, pairs.into_iter().map(|(measured, truth)| measured - truth).collect())
}

/// The model's errors on labelled states: per link, of density one step on and of flow during the
/// step. Links for which there are too few are errors in their place.
#[expect(clippy::type_complexity, reason = "a pair of results per link")]
pub fn process_noise(
    model: &dyn TrafficModel,
    segments: &[Segment<'_>],
) -> Result<
    Vec<(Result<NoiseEstimate, CalibrationError>, Result<NoiseEstimate, CalibrationError>)>,
    CalibrationError,
> {
    let links = model.links();
    let mut density_errors = vec![Vec::new(); links];
    let mut flow_errors = vec![Vec::new(); links];
    let mut memory = model.memory();
    let (mut state, mut next) = (vec![0.0; model.state_len()], vec![0.0; model.state_len()]);
    let (mut densities, mut flows) = (vec![0.0; links], vec![0.0; links]);
    for segment in segments {
        let inputs: &[Inputs] = segment.inputs;
        let steps = (segment.densities.len() / links.max(1)).min(inputs.len() + 1);
        if segment.flows.len() < steps.saturating_sub(1) * links {
            let (found, needed) = (segment.flows.len(), steps.saturating_sub(1) * links);
            return Err(CalibrationError::TooLittle {
                what: "flows of a segment".into(),
                found,
                needed,
            });
        }
        for t in 1..steps {
            let now = (t - 1) * links..t * links;
            let (k, q) = (&segment.densities[now.clone()], &segment.flows[now]);
            model.lift(k, q, &mut state)?;
            model.step(&state, &inputs[t - 1], &mut memory, &mut next, &mut flows)?;
            model.densities(&next, &mut densities)?;
            for n in 0..links {
                density_errors[n].push(segment.densities[t * links + n] - densities[n]);
                flow_errors[n].push(q[n] - flows[n]);
            }
        }
    }
    let names = (0..links).map(|n| model.graph().name(n).to_string());
    let per_link = names.zip(density_errors).zip(flow_errors);
    Ok(per_link
        .map(|((name, density), flow)| {
            (
                robust_variance(&format!("density of link `{name}`"), density),
                robust_variance(&format!("flow of link `{name}`"), flow),
            )
        })
        .collect())
}

fn median(values: &mut [f64]) -> f64 {
    let at = values.len() / 2;
    values.sort_by(f64::total_cmp);
    if values.len() % 2 == 1 { values[at] } else { 0.5 * (values[at - 1] + values[at]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_networks::Draw;

    #[test]
    fn variance_is_found_among_wild_values() {
        let draw = &mut Draw::new(4);
        let errors: Vec<f64> = (0..2000)
            .map(|i| if i % 20 == 0 { 500.0 } else { 0.7 + 3.0 * draw.normal() })
            .collect();
        let found = robust_variance("test", errors).unwrap();
        // 5 % on one side move the median by 0.06 deviations and widen the spread by about 7 %.
        assert!((found.bias - 0.7).abs() < 0.4, "{found:?}");
        assert!(
            (found.variance - 9.0).abs() < 0.07 * 2.0 * 9.0 + 3.0 * found.variance_error,
            "{found:?}"
        );
    }

    #[test]
    fn the_stated_error_covers_the_truth() {
        let draw = &mut Draw::new(11);
        let mut within = 0;
        for _ in 0..200 {
            let errors = (0..200).map(|_| 2.0 * draw.normal()).collect();
            let found = robust_variance("test", errors).unwrap();
            within += usize::from((found.variance - 4.0).abs() < 2.0 * found.variance_error);
        }
        // 95 % nominal: 190 of 200, binomial deviation 3, and the error's own error.
        assert!((178..=200).contains(&within), "{within}");
    }

    #[test]
    fn too_little_or_nothing_is_said() {
        let error = robust_variance("speed", vec![1.0; 5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "calibration: variance of speed, errors: found 5, expected at least 30"
        );
        assert!(robust_variance("speed", vec![1.0; 50]).unwrap_err().to_string().contains("equal"));
        let error = robust_variance("speed", vec![f64::INFINITY; 50]).unwrap_err().to_string();
        assert_eq!(error, "calibration: speed: found inf, expected numbers");
        // Numbers are looked at before they are counted.
        let error = robust_variance("speed", vec![f64::NAN]).unwrap_err().to_string();
        assert_eq!(error, "calibration: speed: found NaN, expected numbers");
    }

    #[test]
    fn medians_and_variances_by_hand() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        // −20 … 20: median 0, median deviation 10.
        let found = robust_variance("x", (-20..=20).map(f64::from).collect()).unwrap();
        assert_eq!((found.bias, found.count), (0.0, 41));
        assert!((found.variance - (10.0 * NORMAL).powi(2)).abs() < 1e-9, "{found:?}");
        let expected = 1.64 * found.variance * (2.0 / 41.0f64).sqrt();
        assert!((found.variance_error - expected).abs() < 1e-9);
        // More than half are equal: the plain variance, 4·(40/41)… of one in 41 that is off by 41.
        let mut quiet = vec![0.0; 40];
        quiet.push(41.0);
        let found = robust_variance("x", quiet).unwrap();
        // Mean 1: (40·1 + 40²)/40 = 41.
        assert!((found.variance - 41.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.bias, 0.0);
        assert!((found.variance_error - 41.0 * (2.0 / 41.0f64).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn measurements_are_held_against_the_truth() {
        let pairs = (0..40).map(|i| (f64::from(i % 5) + 10.0, f64::from(i % 5) * 2.0));
        // Errors are 10, 9, 8, 7, 6 in turns: median 8, median deviation 1.
        let found = measurement_noise("flow", pairs).unwrap();
        assert_eq!(found.bias, 8.0);
        assert!((found.variance - NORMAL * NORMAL).abs() < 1e-12, "{found:?}");
        let error = measurement_noise("flow", [(1.0, 2.0)]).unwrap_err().to_string();
        assert_eq!(error, "calibration: variance of flow, errors: found 1, expected at least 30");
    }
}
