#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fuzz::check_manifest_seeds(), |bytes: &[u8]| {
    fuzz::open_and_extract(&fuzz::dataset_with("manifest.json", bytes));
});
