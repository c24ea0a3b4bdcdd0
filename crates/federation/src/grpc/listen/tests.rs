//! Connections that replace each other.

use super::*;

fn hub() -> Hub {
    let (_, accepted) = watch::channel(Accepted::default());
    Hub {
        accepted,
        limits: Limits::default(),
        arrivals: mpsc::channel(1).0,
        connections: Mutex::default(),
        count: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        traffic: Arc::default(),
        slots: ConnectionLimit::new(1),
        closing: watch::Sender::new(false),
    }
}

fn connection(number: u64) -> GuestConnection {
    GuestConnection { number, outgoing: queue().0, _replaced: watch::Sender::new(()) }
}

/// The end of a replaced connection is not the end of the guest's.
#[test]
fn only_the_end_of_the_newest_connection_is_news() {
    let (hub, guest) = (hub(), PartyId::new("fleet-a").unwrap());
    hub.connections().insert(guest.clone(), connection(0));
    hub.connections().insert(guest.clone(), connection(1));
    assert!(!hub.forget(&guest, 0));
    assert!(hub.connections().contains_key(&guest));
    assert!(hub.forget(&guest, 1));
    assert!(!hub.forget(&guest, 1));
    assert!(hub.connections().is_empty());
}
