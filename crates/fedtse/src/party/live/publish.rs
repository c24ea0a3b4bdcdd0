//! Estimates over HTTP: `/v1/estimates`, the latest; `/v1/estimates/stream`, each as it is made.
//!
//! Places are limited, and whoever does not keep up with the stream is dropped, not waited for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, broadcast};
use tracing::{debug, info};

use super::board::{Board, MOST_BEHIND};

const MOST_CONNECTIONS: usize = 256;
const MOST_HEADER_BYTES: usize = 16 * 1024;
/// Longest time to ask a question and read an answer that is not a stream.
const LONGEST: Duration = Duration::from_secs(10);

/// Answers at an address until the runtime ends.
pub async fn open(address: SocketAddr, board: Arc<Board>) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("publish.http: {address}"))?;
    let address = listener.local_addr().context("publish.http")?;
    info!(%address, "estimates");
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else {
                debug!(%peer, "too many readers");
                tokio::spawn(turn_away(stream));
                continue;
            };
            let board = Arc::clone(&board);
            tokio::spawn(async move {
                serve(stream, board).await;
                drop(place);
            });
        }
    });
    Ok(address)
}

async fn turn_away(mut stream: TcpStream) {
    const FULL: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(FULL)).await;
}

async fn serve(stream: TcpStream, board: Arc<Board>) {
    let reader = Arc::new(Reader::default());
    let (of_connection, of_service) = (Arc::clone(&reader), Arc::clone(&board));
    let service = hyper::service::service_fn(move |request| {
        std::future::ready(Ok::<_, Infallible>(answer(&request, &of_service, &of_connection)))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST)
        .max_buf_size(MOST_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            debug!("reader: {error}");
        },
        () = reader.too_slow(&board) => debug!("a reader was too slow"),
    }
}

/// How far the reader of a connection is.
#[derive(Default)]
struct Reader {
    streams: AtomicBool,
    /// Estimates that there were before it began, and that it was given since.
    before: AtomicU64,
    given: AtomicU64,
}

impl Reader {
    /// Returns when the reader is to be given up.
    async fn too_slow(&self, board: &Board) {
        loop {
            tokio::time::sleep(LONGEST).await;
            let [before, given] = [&self.before, &self.given].map(|n| n.load(Ordering::Relaxed));
            let behind = board.shown().estimates.saturating_sub(before + given);
            if !self.streams.load(Ordering::Relaxed) || behind > MOST_BEHIND as u64 {
                return;
            }
        }
    }
}

fn answer(request: &Request<Incoming>, board: &Board, reader: &Arc<Reader>) -> Response<Answer> {
    let path = request.uri().path();
    let (status, kind, answer) = match (request.method(), path) {
        (&Method::GET, "/v1/estimates") => match board.latest() {
            Some(latest) => (StatusCode::OK, "application/json", Answer::whole(latest.to_string())),
            None => {
                let text = r#"{"error":"no estimate yet"}"#;
                (StatusCode::SERVICE_UNAVAILABLE, "application/json", Answer::whole(text))
            }
        },
        (&Method::GET, "/v1/estimates/stream") => {
            let receiver = board.subscribe();
            reader.before.store(board.shown().estimates, Ordering::Relaxed);
            reader.streams.store(true, Ordering::Relaxed);
            let events = Events { next: next(receiver), reader: Arc::clone(reader) };
            (StatusCode::OK, "text/event-stream", Answer::Events(events))
        }
        _ => {
            let text = "expected GET /v1/estimates or GET /v1/estimates/stream\n";
            (StatusCode::NOT_FOUND, "text/plain", Answer::whole(text))
        }
    };
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Published is for everyone, pages of others included.
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// The body of an answer.
enum Answer {
    Whole(Option<Bytes>),
    Events(Events),
}

type Received = (Result<Bytes, broadcast::error::RecvError>, broadcast::Receiver<Bytes>);
type Next = Pin<Box<dyn Future<Output = Received> + Send>>;

/// Events as they come, until the reader is too far behind.
struct Events {
    next: Next,
    reader: Arc<Reader>,
}

fn next(mut receiver: broadcast::Receiver<Bytes>) -> Next {
    Box::pin(async move { (receiver.recv().await, receiver) })
}

impl Answer {
    fn whole(text: impl Into<Bytes>) -> Self {
        Answer::Whole(Some(text.into()))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Answer::Events(_) => SizeHint::default(),
        }
    }

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let events = match &mut *self {
            Answer::Whole(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Answer::Events(events) => events,
        };
        match events.next.as_mut().poll(task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((Ok(event), receiver)) => {
                events.next = next(receiver);
                events.reader.given.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(Some(Ok(Frame::data(event))))
            }
            // Too far behind, or the host has ended.
            Poll::Ready((Err(_), _)) => Poll::Ready(None),
        }
    }
}
