//! Hashes by which parties and files know that they speak of the same network.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::network::Network;
use crate::network_file::{FORMAT, write_network};

/// The content hash that parties compare: `sha256:` and 64 hexadecimal digits.
pub fn network_hash(network: &Network) -> String {
    // Every number is hashed by its bits and every text by its length and bytes, so that values
    // cannot run into each other.
    let mut hasher = Sha256::new();
    let text = |hasher: &mut Sha256, text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    let number =
        |hasher: &mut Sha256, number: f64| hasher.update((number + 0.0).to_bits().to_le_bytes());
    text(&mut hasher, FORMAT);
    if let Some(origin) = network.parts().origin {
        number(&mut hasher, origin.lat);
        number(&mut hasher, origin.lon);
    }
    number(&mut hasher, network.links().len() as f64);
    for link in network.links() {
        text(&mut hasher, &link.name);
        number(&mut hasher, link.length.get());
        number(&mut hasher, link.junction.get());
        number(&mut hasher, f64::from(link.lanes));
        number(&mut hasher, link.speed.get());
        number(&mut hasher, link.shape.len() as f64);
        for point in &link.shape {
            number(&mut hasher, point.x);
            number(&mut hasher, point.y);
        }
    }
    number(&mut hasher, network.turns().len() as f64);
    for turn in network.turns() {
        number(&mut hasher, f64::from(turn.from.0));
        number(&mut hasher, f64::from(turn.to.0));
        number(&mut hasher, turn.lanes.len() as f64);
        for pair in &turn.lanes {
            hasher.update([pair.from, pair.to]);
        }
    }
    prefixed(&hasher.finalize())
}

/// The hash of everything in a network file, signals, loops and targets included: what a dataset
/// was made with, since loops are stored by number.
pub fn network_file_hash(network: &Network) -> String {
    prefixed(&Sha256::digest(write_network(network).as_bytes()))
}

fn prefixed(digest: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(digest))
}
