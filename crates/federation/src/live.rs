//! Live estimation between trained parties, without I/O.
//!
//! ```text
//!  guest                                      host
//!    │ LiveHello ─────────────────────────►     name, network, run, width
//!    │ ◄────────────────────── LiveWelcome
//!    │ LiveEmbedding: step, z^k ──────────►  ┐  one step: every guest by itself, as soon as it can
//!    │ ◄───────── StepEstimated: step, taken ┘  all are in or the deadline has passed: an estimate
//! ```
//!
//! [`LiveHost`] and [`LiveGuest`] take messages, own data and the time, and return messages; the host
//! also returns estimates. Steps are settled in order, each once:
//!
//! - A step opens when the host's own data of it are there. It is settled when every guest that is
//!   waited for has sent its embedding, or the deadline has passed.
//! - A guest without an embedding by then is replaced by the learned absent embedding, and the
//!   estimate says so: [`Participation`].
//! - What comes after that is late, what comes twice a duplicate; both are counted and change nothing.
//! - A guest that has missed [`PATIENT_STEPS`] steps in a row is not waited for until an embedding
//!   comes within the deadline, so that one slow guest does not slow down all estimates; nor is one
//!   that has joined later, until its first embedding comes.
//! - Steps do not go back: own data that do open nothing, and the host says so.
//! - Memory is bounded: [`MAX_AHEAD`] embeddings of a guest wait for their steps to open, and
//!   [`MAX_OPEN`] steps for their guests.

//!
//! Where the model is of a sum over guests, they send masked totals instead of embeddings, and the host sees their sum
//! ([`LiveSumHost`], [`LiveSumGuest`]; masks and agreement are those of [`crate::sums`]):
//!
//! ```text
//!  guest                                      host
//!    │ SumHello ──────────────────────────►     signed key
//!    │ ◄────────────────────────── SumGroup     whenever the members change
//!    │ Masked: step ──────────────────────►  ┐  every guest by itself, as soon as it can
//!    │ ◄────────────────────── Participants  │  all are in, or half of the deadline has passed
//!    │ Agreed ────────────────────────────►  │  each signs them
//!    │ ◄──────────────────────── Signatures  │
//!    │ Seeds ─────────────────────────────►  │  one message of each, whoever is missing
//!    │ ◄───────────── StepEstimated: taken   ┘  with the sum, or without by the deadline
//! ```

mod estimate;
mod guest;
mod guest_state;
mod host;
mod ledger_sync;
mod open_steps;
mod sum_guest;
mod sum_host;

pub use estimate::{Estimated, LiveEvent, LiveHostSettings, LiveModel, Participation};
pub use guest::{GuestCounts, LiveGuest, LiveGuestSettings};
pub use guest_state::LiveGuestCounts;
pub use host::LiveHost;
pub use sum_guest::{LiveSumGuest, LiveSumGuestSettings};
pub use sum_host::{LiveSumHost, LiveSumHostSettings, LiveSumModel, SumEstimate};

/// The largest number of an embedding. Those of a trained model are a few; numbers as large as a `f32`
/// can be would run over in the head.
pub const LARGEST: f32 = 1e6;
/// Embeddings of a guest that may wait for their steps to open.
pub const MAX_AHEAD: usize = 64;
/// Steps that may wait for their guests at a time.
pub const MAX_OPEN: usize = 64;
/// A guest that has missed so many steps in a row is not waited for.
pub const PATIENT_STEPS: u32 = 3;

#[cfg(test)]
mod tests;
