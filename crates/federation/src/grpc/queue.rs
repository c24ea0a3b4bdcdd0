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
pub(super) struct QueueSender<T> {
    waiting: mpsc::Sender<(T, OwnedSemaphorePermit)>,
    capacity: Arc<Semaphore>,
}

/// Where they come out.
pub(super) struct QueueReceiver<T>(mpsc::Receiver<(T, OwnedSemaphorePermit)>);

/// An empty queue.
pub(super) fn queue<T>() -> (QueueSender<T>, QueueReceiver<T>) {
    let (waiting, messages) = mpsc::channel(QUEUE);
    let capacity = Arc::new(Semaphore::new(QUEUE_BYTES));
    (QueueSender { waiting, capacity }, QueueReceiver(messages))
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), capacity: self.capacity.clone() }
    }
}

impl<T> QueueSender<T> {
    /// Puts a message of so many bytes, if there is room; says whether there was. The largest message
    /// has room in an empty queue.
    pub(super) fn put(&self, message: T, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes.min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        let Ok(permit) = self.capacity.clone().try_acquire_many_owned(bytes) else { return false };
        self.waiting.try_send((message, permit)).is_ok()
    }
}

impl<T> Stream for QueueReceiver<T> {
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
        let (sender, mut receiver) = queue::<usize>();
        let large = QUEUE_BYTES / 2;
        let put = (0..100).filter(|number| sender.put(*number, large)).count();
        assert_eq!(put, 2);
        // What is taken out makes room.
        assert_eq!(receiver.next().await, Some(0));
        assert!(sender.put(7, large));
        assert!(!sender.put(8, 1));
        assert_eq!((receiver.next().await, receiver.next().await), (Some(1), Some(7)));
        // One larger than all of it, alone.
        assert!(sender.put(9, usize::MAX));
        assert_eq!(receiver.next().await, Some(9));
        let put = (0..1000).filter(|number| sender.put(*number, 0)).count();
        assert_eq!(put, QUEUE);
    }
}
