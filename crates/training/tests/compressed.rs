//! Compressed runs: over the network as in memory, bit for bit; and what they lose.

mod corridor;
#[path = "../../federation/tests/house/mod.rs"]
mod house;

use std::collections::BTreeMap;

use estimator::SubModel;
use federation::grpc::dial::{HostAddress, dial};
use federation::grpc::drive::{Clock, Inputs, Watch, WatchGuest, drive};
use federation::grpc::identity::read_certificates;
use federation::grpc::{
    GuestCertificates, Heads, Identity, Limits, SigningKey, listen::GrpcListener,
};
use federation::host::HostEnd;
use federation::{Host, HostModel, Store, memory};
use protocol::{Compression, LocalUpdates, PartyId};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use corridor::{GuestParty, HostParty, packed_parties, plan, shape};
use house::{House, TcpGuest, lists};

/// All weights, and the validation losses.
type Outcome = (BTreeMap<String, Vec<u32>>, Vec<f64>);

fn outcome(host: HostParty, guests: BTreeMap<PartyId, GuestParty>) -> Outcome {
    let bits = |weights: &[f32]| weights.iter().map(|weight| weight.to_bits()).collect();
    let losses = host.history().iter().map(|epoch| epoch.validation).collect();
    let host = host.into_model().expect("a model");
    let mut weights = BTreeMap::from([("city".to_owned(), bits(host.host_model().best()))]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), bits(guest.sub_model().best()));
    }
    (weights, losses)
}

fn new_parties(compression: Compression) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    packed_parties(&shape(2), &plan(LocalUpdates::default()), compression)
}

fn in_memory(compression: Compression) -> (Outcome, u64) {
    let (mut host, mut guests) = new_parties(compression);
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let bytes = guests.values().map(|guest| guest.ledger().released_bytes()).sum::<u64>();
    let bytes = bytes + host.ledger().released_bytes();
    (outcome(host, guests), bytes)
}

struct Nobody;

impl<M: HostModel, S: Store> Watch<Host<M, S>> for Nobody {
    fn look(&mut self, _: &mut Host<M, S>) {}
}

/// Countersignatures of a ledger in a folder of its own; a guest names its host.
fn heads(house: &House, party: &PartyId, host: Option<&PartyId>, identity: &Identity) -> Heads {
    let authority = read_certificates(&house.authority_file).expect("an authority");
    let verifier = match host {
        Some(_) => GuestCertificates::of_hosts(&authority),
        None => GuestCertificates::new(&authority, None),
    };
    let keys = (SigningKey::of(identity).expect("a key"), verifier.expect("certificates"));
    let folder = house.folder.path().join(format!("ledger-of-{party}"));
    std::fs::create_dir(&folder).expect("a folder");
    Heads::open(&folder.join("ledger.jsonl"), (party, host), keys).expect("heads")
}

fn over_the_network(compression: Compression) -> Outcome {
    let (mut host, mut guests) = new_parties(compression);
    let runtime = Runtime::new().expect("threads");
    let house = House::new();
    let callers: BTreeMap<_, _> =
        guests.keys().map(|party| (party.clone(), TcpGuest::new(&house, party.as_str()))).collect();
    let infos: Vec<_> = callers.values().map(|caller| &caller.info).collect();
    let (_list, accepted) = watch::channel(lists(&infos));
    let (listener, arrivals): (GrpcListener, _) =
        runtime.block_on(house.open(accepted, Limits::default()));
    let address = format!("localhost:{}", listener.address().port());
    let (_stop, stop) = watch::channel(None);
    std::thread::scope(|scope| {
        for (party, guest) in &mut guests {
            let identity = callers[party].identity(&house);
            let city = PartyId::new("city").expect("a name");
            let mut heads = heads(&house, party, Some(&city), &identity);
            let tls = house.tls(identity);
            let host = HostAddress::new(&address, None).expect("an address");
            let host = host.of(city);
            let (stop, runtime) = (stop.clone(), &runtime);
            scope.spawn(move || {
                let (sender, words) = mpsc::channel(16);
                let entered = runtime.enter();
                let line = dial(host, tls, Limits::default(), sender);
                drop(entered);
                let (handle, clock) = (runtime.handle(), Clock::start());
                let mut inputs = Inputs::new(words, stop);
                let mut nobody = WatchGuest::new(|_: &mut _, _| {});
                drive(handle, &clock, (guest, &mut heads), &line, &mut inputs, &mut nobody)
                    .expect("to be let in");
                runtime.block_on(line.close());
            });
        }
        let clock = Clock::start();
        let mut inputs = Inputs::new(arrivals, stop);
        let city = PartyId::new("city").expect("a name");
        let files = ["city.pem", "city"].map(|name| house.folder.path().join(name));
        let identity = Identity::read(&files[0], &files[1]).expect("an identity");
        let mut heads = heads(&house, &city, None, &identity);
        let party = (&mut host, &mut heads);
        drive(runtime.handle(), &clock, party, &listener, &mut inputs, &mut Nobody)
            .expect("a host");
        assert!(matches!(host.ended(), Some(HostEnd::Finished(_))));
        runtime.block_on(listener.close());
    });
    outcome(host, guests)
}

#[test]
fn over_the_network_as_in_memory() {
    for compression in [Compression::None, Compression::F16, Compression::Q8] {
        assert_eq!(over_the_network(compression), in_memory(compression).0, "{compression:?}");
    }
}

/// 16 and 8 bits are other weights, nearly as good, in a half and a quarter of the bytes. Losses of this
/// small run differ by less than one part in a hundred.
#[test]
fn compression_costs_little_and_saves_bytes() {
    let ((plain, losses), bytes) = in_memory(Compression::None);
    for (compression, share) in [(Compression::F16, 0.5), (Compression::Q8, 0.25)] {
        let ((weights, found), fewer) = in_memory(compression);
        assert_ne!(weights, plain);
        let (last, expected) = (found.last().copied(), losses.last().copied());
        let (last, expected) = (last.expect("an epoch"), expected.expect("an epoch"));
        assert!((last / expected - 1.0).abs() < 0.01, "{last} beside {expected}");
        // Requests, handshakes and, with 8 bits, a step of 4 bytes for each column of 20 samples.
        let saved = fewer as f64 / bytes as f64;
        assert!((share..share * 1.35).contains(&saved), "{compression:?}: {saved} of the bytes");
    }
}
