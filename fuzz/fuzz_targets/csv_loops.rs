#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::{FileKind, read_loop_counts};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_loop_counts(&fuzz::file("a.csv", bytes), FileKind::Csv, fuzz::network());
});
