#![no_main]

use std::path::Path;

use protocol::PartyId;
use protocol::ledger::{Ledger, MemorySink, Sink, audit};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let party = PartyId::new("fleet-a").expect("a name");
    let found = audit(bytes, Path::new("fuzzed"), &party);
    // Whoever counts products by step finds some of a step, if of any.
    let most = found.as_ref().ok().and_then(|audit| audit.queries.most());
    assert!(most.is_none_or(|(_, products)| products.is_finite()));
    // What can be audited can be continued, and what cannot must not be.
    let mut sink = MemorySink::default();
    sink.append(bytes).expect("memory");
    let continued = Ledger::in_memory(&sink, &party).map(|ledger| ledger.len());
    assert_eq!(continued.ok(), found.map(|audit| audit.messages).ok());
});
