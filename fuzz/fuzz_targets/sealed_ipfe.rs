#![no_main]

use sealed::ipfe::message::{Answer, PublicKey, Question, Upload};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Each has one encoding only.
    if let Ok(key) = PublicKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
    }
    if let Ok(upload) = Upload::decode(bytes) {
        assert_eq!(upload.encode(), bytes);
    }
    if let Ok(question) = Question::decode(bytes, 3, 100) {
        assert_eq!(question.encode(), bytes);
    }
    if let Ok(answer) = Answer::decode(bytes, 100) {
        assert_eq!(answer.encode(), bytes);
    }
});
