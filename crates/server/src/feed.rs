//! The latest estimate and the stream of estimates: one publishes, any number read.
//!
//! Publishing never waits for a reader: the latest estimate is a value that is replaced, the stream a ring of a
//! few; whoever falls out of it is dropped and may come back for what it has missed.

use std::sync::Arc;
use std::time::Instant;

use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use traffic::Step;

use super::record::{About, Record};

/// Estimates that a slow reader of the stream may be behind before it is dropped.
pub const MOST_BEHIND: usize = 16;

/// An estimate, written once for all readers.
#[derive(Debug)]
struct Latest {
    step: Step,
    /// When its step had ended; none where nobody here saw it end.
    ended: Option<Instant>,
    /// The document but for its age: what follows the first brace.
    rest: String,
}

/// One event of the stream.
#[derive(Clone, Debug)]
pub struct Event {
    pub step: Step,
    pub bytes: Bytes,
}

/// Where estimates are published.
pub struct Feed {
    latest: watch::Sender<Option<Arc<Latest>>>,
    stream: broadcast::Sender<Event>,
}

impl Default for Feed {
    fn default() -> Self {
        Feed { latest: watch::channel(None).0, stream: broadcast::channel(MOST_BEHIND).0 }
    }
}

impl Feed {
    /// Replaces the latest estimate and sends it to the stream.
    pub fn publish(&self, about: &About, record: &Record, ended: Option<Instant>, stored: bool) {
        let rest = rest(about, record, stored);
        let latest = Latest { step: record.step, ended, rest };
        let event = latest.event();
        self.latest.send_replace(Some(Arc::new(latest)));
        // Nobody may be listening.
        let _ = self.stream.send(event);
    }

    /// The latest estimate as a document with its age; none before the first.
    pub fn latest(&self) -> Option<String> {
        let latest = self.latest.borrow().clone();
        latest.map(|latest| latest.text())
    }

    /// Estimates from now on, and the latest one.
    pub fn subscribe(&self) -> (broadcast::Receiver<Event>, Option<Event>) {
        let receiver = self.stream.subscribe();
        let latest = self.latest.borrow().clone();
        (receiver, latest.map(|latest| latest.event()))
    }
}

impl Latest {
    fn event(&self) -> Event {
        event(self.step, &self.text())
    }

    fn text(&self) -> String {
        let age = self.ended.map(|ended| ended.elapsed().as_secs_f64());
        with_age(age, &self.rest)
    }
}

/// The document of an estimate of the past.
pub fn past(about: &About, record: &Record) -> String {
    with_age(None, &rest(about, record, true))
}

/// A past estimate as an event.
pub fn past_event(about: &About, record: &Record) -> Event {
    event(record.step, &past(about, record))
}

fn event(step: Step, text: &str) -> Event {
    let bytes = format!("id: {}\nevent: estimate\ndata: {text}\n\n", step.0).into();
    Event { step, bytes }
}

fn rest(about: &About, record: &Record, stored: bool) -> String {
    let text = Value::Object(record.document(about, stored)).to_string();
    text.trim_start_matches('{').to_owned()
}

fn with_age(age: Option<f64>, rest: &str) -> String {
    match age {
        Some(age) => format!("{{\"age_s\":{age:.3},{rest}"),
        None => format!("{{\"age_s\":null,{rest}"),
    }
}
