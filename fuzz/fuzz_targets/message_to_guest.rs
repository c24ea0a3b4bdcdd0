#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = federation::wire::decode_to_guest(bytes);
});
