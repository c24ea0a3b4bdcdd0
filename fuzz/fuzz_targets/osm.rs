#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::osm::{OsmOptions, import_osm};

fuzz_target!(|bytes: &[u8]| {
    let _ = import_osm(bytes, "map", &OsmOptions::default());
});
