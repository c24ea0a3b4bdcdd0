//! Who is let in over real sockets, and who is not.

#![allow(unreachable_pub)]

mod house;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use federation::certificates::{Authority, Validity};
use federation::grpc::dial::{HostAddress, dial};
use federation::grpc::identity::read_certificates;
use federation::grpc::listen::GrpcListener;
use federation::grpc::tls::host_side;
use federation::grpc::{Arrival, CertificateInfo, Dialled, Identity, Limits, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::ClientConfig;

use house::{
    House, PATIENCE, TcpGuest, call, connected, embedding, hello, lists, next, own, party, refused,
    released, still_open,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused_and_guests_are_not_disturbed() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;

    // Of the right authority, but not in the list.
    let (_line, mut words) = call(&listener, house.tls(house.guest("fleet-b")));
    let why = refused(&mut words).await;
    assert!(why.contains("`fleet-b` is not in the host's list of guests"), "{why}");

    // In the list by name, with another certificate.
    let again = house.authority.guest("fleet-a", Validity::days(1)).expect("a guest");
    let (_line, mut words) = call(&listener, house.tls(house.keep("again", &again)));
    let why = refused(&mut words).await;
    assert!(why.contains("is not in the host's list of guests"), "{why}");

    // Expired an hour ago, though in time for its clock.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let long_ago = Validity::days_from(now as i64 - 25 * 3600, 1);
    let expired = house.authority.guest("fleet-a", long_ago).expect("a guest");
    let (_line, mut words) = call(&listener, house.tls(house.keep("expired", &expired)));
    let why = refused(&mut words).await;
    assert!(why.contains("CertificateExpired"), "{why}");

    // Of another authority, though it trusts ours.
    let other = House::new();
    let (_line, mut words) = call(&listener, house.tls(other.guest("fleet-a")));
    let why = refused(&mut words).await;
    assert!(why.contains("refuses our certificate"), "{why}");

    // A host of another authority gets nothing from the guest. Before a host has proven who it is it
    // could be anybody, so the guest goes on dialling.
    let (_line, mut words) = call(&listener, other.tls(a.identity(&house)));
    for _ in 0..2 {
        let Dialled::Disconnected(why) = next(&mut words).await else {
            panic!("expected to be disconnected")
        };
        assert!(why.contains("the host's certificate"), "{why}");
    }

    // Its own certificate, another's name.
    let (line, mut words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words).await;
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
    let (_line, mut words) = call(&listener, Arc::new(nobody));
    let why = refused(&mut words).await;
    assert!(why.contains("CertificateRequired"), "{why}");

    assert!(listener.refused() >= 6, "{}", listener.refused());
    still_open(&house, &listener, &mut arrivals, &a).await;
}

/// Whoever has the authority's key, or has misled it, has a certificate for the host's name; a guest that knows the host's own
/// accepts no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_knows_the_hosts_certificate_accepts_no_other() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let dialled = |listener: &GrpcListener, certificate| {
        let (sender, words) = mpsc::channel(16);
        let address = HostAddress::new(&format!("localhost:{}", listener.address().port()), None);
        let address = address.expect("an address").with_certificate(Some(certificate));
        (dial(address, house.tls(a.identity(&house)), Limits::default(), sender), words)
    };
    let shown = || {
        let certificates =
            read_certificates(&house.folder.path().join("city.pem")).expect("a certificate");
        CertificateInfo::of(&certificates[0]).expect("a host").fingerprint
    };
    let (listener, _arrivals) = house.open(accepted.clone(), Limits::default()).await;
    let known = shown();
    let (_line, mut words) = dialled(&listener, known);
    connected(&mut words).await;
    // The same name, of the same authority.
    let (other, _arrivals) = house.open(accepted, Limits::default()).await;
    assert_ne!(shown(), known);
    let (_line, mut words) = dialled(&other, known);
    let why = refused(&mut words).await;
    assert!(why.contains(&format!("found {}, expected {known}", shown())), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_tls_change_nothing() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let limits = Limits { handshake: Duration::from_secs(3), ..Limits::default() };
    let (listener, mut arrivals) = house.open(accepted, limits).await;
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
    // All at once: some are heard to the end of their time.
    let mut connections = tokio::task::JoinSet::new();
    for input in inputs {
        connections.spawn(send_malformed(listener.address(), input));
    }
    connections.join_all().await;
    still_open(&house, &listener, &mut arrivals, &a).await;
}

/// Says something to the host and listens until it hangs up.
async fn send_malformed(host: SocketAddr, input: Vec<u8>) {
    let mut stream = TcpStream::connect(host).await.expect("a connection");
    // The host may close while we still write.
    let _ = stream.write_all(&input).await;
    let mut answer = Vec::new();
    // It closes by itself, by an alert or because the handshake takes too long.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time");
    assert!(answer.len() < 100, "found {} bytes, expected a short alert at most", answer.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revocation_cuts_an_open_connection() {
    let house = House::new();
    let (a, b) = (TcpGuest::new(&house, "fleet-a"), TcpGuest::new(&house, "fleet-b"));
    let file = house.folder.path().join("guests.toml");
    let line_of = |info: &CertificateInfo| format!("{} = [\"{}\"]\n", info.name, info.fingerprint);
    let both = format!("[guests]\n{}{}", line_of(&a.info), line_of(&b.info));
    std::fs::write(&file, &both).expect("a file");
    let accepted = federation::grpc::accepted::follow(file.clone()).expect("a list");
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (_line_a, mut words_a) = call(&listener, house.tls(a.identity(&house)));
    let (line_b, mut words_b) = call(&listener, house.tls(b.identity(&house)));
    connected(&mut words_a).await;
    connected(&mut words_b).await;

    std::fs::write(&file, format!("[guests]\n{}", line_of(&b.info))).expect("a file");
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
    comes_in(&house, &listener, &a).await;
}

/// Strangers who connect and say nothing do not keep guests out, nor push those out who are in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_strangers_does_not_keep_guests_out() {
    let house = House::new();
    let (a, b) = (TcpGuest::new(&house, "fleet-a"), TcpGuest::new(&house, "fleet-b"));
    let (_list, accepted) = watch::channel(lists(&[&a.info, &b.info]));
    // Nobody gives up by itself before the test is over.
    let handshake = 10 * PATIENCE;
    let limits = Limits { connections: 3, handshake, ..Limits::default() };
    let (listener, mut arrivals) = house.open(accepted, limits).await;
    let (line, mut words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words).await;
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(TcpStream::connect(listener.address()).await.expect("a connection"));
    }
    still_open(&house, &listener, &mut arrivals, &b).await;
    // The first ones of the crowd had to make room.
    let mut answer = Vec::new();
    let end = tokio::time::timeout(PATIENCE, crowd[0].read_to_end(&mut answer)).await;
    let _ = end.expect("its place was taken");
    // The guest that was in all the time still is.
    line.send(&released(embedding(7)));
    loop {
        if let Arrival::Message(from, message) = next(&mut arrivals).await
            && from == party("fleet-a")
        {
            assert_eq!(message, embedding(7));
            break;
        }
    }
    assert!(words.try_recv().is_err());
}

/// A host of the same authority, but not the one that the guest was told to trust.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_another_name_is_refused_by_the_guest() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, _arrivals) = house.open(accepted, Limits::default()).await;
    let dial_as = |name: &str| {
        let address = HostAddress::new(&format!("localhost:{}", listener.address().port()), None);
        let (sender, words) = mpsc::channel(16);
        let address = address.expect("an address").of(party(name));
        (dial(address, house.tls(a.identity(&house)), Limits::default(), sender), words)
    };
    let (_line, mut words) = dial_as("town");
    let why = refused(&mut words).await;
    assert!(why.contains("found that of `city`, expected that of host `town`"), "{why}");
    let (_line, mut words) = dial_as("city");
    connected(&mut words).await;
}

/// Whoever is on the way can answer a first word with an alert: that is no reason to give up for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_alert_does_not_end_a_guest() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, _arrivals) = house.open(accepted, Limits::default()).await;
    let between = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("localhost:{}", between.local_addr().expect("an address").port());
    let target = listener.address();
    tokio::spawn(async move {
        // Fatal alerts, unencrypted: bad certificate, unknown authority, access denied, version; then
        // plain noise, and nothing.
        let forged: [&[u8]; 6] = [
            &[0x15, 3, 3, 0, 2, 2, 42],
            &[0x15, 3, 3, 0, 2, 2, 48],
            &[0x15, 3, 3, 0, 2, 2, 49],
            &[0x15, 3, 3, 0, 2, 2, 70],
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"",
        ];
        for answer in forged {
            let (mut stream, _) = between.accept().await.expect("a guest");
            stream.write_all(answer).await.expect("an answer");
            let _ = stream.shutdown().await;
        }
        while let Ok((mut from, _)) = between.accept().await {
            let mut to = TcpStream::connect(target).await.expect("the host");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
        }
    });
    let (sender, mut words) = mpsc::channel(16);
    let address = HostAddress::new(&address, None).expect("an address");
    let _line = dial(address, house.tls(a.identity(&house)), Limits::default(), sender);
    connected(&mut words).await;
}

/// A connection does not outlive its certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_expires_cuts_an_open_connection() {
    let house = House::new();
    // Long enough to connect, on a slow machine at the second or third time.
    for seconds in [3, 12, 48] {
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let almost_a_day_ago = unix.as_secs() as i64 - 24 * 3600 + seconds;
        let issued = house.authority.guest("fleet-a", Validity::days_from(almost_a_day_ago, 1));
        let identity = house.keep("fleet-a", &issued.expect("a guest"));
        let (_list, accepted) = watch::channel(lists(&[identity.certificate_info()]));
        let (listener, _arrivals) = house.open(accepted, Limits::default()).await;
        let (_line, mut words) = call(&listener, house.tls(identity));
        let first = loop {
            match next(&mut words).await {
                Dialled::Disconnected(_) => {}
                other => break other,
            }
        };
        if matches!(first, Dialled::Connected) {
            let why = refused(&mut words).await;
            assert!(why.contains("has expired"), "{why}");
            return;
        }
    }
    panic!("expected a connection before the certificate expires");
}

/// The list is a pipe for once: whoever opens it to write knows that the host has come to read.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_cannot_be_read_cuts_nobody_off() {
    let house = House::new();
    let (a, b) = (TcpGuest::new(&house, "fleet-a"), TcpGuest::new(&house, "fleet-b"));
    let path = |name: &str| house.folder.path().join(name);
    let list = format!("[guests]\nfleet-a = [\"{}\"]\n", a.info.fingerprint);
    std::fs::write(path("guests.toml"), &list).expect("a file");
    let accepted = federation::grpc::accepted::follow(path("guests.toml")).expect("a list");
    let (listener, _arrivals) = house.open(accepted, Limits::default()).await;
    let (_line, mut words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words).await;

    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().expect("mkfifo");
    assert!(made.success());
    std::fs::rename(path("pipe"), path("guests.toml")).expect("a pipe");
    let opening = std::fs::File::options().write(true).clone();
    let pipe = path("guests.toml");
    let opened = tokio::task::spawn_blocking(move || opening.open(pipe)).await;
    let mut pipe = opened.expect("the end of it").expect("a pipe");
    // Next time it finds a file again, with one guest more.
    let longer = format!("{list}fleet-b = [\"{}\"]\n", b.info.fingerprint);
    std::fs::write(path("longer"), longer).expect("a file");
    std::fs::rename(path("longer"), path("guests.toml")).expect("a file");
    std::io::Write::write_all(&mut pipe, b"[guests\n").expect("half a list");
    drop(pipe);
    comes_in(&house, &listener, &b).await;
    // What came before that has had its effect: none.
    assert!(words.try_recv().is_err());
    assert_eq!(listener.connected()[0], party("fleet-a"));
}

/// Dials until the host has read that the guest may come.
async fn comes_in(house: &House, listener: &GrpcListener, guest: &TcpGuest) {
    loop {
        let (_line, mut words) = call(listener, house.tls(guest.identity(house)));
        match next(&mut words).await {
            Dialled::Connected => return,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

#[test]
fn certificates_say_who_and_how_long() {
    let house = House::new();
    let issued = house.authority.guest("fleet-a", Validity::days_from(1_800_000_000, 2)).unwrap();
    let info = house.keep("a", &issued).certificate_info().clone();
    assert_eq!((info.role, info.name.as_str()), (Role::Guest, "fleet-a"));
    // From an hour before, for clocks that differ.
    assert_eq!(info.valid_from, 1_800_000_000 - 3600);
    assert_eq!(info.valid_until, 1_800_000_000 + 2 * 86_400);
    // Past 2049 certificates write years with four digits.
    let issued = house.authority.guest("fleet-a", Validity::days_from(2_800_000_000, 2)).unwrap();
    let info = house.keep("b", &issued).certificate_info().clone();
    assert_eq!(info.valid_until, 2_800_000_000 + 2 * 86_400);

    // An authority read back from its key signs for the same federation.
    let again = Authority::from_key(&house.authority.issued.key).unwrap();
    let host = again.host("city", &["::1".into()], Validity::days(1)).unwrap();
    assert_eq!(house.keep("c", &host).certificate_info().role, Role::Host);
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
