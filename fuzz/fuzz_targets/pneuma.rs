#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::pneuma::{PneumaReader, ReadOptions};

fuzz_target!(|bytes: &[u8]| {
    let _ = PneumaReader::new(bytes, "tracks", ReadOptions::default()).map(Iterator::count);
});
