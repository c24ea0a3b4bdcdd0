//! The guest's side: dials the host, again and again until it answers, and exchanges messages.

mod address;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::bytes::Bytes;
use protocol::PartyId;
use protocol::ledger::Released;
use protocol::message::{ToGuest, ToHost};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{self, AlertDescription, ClientConfig};
use tonic::Code;
use tracing::{debug, info, warn};

use super::identity::{CertificateInfo, Fingerprint, Role};
use super::limits::{HEADERS, Limits, WINDOW};
use super::observed::{LastError, Observed, Traffic};
use super::queue::{QueueSender, queue};
use super::service::take_part;

pub use address::HostAddress;

/// Pauses between attempts: twice as long each time, from the first to the last of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));
/// A connection that lasted this long was a good one: after it pauses are short again.
const GOOD: Duration = Duration::from_secs(5);

/// What the network tells a guest.
#[derive(Debug)]
pub enum Dialled {
    /// The host has answered.
    Connected,
    /// The host says something.
    Message(ToGuest),
    /// The connection has ended, or could not be made; it is dialled again.
    Disconnected(String),
    /// The host does not want this guest, or is not the one that it should be: not dialled again.
    Refused(String),
}

/// The connection to the host, which is made again whenever it breaks. Dropping it closes it.
pub struct HostConnection {
    /// The host's name, where it is known.
    host: Option<PartyId>,
    outgoing: SharedOutgoing,
    traffic: Arc<Traffic>,
    task: tokio::task::JoinHandle<()>,
}

type SharedOutgoing = Arc<Mutex<Outgoing>>;

/// Where messages to the host go.
#[derive(Default)]
enum Outgoing {
    #[default]
    Disconnected,
    Connected(QueueSender<Bytes>),
    /// Closed by us, and not to be opened again.
    Closed,
}

/// Changes where messages go, unless the connection was closed by us.
fn set_outgoing(outgoing: &SharedOutgoing, state: Outgoing) {
    let mut current = outgoing.lock().unwrap_or_else(PoisonError::into_inner);
    if !matches!(*current, Outgoing::Closed) {
        *current = state;
    }
}

/// Dials a host until it answers, and again whenever the connection breaks.
pub fn dial(
    host: HostAddress,
    tls: Arc<ClientConfig>,
    limits: Limits,
    arrivals: mpsc::Sender<Dialled>,
) -> HostConnection {
    let (outgoing, traffic) = (SharedOutgoing::default(), Arc::<Traffic>::default());
    let name = host.party.clone();
    let dialler = Dialler {
        host,
        tls: TlsConnector::from(tls),
        limits,
        arrivals,
        outgoing: outgoing.clone(),
        traffic: traffic.clone(),
    };
    let task = tokio::spawn(dialler.run());
    HostConnection { host: name, outgoing, traffic, task }
}

impl HostConnection {
    /// Sends a message, if it was released for this host, the host is connected and its queue not full. What
    /// is lost is said again later.
    pub fn send(&self, message: &Released<ToHost>) {
        let kind = message.message().kind();
        if let Some(host) = self.host.as_ref().filter(|host| *host != message.recipient()) {
            warn!(kind, "released for `{}`, not sent to `{host}`", message.recipient());
            return;
        }
        let state = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let Outgoing::Connected(outgoing) = &*state else {
            debug!(kind, "not connected, message dropped");
            return;
        };
        if !outgoing.put(message.bytes().clone(), message.bytes().len()) {
            debug!(kind, "queue full, message dropped");
        }
    }

    /// Bytes on all connections.
    pub fn traffic(&self) -> Arc<Traffic> {
        self.traffic.clone()
    }

    /// Closes it after what was sent has gone out, or half a second has passed.
    pub async fn close(mut self) {
        set_outgoing(&self.outgoing, Outgoing::Closed);
        let _ = tokio::time::timeout(Duration::from_millis(500), &mut self.task).await;
    }
}

impl Drop for HostConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Dialler {
    host: HostAddress,
    tls: TlsConnector,
    limits: Limits,
    arrivals: mpsc::Sender<Dialled>,
    outgoing: SharedOutgoing,
    traffic: Arc<Traffic>,
}

/// Why a connection ended.
enum Ended {
    /// It may come back.
    Broken(String),
    /// It will not.
    Refused(String),
    /// Nobody listens here any more.
    Unwanted,
}

impl Dialler {
    async fn run(self) {
        let mut pause = PAUSES.0;
        let mut last_problem = String::new();
        loop {
            let began = Instant::now();
            let ended = self.take_part().await;
            set_outgoing(&self.outgoing, Outgoing::Disconnected);
            if self.is_closed() {
                return;
            }
            let arrival = match ended {
                Ended::Unwanted => return,
                Ended::Refused(why) => {
                    let _ = self.arrivals.send(Dialled::Refused(why)).await;
                    return;
                }
                Ended::Broken(why) => {
                    if why != last_problem {
                        warn!(host = %self.host.address, "not connected: {why}; dialling again");
                        last_problem.clone_from(&why);
                    }
                    Dialled::Disconnected(why)
                }
            };
            if self.arrivals.send(arrival).await.is_err() {
                return;
            }
            if began.elapsed() > GOOD {
                pause = PAUSES.0;
                last_problem.clear();
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = longer(pause);
        }
    }

    fn is_closed(&self) -> bool {
        matches!(*self.outgoing.lock().unwrap_or_else(PoisonError::into_inner), Outgoing::Closed)
    }

    async fn take_part(&self) -> Ended {
        let error = LastError::default();
        let connecting = tokio::time::timeout(self.limits.handshake, self.connect(&error)).await;
        let (sender, connection) = match connecting {
            Err(_) => return Ended::Broken("no answer in time".into()),
            Ok(Err(ended)) => return ended,
            Ok(Ok(connected)) => connected,
        };
        // Ends with this function.
        let mut driving = tokio::task::JoinSet::new();
        driving.spawn(connection);
        let ended = self.exchange(sender).await;
        match ended {
            Ended::Broken(why) => refusal_or_broken(&error, why),
            ended => ended,
        }
    }

    async fn connect(
        &self,
        error: &LastError,
    ) -> Result<(Http, impl Future<Output = ()> + Send + 'static), Ended> {
        // Until the host has proven who it is, anybody on the way could have said anything: whatever
        // goes wrong so far may go well next time.
        let stream = TcpStream::connect(&self.host.address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let traffic = Some(self.traffic.clone());
        let stream = Observed { stream, traffic, error: LastError::default() };
        let connecting = self.tls.connect(self.host.name.clone(), stream).await;
        let stream = connecting.map_err(|problem| Ended::Broken(unproven(&problem)))?;
        self.check_host(stream.get_ref().1.peer_certificates())?;
        let stream = Observed { stream, traffic: None, error: error.clone() };
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(HEADERS)
            .keep_alive_interval(self.limits.keep_alive)
            .keep_alive_timeout(self.limits.keep_alive_timeout)
            .keep_alive_while_idle(true)
            .handshake::<_, tonic::body::Body>(TokioIo::new(stream))
            .await
            .map_err(|problem| refusal_or_broken(error, problem.to_string()))?;
        Ok((Http(sender), async move {
            if let Err(error) = connection.await {
                debug!("connection: {error}");
            }
        }))
    }

    /// Whether the certificate, which is one of the authority, is that of the host we want.
    fn check_host(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<(), Ended> {
        let first = certificates.and_then(|certificates| certificates.first());
        if let Some(expected) = self.host.certificate {
            let found = first.map(|certificate| Fingerprint::of(certificate));
            if found != Some(expected) {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                return Err(refused(&format!("found {found}, expected {expected}")));
            }
        }
        let Some(expected) = &self.host.party else { return Ok(()) };
        let info = first.map(CertificateInfo::of).transpose().map_err(|error| refused(&error))?;
        match info {
            Some(info) if info.role == Role::Host && info.name == *expected => Ok(()),
            info => {
                let found = info.map_or("nobody".to_owned(), |info| format!("`{}`", info.name));
                Err(refused(&format!("found that of {found}, expected that of host `{expected}`")))
            }
        }
    }

    async fn exchange(&self, http: Http) -> Ended {
        let (outgoing, messages) = queue();
        let Ok(origin) = hyper::Uri::try_from(format!("https://{}", self.host.address)) else {
            return Ended::Refused(format!("address of the host: {}", self.host.address));
        };
        let answer = take_part(http, origin, self.limits.message, messages);
        let mut incoming = match tokio::time::timeout(self.limits.handshake, answer).await {
            Err(_) => return Ended::Broken("no answer in time".into()),
            Ok(Err(status)) => return ended(&status),
            Ok(Ok(incoming)) => incoming,
        };
        info!(host = %self.host.address, "connected");
        set_outgoing(&self.outgoing, Outgoing::Connected(outgoing));
        if self.arrivals.send(Dialled::Connected).await.is_err() {
            return Ended::Unwanted;
        }
        loop {
            let message = match incoming.message().await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Ended::Broken(format!("the host sent: {error}")),
                Ok(None) => return Ended::Broken("the host has closed".into()),
                Err(status) => return ended(&status),
            };
            if self.arrivals.send(Dialled::Message(message)).await.is_err() {
                return Ended::Unwanted;
            }
        }
    }
}

fn ended(status: &tonic::Status) -> Ended {
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => Ended::Refused(status.message().into()),
        Code::InvalidArgument => {
            Ended::Refused(format!("the host did not understand us: {}", status.message()))
        }
        _ => Ended::Broken(status.message().into()),
    }
}

fn broken(error: std::io::Error) -> Ended {
    Ended::Broken(error.to_string())
}

fn refused(problem: &dyn std::fmt::Display) -> Ended {
    Ended::Refused(format!("the host's certificate: {problem}"))
}

/// What went wrong before the host had proven who it is.
fn unproven(problem: &std::io::Error) -> String {
    let inner = problem.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(error)) => {
            format!("the host's certificate: {error}")
        }
        _ => problem.to_string(),
    }
}

/// A connection that broke because the host, which has proven who it is, refuses our certificate stays
/// broken.
fn refusal_or_broken(error: &LastError, why: String) -> Ended {
    match error.get() {
        Some(rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
            | AlertDescription::ProtocolVersion),
        )) => Ended::Refused(format!("the host refuses our certificate: {alert:?}")),
        _ => Ended::Broken(why),
    }
}

/// The pause after one more attempt that failed.
fn longer(pause: Duration) -> Duration {
    (2 * pause).min(PAUSES.1)
}

/// Half to all of a pause, so that guests that were cut off together do not all come back together.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    pause.mul_f64(0.5 + 0.5 * (random as f64 / u64::MAX as f64))
}

/// One HTTP/2 connection, as tonic wants it.
struct Http(http2::SendRequest<tonic::body::Body>);

impl tower_service::Service<hyper::Request<tonic::body::Body>> for Http {
    type Response = hyper::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<
        Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send + 'static>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: hyper::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests;
