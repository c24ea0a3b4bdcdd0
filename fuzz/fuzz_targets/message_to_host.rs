#![no_main]

use protocol::ToHost;
use protocol::wire::decode_to_host;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Numbers, however they are packed, come back as they were, and so does all that is said of sums.
    if let Ok(message @ (ToHost::Embedding { .. } | ToHost::Sum(_))) = decode_to_host(bytes) {
        let again = decode_to_host(fuzz::released(message.clone()).bytes());
        assert_eq!(again.expect("what was sent"), message);
    }
});
