#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(demand) = worlds::Demand::parse(text, fuzz::network()) {
        demand.departures(fuzz::network(), 1, traffic::Seconds::new(60.0)).take(1000).count();
    }
});
