#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::sumo::{EdgeMap, FcdReader};

fuzz_target!(|bytes: &[u8]| {
    let (edges, input) =
        (EdgeMap::of(fuzz::network()), Box::new(std::io::Cursor::new(bytes.to_vec())));
    let _ = FcdReader::from_reader("fcd".as_ref(), input, edges).map(fuzz::drain);
});
