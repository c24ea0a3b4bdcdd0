//! A host's house: its authority, its listener, and guests that call.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a program of its own and uses what it needs"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use federation::certificates::{Authority, Issued, NewAuthority, Validity};
use federation::grpc::dial::{HostAddress, HostConnection, dial};
use federation::grpc::identity::read_certificates;
use federation::grpc::listen::{GrpcListener, listen};
use federation::grpc::tls::{guest_side, host_side};
use federation::grpc::{Accepted, Arrival, CertificateInfo, Dialled, Identity, Limits};
use protocol::ledger::{Ledger, MemorySink, Recorded, Released};
use protocol::message::parts::{Embedding, HeldSteps, Text, Values};
use protocol::message::{Exchange, Hello, PROTOCOL, Purpose, ResumeState, Terms, ToHost};
use protocol::{Attempt, Compression, MeasurementOffer, Now, PartyId, Round, RunId};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::ClientConfig;

/// Long enough for any loopback exchange on a busy machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct House {
    pub folder: TempDir,
    pub authority: NewAuthority,
    pub authority_file: PathBuf,
}

impl House {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::create(Validity::days(10)).expect("an authority");
        let authority_file = folder.path().join("authority.pem");
        std::fs::write(&authority_file, &authority.issued.certificate).expect("a file");
        House { folder, authority, authority_file }
    }

    pub fn keep(&self, name: &str, issued: &Issued) -> Identity {
        let (certificate, key) =
            (self.folder.path().join(format!("{name}.pem")), self.folder.path().join(name));
        std::fs::write(&certificate, &issued.certificate).expect("a file");
        std::fs::write(&key, &issued.key).expect("a file");
        own(&key);
        Identity::read(&certificate, &key).expect("an identity")
    }

    pub fn guest(&self, name: &str) -> Identity {
        self.keep(name, &self.authority.guest(name, Validity::days(1)).expect("a guest"))
    }

    pub fn tls(&self, identity: Identity) -> Arc<ClientConfig> {
        guest_side(identity, &read_certificates(&self.authority_file).expect("an authority"))
            .expect("TLS")
    }

    pub async fn open(
        &self,
        accepted: watch::Receiver<Accepted>,
        limits: Limits,
    ) -> (GrpcListener, mpsc::Receiver<Arrival>) {
        let addresses = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let issued = self.authority.host("city", &addresses, Validity::days(1)).expect("a host");
        let identity = self.keep("city", &issued);
        let authority = read_certificates(&self.authority_file).expect("an authority");
        let tls = host_side(identity, &authority).expect("TLS");
        let (sender, arrivals) = mpsc::channel(16);
        let address = "127.0.0.1:0".parse().expect("an address");
        (listen(address, tls, accepted, limits, sender).await.expect("a listener"), arrivals)
    }
}

#[cfg(unix)]
pub fn own(key: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).expect("permissions");
}

#[cfg(not(unix))]
pub fn own(_key: &std::path::Path) {}

pub fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

pub fn lists(infos: &[&CertificateInfo]) -> Accepted {
    infos.iter().fold(Accepted::default(), |accepted, info| {
        accepted.with(info.name.clone(), info.fingerprint)
    })
}

pub fn call(
    listener: &GrpcListener,
    tls: Arc<ClientConfig>,
) -> (HostConnection, mpsc::Receiver<Dialled>) {
    let (sender, arrivals) = mpsc::channel(16);
    let address = HostAddress::new(&format!("localhost:{}", listener.address().port()), None);
    (dial(address.expect("an address"), tls, Limits::default(), sender), arrivals)
}

pub async fn next<T>(arrivals: &mut mpsc::Receiver<T>) -> T {
    tokio::time::timeout(PATIENCE, arrivals.recv())
        .await
        .expect("in time")
        .expect("an open channel")
}

/// Waits until the host has answered; on a busy machine that may take more than one attempt.
pub async fn connected(arrivals: &mut mpsc::Receiver<Dialled>) {
    loop {
        match next(arrivals).await {
            Dialled::Connected => return,
            other => assert!(matches!(other, Dialled::Disconnected(_)), "found {other:?}"),
        }
    }
}

/// Waits for the end of a guest's attempts.
pub async fn refused(arrivals: &mut mpsc::Receiver<Dialled>) -> String {
    loop {
        match next(arrivals).await {
            Dialled::Refused(why) => return why,
            // Some are heard before they are refused, but none gets an answer.
            other => assert!(!matches!(other, Dialled::Message(_)), "found {other:?}"),
        }
    }
}

/// A message that may go to the host.
pub fn released<M: Recorded>(message: M) -> Released<M> {
    released_for(&party("city"), message)
}

/// A message that may go to a party.
pub fn released_for<M: Recorded>(to: &PartyId, message: M) -> Released<M> {
    let mut ledger = Ledger::in_memory(&MemorySink::default(), &party("a")).expect("a ledger");
    ledger.release(Now::default(), to, message).expect("a released message")
}

pub fn exchange() -> Exchange {
    Exchange { run: RunId(7), attempt: Attempt(1), round: Round(3) }
}

pub fn embedding(count: usize) -> ToHost {
    let numbers = (0..count).map(|number| number as f32 / 7.0).collect();
    let embedding = Embedding(Values::new(1, numbers).expect("numbers"));
    ToHost::Embedding { exchange: exchange(), purpose: Purpose::Train, embedding }
}

pub fn hello(name: &str) -> ToHost {
    ToHost::Hello(Box::new(Hello {
        protocol: PROTOCOL,
        software: Text::of("test"),
        party: party(name),
        session: 1,
        greeting: 1,
        terms: Terms {
            network_hash: Text::of("0"),
            step_s: 10.0,
            origin_s: 0.0,
            window: 9,
            compression: Compression::None,
        },
        held: HeldSteps::default(),
        width: 1,
        offer: MeasurementOffer::default(),
        resume_state: ResumeState::default(),
    }))
}

/// Checks that a guest can still connect and be heard.
pub async fn still_open(
    house: &House,
    listener: &GrpcListener,
    arrivals: &mut mpsc::Receiver<Arrival>,
    a: &TcpGuest,
) {
    let (line, mut words) = call(listener, house.tls(a.identity(house)));
    connected(&mut words).await;
    line.send(&released(embedding(5)));
    loop {
        match next(arrivals).await {
            Arrival::Message(from, message) => {
                assert_eq!((from, message), (party(&a.name), embedding(5)));
                return;
            }
            Arrival::Connected(_) | Arrival::Disconnected(..) => {}
        }
    }
}

/// A guest whose identity can be read again.
pub struct TcpGuest {
    pub name: String,
    pub info: CertificateInfo,
}

impl TcpGuest {
    pub fn new(house: &House, name: &str) -> Self {
        TcpGuest { name: name.into(), info: house.guest(name).certificate_info().clone() }
    }

    pub fn identity(&self, house: &House) -> Identity {
        let folder = house.folder.path();
        Identity::read(&folder.join(format!("{}.pem", self.name)), &folder.join(&self.name))
            .expect("an identity")
    }
}
