//! What a folder with checkpoints belongs to: one model, trained on one party's data.

use anyhow::Result;
use data_encoding::HEXLOWER;
use protocol::message::parts::Text;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A digest that tells one from another. Scales and steps stand for the data: other recordings, rates
/// and targets have others.
pub fn subject(of: &impl Serialize) -> Result<Text> {
    Ok(Text::of(HEXLOWER.encode(&Sha256::digest(serde_json::to_vec(of)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_content() {
        // SHA-256 of the two bytes `[]`, as `sha256sum` has it.
        let expected = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
        assert_eq!(subject(&[0_u8; 0]).unwrap().as_str(), expected);
        assert_ne!(subject(&("raw", 1)).unwrap(), subject(&("smooth", 1)).unwrap());
    }
}
