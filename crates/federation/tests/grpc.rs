//! Host and guests over real sockets: who is let in, who is not, and what gets through.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use federation::certificates::{Authority, Issued, NewAuthority, Validity};
use federation::grpc::dial::{HostAddress, Line, dial};
use federation::grpc::identity::read_certificates;
use federation::grpc::listen::{Door, listen};
use federation::grpc::tls::{guest_side, host_side};
use federation::grpc::{Accepted, Arrival, Card, Dialled, Identity, Limits, Role};
use federation::ledger::{Ledger, MemorySink, Recorded, Released};
use federation::message::parts::{Embedding, HeldSteps, Text, Values};
use federation::message::{Exchange, Hello, Purpose, Standing, Terms, ToGuest, ToHost};
use federation::{Attempt, Now, PartyId, Round, RunId};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::ClientConfig;

/// Long enough for any loopback exchange on a busy machine; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

struct House {
    folder: TempDir,
    authority: NewAuthority,
    authority_file: PathBuf,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::create(Validity::days(10)).expect("an authority");
        let authority_file = folder.path().join("authority.pem");
        std::fs::write(&authority_file, &authority.issued.certificate).expect("a file");
        House { folder, authority, authority_file }
    }

    fn keep(&self, name: &str, issued: &Issued) -> Identity {
        let (certificate, key) =
            (self.folder.path().join(format!("{name}.pem")), self.folder.path().join(name));
        std::fs::write(&certificate, &issued.certificate).expect("a file");
        std::fs::write(&key, &issued.key).expect("a file");
        own(&key);
        Identity::read(&certificate, &key).expect("an identity")
    }

    fn guest(&self, name: &str) -> Identity {
        self.keep(name, &self.authority.guest(name, Validity::days(1)).expect("a guest"))
    }

    fn tls(&self, identity: Identity) -> Arc<ClientConfig> {
        guest_side(identity, &read_certificates(&self.authority_file).expect("an authority"))
            .expect("TLS")
    }

    async fn open(
        &self,
        accepted: watch::Receiver<Accepted>,
        limits: Limits,
    ) -> (Door, mpsc::Receiver<Arrival>) {
        let addresses = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let issued = self.authority.host("city", &addresses, Validity::days(1)).expect("a host");
        let identity = self.keep("city", &issued);
        let authority = read_certificates(&self.authority_file).expect("an authority");
        let tls = host_side(identity, &authority).expect("TLS");
        let (sender, arrivals) = mpsc::channel(16);
        let address = "127.0.0.1:0".parse().expect("an address");
        (listen(address, tls, accepted, limits, sender).await.expect("a door"), arrivals)
    }
}

#[cfg(unix)]
fn own(key: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).expect("permissions");
}

#[cfg(not(unix))]
fn own(_key: &std::path::Path) {}

fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

fn lists(cards: &[&Card]) -> Accepted {
    cards.iter().fold(Accepted::default(), |accepted, card| {
        accepted.with(card.name.clone(), card.fingerprint)
    })
}

fn call(door: &Door, tls: Arc<ClientConfig>) -> (Line, mpsc::Receiver<Dialled>) {
    let (sender, arrivals) = mpsc::channel(16);
    let address = HostAddress::new(&format!("localhost:{}", door.address().port()), None);
    (dial(address.expect("an address"), tls, Limits::default(), sender), arrivals)
}

async fn next<T>(arrivals: &mut mpsc::Receiver<T>) -> T {
    tokio::time::timeout(PATIENCE, arrivals.recv())
        .await
        .expect("in time")
        .expect("an open channel")
}

/// Waits for the end of a guest's attempts.
async fn refused(arrivals: &mut mpsc::Receiver<Dialled>) -> String {
    loop {
        match next(arrivals).await {
            Dialled::Refused(why) => return why,
            // Some are heard before they are refused, but none gets an answer.
            other => assert!(!matches!(other, Dialled::Message(_)), "found {other:?}"),
        }
    }
}

fn released<M: Recorded>(message: M) -> Released<M> {
    let mut ledger = Ledger::in_memory(&MemorySink::default(), &party("a")).expect("a ledger");
    ledger.release(Now::default(), &party("b"), message).expect("a released message")
}

fn exchange() -> Exchange {
    Exchange { run: RunId(7), attempt: Attempt(1), round: Round(3) }
}

fn embedding(count: usize) -> ToHost {
    let numbers = (0..count).map(|number| number as f32 / 7.0).collect();
    let embedding = Embedding(Values::new(1, numbers).expect("numbers"));
    ToHost::Embedding { exchange: exchange(), purpose: Purpose::Train, embedding }
}

fn hello(name: &str) -> ToHost {
    ToHost::Hello(Box::new(Hello {
        protocol: 1,
        software: Text::of("test"),
        party: party(name),
        session: 1,
        greeting: 1,
        terms: Terms { network_hash: Text::of("0"), step_s: 10.0, origin_s: 0.0, window: 9 },
        held: HeldSteps::default(),
        width: 1,
        standing: Standing::default(),
    }))
}

/// Checks that a guest can still connect and be heard.
async fn still_open(
    house: &House,
    door: &Door,
    arrivals: &mut mpsc::Receiver<Arrival>,
    a: &TcpGuest,
) {
    let (line, mut words) = call(door, house.tls(a.identity(house)));
    assert!(matches!(next(&mut words).await, Dialled::Connected));
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
struct TcpGuest {
    name: String,
    card: Card,
}

impl TcpGuest {
    fn new(house: &House, name: &str) -> Self {
        TcpGuest { name: name.into(), card: house.guest(name).card().clone() }
    }

    fn identity(&self, house: &House) -> Identity {
        let folder = house.folder.path();
        Identity::read(&folder.join(format!("{}.pem", self.name)), &folder.join(&self.name))
            .expect("an identity")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_both_ways() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (line, mut words) = call(&door, house.tls(a.identity(&house)));
    assert!(matches!(next(&mut words).await, Dialled::Connected));
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(from) if from == a.card.name));
    // Larger than all windows and frames on the way.
    for message in [hello("fleet-a"), embedding(2_000_000), ToHost::Heartbeat, embedding(1)] {
        line.send(&released(message.clone()));
        let Arrival::Message(from, found) = next(&mut arrivals).await else {
            panic!("expected a message")
        };
        assert_eq!((from, found), (a.card.name.clone(), message));
    }
    let settled = ToGuest::Settled { exchange: exchange(), best: true, trained: false };
    door.send(&a.card.name, &released(settled.clone()));
    assert!(matches!(next(&mut words).await, Dialled::Message(found) if found == settled));
    // To somebody who is not there: dropped.
    door.send(&party("nobody"), &released(ToGuest::Call));
    assert_eq!(door.refused(), 0);
    assert!(door.traffic().received() > 8_000_000);
    line.close().await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Disconnected(..)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused_and_guests_are_not_disturbed() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;

    // Of the right authority, but not in the list.
    let (_line, mut words) = call(&door, house.tls(house.guest("fleet-b")));
    let why = refused(&mut words).await;
    assert!(why.contains("`fleet-b` is not in the host's list of guests"), "{why}");

    // In the list by name, with another certificate.
    let again = house.authority.guest("fleet-a", Validity::days(1)).expect("a guest");
    let (_line, mut words) = call(&door, house.tls(house.keep("again", &again)));
    let why = refused(&mut words).await;
    assert!(why.contains("is not in the host's list of guests"), "{why}");

    // Expired an hour ago, though in time for its clock.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let long_ago = Validity::days_from(now as i64 - 25 * 3600, 1);
    let expired = house.authority.guest("fleet-a", long_ago).expect("a guest");
    let (_line, mut words) = call(&door, house.tls(house.keep("expired", &expired)));
    let why = refused(&mut words).await;
    assert!(why.contains("CertificateExpired"), "{why}");

    // Of another authority, though it trusts ours.
    let other = House::new();
    let (_line, mut words) = call(&door, house.tls(other.guest("fleet-a")));
    let why = refused(&mut words).await;
    assert!(why.contains("refuses our certificate"), "{why}");

    // A host of another authority is refused by the guest.
    let (_line, mut words) = call(&door, other.tls(a.identity(&house)));
    let why = refused(&mut words).await;
    assert!(why.contains("the host's certificate"), "{why}");

    // Its own certificate, another's name.
    let (line, mut words) = call(&door, house.tls(a.identity(&house)));
    assert!(matches!(next(&mut words).await, Dialled::Connected));
    line.send(&released(hello("fleet-b")));
    let why = refused(&mut words).await;
    assert!(why.contains("certificate is of `fleet-a`, the greeting of `fleet-b`"), "{why}");

    // No certificate at all.
    let roots = read_certificates(&house.authority_file).expect("an authority");
    let mut store = tokio_rustls::rustls::RootCertStore::empty();
    store.add(roots[0].clone()).expect("a root");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut nobody = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    nobody.alpn_protocols = vec![b"h2".to_vec()];
    let (_line, mut words) = call(&door, Arc::new(nobody));
    let why = refused(&mut words).await;
    assert!(why.contains("CertificateRequired"), "{why}");

    assert!(door.refused() >= 6, "{}", door.refused());
    still_open(&house, &door, &mut arrivals, &a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_tls_change_nothing() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let limits = Limits { handshake: Duration::from_millis(500), ..Limits::default() };
    let (door, mut arrivals) = house.open(accepted, limits).await;
    let mut random = 1u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let next = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        };
        (0..length).map(next).collect()
    };
    let mut inputs = vec![
        Vec::new(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        // The beginning of a handshake that never goes on, and one that says it is huge.
        vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01],
        vec![0x16, 0x03, 0x01, 0xff, 0xff, 0x01, 0xff, 0xff, 0xff],
    ];
    inputs.extend([1, 5, 100, 10_000, 1_000_000].map(&mut noise));
    for input in inputs {
        let mut stream = TcpStream::connect(door.address()).await.expect("a connection");
        // The host may close while we still write.
        let _ = stream.write_all(&input).await;
        let mut answer = Vec::new();
        // It closes by itself, by an alert or because the handshake takes too long.
        let _ =
            tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time");
        assert!(answer.len() < 100, "found {} bytes, expected a short alert at most", answer.len());
    }
    still_open(&house, &door, &mut arrivals, &a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_messages_end_their_stream_only() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let limits = Limits { message: 1000, ..Limits::default() };
    let (door, mut arrivals) = house.open(accepted, limits).await;
    let (line, mut words) = call(&door, house.tls(a.identity(&house)));
    assert!(matches!(next(&mut words).await, Dialled::Connected));
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(_)));
    line.send(&released(embedding(100_000)));
    let Arrival::Disconnected(_, why) = next(&mut arrivals).await else {
        panic!("expected the end")
    };
    assert!(why.contains("too large"), "{why}");
    assert!(
        matches!(next(&mut words).await, Dialled::Disconnected(why) if why.contains("too large"))
    );
    drop(line);
    still_open(&house, &door, &mut arrivals, &a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revocation_cuts_an_open_connection() {
    let house = House::new();
    let (a, b) = (TcpGuest::new(&house, "fleet-a"), TcpGuest::new(&house, "fleet-b"));
    let file = house.folder.path().join("guests.toml");
    let line_of = |card: &Card| format!("{} = [\"{}\"]\n", card.name, card.fingerprint);
    let both = format!("[guests]\n{}{}", line_of(&a.card), line_of(&b.card));
    std::fs::write(&file, &both).expect("a file");
    let accepted = federation::grpc::accepted::follow(file.clone()).expect("a list");
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (_line_a, mut words_a) = call(&door, house.tls(a.identity(&house)));
    let (line_b, mut words_b) = call(&door, house.tls(b.identity(&house)));
    assert!(matches!(next(&mut words_a).await, Dialled::Connected));
    assert!(matches!(next(&mut words_b).await, Dialled::Connected));

    // A list that cannot be read cuts nobody off, one without the guest does.
    std::fs::write(&file, "[guests\n").expect("a file");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(door.connected(), [party("fleet-a"), party("fleet-b")]);
    std::fs::write(&file, format!("[guests]\n{}", line_of(&b.card))).expect("a file");
    let why = refused(&mut words_a).await;
    assert!(why.contains("not in the host's list"), "{why}");
    line_b.send(&released(embedding(3)));
    loop {
        if let Arrival::Message(from, _) = next(&mut arrivals).await {
            assert_eq!(from, party("fleet-b"));
            break;
        }
    }

    // Back in the list, it may come back.
    std::fs::write(&file, &both).expect("a file");
    loop {
        let (_line, mut words) = call(&door, house.tls(a.identity(&house)));
        match next(&mut words).await {
            Dialled::Connected => break,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_connection_takes_the_place_of_an_older_one() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (older, mut older_words) = call(&door, house.tls(a.identity(&house)));
    assert!(matches!(next(&mut older_words).await, Dialled::Connected));
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(_)));
    let (_newer, mut newer_words) = call(&door, house.tls(a.identity(&house)));
    assert!(matches!(next(&mut newer_words).await, Dialled::Connected));
    assert!(matches!(next(&mut older_words).await, Dialled::Disconnected(_)));
    drop(older);
    door.send(&a.card.name, &released(ToGuest::Call));
    // The older one may have come back once before it was dropped.
    loop {
        match next(&mut newer_words).await {
            Dialled::Message(ToGuest::Call) => break,
            Dialled::Disconnected(_) => {}
            Dialled::Connected => door.send(&a.card.name, &released(ToGuest::Call)),
            found => panic!("found {found:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_dial_again_when_the_host_comes_back() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    // A port that nobody else takes meanwhile is more than loopback can promise, so the guest dials
    // a relay whose other end changes.
    let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("localhost:{}", relay.local_addr().expect("an address").port());
    let (target, targets) = watch::channel(None);
    tokio::spawn(async move {
        while let Ok((mut from, _)) = relay.accept().await {
            let Some(target) = *targets.borrow() else { continue };
            tokio::spawn(async move {
                let mut to =
                    TcpStream::connect::<std::net::SocketAddr>(target).await.expect("the host");
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    let (sender, mut words) = mpsc::channel(16);
    let address = HostAddress::new(&address, None).expect("an address");
    let line = dial(address, house.tls(a.identity(&house)), Limits::default(), sender);
    assert!(matches!(next(&mut words).await, Dialled::Disconnected(_)));
    for _ in 0..2 {
        let (door, mut arrivals) = house.open(accepted.clone(), Limits::default()).await;
        target.send_replace(Some(door.address()));
        while !matches!(next(&mut words).await, Dialled::Connected) {}
        line.send(&released(embedding(2)));
        while !matches!(next(&mut arrivals).await, Arrival::Message(..)) {}
        target.send_replace(None);
        drop(door);
        assert!(matches!(next(&mut words).await, Dialled::Disconnected(_)));
    }
}

#[test]
fn certificates_say_who_and_how_long() {
    let house = House::new();
    let issued = house.authority.guest("fleet-a", Validity::days_from(1_800_000_000, 2)).unwrap();
    let card = house.keep("a", &issued).card().clone();
    assert_eq!((card.role, card.name.as_str()), (Role::Guest, "fleet-a"));
    // From an hour before, for clocks that differ.
    assert_eq!(card.valid_from, 1_800_000_000 - 3600);
    assert_eq!(card.valid_until, 1_800_000_000 + 2 * 86_400);
    // Past 2049 certificates write years with four digits.
    let issued = house.authority.guest("fleet-a", Validity::days_from(2_800_000_000, 2)).unwrap();
    let card = house.keep("b", &issued).card().clone();
    assert_eq!(card.valid_until, 2_800_000_000 + 2 * 86_400);

    // An authority read back from its key signs for the same federation.
    let again = Authority::from_key(&house.authority.issued.key).unwrap();
    let host = again.host("city", &["::1".into()], Validity::days(1)).unwrap();
    assert_eq!(house.keep("c", &host).card().role, Role::Host);
    for (name, address) in [("city", "a b"), ("city", "-a"), ("../city", "a"), ("city", "")] {
        assert!(
            again.host(name, &[address.into()], Validity::days(1)).is_err(),
            "{name} {address}"
        );
    }
    assert!(again.host("city", &[], Validity::days(1)).is_err());
    assert!(again.guest("a", Validity::days(0)).is_err());
    assert!(Authority::from_key("nothing").is_err());
}

#[cfg(unix)]
#[test]
fn keys_that_others_can_read_are_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new();
    house.guest("fleet-a");
    let (certificate, key) =
        (house.folder.path().join("fleet-a.pem"), house.folder.path().join("fleet-a"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Identity::read(&certificate, &key).unwrap_err().to_string();
    assert!(error.contains("found mode 640"), "{error}");
    own(&key);
    // Certificate and key the wrong way round.
    let error = Identity::read(&key, &key).unwrap_err().to_string();
    assert!(error.contains("expected a certificate as PEM"), "{error}");
    own(&certificate);
    let error = Identity::read(&certificate, &certificate).unwrap_err().to_string();
    assert!(error.contains("expected a private key as PEM"), "{error}");
    // For the other side.
    let identity = Identity::read(&certificate, &key).unwrap();
    let roots = read_certificates(&house.authority_file).unwrap();
    let error = host_side(identity, &roots).unwrap_err().to_string();
    assert!(error.contains("found one of a Guest, expected one of a Host"), "{error}");
}
