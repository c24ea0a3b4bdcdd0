//! What tests of agreement between host and guest begin with.

use std::time::Duration;

use protocol::message::Terms;
use protocol::message::parts::Text;
use protocol::{Compression, Now, PartyId};

pub fn id(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

pub fn at(seconds: u64) -> Now {
    let time = Duration::from_secs(seconds);
    Now { monotonic: time, unix: time }
}

pub fn terms() -> Terms {
    Terms {
        network_hash: Text::of("sha256:aa"),
        step_s: 10.0,
        origin_s: 0.0,
        window: 9,
        compression: Compression::None,
    }
}
