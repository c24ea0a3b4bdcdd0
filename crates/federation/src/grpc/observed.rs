//! A stream of bytes whose traffic is counted and whose last TLS error is kept: HTTP/2 passes errors
//! on as text, and whether a host refuses our certificate should not be guessed from a text.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls;

/// Bytes that crossed the network, everything that surrounds messages included.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// The last TLS error of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct LastError(Arc<Mutex<Option<rustls::Error>>>);

impl LastError {
    pub(super) fn get(&self) -> Option<rustls::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note(&self, error: &io::Error) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(inner) = inner {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(inner.clone());
        }
    }
}

/// See the [module](self).
pub(super) struct Observed<S> {
    pub(super) stream: S,
    pub(super) traffic: Option<Arc<Traffic>>,
    pub(super) error: LastError,
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match (&read, &self.traffic) {
            (Poll::Ready(Err(error)), _) => self.error.note(error),
            (Poll::Ready(Ok(())), Some(traffic)) => {
                let bytes = (buffer.filled().len() - before) as u64;
                traffic.received.fetch_add(bytes, Ordering::Relaxed);
            }
            _ => {}
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        match (&written, &self.traffic) {
            (Poll::Ready(Err(error)), _) => self.error.note(error),
            (Poll::Ready(Ok(bytes)), Some(traffic)) => {
                traffic.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            _ => {}
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
