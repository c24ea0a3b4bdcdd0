//! The round between host and guests, without I/O.
//!
//! The crate `protocol` defines the messages and the ledger that releases them; this crate what the parties do.
//!
//! 1. [`GuestModel`], [`HostModel`]: what the round needs of a party's model and data.
//! 2. [`Guest`] and [`Host`]: state machines that take a message or the time and return messages.
//!    The host's [`SampleSchedule`] says which samples each exchange takes.
//! 3. [`Store`]: each party's own checkpoints, in a folder or in memory.
//! 4. [`memory`]: all parties in one process.
//! 5. [`live`]: trained parties estimate step by step.
//! 6. [`sums`]: the host learns sums over guests alone, in training and live.
//! 7. [`grpc`]: parties in processes of their own, with [`certificates`].
//!
//! Nothing but [`grpc`] reads a clock or a socket, and nothing a file of traffic data. Peers are not
//! trusted: every size, shape, number and round is checked before use, and an error says whose fault
//! it is.

mod agreement;
#[cfg(feature = "network")]
pub mod certificates;
mod error;
#[cfg(feature = "network")]
pub mod grpc;
pub mod guest;
pub mod host;
mod keys;
pub mod live;
pub mod memory;
pub mod model;
mod schedule;
mod session;
pub mod store;
pub mod sums;

pub use agreement::samples_at_once;
pub use error::PartyError;
pub use guest::{Guest, GuestEnd, GuestEvent, GuestSettings};
pub use host::{
    AbsencePolicy, CheckpointInterval, Event, Host, HostEnd, HostSettings, MeasurementBounds,
};
pub use keys::{KeyAuthority, KeyDesk, KeyFailure, LocalAuthority};
pub use model::{
    Agreed, Answers, GuestModel, GuestRows, HostModel, Layouts, ModelFailure, ProductRows, Products,
};
pub use schedule::{EpochLosses, Order, Progress, SampleSchedule, Samples, ScheduleUpdate};
pub use session::timing::Timing;
pub use store::{FolderStore, MemoryStore, Store, StoreError};
