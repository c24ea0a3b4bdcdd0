#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fuzz::let_panics_be_caught(), |bytes: &[u8]| {
    fuzz::open_and_extract(&fuzz::dataset_with("vehicles.parquet", bytes));
});
