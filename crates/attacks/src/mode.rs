//! How parties protect what they send.

use serde::Serialize;

/// How parties protect what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Mode {
    /// As it is.
    #[serde(rename = "clear")]
    Clear,
    /// With noise that was drawn once.
    #[serde(rename = "noisy-clear")]
    NoisyClear,
    /// Measurements enter products under encryption, as the paper has it.
    #[serde(rename = "sealed")]
    Sealed,
    /// Both.
    #[serde(rename = "sealed+noise")]
    SealedNoise,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Clear, Self::NoisyClear, Self::Sealed, Self::SealedNoise];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::NoisyClear => "noisy-clear",
            Self::Sealed => "sealed",
            Self::SealedNoise => "sealed+noise",
        }
    }

    /// Whether data carry noise.
    pub fn has_noise(self) -> bool {
        matches!(self, Self::NoisyClear | Self::SealedNoise)
    }

    /// Whether measurements stay encrypted.
    pub fn is_sealed(self) -> bool {
        matches!(self, Self::Sealed | Self::SealedNoise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_the_four_combinations_of_noise_and_encryption() {
        let both: Vec<_> =
            Mode::ALL.iter().map(|mode| (mode.has_noise(), mode.is_sealed())).collect();
        assert_eq!(both, [(false, false), (true, false), (false, true), (true, true)]);
        let names = Mode::ALL.map(Mode::name);
        assert_eq!(names, ["clear", "noisy-clear", "sealed", "sealed+noise"]);
    }
}
