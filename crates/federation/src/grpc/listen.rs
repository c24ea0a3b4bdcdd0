//! The host's side: guests connect, prove who they are, and exchange messages until they are cut
//! off or leave.
//!
//! Who has no certificate of the authority never gets past TLS. Who has one but is not in the list
//! of guests is told so, and gets no further. One connection per guest: a newer one takes the place
//! of an older one, which may be the broken one of a guest that has restarted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::bytes::Bytes;
use protocol::ledger::Released;
use protocol::message::live::FromLiveGuest;
use protocol::message::sums::FromSumGuest;
use protocol::message::{ToGuest, ToHost};
use protocol::party::PartyId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tonic::{Status, Streaming};
use tracing::{debug, info, warn};

use super::accepted::Accepted;
use super::connection_limit::{ConnectionLimit, Slot};
use super::identity::CertificateInfo;
use super::limits::{HEADERS, Limits, WINDOW};
use super::observed::{LastError, Observed, Traffic};
use super::queue::{QueueReceiver, QueueSender, queue};
use super::service::{Received, respond};

/// How long a guest that was cut off has to read why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Why a connection ended early.
const CROWDED: &str = "its slot was needed for a newer connection";
/// How long a host that ends waits for its last words to go out.
const CLOSING: Duration = Duration::from_secs(2);

/// What the network tells the host.
#[derive(Debug)]
pub enum Arrival {
    /// A guest has connected.
    Connected(PartyId),
    /// A guest says something.
    Message(PartyId, ToHost),
    /// A guest's connection has ended.
    Disconnected(PartyId, String),
}

impl Arrival {
    /// The guest whose connection has come or gone, and which.
    pub fn connection(&self) -> Option<(&PartyId, bool)> {
        match self {
            Self::Connected(guest) => Some((guest, true)),
            Self::Disconnected(guest, _) => Some((guest, false)),
            Self::Message(..) => None,
        }
    }
}

/// The listener of a host. Dropping it closes all connections.
pub struct GrpcListener {
    hub: Arc<Hub>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

/// What all connections share.
struct Hub {
    accepted: watch::Receiver<Accepted>,
    limits: Limits,
    arrivals: mpsc::Sender<Arrival>,
    connections: Mutex<BTreeMap<PartyId, GuestConnection>>,
    count: AtomicU64,
    refused: AtomicU64,
    traffic: Arc<Traffic>,
    /// Of all connections that are open.
    slots: Arc<ConnectionLimit>,
    closing: watch::Sender<bool>,
}

/// The connection to a guest.
struct GuestConnection {
    number: u64,
    outgoing: QueueSender<Result<Bytes, Status>>,
    /// Dropped when a newer connection takes this one's place.
    _replaced: watch::Sender<()>,
}

/// Listens at an address. Messages and changes arrive at `arrivals`.
pub async fn listen(
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    accepted: watch::Receiver<Accepted>,
    limits: Limits,
    arrivals: mpsc::Sender<Arrival>,
) -> std::io::Result<GrpcListener> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let slots = ConnectionLimit::new(limits.connections);
    let hub = Arc::new(Hub {
        accepted,
        limits,
        arrivals,
        connections: Mutex::default(),
        count: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        traffic: Arc::default(),
        slots,
        closing: watch::Sender::new(false),
    });
    let task = tokio::spawn(accept(listener, TlsAcceptor::from(tls), hub.clone()));
    Ok(GrpcListener { hub, address, task })
}

impl GrpcListener {
    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a message to the guest that it was released for, if that is connected and its queue not full.
    /// What is lost is said again later.
    pub fn send(&self, message: &Released<ToGuest>) {
        let to = message.recipient();
        let outgoing = self.hub.connections().get(to).map(|connection| connection.outgoing.clone());
        let Some(outgoing) = outgoing else {
            debug!(guest = %to, kind = message.message().kind(), "not connected, message dropped");
            return;
        };
        if !outgoing.put(Ok(message.bytes().clone()), message.bytes().len()) {
            debug!(guest = %to, kind = message.message().kind(), "queue full, message dropped");
        }
    }

    /// The guests that are connected.
    pub fn connected(&self) -> Vec<PartyId> {
        self.hub.connections().keys().cloned().collect()
    }

    /// Connections that were turned away so far.
    pub fn refused(&self) -> u64 {
        self.hub.refused.load(Ordering::Relaxed)
    }

    /// Bytes on all connections.
    pub fn traffic(&self) -> Arc<Traffic> {
        self.hub.traffic.clone()
    }

    /// Ends all connections, after what was sent has gone out or two seconds have passed.
    pub async fn close(self) {
        self.hub.closing.send_replace(true);
        self.hub.connections().clear();
        let _ = tokio::time::timeout(CLOSING, self.hub.slots.all_left()).await;
    }
}

impl Drop for GrpcListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hub {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<PartyId, GuestConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out a connection that has ended, unless a newer one has taken its place.
    fn forget(&self, guest: &PartyId, number: u64) -> bool {
        let mut connections = self.connections();
        let current = connections.get(guest).is_some_and(|connection| connection.number == number);
        if current {
            connections.remove(guest);
        }
        current
    }

    fn refuse(&self, peer: SocketAddr, why: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        warn!(%peer, "connection refused: {why}");
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, hub: Arc<Hub>) {
    // Ends all connections when the listener is dropped.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, most likely: others may be closed meanwhile.
                warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, hub, slot) = (tls.clone(), hub.clone(), hub.slots.enter());
        connections.spawn(async move {
            if let Err(why) = serve(stream, peer, tls, &hub, slot).await {
                hub.refuse(peer, &why);
            }
        });
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: TlsAcceptor,
    hub: &Arc<Hub>,
    mut slot: Slot,
) -> Result<(), String> {
    // Messages are small and answered at once: waiting to fill packets would cost 40 ms each.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let traffic = Some(hub.traffic.clone());
    let stream = Observed { stream, traffic, error: LastError::default() };
    let handshake = tokio::time::timeout(hub.limits.handshake, tls.accept(stream));
    let stream = tokio::select! {
        done = handshake => done
            .map_err(|_| "no TLS handshake in time".to_owned())?
            .map_err(|error| error.to_string())?,
        () = slot.taken() => return Err(CROWDED.to_owned()),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|certificates| certificates.first());
    let info = CertificateInfo::of(certificate.ok_or("found no certificate")?)
        .map_err(|error| error.to_string())?;
    match hub.accepted.borrow().check(&info) {
        Ok(()) => slot.admit(&info.name),
        // It is told so when it asks, and keeps a stranger's place until then.
        Err(why) => hub.refuse(peer, &why),
    }
    let stream_of = Stream { hub: hub.clone(), info: info.clone(), peer };
    let limit = hub.limits.message;
    let service = hyper::service::service_fn(move |request| {
        let stream = stream_of.clone();
        async move {
            Ok::<_, Infallible>(respond(request, limit, |incoming| stream.begin(incoming)).await)
        }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(1)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(hub.limits.keep_alive)
        .keep_alive_timeout(hub.limits.keep_alive_timeout);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut closing = hub.closing.subscribe();
    tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                debug!(%peer, guest = %info.name, "connection: {error}");
            }
        }
        _ = cut_off(hub.accepted.clone(), &info) => {
            // The stream says why; whether or not the guest reads it, this is the end.
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST_WORDS, connection).await;
        }
        () = slot.taken() => debug!(%peer, guest = %info.name, "{CROWDED}"),
        () = async { drop(closing.wait_for(|closing| *closing).await) } => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(CLOSING, connection).await;
        }
    }
    Ok(())
}

/// Waits until a certificate is not in the list, or not valid any longer; says which.
async fn cut_off(mut accepted: watch::Receiver<Accepted>, info: &CertificateInfo) -> String {
    loop {
        if let Err(why) = accepted.borrow_and_update().check(info) {
            return why;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let until = Duration::from_secs(info.valid_until.try_into().unwrap_or(0));
        if until < now {
            return format!("certificate {} has expired", info.fingerprint);
        }
        // Not longer than an hour, because the clock may be set.
        let left = (until - now + Duration::from_secs(1)).min(Duration::from_secs(3600));
        tokio::select! {
            changed = accepted.changed() => if changed.is_err() {
                // Nobody changes the list any more.
                std::future::pending::<()>().await;
            },
            () = tokio::time::sleep(left) => {}
        }
    }
}

/// The stream of messages on one connection.
#[derive(Clone)]
struct Stream {
    hub: Arc<Hub>,
    info: CertificateInfo,
    peer: SocketAddr,
}

impl Stream {
    fn begin(
        &self,
        incoming: Streaming<Received<ToHost>>,
    ) -> Result<QueueReceiver<Result<Bytes, Status>>, Status> {
        let (hub, info, peer) = (self.hub.clone(), self.info.clone(), self.peer);
        hub.accepted.borrow().check(&info).map_err(Status::permission_denied)?;
        let (outgoing, messages) = queue();
        let (replaced, replacement) = watch::channel(());
        let number = hub.count.fetch_add(1, Ordering::Relaxed);
        let connection =
            GuestConnection { number, outgoing: outgoing.clone(), _replaced: replaced };
        hub.connections().insert(info.name.clone(), connection);
        info!(guest = %info.name, %peer, "connected");
        tokio::spawn(async move {
            let stream = Pump { hub: &hub, info: &info, incoming };
            let status = stream.run(replacement).await;
            let reason = status.message().to_owned();
            info!(guest = %info.name, %peer, "disconnected: {reason}");
            if status.code() != tonic::Code::Ok {
                outgoing.put(Err(status), 0);
            }
            // One that was replaced is no news: the guest is connected by another.
            if hub.forget(&info.name, number) {
                let _ = hub.arrivals.send(Arrival::Disconnected(info.name, reason)).await;
            }
        });
        Ok(messages)
    }
}

/// Carries what a guest says to the host.
struct Pump<'a> {
    hub: &'a Hub,
    info: &'a CertificateInfo,
    incoming: Streaming<Received<ToHost>>,
}

impl Pump<'_> {
    async fn run(mut self, mut replacement: watch::Receiver<()>) -> Status {
        let name = &self.info.name;
        if self.hub.arrivals.send(Arrival::Connected(name.clone())).await.is_err() {
            return Status::unavailable("the host has stopped");
        }
        let cut_off = cut_off(self.hub.accepted.clone(), self.info);
        tokio::pin!(cut_off);
        loop {
            let message = tokio::select! {
                message = self.incoming.message() => message,
                why = &mut cut_off => return Status::permission_denied(why),
                _ = replacement.changed() => {
                    return Status::aborted("the connection is closed, or a newer connection is open");
                }
            };
            let message = match message {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Status::invalid_argument(error.to_string()),
                Ok(None) => return Status::ok("the guest has closed"),
                Err(status) => return status,
            };
            let claimed = match &message {
                ToHost::Hello(hello) => Some(&hello.party),
                ToHost::Live(FromLiveGuest::Hello(hello)) => Some(&hello.party),
                ToHost::Sum(FromSumGuest::Hello(hello)) => Some(&hello.party),
                _ => None,
            };
            if let Some(claimed) = claimed.filter(|claimed| *claimed != name) {
                let why = format!("the certificate is of `{name}`, the greeting of `{claimed}`");
                self.hub.refused.fetch_add(1, Ordering::Relaxed);
                return Status::permission_denied(why);
            }
            if self.hub.arrivals.send(Arrival::Message(name.clone(), message)).await.is_err() {
                return Status::unavailable("the host has stopped");
            }
        }
    }
}

#[cfg(test)]
mod tests;
