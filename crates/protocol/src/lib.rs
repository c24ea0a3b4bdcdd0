//! What parties of a federation send each other, and how they record it.
//!
//! 1. [`party`]: names of parties, runs, attempts and rounds; [`plan`]: how the parties train.
//! 2. [`message`]: the messages and their parts. Every part is checked when it is made, so a message
//!    that exists is within bounds.
//! 3. [`compression`]: embeddings and gradients in fewer bytes.
//! 4. [`wire`]: messages as protocol buffers.
//! 5. [`ledger`]: every message is recorded before it can be sent. Transports take only [`Released`]
//!    messages.
//!
//! There are no tensors and no models here, and no sockets: a program that only audits ledgers or
//! decodes messages needs this crate alone.

/// `Debug` that tells sizes alone: what a type holds must not get into a log.
macro_rules! debug_sizes {
    ($type:ty, |$it:ident| $($format:tt)+) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                write!(f, $($format)+)
            }
        }
    };
}
pub(crate) use debug_sizes;

pub mod compression;
pub mod ledger;
pub mod message;
pub mod party;
pub mod plan;
pub mod wire;

pub use compression::{Compression, Feedback};
pub use ledger::{Ledger, LedgerError, Released};
pub use message::committed::{Bounds, CommitmentTerms};
pub use message::measurements::{
    MeasurementKind, MeasurementLayout, MeasurementOffer, Measurements, Movements, TrafficShares,
};
pub use message::sealed::{Scheme, Sealing};
pub use message::{Exchange, Purpose, ToGuest, ToHost};
pub use party::{Attempt, NameError, Now, PartyId, Round, RunId};
pub use plan::{HostUpdates, LocalUpdates, LocalVariant, OptimiserSettings, Plan, Summary};
