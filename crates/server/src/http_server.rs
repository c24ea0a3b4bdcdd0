//! The connections of readers: how many, how long, and no slower than this.
//!
//! All of it runs on threads of its own: whatever readers do, the host and its guests do not wait for them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tracing::{debug, info};

use super::rates::Rates;
use super::site::Site;

const MOST_HEADER_BYTES: usize = 16 * 1024;
/// Longest time for the headers of a request, the wait for the next one included.
const HEADERS: Duration = Duration::from_secs(10);
/// Longest time without a byte that a reader takes.
const STALL: Duration = Duration::from_secs(10);
/// Longest time of a connection that is no stream; after it no further request is taken, and a little later it ends.
const LONGEST: Duration = Duration::from_secs(60);
const ENDING: Duration = Duration::from_secs(15);
/// What the system holds for a reader that is slow.
const SEND_BUFFER: u32 = 256 << 10;
const BACKLOG: u32 = 1024;

/// How many readers there may be.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub connections: usize,
    pub per_address: usize,
    pub requests_per_s: f64,
}

/// Where readers are answered, until it is dropped.
pub struct Door {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Door {
    /// Answers at an address, on threads of its own.
    pub fn open(address: SocketAddr, places: Places, site: Arc<Site>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .thread_name("readers")
            .enable_all()
            .build()
            .context("threads for readers")?;
        let listener = runtime
            .block_on(async { listen(address) })
            .with_context(|| format!("publish.http: {address}"))?;
        let address = listener.local_addr().context("publish.http")?;
        info!(%address, "estimates and map");
        runtime.spawn(accept(listener, places, site));
        Ok(Door { address, runtime: Some(runtime) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections that it accepts have the same.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, places: Places, site: Arc<Site>) {
    let free = Arc::new(Semaphore::new(places.connections));
    let rates = Arc::new(Rates::new(places.requests_per_s, places.per_address));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let place = free.clone().try_acquire_owned().ok();
        let counted = rates.connection(peer.ip(), Instant::now());
        let (Some(place), Some(counted)) = (place, counted) else {
            debug!(%peer, "too many readers");
            tokio::spawn(turn_away(stream));
            continue;
        };
        let (site, rates) = (Arc::clone(&site), Arc::clone(&rates));
        tokio::spawn(async move {
            serve(stream, peer, site, rates).await;
            drop((place, counted));
        });
    }
}

async fn turn_away(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(FULL)).await;
}

async fn serve(stream: TcpStream, peer: SocketAddr, site: Arc<Site>, rates: Arc<Rates>) {
    let _ = stream.set_nodelay(true);
    let streams = Arc::new(AtomicBool::new(false));
    let of_service = Arc::clone(&streams);
    let service = hyper::service::service_fn(move |request| {
        let (site, streams) = (Arc::clone(&site), Arc::clone(&of_service));
        let allowed = rates.request(peer.ip(), Instant::now());
        async move { Ok::<_, Infallible>(site.answer(request, allowed, &streams).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(MOST_HEADER_BYTES)
        .serve_connection(TokioIo::new(Unstalled { stream, stalled: None }), service);
    let mut connection = std::pin::pin!(connection);
    let mut ending = false;
    loop {
        let patience = if ending { ENDING } else { LONGEST };
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, "reader: {error}");
                }
                return;
            }
            () = tokio::time::sleep(patience) => {}
        }
        if streams.load(Ordering::Relaxed) {
            continue;
        }
        if ending {
            debug!(%peer, "a reader was too slow");
            return;
        }
        ending = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// A connection that fails when its reader takes nothing for a while.
struct Unstalled {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Unstalled {
    fn watch<T>(
        &mut self,
        task: &mut Task<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        match stalled.as_mut().poll(task) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Unstalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl AsyncWrite for Unstalled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.watch(task, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(task, parts);
        self.watch(task, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
