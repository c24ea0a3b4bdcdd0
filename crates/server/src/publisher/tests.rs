use std::collections::BTreeMap;
use std::sync::Mutex;

use estimator::TargetKind;
use traffic::{LinkState, network_hash};

use super::*;
use crate::serve::feed::Event;
use crate::serve::history::{LinkMoment, Stretch};

/// A store that does what it is told: keep, or fail until it is mended.
#[derive(Default)]
struct Store {
    broken: AtomicBool,
    kept: Mutex<Vec<Step>>,
    forgotten: Mutex<Vec<Step>>,
}

impl History for Store {
    fn keep(&self, record: &Record) -> Result<()> {
        anyhow::ensure!(!self.broken.load(Ordering::Relaxed), "the disk is full");
        self.kept.lock().expect("a lock").push(record.step);
        Ok(())
    }
    fn stretches(&self) -> Result<Vec<Stretch>> {
        Ok(Vec::new())
    }
    fn at(&self, _: Step) -> Result<Option<Record>> {
        Ok(None)
    }
    fn each(&self, _: Step, _: Step, _: &mut dyn FnMut(Record) -> bool) -> Result<()> {
        Ok(())
    }
    fn link(&self, _: usize, _: Step, _: Step) -> Result<Vec<LinkMoment>> {
        Ok(Vec::new())
    }
    fn forget(&self, before: Step) -> Result<u64> {
        self.forgotten.lock().expect("a lock").push(before);
        Ok(0)
    }
}

fn about() -> Arc<About> {
    let network = traffic::corridor().expect("the corridor");
    Arc::new(About {
        network_hash: network_hash(&network),
        network: Arc::new(network),
        step_s: 10.0,
        target: TargetKind::Raw,
        guests: Vec::new(),
        interval: None,
    })
}

fn record(about: &About, step: i64) -> Record {
    Record {
        step: Step(step),
        made_s: 0.0,
        latency_s: 5.0,
        participants: BTreeMap::new(),
        states: vec![LinkState::default(); about.network.links().len()],
        intervals: None,
    }
}

/// Whether an event says that it is stored.
fn says_stored(event: &Event) -> bool {
    let text = std::str::from_utf8(&event.bytes).expect("text");
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    data["stored"].as_bool().expect("whether it is stored")
}

#[test]
fn what_is_published_as_stored_was_stored_before() {
    let (about, feed, store) = (about(), Arc::<Feed>::default(), Arc::<Store>::default());
    let start = |patience| {
        let history = Arc::clone(&store) as Arc<dyn History>;
        let keeping = Keeping { history, steps: 100, patience: Duration::from_millis(patience) };
        Publisher::start(Arc::clone(&about), Arc::clone(&feed), Some(keeping)).unwrap()
    };
    let (mut events, latest) = feed.subscribe();
    assert!(latest.is_none());
    // Longer than any machine needs to write a number to memory.
    let publisher = start(600_000);
    for step in 1..=5 {
        publisher.publish(record(&about, step), Instant::now());
        let event = events.blocking_recv().unwrap();
        assert_eq!((event.step, says_stored(&event)), (Step(step), true));
        assert_eq!(store.kept.lock().unwrap().last(), Some(&Step(step)));
    }
    // The first that was kept also cut the past, to a hundred steps.
    assert_eq!(*store.forgotten.lock().unwrap(), [Step(-99)]);

    publisher.finish();

    // A store that fails: estimates go on, say so, and are stored when it is mended.
    let publisher = start(10);
    store.broken.store(true, Ordering::Relaxed);
    for step in 6..=8 {
        publisher.publish(record(&about, step), Instant::now());
        let event = events.blocking_recv().unwrap();
        assert_eq!((event.step, says_stored(&event)), (Step(step), false));
    }
    store.broken.store(false, Ordering::Relaxed);
    publisher.finish();
    let kept: Vec<i64> = store.kept.lock().unwrap().iter().map(|step| step.0).collect();
    assert_eq!(kept, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn without_a_store_nothing_claims_to_be_stored() {
    let (about, feed) = (about(), Arc::<Feed>::default());
    let publisher = Publisher::start(Arc::clone(&about), Arc::clone(&feed), None).unwrap();
    let (mut events, _) = feed.subscribe();
    publisher.publish(record(&about, 1), Instant::now());
    assert!(!says_stored(&events.blocking_recv().unwrap()));
    publisher.finish();
    let latest: serde_json::Value = serde_json::from_str(&feed.latest().unwrap()).unwrap();
    assert_eq!((&latest["step"], &latest["stored"]), (&1.into(), &false.into()));
    assert!(latest["age_s"].as_f64().is_some());
    // A road without vehicles has no speed.
    assert_eq!(latest["links"][0]["speed"], serde_json::Value::Null);
}
