//! The round between host and guests, without I/O.
//!
//! The crate `protocol` defines the messages and the ledger that releases them; this crate what the parties do.
//!
//! 1. [`GuestModel`], [`HostModel`]: what the round needs of a party's model and data.
//! 2. [`Guest`] and [`Host`]: state machines that take a message or the time and return messages.
//!    The host's [`SampleSchedule`] says which samples each exchange takes.
//! 3. [`fedbcd`]: the models of `estimator`, trained as Algorithm 1 says.
//! 4. [`Store`]: each party's own checkpoints, in a folder or in memory.
//! 5. [`memory`]: all parties in one process.
//! 6. [`live`]: trained parties estimate step by step.
//! 7. [`grpc`]: parties in processes of their own, with [`certificates`].
//!
//! Nothing but [`grpc`] reads a clock or a socket, and nothing a file of traffic data. Peers are not
//! trusted: every size, shape, number and round is checked before use, and an error says whose fault
//! it is.

mod agreement;
#[cfg(feature = "network")]
pub mod certificates;
mod schedule;
mod error;
pub mod fedbcd;
#[cfg(feature = "network")]
pub mod grpc;
pub mod guest;
pub mod host;
pub mod live;
pub mod memory;
pub mod model;
pub mod store;
mod timing;

pub use schedule::{SampleSchedule, EpochLosses, Samples};
pub use error::PartyError;
pub use guest::{Guest, GuestEnd, GuestSettings};
pub use host::{AbsencePolicy, Event, Host, HostEnd, HostSettings, Measuring};
pub use model::{
    Agreed, Answers, GuestModel, GuestRows, HostModel, Layouts, ModelFailure, ProductRows, Products,
};
pub use store::{FolderStore, MemoryStore, Store, StoreError};
pub use timing::Timing;
