//! Bounds of connections.

use std::time::Duration;

use protocol::wire::MAX_MESSAGE;

/// What a connection may take, in bytes, connections and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of a message that is received.
    pub message: usize,
    /// Most connections at a time of those who have not shown a certificate of the list yet. Guests have
    /// two each besides.
    pub connections: usize,
    /// Longest time from a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// A connection that is silent for this long is asked for a sign of life.
    pub keep_alive: Duration,
    /// A connection that gives none within this time is closed.
    pub keep_alive_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: MAX_MESSAGE,
            connections: 64,
            handshake: Duration::from_secs(10),
            keep_alive: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(10),
        }
    }
}

/// Messages that wait to be sent on one connection; more wait for the network.
pub(super) const QUEUE: usize = 64;
/// Bytes of them: two of the largest.
pub(super) const QUEUE_BYTES: usize = 2 * MAX_MESSAGE;
/// Bytes that a peer may send before they are read: several messages of usual size.
pub(super) const WINDOW: u32 = 4 << 20;
/// Bytes of headers: ours are a few hundred.
pub(super) const HEADERS: u32 = 16 << 10;
