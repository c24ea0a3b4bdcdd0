#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::sumo::{ImportOptions, import_net};
use traffic::{network_file_hash, parse_network, write_network};

fuzz_target!(|bytes: &[u8]| {
    let options = ImportOptions::default();
    if let Ok(net) = import_net(&fuzz::file("a.net.xml", bytes), &options) {
        // What was imported can be stored.
        let stored = parse_network(&write_network(&net.network)).expect("a network file");
        assert_eq!(network_file_hash(&stored), network_file_hash(&net.network));
    }
});
