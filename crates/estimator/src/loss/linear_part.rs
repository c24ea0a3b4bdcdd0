//! A loss whose measurements are elsewhere, as sealed products need it.
//!
//! With u the values of a party, w their weights and h what they should be by the estimates y:
//!
//! ```text
//! L     = known(y)  +  Σ c·u  +  ½ Σ w·u²          c = −w·h       the last is constant, and left out
//! ∂L/∂y = known'(y) +  Σ d·u                       d = −w·h'(y)
//! ```
//!
//! The host knows all but u. Each entry touches density and flow of one link of one sample, so d is two
//! numbers. Everything is per sample and link, as in [`Objective`](crate::Objective).

use std::collections::BTreeMap;

/// The weights of parties whose values are elsewhere, `[sample, entry]`, by name.
pub type MeasurementWeights<'a> = BTreeMap<&'a str, &'a [f32]>;

/// A loss without the values of some parties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialLoss {
    /// What the loss is if all these values are 0.
    pub known: f64,
    /// What each party's values add, by name.
    pub parties: BTreeMap<String, LinearPart>,
}

/// What one party's values add, `[sample, entry]` each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearPart {
    /// c: of the loss.
    pub loss: Vec<f64>,
    /// d: of the gradient, by density and flow of the entry's link, in the model's own scale.
    pub slopes: Vec<[f32; 2]>,
    /// The links of a sample's entries.
    pub links: Vec<usize>,
}
