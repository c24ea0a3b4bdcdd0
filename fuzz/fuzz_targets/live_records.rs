#![no_main]
use libfuzzer_sys::fuzz_target;
use sensing::stream::{FleetColumns, FleetFeed, LoopColumns, LoopFeed};
use sensing::{FeaturePlan, Fleets};
use traffic::{Seconds, StepClock};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let (network, gap) = (fuzz::network(), Seconds::new(10.0));
    if let Ok(columns) = FleetColumns::of(header) {
        let plan = FeaturePlan::paper(Fleets::nested(&[], 0).expect("no fleets"));
        let mut feed = FleetFeed::new(network, plan, gap).expect("a plan");
        for line in lines.clone() {
            told(columns.time(line));
            let _ = columns.parse(line, network).map(|record| feed.take(record, &mut |_| ()));
        }
        feed.finish(&mut |_| ()).expect("what was taken can be finished");
    }
    if let Ok(columns) = LoopColumns::of(header) {
        let clock = StepClock { length: gap };
        let mut feed = LoopFeed::new(network, clock, Seconds::new(5.0), Seconds::new(60.0));
        for line in lines {
            told(columns.time(line));
            let _ = columns.parse(line, network).map(|record| feed.take(record, &mut |_, _| ()));
        }
        feed.finish(&mut |_, _| ());
    }
});

/// Whoever paces a stream by its times counts on this.
fn told(time: Option<f64>) {
    assert!(time.is_none_or(|time| time >= 0.0 && time.is_finite()));
}
