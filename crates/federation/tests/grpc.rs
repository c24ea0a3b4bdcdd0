//! Host and guests over real sockets: what gets through, and what happens when lines break.

mod house;

use federation::grpc::dial::{HostAddress, dial};
use federation::grpc::{Arrival, Dialled, Limits};
use federation::message::{ToGuest, ToHost};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use house::{
    House, TcpGuest, call, connected, embedding, exchange, hello, lists, next, party, released,
    still_open,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_both_ways() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (line, mut words) = call(&door, house.tls(a.identity(&house)));
    connected(&mut words).await;
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
async fn oversized_messages_end_their_stream_only() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let limits = Limits { message: 1000, ..Limits::default() };
    let (door, mut arrivals) = house.open(accepted, limits).await;
    let (line, mut words) = call(&door, house.tls(a.identity(&house)));
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
    still_open(&house, &door, &mut arrivals, &a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_connection_takes_the_place_of_an_older_one() {
    let house = House::new();
    let a = TcpGuest::new(&house, "fleet-a");
    let (_list, accepted) = watch::channel(lists(&[&a.card]));
    let (door, mut arrivals) = house.open(accepted, Limits::default()).await;
    let (older, mut older_words) = call(&door, house.tls(a.identity(&house)));
    connected(&mut older_words).await;
    assert!(matches!(next(&mut arrivals).await, Arrival::Connected(_)));
    let (_newer, mut newer_words) = call(&door, house.tls(a.identity(&house)));
    connected(&mut newer_words).await;
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
