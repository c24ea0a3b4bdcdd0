//! Standard errors by leaving out a block of time at a time.
//!
//! Traffic of one minute is much like that of the next, so that single samples are no independent
//! pieces; blocks of consecutive ones nearly are. With B estimates, each without one block,
//! variance = (B − 1)/B · Σ (estimate − mean)².

/// How many blocks: enough for a variance, few enough that a block outlasts a peak's memory.
pub(super) const BLOCKS: usize = 20;

/// Standard errors of an estimate of some numbers over samples `0..count`; `estimate` is given a
/// function that tells whether a sample is used. `None` where too many of the estimates fail.
pub(super) fn standard_errors(
    count: usize,
    mut estimate: impl FnMut(&dyn Fn(usize) -> bool) -> Option<Vec<f64>>,
) -> Option<Vec<f64>> {
    let block = |sample: usize| sample * BLOCKS / count.max(1);
    let estimates: Vec<Vec<f64>> =
        (0..BLOCKS).filter_map(|left_out| estimate(&|sample| block(sample) != left_out)).collect();
    if estimates.len() < BLOCKS / 2 {
        return None;
    }
    let many = estimates.len() as f64;
    let error = |i: usize| {
        let mean = estimates.iter().map(|e| e[i]).sum::<f64>() / many;
        let squares: f64 = estimates.iter().map(|e| (e[i] - mean).powi(2)).sum();
        ((many - 1.0) / many * squares).sqrt()
    };
    Some((0..estimates[0].len()).map(error).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaving out one of n numbers at a time, the error of their mean is s/√n exactly.
    #[test]
    fn the_error_of_a_mean_is_that_of_the_textbook() {
        let values: Vec<f64> = (0..BLOCKS).map(|i| ((i * 7) % 11) as f64).collect();
        let mean = |keep: &dyn Fn(usize) -> bool| {
            let kept: Vec<f64> = (0..BLOCKS).filter(|&i| keep(i)).map(|i| values[i]).collect();
            Some(vec![kept.iter().sum::<f64>() / kept.len() as f64, 3.0])
        };
        let found = standard_errors(BLOCKS, mean).unwrap();
        let n = BLOCKS as f64;
        let centre = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (n - 1.0);
        assert!((found[0] - (square / n).sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!(found[1], 0.0, "what does not depend on the data has no error");
    }

    #[test]
    fn blocks_are_consecutive_and_cover_everything_once() {
        let count = 103;
        let mut left_out = vec![0; count];
        standard_errors(count, |keep| {
            let out: Vec<usize> = (0..count).filter(|&i| !keep(i)).collect();
            assert!(out.windows(2).all(|pair| pair[1] == pair[0] + 1), "{out:?}");
            assert!((5..=6).contains(&out.len()), "{out:?}");
            out.iter().for_each(|&i| left_out[i] += 1);
            Some(vec![0.0])
        });
        assert_eq!(left_out, vec![1; count]);
    }

    #[test]
    fn where_half_of_the_estimates_fail_there_is_no_error() {
        let failing = |failures: usize| {
            let mut calls = 0;
            standard_errors(40, |_| {
                calls += 1;
                (calls > failures).then(|| vec![1.0])
            })
        };
        assert_eq!(failing(BLOCKS / 2), Some(vec![0.0]));
        assert_eq!(failing(BLOCKS / 2 + 1), None);
        assert_eq!(failing(BLOCKS), None);
    }
}
