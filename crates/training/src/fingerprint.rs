//! What checkpoints belong to: one model, trained on one party's data.

use data_encoding::HEXLOWER;
use protocol::message::parts::Text;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Result;

/// A digest that tells one from another. Scales and steps stand for the data: other recordings, rates
/// and targets have others.
pub(crate) fn run_fingerprint(of: &impl Serialize) -> Result<Text> {
    Ok(Text::of(of_bytes(&serde_json::to_vec(of)?)))
}

/// A digest of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_content() {
        // SHA-256 of the two bytes `[]`, as `sha256sum` has it.
        let expected = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
        assert_eq!(run_fingerprint(&[0_u8; 0]).unwrap().as_str(), expected);
        assert_ne!(run_fingerprint(&("raw", 1)).unwrap(), run_fingerprint(&("smooth", 1)).unwrap());
    }
}
