#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::sumo::{LoopMap, LoopReader};

fuzz_target!(|bytes: &[u8]| {
    let (loops, input) =
        (LoopMap::of(fuzz::network()), Box::new(std::io::Cursor::new(bytes.to_vec())));
    let _ = LoopReader::from_reader("loops".as_ref(), input, loops).map(Iterator::count);
});
