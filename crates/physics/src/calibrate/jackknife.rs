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
