//! Host and guests over real sockets: what gets through, and what happens when lines break.

#![allow(unreachable_pub)]

mod house;

use data_encoding::HEXLOWER;
use federation::grpc::dial::{HostAddress, dial};
use federation::grpc::{Arrival, Dialled, Limits};
use protocol::ledger::MemorySink;
use protocol::message::parts::{EmbeddingGradient, Values};
use protocol::message::{ToGuest, ToHost};
use protocol::wire::decode_to_host;
use protocol::{Ledger, Now};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use house::{
    House, TcpGuest, call, connected, embedding, exchange, hello, lists, next, party, released,
    released_for, still_open,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_both_ways() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (line, mut words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words).await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(from) if from == a.info.name));
    // Larger than all windows and frames on the way.
    for message in [hello("fleet-a"), embedding(2_000_000), ToHost::Heartbeat, embedding(1)] {
        line.send(&released(message.clone()));
        let Arrival::Message(from, found) = next(&mut arrivals).await else {
            panic!("expected a message")
        };
        assert_eq!((from, found), (a.info.name.clone(), message));
    }
    let settled = ToGuest::ExchangeClosed { exchange: exchange(), best: true, trained: false };
    listener.send(&released_for(&a.info.name, settled.clone()));
    assert!(matches!(next(&mut words).await, Dialled::Message(found) if found == settled));
    // To somebody who is not there: dropped.
    listener.send(&released_for(&party("nobody"), ToGuest::HelloRequest));
    assert_eq!(listener.refused(), 0);
    assert!(listener.traffic().received() > 8_000_000);
    line.close().await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Disconnected(..)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_messages_end_their_stream_only() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let limits = Limits { message: 1000, ..Limits::default() };
    let (listener, mut arrivals) = house.open(accepted, limits).await;
    let (line, mut words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words).await;
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
    still_open(&house, &listener, &mut arrivals, &a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_connection_takes_the_place_of_an_older_one() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (older, mut older_words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut older_words).await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(_)));
    let (_newer, mut newer_words) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut newer_words).await;
    assert!(matches!(next(&mut older_words).await, Dialled::Disconnected(_)));
    drop(older);
    listener.send(&released_for(&a.info.name, ToGuest::HelloRequest));
    // The older one may have come back once before it was dropped.
    loop {
        match next(&mut newer_words).await {
            Dialled::Message(ToGuest::HelloRequest) => break,
            Dialled::Disconnected(_) => {}
            Dialled::Connected => listener.send(&released_for(&a.info.name, ToGuest::HelloRequest)),
            found => panic!("found {found:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_dial_again_when_the_host_comes_back() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
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
        let (listener, mut arrivals) = house.open(accepted.clone(), Limits::default()).await;
        target.send_replace(Some(listener.address()));
        while !matches!(next(&mut words).await, Dialled::Connected) {}
        line.send(&released(embedding(2)));
        while !matches!(next(&mut arrivals).await, Arrival::Message(..)) {}
        target.send_replace(None);
        drop(listener);
        assert!(matches!(next(&mut words).await, Dialled::Disconnected(_)));
    }
}

/// The transport sends a message to the party that the ledger names, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_only_the_party_that_it_was_released_for() {
    let house = House::new();
    let (a, b) = (TcpGuest::new(&house, "fleet-a"), TcpGuest::new(&house, "fleet-b"));
    let (_list, accepted) = watch::channel(lists(&[&a.info, &b.info]));
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (_to_a, mut words_of_a) = call(&listener, house.tls(a.identity(&house)));
    connected(&mut words_of_a).await;
    let address = format!("localhost:{}", listener.address().port());
    let address = HostAddress::new(&address, None).expect("an address").of(party("city"));
    let (sender, mut words_of_b) = mpsc::channel(16);
    let to_b = dial(address, house.tls(b.identity(&house)), Limits::default(), sender);
    connected(&mut words_of_b).await;
    // Each message is followed by one to the other guest: what went astray would come first.
    let closed = ToGuest::ExchangeClosed { exchange: exchange(), best: true, trained: false };
    listener.send(&released_for(&a.info.name, closed.clone()));
    listener.send(&released_for(&b.info.name, ToGuest::HelloRequest));
    let first_of_a = next(&mut words_of_a).await;
    assert!(matches!(first_of_a, Dialled::Message(found) if found == closed));
    let first_of_b = next(&mut words_of_b).await;
    assert!(matches!(first_of_b, Dialled::Message(ToGuest::HelloRequest)), "{first_of_b:?}");
    // The guest knows its host by name, and sends it nothing that was released for another.
    to_b.send(&released_for(&party("town"), embedding(1)));
    to_b.send(&released(embedding(2)));
    loop {
        match next(&mut arrivals).await {
            Arrival::Message(from, message) => {
                assert_eq!((from, message), (b.info.name.clone(), embedding(2)));
                break;
            }
            Arrival::Connected(_) | Arrival::Disconnected(..) => {}
        }
    }
}

/// The bytes on the wire are those whose digest is in the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bytes_on_the_wire_are_those_that_the_ledger_has_hashed() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.info]));
    let (listener, mut arrivals) = house.open(accepted, Limits::default()).await;
    let mut wire = raw::connect(&listener, house.tls(a.identity(&house))).await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(_)));
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &party("city")).expect("a ledger");
    let gradient = EmbeddingGradient(Values::new(2, vec![0.5, -1.25, 3.0, 0.0]).expect("values"));
    let messages = [
        ToGuest::Gradient { exchange: exchange(), gradient },
        ToGuest::ExchangeClosed { exchange: exchange(), best: true, trained: false },
    ];
    for message in messages {
        let released = ledger.release(Now::default(), &a.info.name, message).expect("a line");
        listener.send(&released);
        let bytes = wire.message().await.expect("a stream").expect("a message");
        assert_eq!(bytes, *released.bytes());
        let lines = String::from_utf8(sink.bytes()).expect("text");
        let line: serde_json::Value =
            serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
        assert_eq!(line["to"], a.info.name.as_str());
        assert_eq!(line["digest"], HEXLOWER.encode(&Sha256::digest(&bytes)));
    }
    // The other way: what the guest's ledger has hashed is what the host decodes.
    let released = released(embedding(3));
    assert_eq!(decode_to_host(released.bytes()).expect("a message"), embedding(3));
}

/// A guest that reads messages as bytes.
mod raw {
    use std::sync::Arc;

    use federation::grpc::listen::GrpcListener;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use prost::bytes::{Buf, BufMut, Bytes};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::ClientConfig;
    use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
    use tonic::{Request, Status};

    struct Raw;

    impl Codec for Raw {
        type Encode = Bytes;
        type Decode = Bytes;
        type Encoder = Raw;
        type Decoder = Raw;
        fn encoder(&mut self) -> Raw {
            Raw
        }
        fn decoder(&mut self) -> Raw {
            Raw
        }
    }

    impl Encoder for Raw {
        type Item = Bytes;
        type Error = Status;
        fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
            to.put(item);
            Ok(())
        }
    }

    impl Decoder for Raw {
        type Item = Bytes;
        type Error = Status;
        fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
            Ok(Some(from.copy_to_bytes(from.remaining())))
        }
    }

    struct Http(hyper::client::conn::http2::SendRequest<tonic::body::Body>);

    impl tower_service::Service<hyper::Request<tonic::body::Body>> for Http {
        type Response = hyper::Response<hyper::body::Incoming>;
        type Error = hyper::Error;
        type Future = std::pin::Pin<
            Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send + 'static>,
        >;
        fn poll_ready(
            &mut self,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), hyper::Error>> {
            self.0.poll_ready(context)
        }
        fn call(&mut self, request: hyper::Request<tonic::body::Body>) -> Self::Future {
            Box::pin(self.0.send_request(request))
        }
    }

    pub async fn connect(listener: &GrpcListener, tls: Arc<ClientConfig>) -> Streaming<Bytes> {
        let stream = TcpStream::connect(listener.address()).await.expect("a connection");
        let name = "localhost".try_into().expect("a name");
        let stream = TlsConnector::from(tls).connect(name, stream).await.expect("TLS");
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("HTTP/2");
        tokio::spawn(connection);
        let origin = "https://localhost".parse().expect("an origin");
        let mut client = tonic::client::Grpc::with_origin(Http(sender), origin);
        client.ready().await.expect("a client");
        let path = "/fedtse.v1.Federation/TakePart".parse().expect("a path");
        let silent = Request::new(tokio_stream::pending());
        client.streaming(silent, path, Raw).await.expect("a stream").into_inner()
    }
}
