//! The secret that lets someone change what is stored. Without one, nobody can.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

/// Fewer characters could be guessed.
const LEAST: usize = 16;
const MOST: u64 = 4096;

/// Only its digest is kept.
pub struct Token([u8; 32]);

impl Token {
    /// Reads the first line of a file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let length = std::fs::metadata(path).with_context(|| shown.to_string())?.len();
        ensure!(length <= MOST, "{shown}: found {length} bytes, expected at most {MOST}");
        let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
        let token = text.lines().next().unwrap_or_default().trim();
        ensure!(
            token.len() >= LEAST,
            "{shown}: found a token of {} characters, expected {LEAST} or more",
            token.len()
        );
        Ok(Self::of(token))
    }

    fn of(token: &str) -> Self {
        Token(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether a request brings it: `Authorization: Bearer TOKEN`.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let found = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let found = found.and_then(|value| value.strip_prefix("Bearer "));
        // Digests are compared, and to the end: the time tells nothing of how much was right.
        let Some(found) = found.map(|found| Self::of(found.trim())) else { return false };
        let difference =
            self.0.iter().zip(found.0).fold(0, |sum, (one, other)| sum | (one ^ other));
        difference == 0
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::of("a-token-of-some-length");
        let opens = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            token.is_in(&headers)
        };
        assert!(opens("Bearer a-token-of-some-length"));
        for wrong in
            ["Bearer a-token-of-some-lengt", "Bearer ", "a-token-of-some-length", "Basic x"]
        {
            assert!(!opens(wrong), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn a_short_token_is_refused_by_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "short\n").unwrap();
        let error = Token::read(&path).err().unwrap().to_string();
        assert!(
            error.ends_with("token: found a token of 5 characters, expected 16 or more"),
            "{error}"
        );
    }
}
