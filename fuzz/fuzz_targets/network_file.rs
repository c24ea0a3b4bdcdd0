#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(network) = traffic::parse_network(text) {
        let again = traffic::parse_network(&traffic::write_network(&network));
        assert_eq!(again.expect("what was written can be read"), network);
    }
});
