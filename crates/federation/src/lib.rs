//! The round between host and guests, without I/O.
//!
//! 1. [`message`]: what the parties say to each other, embeddings and measurements among it; [`PartyId`], [`Round`]: of whom and when;
//!    [`Plan`]: how they train.
//!    [`compression`]: embeddings and gradients in fewer bytes.
//! 2. [`ledger`]: every message is recorded before it can be sent. Transports take nothing but
//!    [`Released`] ones.
//! 3. [`GuestModel`], [`HostModel`]: what the round needs of a party's model and data.
//! 4. [`Guest`] and [`Host`]: state machines that take a message or the time and return messages.
//!    The host's [`Course`] says which samples each exchange takes.
//! 5. [`Store`]: each party's own checkpoints, in a folder or in memory.
//! 6. [`memory`]: all parties in one process.
//! 7. [`live`]: trained parties estimate step by step.
//! 8. [`grpc`]: parties in processes of their own, with [`certificates`] and messages as bytes
//!    ([`wire`]).
//!
//! Nothing but [`grpc`] reads a clock or a socket, and nothing a file of traffic data. Peers are not
//! trusted: every size, shape, number and round is checked before use, and an error says whose fault
//! it is.

#[cfg(feature = "network")]
pub mod certificates;
pub mod compression;
mod course;
mod error;
#[cfg(feature = "network")]
pub mod grpc;
pub mod guest;
pub mod host;
pub mod ledger;
pub mod live;
pub mod memory;
pub mod message;
pub mod model;
pub mod party;
pub mod plan;
pub mod store;
mod timing;
pub mod wire;

pub use compression::{Compression, Feedback};
pub use course::{Course, EpochLosses, Order, Progress, Samples, Verdict};
pub use error::PartyError;
pub use guest::{Guest, GuestEnd, GuestSettings};
pub use host::{Absent, Event, Host, HostEnd, HostSettings, Measuring};
pub use ledger::{Ledger, LedgerError, Released};
pub use message::committed::{Bounds, Committing};
pub use message::measurements::{Kind, Layout, Measurements, Measures, Movements, Shares};
pub use message::sealed::{Scheme, Sealing};
pub use message::{Exchange, Purpose, ToGuest, ToHost};
pub use model::{
    Agreed, Answers, GuestModel, GuestRows, HostModel, Layouts, ModelFailure, ProductRows, Products,
};
pub use party::{Attempt, NameError, Now, PartyId, Round, RunId};
pub use plan::{LocalUpdates, LocalVariant, Numbers, Plan, Summary};
pub use store::{FolderStore, MemoryStore, Store, StoreError};
pub use timing::Timing;
