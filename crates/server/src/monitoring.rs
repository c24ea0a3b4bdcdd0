//! `/healthz` and `/metrics` over plain HTTP, for the machine's own monitoring.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::info;

use crate::http_server::{ServerError, accept};
use crate::rate_limit::RateLimiter;

/// More than any monitoring needs.
const MAX_CONNECTIONS: usize = 16;

/// A party that is monitored.
pub trait Monitored: Send + Sync + 'static {
    /// Why the party is not healthy, if it is not.
    fn trouble(&self) -> Option<String>;
    /// Its metrics in Prometheus' text format.
    fn prometheus(&self) -> String;
}

/// Answers at an address until the runtime ends.
pub async fn serve(
    address: SocketAddr,
    party: Arc<impl Monitored>,
) -> Result<SocketAddr, ServerError> {
    let failed = |error| ServerError::Listen { field: "observe.http", address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    info!(%address, "health and metrics");
    let limiter = Arc::new(RateLimiter::new(f64::MAX, MAX_CONNECTIONS));
    tokio::spawn(accept(listener, MAX_CONNECTIONS, limiter, router(party)));
    Ok(address)
}

fn router(party: Arc<impl Monitored>) -> Router {
    let of_health = Arc::clone(&party);
    let health = move || {
        let trouble = of_health.trouble();
        std::future::ready(match trouble {
            None => text(StatusCode::OK, "ok\n".to_owned()),
            Some(trouble) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        })
    };
    let metrics = move || std::future::ready(text(StatusCode::OK, party.prometheus()));
    let unknown = || {
        let expected = "expected GET /healthz or GET /metrics\n".to_owned();
        std::future::ready(text(StatusCode::NOT_FOUND, expected))
    };
    Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
}

fn text(status: StatusCode, text: String) -> impl IntoResponse {
    (status, [(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Party(Option<&'static str>);

    impl Monitored for Party {
        fn trouble(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }
        fn prometheus(&self) -> String {
            "fedtse_rounds_total 7\n".into()
        }
    }

    async fn response(address: SocketAddr, request: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn health_and_metrics_are_those_of_the_party() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let well = serve(any, Arc::new(Party(None))).await.unwrap();
        let ill = serve(any, Arc::new(Party(Some("no guest")))).await.unwrap();
        for (address, request, status, body) in [
            (well, "GET /healthz", "200", "ok\n"),
            (well, "GET /metrics", "200", "fedtse_rounds_total 7\n"),
            (ill, "GET /healthz", "503", "no guest\n"),
            (ill, "GET /metrics", "200", "fedtse_rounds_total 7\n"),
            (well, "GET /other", "404", "expected GET /healthz or GET /metrics\n"),
            (well, "POST /metrics", "404", "expected GET /healthz or GET /metrics\n"),
        ] {
            let text = response(address, request).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(text.contains("content-type: text/plain; version=0.0.4\r\n"), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let taken = serve(any, Arc::new(Party(None))).await.unwrap();
        let error = serve(taken, Arc::new(Party(None))).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("observe.http: {taken}: ")), "{error}");
    }
}
