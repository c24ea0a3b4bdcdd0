#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::osm::{OsmOptions, import_pbf};

fuzz_target!(init: fuzz::let_panics_be_caught(), |bytes: &[u8]| {
    let _ = import_pbf(bytes, "map", &OsmOptions::default());
});
