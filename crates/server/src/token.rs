//! The bearer token for requests that change what is stored. Without a token, no such request is allowed.

use std::path::{Path, PathBuf};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Shorter tokens could be guessed.
const MIN_CHARACTERS: usize = 16;
const MAX_FILE_BYTES: u64 = 4096;

/// A bearer token; only its digest is kept.
pub struct Token([u8; 32]);

/// Why a token cannot be read.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is too long to be one.
    #[error("{}: found {found} bytes, expected at most {MAX_FILE_BYTES}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },
    /// The token could be guessed.
    #[error("{}: found a token of {found} characters, expected {MIN_CHARACTERS} or more", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
        /// The token's length.
        found: usize,
    },
}

impl Token {
    /// Reads the first line of a file.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let io = |error| TokenError::Io { path: path.to_owned(), error };
        let found = std::fs::metadata(path).map_err(io)?.len();
        if found > MAX_FILE_BYTES {
            return Err(TokenError::TooLong { path: path.to_owned(), found });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < MIN_CHARACTERS {
            return Err(TokenError::TooShort { path: path.to_owned(), found: token.len() });
        }
        Ok(Self::new(token))
    }

    fn new(token: &str) -> Self {
        Token(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether a request has `Authorization: Bearer TOKEN` with this token.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let found = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let found = found.and_then(|value| value.strip_prefix("Bearer "));
        // Whole digests are compared: the time does not depend on how much of the token is right.
        let Some(found) = found.map(|found| Self::new(found.trim())) else { return false };
        let difference =
            self.0.iter().zip(found.0).fold(0, |sum, (one, other)| sum | (one ^ other));
        difference == 0
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = Token::new("a-token-of-some-length");
        let accepted = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            token.is_in(&headers)
        };
        assert!(accepted("Bearer a-token-of-some-length"));
        for wrong in
            ["Bearer a-token-of-some-lengt", "Bearer ", "a-token-of-some-length", "Basic x"]
        {
            assert!(!accepted(wrong), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn a_short_token_is_refused_with_its_file() {
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
