#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::sumo::{ImportOptions, import_net};

fuzz_target!(|bytes: &[u8]| {
    let options = ImportOptions { largest_component: true, ..ImportOptions::default() };
    let _ = import_net(&fuzz::file("a.net.xml", bytes), &options);
});
