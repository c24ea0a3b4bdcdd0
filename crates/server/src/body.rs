//! What answers are made of: bytes, or events as they come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use traffic::Step;

use super::feed::Event;

/// A comment goes out after so long without an event, so that proxies and readers know that all is well.
const SILENCE: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b":\n\n";

/// The body of an answer.
pub enum Answer {
    Whole(Whole),
    Events(Events),
}

/// Bytes, and the place among the large answers that they hold, if they are one.
pub struct Whole {
    bytes: Option<Bytes>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Answer {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Answer::Whole(Whole { bytes: Some(bytes.into()), _place: None })
    }

    /// A large answer, which holds its place until it is sent.
    pub fn large(bytes: impl Into<Bytes>, place: OwnedSemaphorePermit) -> Self {
        Answer::Whole(Whole { bytes: Some(bytes.into()), _place: Some(place) })
    }
}

type Received = (Option<Result<Event, broadcast::error::RecvError>>, broadcast::Receiver<Event>);
type Next = Pin<Box<dyn Future<Output = Received> + Send>>;

/// Events that were missed, and then each as it comes, until the reader is too far behind.
pub struct Events {
    missed: VecDeque<Event>,
    next: Next,
    /// The first and the last of those that were missed.
    told: Option<(Step, Step)>,
}

impl Events {
    pub fn new(missed: Vec<Event>, receiver: broadcast::Receiver<Event>) -> Self {
        let told = missed.first().zip(missed.last()).map(|(first, last)| (first.step, last.step));
        Events { missed: missed.into(), next: next(receiver), told }
    }
}

fn next(mut receiver: broadcast::Receiver<Event>) -> Next {
    Box::pin(async move {
        let received = tokio::time::timeout(SILENCE, receiver.recv()).await.ok();
        (received, receiver)
    })
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(whole) => {
                SizeHint::with_exact(whole.bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Answer::Events(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Whole(Whole { bytes: None, .. }))
    }

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Answer::Whole(whole) => {
                Poll::Ready(whole.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Answer::Events(events) => events.poll(task),
        }
    }
}

impl Events {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(event) = self.missed.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(event.bytes))));
        }
        loop {
            let Poll::Ready((received, receiver)) = self.next.as_mut().poll(task) else {
                return Poll::Pending;
            };
            let frame = match received {
                None => Bytes::from_static(COMMENT),
                // Told already, from the past.
                Some(Ok(event))
                    if self
                        .told
                        .is_some_and(|(first, last)| (first..=last).contains(&event.step)) =>
                {
                    self.next = next(receiver);
                    continue;
                }
                Some(Ok(event)) => event.bytes,
                // Too far behind, or the host has ended.
                Some(Err(_)) => return Poll::Ready(None),
            };
            self.next = next(receiver);
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
    }
}
