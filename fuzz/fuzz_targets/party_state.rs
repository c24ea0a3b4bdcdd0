#![no_main]

use protocol::Feedback;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    if let Ok(feedback) = Feedback::restore(&mut rest) {
        let mut saved = Vec::new();
        feedback.save(&mut saved);
        let again = Feedback::restore(&mut saved.as_slice()).expect("what was saved");
        let mut twice = Vec::new();
        again.save(&mut twice);
        assert_eq!(saved, twice);
    }
});
