//! How the gradient of an embedding depends on one party's values.

/// That of number n in sample s is Σ_i coefficients[s, n, i]·u[s, entries[n, i]], with the party's values u.
///
/// Where links do not hear of each other, a number of a link depends on what was measured of this link alone: on two
/// values, say, of thirty-four. Without terms there is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingCoefficients {
    /// Values that each number depends on.
    pub terms: usize,
    /// Which ones: entries of a sample, `[number, term]`.
    pub entries: Vec<u32>,
    /// `[sample, number, term]`. Zero for a term too many: some links may have less entries than others.
    pub coefficients: Vec<f64>,
}
