//! Messages between processes: gRPC over mutually authenticated TLS 1.3.
//!
//! ```text
//! guest: dial ──TCP──► TLS ──► HTTP/2 ──► one stream ◄──► listen :host
//!         └ again after a pause            └ certificate → PartyId → is it in the list? still?
//! ```
//!
//! 1. [`identity`]: certificates and what they say; [`tls`]: how they are proven.
//! 2. [`Accepted`]: the guests that the host lets in, by certificate.
//! 3. [`listen`]: the host's side; [`dial`]: the guest's.
//! 4. [`drive`]: a party over the network until its end; [`Heads`]: its ledger, countersigned by its peers.
//!
//! A transport may lose messages when a connection breaks: [`Host`](crate::Host) and
//! [`Guest`](crate::Guest) say again what was not answered.

pub mod accepted;
mod connection_limit;
pub mod dial;
pub mod drive;
mod heads;
pub mod identity;
mod limits;
pub mod listen;
mod observed;
mod queue;
mod service;
mod signing;
pub mod tls;

pub use accepted::Accepted;
pub use dial::Dialled;
pub use heads::{Heads, Heard};
pub use identity::{CertificateInfo, Fingerprint, Identity, Role};
pub use limits::Limits;
pub use listen::Arrival;
pub use observed::Traffic;
pub use signing::{GuestCertificates, SigningKey};
