#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = federation::grpc::Accepted::parse(text);
});
