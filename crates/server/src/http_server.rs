//! Connections of readers: how many, how long, and the slowest that is served.
//!
//! `axum::serve` has no limits on connections, headers or slow clients, so the connections are served here, by hyper.
//! All of it runs on threads of its own: the host and its guests never wait for readers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutWriter;
use tower_service::Service;
use tracing::{debug, info};

use crate::api::{self, Site};
use crate::rate_limit::RateLimiter;

const MAX_HEADER_BYTES: usize = 16 * 1024;
/// For the headers of a request, including the wait for the next one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Without a byte that the client accepts.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Age of a connection that is no event stream; after it no further request is accepted, and a little later it is
/// closed.
const MAX_AGE: Duration = Duration::from_secs(60);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// What the system buffers for a slow client.
const SEND_BUFFER: u32 = 256 << 10;
const BACKLOG: u32 = 1024;

/// How many connections and requests are accepted.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimit {
    /// Simultaneous connections.
    pub connections: usize,
    /// Simultaneous connections of one address.
    pub per_address: usize,
    /// Requests per second of one address.
    pub requests_per_s: f64,
}

/// Why the server cannot be started.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The operating system has no threads for it.
    #[error("http server: found no threads ({0}), expected two")]
    Threads(io::Error),
    /// Nothing can listen at the address.
    #[error("{field}: {address}: {error}")]
    Listen {
        /// The field of the configuration.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

/// Serves the map and the API until it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl HttpServer {
    /// Serves a site at an address, on threads of its own.
    pub fn start(
        address: SocketAddr,
        limit: ConnectionLimit,
        site: Site,
    ) -> Result<Self, ServerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .thread_name("http server")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let failed = |error| ServerError::Listen { field: "publish.http", address, error };
        let listener = runtime.block_on(async { listen(address) }).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        info!(%address, "estimates and map");
        let limiter = Arc::new(RateLimiter::new(limit.requests_per_s, limit.per_address));
        let router = api::router(site, &limiter);
        runtime.spawn(accept(listener, limit.connections, limiter, router));
        Ok(HttpServer { address, runtime: Some(runtime) })
    }

    /// The address, with the port that was chosen for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub peer: SocketAddr,
    streaming: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr) -> Self {
        Connection { peer, streaming: Arc::default() }
    }

    /// Exempts an event stream from the greatest age.
    pub(crate) fn set_streaming(&self) {
        self.streaming.store(true, Ordering::Relaxed);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

pub(crate) async fn accept(
    listener: TcpListener,
    connections: usize,
    limiter: Arc<RateLimiter>,
    router: Router,
) {
    let free = Arc::new(Semaphore::new(connections));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let permit = free.clone().try_acquire_owned().ok();
        let counted = limiter.connection(peer.ip(), Instant::now());
        let (Some(permit), Some(counted)) = (permit, counted) else {
            debug!(%peer, "too many connections");
            tokio::spawn(refuse(stream));
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve(stream, peer, router).await;
            drop((permit, counted));
        });
    }
}

async fn refuse(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(FULL)).await;
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(WRITE_TIMEOUT));
    let connection = Connection::new(peer);
    let of_requests = connection.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of_requests.clone());
        router.clone().call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut served = std::pin::pin!(served);
    let mut ending = false;
    loop {
        let timeout = if ending { SHUTDOWN_TIMEOUT } else { MAX_AGE };
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, "connection: {error}");
                }
                return;
            }
            () = tokio::time::sleep(timeout) => {}
        }
        if connection.streaming.load(Ordering::Relaxed) {
            continue;
        }
        if ending {
            debug!(%peer, "connection closed: too slow");
            return;
        }
        ending = true;
        served.as_mut().graceful_shutdown();
    }
}
