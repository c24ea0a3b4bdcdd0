//! The guests that a host accepts, by name and certificate.
//!
//! The list is a small TOML file that may change at any time: whoever is taken out of it is cut off,
//! also from an open connection, and whoever is added may connect.
//!
//! ```
//! use federation::grpc::Accepted;
//! let list = format!("[guests]\nfleet-a = [\"sha256:{}\"]\n", "0".repeat(64));
//! assert_eq!(Accepted::parse(&list).unwrap().len(), 1);
//! assert!(Accepted::parse("[guests]\nfleet-a = [\"sha256:1\"]\n").is_err());
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::party::PartyId;
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;
use tracing::{error, info};

use super::identity::{CertificateInfo, Fingerprint, Role};

/// More than a list of a thousand guests needs.
const MOST_BYTES: u64 = 1 << 20;
/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(500);

/// Why a list cannot be used.
#[derive(Debug, Error)]
pub enum AcceptedError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a list of guests.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
}

/// Certificates of the guests that may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted(BTreeMap<PartyId, BTreeSet<Fingerprint>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    guests: BTreeMap<String, Vec<String>>,
}

impl Accepted {
    /// Reads the text of a list.
    pub fn parse(text: &str) -> Result<Self, String> {
        let content: Content = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut accepted = BTreeMap::new();
        for (name, fingerprints) in content.guests {
            let fingerprints = fingerprints
                .iter()
                .map(|text| text.parse::<Fingerprint>())
                .collect::<Result<_, _>>()
                .map_err(|error| format!("guests.{name}: {error}"))?;
            accepted.insert(PartyId::new(&name).map_err(|error| error.to_string())?, fingerprints);
        }
        Ok(Accepted(accepted))
    }

    /// Reads a list from a file.
    pub fn read(path: &Path) -> Result<Self, AcceptedError> {
        let text =
            read_text(path).map_err(|source| AcceptedError::File { path: path.into(), source })?;
        Self::parse(&text).map_err(|problem| AcceptedError::Content { path: path.into(), problem })
    }

    /// With one more guest.
    #[must_use]
    pub fn with(mut self, name: PartyId, fingerprint: Fingerprint) -> Self {
        self.0.entry(name).or_default().insert(fingerprint);
        self
    }

    /// How many guests are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a party with this certificate may connect; if not, why.
    pub fn check(&self, info: &CertificateInfo) -> Result<(), String> {
        let CertificateInfo { role, name, fingerprint, .. } = info;
        if *role != Role::Guest {
            return Err(format!("certificate {fingerprint} is not one of a guest"));
        }
        if self.0.get(name).is_some_and(|accepted| accepted.contains(fingerprint)) {
            return Ok(());
        }
        Err(format!("certificate {fingerprint} of `{name}` is not in the host's list of guests"))
    }
}

/// Follows a file: what it holds now, and at each change. A file that became unreadable or lists nobody
/// changes nothing but the log, and a change counts when two looks in a row have found the same: so one
/// that is being written cuts nobody off.
///
/// The task ends when nobody listens any more.
pub fn follow(path: PathBuf) -> Result<watch::Receiver<Accepted>, AcceptedError> {
    let (sender, receiver) = watch::channel(Accepted::read(&path)?);
    tokio::spawn(async move {
        let mut follower = Follower::default();
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let current = sender.borrow().clone();
            match follower.look(&current, Accepted::read(&path)) {
                Look::Nothing => {}
                Look::Changed(accepted) => {
                    info!(file = %path.display(), guests = accepted.len(), "the list of guests has changed");
                    sender.send_replace(accepted);
                }
                Look::Problem(problem) => error!("{problem}; the list of guests stays as it was"),
            }
        }
    });
    Ok(receiver)
}

/// What looks at a file have led to so far.
#[derive(Default)]
struct Follower {
    /// A list that was found once.
    seen: Option<Accepted>,
    /// What was wrong the last time.
    problem: Option<String>,
}

/// What a look at a file leads to.
#[derive(Debug, PartialEq)]
enum Look {
    Nothing,
    Changed(Accepted),
    /// For the log, once.
    Problem(String),
}

impl Follower {
    fn look(&mut self, current: &Accepted, found: Result<Accepted, AcceptedError>) -> Look {
        let found = found.map_err(|error| error.to_string()).and_then(|accepted| {
            if accepted.is_empty() && !current.is_empty() {
                // Nobody needs this by accident; on purpose it can be said guest by guest.
                let expected = "expected guests; `NAME = []` cuts one off";
                return Err(format!("list of guests: found nobody, {expected}"));
            }
            Ok(accepted)
        });
        match found {
            Err(problem) => {
                self.seen = None;
                if self.problem.as_ref() == Some(&problem) {
                    return Look::Nothing;
                }
                self.problem = Some(problem.clone());
                Look::Problem(problem)
            }
            Ok(accepted) => {
                self.problem = None;
                let again = self.seen.replace(accepted.clone()).as_ref() == Some(&accepted);
                if again && accepted != *current { Look::Changed(accepted) } else { Look::Nothing }
            }
        }
    }
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_BYTES {
        let problem = format!("found more than {MOST_BYTES} bytes, expected a list of guests");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
