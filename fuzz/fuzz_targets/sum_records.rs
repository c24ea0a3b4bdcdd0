#![no_main]

use protocol::ledger::SumRecords;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = fuzz::file("sums.jsonl", bytes);
    // A file that was read is read again: what a crash tore apart was cut off.
    if SumRecords::open(&file).is_ok() {
        assert!(SumRecords::open(&file).is_ok());
    }
});
