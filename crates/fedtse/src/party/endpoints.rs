//! `/healthz` and `/metrics` over plain HTTP, for the machine's own monitoring.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::{debug, info};

/// What is shown there.
pub trait Page: Send + Sync + 'static {
    /// Why the party is not well, if it is not.
    fn trouble(&self) -> Option<String>;
    /// Its numbers.
    fn prometheus(&self) -> String;
}

/// More than any monitoring needs.
const MOST_CONNECTIONS: usize = 16;
const MOST_HEADER_BYTES: usize = 16 * 1024;
const LONGEST: Duration = Duration::from_secs(10);

/// Answers at an address until the runtime ends.
pub async fn open(address: SocketAddr, page: Arc<impl Page>) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("observe.http: {address}"))?;
    let address = listener.local_addr().context("observe.http")?;
    info!(%address, "health and metrics");
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let page = Arc::clone(&page);
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    std::future::ready(Ok::<_, Infallible>(answer(&request, &*page)))
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(LONGEST)
                    .max_buf_size(MOST_HEADER_BYTES)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                if let Ok(Err(error)) = tokio::time::timeout(LONGEST, connection).await {
                    debug!("monitoring: {error}");
                }
                drop(place);
            });
        }
    });
    Ok(address)
}

fn answer(request: &Request<Incoming>, page: &impl Page) -> Response<String> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => match page.trouble() {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        },
        (&Method::GET, "/metrics") => (StatusCode::OK, page.prometheus()),
        _ => (StatusCode::NOT_FOUND, "expected GET /healthz or GET /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let plain = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, plain);
    response
}
