use std::collections::BTreeMap;
use std::sync::Mutex;

use traffic::{LinkState, network_hash};

use super::*;
use crate::estimate::{LinkEstimate, Target};
use crate::feed::Event;
use crate::history::{HistoryError, LinkStep, StepRange};

/// A store that works, or fails until it is repaired.
#[derive(Default)]
struct Store {
    broken: AtomicBool,
    stored: Mutex<Vec<Step>>,
    deleted: Mutex<Vec<Step>>,
}

impl History for Store {
    fn replace(&self, _: Step, _: Step, _: &Estimate) -> Result<(), HistoryError> {
        Ok(())
    }
    fn route_series(
        &self,
        _: &[usize],
        _: Step,
        _: Step,
    ) -> Result<Vec<(Step, Vec<LinkEstimate>)>, HistoryError> {
        Ok(Vec::new())
    }
    fn store(&self, estimate: &Estimate) -> Result<(), HistoryError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(HistoryError::Record("the disk is full".into()));
        }
        self.stored.lock().expect("a lock").push(estimate.step);
        Ok(())
    }
    fn ranges(&self) -> Result<Vec<StepRange>, HistoryError> {
        Ok(Vec::new())
    }
    fn get(&self, _: Step) -> Result<Option<Estimate>, HistoryError> {
        Ok(None)
    }
    fn for_each(
        &self,
        _: Step,
        _: Step,
        _: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<(), HistoryError> {
        Ok(())
    }
    fn link_series(&self, _: usize, _: Step, _: Step) -> Result<Vec<LinkStep>, HistoryError> {
        Ok(Vec::new())
    }
    fn delete_before(&self, step: Step) -> Result<u64, HistoryError> {
        self.deleted.lock().expect("a lock").push(step);
        Ok(0)
    }
}

fn info() -> Arc<SeriesInfo> {
    let network = traffic::corridor().expect("the corridor");
    Arc::new(SeriesInfo {
        network_hash: network_hash(&network),
        network: Arc::new(network),
        step_s: 10.0,
        target: Target::Raw,
        guests: Vec::new(),
        interval: None,
    })
}

fn estimate(info: &SeriesInfo, step: i64) -> Estimate {
    Estimate {
        step: Step(step),
        made_s: 0.0,
        latency_s: 5.0,
        participants: BTreeMap::new(),
        states: vec![LinkState::default(); info.network.links().len()],
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
    let (info, feed, store) = (info(), Arc::<EstimateFeed>::default(), Arc::<Store>::default());
    let start = |timeout_ms| {
        let history = Arc::clone(&store) as Arc<dyn History>;
        let storage = Storage {
            history,
            steps: 100,
            downsampling: None,
            timeout: Duration::from_millis(timeout_ms),
        };
        Publisher::start(Arc::clone(&info), Arc::clone(&feed), Some(storage)).unwrap()
    };
    let (mut events, latest) = feed.subscribe();
    assert!(latest.is_none());
    // Longer than any machine needs to write a number to memory.
    let publisher = start(600_000);
    for step in 1..=5 {
        publisher.publish(estimate(&info, step), Instant::now());
        let event = events.blocking_recv().unwrap();
        assert_eq!((event.step, says_stored(&event)), (Step(step), true));
        assert_eq!(store.stored.lock().unwrap().last(), Some(&Step(step)));
    }
    // The first that was stored also deleted what is older than a hundred steps.
    assert_eq!(*store.deleted.lock().unwrap(), [Step(-99)]);

    publisher.finish();

    // A store that fails: estimates go on, say so, and are stored when it is repaired.
    let publisher = start(10);
    store.broken.store(true, Ordering::Relaxed);
    for step in 6..=8 {
        publisher.publish(estimate(&info, step), Instant::now());
        let event = events.blocking_recv().unwrap();
        assert_eq!((event.step, says_stored(&event)), (Step(step), false));
    }
    store.broken.store(false, Ordering::Relaxed);
    publisher.finish();
    let kept: Vec<i64> = store.stored.lock().unwrap().iter().map(|step| step.0).collect();
    assert_eq!(kept, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn without_a_store_nothing_claims_to_be_stored() {
    let (info, feed) = (info(), Arc::<EstimateFeed>::default());
    let publisher = Publisher::start(Arc::clone(&info), Arc::clone(&feed), None).unwrap();
    let (mut events, _) = feed.subscribe();
    publisher.publish(estimate(&info, 1), Instant::now());
    assert!(!says_stored(&events.blocking_recv().unwrap()));
    publisher.finish();
    let latest: serde_json::Value =
        serde_json::from_slice(&feed.latest().unwrap().concat()).unwrap();
    assert_eq!((&latest["step"], &latest["stored"]), (&1.into(), &false.into()));
    assert!(latest["age_s"].as_f64().is_some());
    // A road without vehicles has no speed.
    assert_eq!(latest["links"][0]["speed"], serde_json::Value::Null);
}
