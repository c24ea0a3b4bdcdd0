#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz::import("a.csv", bytes, sensing::FileKind::Csv));
