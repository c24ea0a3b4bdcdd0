#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fuzz::check_manifest_seeds(), |bytes: &[u8]| {
    fuzz::read_features(&fuzz::dataset_with("features/manifest.json", bytes));
});
