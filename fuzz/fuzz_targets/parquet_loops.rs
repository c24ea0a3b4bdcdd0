#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::{FileKind, read_loop_counts};

fuzz_target!(init: fuzz::let_panics_be_caught(), |bytes: &[u8]| {
    let _ = read_loop_counts(&fuzz::file("a.parquet", bytes), FileKind::Parquet, fuzz::network());
});
