//! Messages that wait to be sent on one connection: bounded in number and in bytes.
//!
//! When a peer does not read, what does not fit is dropped: hosts and guests say again what was not
//! answered, so nothing is lost but time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;

use super::limits::{QUEUE, QUEUE_BYTES};

/// Where messages are put.
pub(super) struct Entrance<T> {
    waiting: mpsc::Sender<(T, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

/// Where they come out.
pub(super) struct Exit<T>(mpsc::Receiver<(T, OwnedSemaphorePermit)>);

/// An empty queue.
pub(super) fn queue<T>() -> (Entrance<T>, Exit<T>) {
    let (waiting, messages) = mpsc::channel(QUEUE);
    let room = Arc::new(Semaphore::new(QUEUE_BYTES));
    (Entrance { waiting, room }, Exit(messages))
}

impl<T> Clone for Entrance<T> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), room: self.room.clone() }
    }
}

impl<T> Entrance<T> {
    /// Puts a message of so many bytes, if there is room; says whether there was. The largest message
    /// has room in an empty queue.
    pub fn put(&self, message: T, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes.min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        let Ok(room) = self.room.clone().try_acquire_many_owned(bytes) else { return false };
        self.waiting.try_send((message, room)).is_ok()
    }
}

impl<T> Stream for Exit<T> {
    type Item = T;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context).map(|next| next.map(|(message, _)| message))
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    /// A peer that does not read costs no more memory than the bound, however often it asks.
    #[tokio::test]
    async fn a_queue_is_bounded_in_bytes_and_in_number() {
        let (entrance, mut exit) = queue::<usize>();
        let large = QUEUE_BYTES / 2;
        let put = (0..100).filter(|number| entrance.put(*number, large)).count();
        assert_eq!(put, 2);
        // What is taken out makes room.
        assert_eq!(exit.next().await, Some(0));
        assert!(entrance.put(7, large));
        assert!(!entrance.put(8, 1));
        assert_eq!((exit.next().await, exit.next().await), (Some(1), Some(7)));
        // One larger than all of it, alone.
        assert!(entrance.put(9, usize::MAX));
        assert_eq!(exit.next().await, Some(9));
        let put = (0..1000).filter(|number| entrance.put(*number, 0)).count();
        assert_eq!(put, QUEUE);
    }
}
