//! A vehicle's way over one link, as far as queues are concerned.

/// Where a vehicle was at a time. Plain numbers, as in samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Seconds since the epoch.
    pub time: f64,
    /// Metres to the stop line.
    pub distance: f64,
}

/// When a vehicle stood: from its first stop on the link to its last start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queued {
    /// It came to a stand for the first time.
    pub joined: Mark,
    /// It started for the last time.
    pub released: Mark,
}

/// From entering a link, or being first seen on it, to leaving it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Seconds since the epoch.
    pub entered: f64,
    /// Seconds since the epoch; none if it was still there at the end of the recording.
    pub left: Option<f64>,
    /// None if it never stood.
    pub queued: Option<Queued>,
}
