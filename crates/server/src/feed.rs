//! The latest estimate and the stream of estimates: one publisher, any number of readers.
//!
//! Publishing never waits for a reader: the latest estimate is a value that is replaced, the stream a ring buffer of
//! a few. A reader that falls out of the ring is disconnected and may reconnect for the estimates it missed. The text
//! of an estimate is held once for all readers.

use std::time::Instant;

use axum::body::Bytes;
use tokio::sync::{broadcast, watch};
use traffic::Step;

use crate::api::documents::EstimateDocument;
use crate::estimate::{Estimate, SeriesInfo};

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
}

/// The latest estimate.
#[derive(Clone, Debug)]
struct Latest {
    step: Step,
    /// When its step ended; none if the end was not observed by this process.
    ended: Option<Instant>,
    /// The document from the comma behind its age on, and the end of an event.
    tail: Bytes,
}

/// One server-sent event, in one piece: a chunk of the response is a whole event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub step: Step,
    pub bytes: Bytes,
}

impl Default for EstimateFeed {
    fn default() -> Self {
        EstimateFeed { latest: watch::channel(None).0, stream: broadcast::channel(RING).0 }
    }
}

impl EstimateFeed {
    /// Replaces the latest estimate and sends it to the stream.
    pub fn publish(
        &self,
        info: &SeriesInfo,
        estimate: &Estimate,
        ended: Option<Instant>,
        stored: bool,
    ) {
        let latest = Latest { step: estimate.step, ended, tail: tail(info, estimate, stored) };
        let event = latest.event();
        self.latest.send_replace(Some(latest));
        // There may be no subscribers.
        let _ = self.stream.send(event);
    }

    /// The latest estimate as a JSON document with its age, in two parts; none before the first.
    pub(crate) fn latest(&self) -> Option<[Bytes; 2]> {
        let latest = self.latest.borrow().clone()?;
        let rest = latest.tail.slice(..latest.tail.len() - END.len());
        Some([format!("{AGE}{}", latest.age()).into(), rest])
    }

    /// Estimates from now on, and the latest one.
    pub(crate) fn subscribe(&self) -> (broadcast::Receiver<Event>, Option<Event>) {
        let receiver = self.stream.subscribe();
        let latest = self.latest.borrow().clone();
        (receiver, latest.map(|latest| latest.event()))
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
        event(self.step, &self.age(), &self.tail)
    }
}

impl Event {
    /// A stored estimate as an event.
    pub(crate) fn stored(info: &SeriesInfo, estimate: &Estimate) -> Self {
        event(estimate.step, "null", &tail(info, estimate, true))
    }
}

fn event(step: Step, age: &str, tail: &[u8]) -> Event {
    let head = format!("id: {}\nevent: estimate\ndata: {AGE}{age}", step.0);
    Event { step, bytes: [head.as_bytes(), tail].concat().into() }
}

fn tail(info: &SeriesInfo, estimate: &Estimate, stored: bool) -> Bytes {
    let document = EstimateDocument::new(info, estimate, stored);
    // Cannot fail: the document has no maps with keys other than strings.
    let text = serde_json::to_string(&document).unwrap_or_default();
    let rest = text.strip_prefix(AGE).and_then(|rest| rest.strip_prefix("null"));
    format!("{}{END}", rest.unwrap_or("}")).into()
}
