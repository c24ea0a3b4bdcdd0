//! The latest estimate and the stream of estimates: one publisher, any number of readers.
//!
//! Publishing never waits for a reader: the latest estimate is a value that is replaced, the stream a ring buffer of
//! a few. A reader that falls out of the ring is disconnected and may reconnect for the estimates it missed. The text
//! of an estimate is held once for all readers, and so is its packed form ([`crate::packed`]) for pages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use traffic::Step;

use crate::alarms::{AlarmError, Alarms, AlarmsSection};
use crate::api::documents::{EstimateDocument, PackedDocument};
use crate::estimate::{Estimate, SeriesInfo};
use crate::packed::RoundedStates;

/// Estimates that a slow reader of the stream may be behind before it is disconnected.
const RING: usize = 16;
/// How the text of an estimate starts, up to its age.
const AGE: &str = "{\"age_s\":";
/// What ends an event.
const END: &str = "\n\n";

/// Where estimates are published.
pub struct EstimateFeed {
    latest: watch::Sender<Option<Latest>>,
    stream: broadcast::Sender<Event>,
    /// The same estimates packed, each as changes of the one before.
    changes: broadcast::Sender<Event>,
    /// The numbers that the next change is based on.
    rounded: Mutex<Option<(Step, RoundedStates)>>,
    alarms: Alarms,
}

/// The latest estimate.
#[derive(Clone, Debug)]
struct Latest {
    step: Step,
    /// When its step ended; none if the end was not observed by this process.
    ended: Option<Instant>,
    /// The document from the comma behind its age on, and the end of an event.
    tail: Bytes,
    /// The same of the whole estimate, packed.
    packed: Bytes,
    estimate: Arc<Estimate>,
}

/// One server-sent event, in one piece: a chunk of the response is a whole event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub step: Step,
    pub bytes: Bytes,
}

impl Default for EstimateFeed {
    fn default() -> Self {
        EstimateFeed {
            latest: watch::channel(None).0,
            stream: broadcast::channel(RING).0,
            changes: broadcast::channel(RING).0,
            rounded: Mutex::default(),
            alarms: Alarms::default(),
        }
    }
}

impl EstimateFeed {
    /// A feed with thresholds.
    pub fn with_alarms(section: &AlarmsSection, info: &SeriesInfo) -> Result<Self, AlarmError> {
        Ok(EstimateFeed { alarms: Alarms::new(section, info)?, ..EstimateFeed::default() })
    }

    /// How many links are beyond a threshold.
    pub fn active_alarms(&self) -> usize {
        self.alarms.active()
    }

    pub(crate) fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    /// Replaces the latest estimate and sends it to the stream.
    pub fn publish(
        &self,
        info: &SeriesInfo,
        estimate: &Estimate,
        ended: Option<Instant>,
        stored: bool,
    ) {
        let rounded = RoundedStates::of(estimate);
        let packed = |base: Option<&(Step, RoundedStates)>| {
            let numbers = rounded.pack(base.map(|(_, numbers)| numbers));
            let base = base.map(|(step, _)| *step);
            text(&PackedDocument::new(info, estimate, stored, base, numbers))
        };
        let mut before = self.rounded.lock().unwrap_or_else(PoisonError::into_inner);
        let change = before.as_ref().map(|before| packed(Some(before)));
        let latest = Latest {
            step: estimate.step,
            ended,
            tail: text(&EstimateDocument::new(info, estimate, stored)),
            packed: packed(None),
            estimate: Arc::new(estimate.clone()),
        };
        *before = Some((estimate.step, rounded));
        let change = latest.event_of(change.as_ref().unwrap_or(&latest.packed));
        let whole = latest.event();
        self.latest.send_replace(Some(latest));
        // There may be no subscribers.
        let _ = self.stream.send(whole);
        let _ = self.changes.send(change);
        self.alarms.observe(info, estimate);
    }

    /// The latest estimate as a JSON document with its age, in two parts; none before the first.
    pub(crate) fn latest(&self) -> Option<[Bytes; 2]> {
        let latest = self.latest.borrow().clone()?;
        let rest = latest.tail.slice(..latest.tail.len() - END.len());
        Some([format!("{AGE}{}", latest.age()).into(), rest])
    }

    /// The latest estimate; none before the first.
    pub(crate) fn estimate(&self) -> Option<Arc<Estimate>> {
        Some(Arc::clone(&self.latest.borrow().as_ref()?.estimate))
    }

    /// Estimates from now on, and the latest one.
    pub(crate) fn subscribe(&self) -> (broadcast::Receiver<Event>, Option<Event>) {
        let receiver = self.stream.subscribe();
        let latest = self.latest.borrow().clone();
        (receiver, latest.map(|latest| latest.event()))
    }

    /// Changes from now on, and the latest estimate whole, both packed.
    pub(crate) fn subscribe_packed(&self) -> (broadcast::Receiver<Event>, Option<Event>) {
        let receiver = self.changes.subscribe();
        let latest = self.latest.borrow().clone();
        (receiver, latest.map(|latest| latest.event_of(&latest.packed)))
    }
}

impl Latest {
    fn age(&self) -> String {
        match self.ended {
            Some(ended) => format!("{:.3}", ended.elapsed().as_secs_f64()),
            None => "null".to_owned(),
        }
    }

    fn event(&self) -> Event {
        self.event_of(&self.tail)
    }

    fn event_of(&self, tail: &[u8]) -> Event {
        event(self.step, &self.age(), tail)
    }
}

impl Event {
    /// A stored estimate as an event.
    pub(crate) fn stored(info: &SeriesInfo, estimate: &Estimate) -> Self {
        event(estimate.step, "null", &text(&EstimateDocument::new(info, estimate, true)))
    }
}

fn event(step: Step, age: &str, tail: &[u8]) -> Event {
    let head = format!("id: {}\nevent: estimate\ndata: {AGE}{age}", step.0);
    Event { step, bytes: [head.as_bytes(), tail].concat().into() }
}

/// A document from the comma behind its age on, and the end of an event.
fn text(document: &impl Serialize) -> Bytes {
    // Cannot fail: the document has no maps with keys other than strings.
    let text = serde_json::to_string(document).unwrap_or_default();
    let rest = text.strip_prefix(AGE).and_then(|rest| rest.strip_prefix("null"));
    format!("{}{END}", rest.unwrap_or("}")).into()
}
