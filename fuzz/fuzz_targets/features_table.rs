#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fuzz::let_panics_be_caught(), |bytes: &[u8]| {
    fuzz::read_features(&fuzz::dataset_with("features/all.parquet", bytes));
});
