#![no_main]

use protocol::ToGuest;
use protocol::wire::decode_to_guest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Numbers, however they are packed, come back as they were, and so does all that is said of sums.
    if let Ok(message @ (ToGuest::Gradient { .. } | ToGuest::Sum(_))) = decode_to_guest(bytes) {
        let again = decode_to_guest(fuzz::released(message.clone()).bytes());
        assert_eq!(again.expect("what was sent"), message);
    }
});
