//! Sums over guests of which the host sees nothing else.
//!
//! ```text
//! host    Gathering ► Summing ► Finishing ► Finished         [`host`]: training. Live: [`LiveSumHost`](crate::live::LiveSumHost)
//! guest   Joining ► Member ► Finished                        [`guest`]
//! block   Masking ► Agreeing ► Revealing ► the sum           [`open_block`]
//! ```
//!
//! A block is some consecutive steps. Each guest sends its totals masked ([`sealed::aggregate`]); the host names the participants;
//! each participant signs them, and reveals what takes the masks off this sum once it has seen that all of them have signed the same.
//!
//! What makes a sum safe is in `member`, which trusts no host:
//! 1. Keys are signed with the keys of the guests' certificates, which the authority has signed and a guest may pin.
//! 2. More than half of a group take part in a sum, and no fewer than the guest's policy says: two sums of the same steps have a guest
//!    in common, which signs only one of them.
//! 3. A step has one set of participants for good, in all runs ([`SumRecords`](protocol::ledger::SumRecords)).

mod credentials;
pub(crate) mod group;
pub mod guest;
pub mod host;
mod member;
pub mod memory;
pub(crate) mod open_block;
mod recent;

pub use credentials::{Credentials, Verifier};
pub use guest::{SumGuest, SumGuestSettings, SumRows, SumTrust};
pub use host::{BlockSum, SumEvent, SumHost, SumHostSettings};
