//! Posts JSON to a URL, over plain HTTP, on a thread of its own: the host never waits for who listens there.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use thiserror::Error;
use tracing::warn;

use crate::settings::is_host;

/// Events that wait; more are left out, and the log says so.
const QUEUE: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 3;
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// A status line is shorter.
const MAX_ANSWER_BYTES: u64 = 1024;
const HTTP_PORT: u16 = 80;

/// Why nothing can be posted.
#[derive(Debug, Error)]
pub enum WebhookError {
    /// The URL.
    #[error(
        "alarms.webhook: found {0:?}, expected http://HOST:PORT/PATH (for TLS: a proxy on this machine)"
    )]
    Url(String),
    /// The operating system has no thread for it.
    #[error("alarms.webhook: found no thread ({0}), expected one")]
    Thread(#[from] std::io::Error),
}

pub(crate) struct Webhook {
    to: SyncSender<String>,
}

/// Who gets events.
#[derive(Debug, PartialEq)]
pub(crate) struct Target {
    /// As in the header `Host`.
    host: String,
    /// With a port.
    address: String,
    path: String,
}

impl Target {
    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_host(host) || !plain {
            return None;
        }
        let after_name = host.rsplit(']').next().unwrap_or_default();
        let address = match after_name.contains(':') {
            true => host.to_owned(),
            false => format!("{host}:{HTTP_PORT}"),
        };
        Some(Target { host: host.to_owned(), address, path: format!("/{path}") })
    }

    /// Posts a text, and returns the status.
    fn post(&self, text: &str) -> std::io::Result<u16> {
        let none = || std::io::Error::other("found no address, expected one");
        let address = self.address.to_socket_addrs()?.next().ok_or_else(none)?;
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let Target { host, path, .. } = self;
        let length = text.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(text.as_bytes())?;
        let mut line = String::new();
        BufReader::new(std::io::Read::take(stream, MAX_ANSWER_BYTES)).read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| std::io::Error::other("found no status, expected HTTP/1.1 200"))
    }
}

impl Webhook {
    pub(crate) fn start(url: &str) -> Result<Self, WebhookError> {
        let target = Self::check(url)?;
        let (to, from) = mpsc::sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("webhook".into())
            .spawn(move || post_all(&target, &from))?;
        Ok(Webhook { to })
    }

    /// What a URL names.
    pub(crate) fn check(url: &str) -> Result<Target, WebhookError> {
        Target::parse(url).ok_or_else(|| WebhookError::Url(url.to_owned()))
    }

    pub(crate) fn post(&self, text: String) {
        if self.to.try_send(text).is_err() {
            warn!("alarms.webhook: too many events are waiting; one is left out");
        }
    }
}

fn post_all(target: &Target, from: &Receiver<String>) {
    for text in from {
        for attempt in 1..=ATTEMPTS {
            let failed = match target.post(&text) {
                Ok(200..=299) => break,
                Ok(status) => format!("status {status}"),
                Err(error) => error.to_string(),
            };
            warn!(attempt, "alarms.webhook: {}: {failed}", target.address);
            if attempt < ATTEMPTS {
                std::thread::sleep(RETRY_AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_plain_http_urls_are_accepted() {
        let found = Target::parse("http://127.0.0.1:9000/alarms?a=b").unwrap();
        assert_eq!(
            (found.address.as_str(), found.path.as_str()),
            ("127.0.0.1:9000", "/alarms?a=b")
        );
        assert_eq!(Target::parse("http://a.example").unwrap().address, "a.example:80");
        assert_eq!(Target::parse("http://[::1]/x").unwrap().address, "[::1]:80");
        assert_eq!(Target::parse("http://[::1]:81/x").unwrap().address, "[::1]:81");
        for url in [
            "https://a.example/",
            "http://",
            "http:///x",
            "a.example",
            "http://a/x y",
            "http://a/x\r\nB: c",
        ] {
            assert_eq!(Target::parse(url), None, "{url}");
        }
    }

    #[test]
    fn an_event_is_posted_again_until_it_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/alarms", listener.local_addr().unwrap());
        let webhook = Webhook::start(&url).unwrap();
        webhook.post("{\"step\":1}".into());
        for answer in ["HTTP/1.1 500 Oh\r\n\r\n", "HTTP/1.1 204 Taken\r\n\r\n"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{\"step\":1}") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let request = String::from_utf8(request).unwrap();
            assert!(request.starts_with("POST /alarms HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("\r\nContent-Length: 10\r\n"), "{request}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }
}
