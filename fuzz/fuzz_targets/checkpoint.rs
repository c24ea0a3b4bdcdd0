#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = neural::Checkpoint::parse(bytes, Path::new("fuzzed"), "fuzzed");
});
