//! Reads SUMO's vehicle positions and says how long it took; the counterpart of
//! `scripts/peer_iterparse.py`:
//!
//! ```text
//! cargo run --release -p sensing --example read_fcd -- NETWORK.toml NET.xml FCD.xml
//! ```
//!
//! Prints one line of JSON with the rows, those on links, the sum of their speeds and the seconds.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use sensing::read_network;
use sensing::sumo::{EdgeMap, FcdReader};
use traffic::PositionSource;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [network, net, fcd] = &arguments[..] else {
        return Err("expected NETWORK.toml NET.xml FCD.xml".into());
    };
    let network = read_network(Path::new(network))?;
    let edges = EdgeMap::read(&network, Path::new(net))?;
    let begin = Instant::now();
    let mut reader = FcdReader::open(Path::new(fcd), edges)?;
    let (mut samples, mut on_links, mut speeds) = (Vec::new(), 0, 0.0);
    while reader.next_moment(&mut samples)?.is_some() {
        on_links += samples.len() as u64;
        speeds += samples.iter().map(|sample| f64::from(sample.speed)).sum::<f64>();
    }
    let seconds = begin.elapsed().as_secs_f64();
    let rows = on_links + reader.skipped().outside;
    println!(
        "{{\"tool\": \"fedtse\", \"seconds\": {seconds:.6}, \"rows\": {rows}, \"on_links\": {on_links}, \"speeds\": {speeds:.3}}}"
    );
    Ok(())
}
