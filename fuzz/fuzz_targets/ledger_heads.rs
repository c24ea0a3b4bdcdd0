#![no_main]

use protocol::ledger::HeadFile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = fuzz::file("ledger.heads.jsonl", bytes);
    // A file that was read is read again: what a crash tore apart was cut off.
    let ledger = file.with_file_name("ledger.jsonl");
    if HeadFile::open(&ledger).is_ok() {
        assert!(HeadFile::read(&file).is_ok() && HeadFile::open(&ledger).is_ok());
    }
});
