#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::sumo::{ImportOptions, import_net};

fuzz_target!(|bytes: &[u8]| {
    let net = fuzz::file("a.net.xml", include_bytes!("../seeds/sumo_net/small.net.xml"));
    let additional = vec![fuzz::file("a.add.xml", bytes)];
    let _ = import_net(&net, &ImportOptions { additional, ..ImportOptions::default() });
});
