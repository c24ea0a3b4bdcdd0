//! Parties that cannot or must not train together part with a clear word on both sides.

#![allow(unreachable_pub)]

mod settings;
#[path = "simulation/toy.rs"]
#[allow(dead_code, reason = "the simulation uses more of it")]
mod toy;

use std::collections::VecDeque;

use federation::guest::GuestSettings;
use federation::{
    AbsencePolicy, CheckpointInterval, Event, Guest, GuestEnd, GuestEvent, Host, HostEnd,
    HostSettings, MeasurementBounds, MemoryStore, PartyError, Samples, Store, StoreError, Timing,
};
use protocol::ledger::MemorySink;
use protocol::message::parts::{
    Batch, Embedding, EmbeddingGradient, HeldSteps, StepRange, Text, Values,
};
use protocol::message::{
    Departure, Exchange, Hello, PROTOCOL, Purpose, Resume, ResumeState, StopReason, Terms,
};
use protocol::{
    Attempt, Compression, Ledger, MeasurementOffer, Now, PartyId, Released, Round, RunId, ToGuest,
    ToHost,
};
use traffic::{Step, Window};

use settings::{at, id, terms};
use toy::{ToyGuest, ToyHost, WIDTH, checkpoints, plan, samples};

fn guest_settings() -> GuestSettings {
    GuestSettings {
        party: id("a"),
        host: id("host"),
        software: Text::of("test"),
        session: 1,
        terms: terms(),
        subject: Text::of("test"),
        held: HeldSteps::of((0..10).map(Step)).expect("steps"),
        width: WIDTH as u32,
        measures: MeasurementOffer::default(),
        sharing: Default::default(),
        timing: Timing::default(),
    }
}

fn host_settings() -> HostSettings {
    HostSettings {
        party: id("host"),
        guests: [(id("a"), WIDTH as u32)].into(),
        software: Text::of("test"),
        run: RunId(1),
        terms: terms(),
        subject: Text::of("test"),
        plan: plan(),
        checkpoints: checkpoints(),
        measurement_bounds: MeasurementBounds::default(),
        samples: samples(),
        shuffle: false,
        patience: 5,
        absent: AbsencePolicy::Wait,
        timing: Timing::default(),
    }
}

fn new_guest(settings: GuestSettings) -> Guest<ToyGuest, MemoryStore> {
    let ledger = Ledger::in_memory(&MemorySink::default(), &settings.party).expect("a ledger");
    let party = settings.party.clone();
    let make = Box::new(move |plan: &_| Ok(ToyGuest::new(&party, plan)));
    Guest::new(settings, make, MemoryStore::default(), ledger, at(0)).expect("a guest")
}

fn new_host(settings: HostSettings) -> Result<Host<ToyHost, MemoryStore>, PartyError> {
    let ledger = Ledger::in_memory(&MemorySink::default(), &settings.party).expect("a ledger");
    let guests: Vec<PartyId> = settings.guests.keys().cloned().collect();
    let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(guests.clone())));
    Host::new(settings, make, MemoryStore::default(), ledger, at(0))
}

fn kinds(out: &[Released<ToGuest>]) -> Vec<&'static str> {
    out.iter().map(|message| message.message().kind()).collect()
}

/// One greeting and what the host says to it; then the guest hears that.
fn meet(
    guest: GuestSettings,
    host: HostSettings,
) -> (Guest<ToyGuest, MemoryStore>, Host<ToyHost, MemoryStore>) {
    let (mut guest, mut host) = (new_guest(guest), new_host(host).expect("a host"));
    for hello in guest.tick(at(1)) {
        for answer in host.handle(at(1), &id("a"), hello.into_message()) {
            guest.handle(at(1), answer.into_message());
        }
    }
    (guest, host)
}

#[test]
fn parties_that_do_not_agree_part_with_a_clear_word() {
    let other = |change: fn(&mut Terms)| {
        let mut terms = terms();
        change(&mut terms);
        GuestSettings { terms, ..guest_settings() }
    };
    let cases = [
        (
            other(|terms| terms.network_hash = Text::of("sha256:bb")),
            "network hash: found sha256:bb",
        ),
        (other(|terms| terms.step_s = 5.0), "length of a step, s: found 5, expected 10"),
        (other(|terms| terms.origin_s = 60.0), "beginning of step 0, s: found 60, expected 0"),
        (other(|terms| terms.window = 3), "steps of a window: found 3, expected 9"),
        (
            other(|terms| terms.compression = Compression::Q8),
            "compression: found q8, expected none",
        ),
        (
            GuestSettings { width: 7, ..guest_settings() },
            "numbers of an embedding: found 7, expected 2",
        ),
    ];
    for (settings, expected) in cases {
        let (guest, mut host) = meet(settings, host_settings());
        let Some(GuestEnd::Stopped(error)) = guest.ended() else {
            unreachable!("{expected}: the guest goes on")
        };
        assert!(error.to_string().contains(expected), "{error}");
        let events = host.take_events();
        let refused = events.iter().any(
            |event| matches!(event, Event::Refused(_, reason) if reason.as_str().contains(expected)),
        );
        assert!(refused, "{expected}: {events:?}");
        // The host waits for a better one, and not for ever.
        assert!(host.ended().is_none());
        host.tick(at(2000));
        let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it waits on") };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

fn hello() -> Hello {
    let GuestSettings { party, software, session, terms, held, width, measures: offer, .. } =
        guest_settings();
    let (protocol, greeting, resume_state) = (PROTOCOL, 1, ResumeState::default());
    Hello { protocol, software, party, session, greeting, terms, held, width, offer, resume_state }
}

#[test]
fn another_version_of_the_messages_is_refused() {
    let mut host = new_host(host_settings()).unwrap();
    let hello = Hello { protocol: PROTOCOL + 1, ..hello() };
    let out = host.handle(at(1), &id("a"), ToHost::Hello(Box::new(hello)));
    assert_eq!(kinds(&out), ["refuse"]);
}

#[test]
fn a_guest_that_claims_another_name_or_is_not_expected_is_refused() {
    let mut host = new_host(host_settings()).unwrap();
    let out =
        host.handle(at(1), &id("a"), ToHost::Hello(Box::new(Hello { party: id("b"), ..hello() })));
    assert_eq!(kinds(&out), ["refuse"]);
    let out = host.handle(at(1), &id("c"), ToHost::Heartbeat);
    assert_eq!(kinds(&out), ["refuse"]);
    // The run goes on with the real one.
    let out = host.handle(at(1), &id("a"), ToHost::Hello(Box::new(hello())));
    assert_eq!(kinds(&out), ["welcome", "embedding-request"]);
}

/// A host with a guest that has been asked for its first embedding.
fn asked() -> (Host<ToyHost, MemoryStore>, Exchange, usize) {
    let mut host = new_host(host_settings()).expect("a host");
    let out = host.handle(at(1), &id("a"), ToHost::Hello(Box::new(hello())));
    let asked = out.iter().find_map(|message| match message.message() {
        ToGuest::EmbeddingRequest { exchange, batch, .. } => {
            Some((*exchange, batch.samples().len()))
        }
        _ => None,
    });
    let (exchange, samples) = asked.expect("a query");
    (host, exchange, samples)
}

fn embedding(exchange: Exchange, purpose: Purpose, samples: usize, width: usize) -> ToHost {
    let values = Values::new(width, vec![0.5; samples * width]).expect("values");
    ToHost::Embedding { exchange, purpose, embedding: Embedding(values) }
}

#[test]
fn embeddings_of_another_shape_round_or_purpose_are_refused() {
    let (_, exchange, samples) = asked();
    let next = Exchange { round: exchange.round.next(), ..exchange };
    let wrong = [
        embedding(exchange, Purpose::Train, samples + 1, WIDTH),
        embedding(exchange, Purpose::Train, samples, WIDTH + 1),
        embedding(exchange, Purpose::Validate, samples, WIDTH),
        embedding(next, Purpose::Train, samples, WIDTH),
        ToHost::Checkpointed { exchange: next },
    ];
    for message in wrong {
        let (mut host, ..) = asked();
        let kind = message.kind();
        let out = host.handle(at(2), &id("a"), message);
        assert_eq!(kinds(&out), ["refuse"], "{kind}");
        assert!(host.ended().is_none(), "one guest's fault does not end the run");
    }
    // Another run or attempt is none of ours, and changes nothing.
    for stale in [
        Exchange { attempt: Attempt(99), ..exchange },
        Exchange { run: RunId(99), ..exchange },
        Exchange { round: Round(0), ..exchange },
    ] {
        let (mut host, ..) = asked();
        let out = host.handle(at(2), &id("a"), embedding(stale, Purpose::Train, samples, WIDTH));
        assert!(out.is_empty(), "{stale:?}");
    }
    let (mut host, ..) = asked();
    let out = host.handle(at(2), &id("a"), embedding(exchange, Purpose::Train, samples, WIDTH));
    assert_eq!(kinds(&out), ["gradient", "embedding-request"]);
}

/// What was agreed is what is sent: numbers that are packed otherwise are refused by either side.
#[test]
fn numbers_that_are_packed_otherwise_are_refused() {
    let (mut host, exchange, samples) = asked();
    let values = Compression::F16.pack(WIDTH, vec![0.5; samples * WIDTH]).unwrap();
    let purpose = Purpose::Train;
    let message = ToHost::Embedding { exchange, purpose, embedding: Embedding(values.clone()) };
    let out = host.handle(at(2), &id("a"), message);
    assert_eq!(kinds(&out), ["refuse"]);
    let ToGuest::Refuse { reason, .. } = out[0].message() else { unreachable!("a refusal") };
    let words = "compression of its numbers: found f16, expected none";
    assert!(reason.text.as_str().contains(words), "{reason}");

    let (mut guest, mut host) = (new_guest(guest_settings()), new_host(host_settings()).unwrap());
    let hello = guest.tick(at(1)).remove(0).into_message();
    for answer in host.handle(at(1), &id("a"), hello) {
        guest.handle(at(1), answer.into_message());
    }
    let gradient = EmbeddingGradient(values);
    guest.handle(at(2), ToGuest::Gradient { exchange, gradient });
    let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
    assert!(error.to_string().contains(words), "{error}");
}

/// A small query that is asked again and again does not cost a large answer each time; and an answer
/// that was not asked for again is not sent again.
#[test]
fn embeddings_are_sent_again_only_when_needed() {
    let (mut guest, mut host) = (new_guest(guest_settings()), new_host(host_settings()).unwrap());
    let hello = guest.tick(at(1)).remove(0).into_message();
    let out = host.handle(at(1), &id("a"), hello);
    let ask = out[1].message().clone();
    guest.handle(at(1), out[0].message().clone());
    let embeddings = |out: Vec<Released<ToHost>>| {
        out.iter().filter(|message| message.message().kind() == "embedding").count()
    };
    assert_eq!(embeddings(guest.handle(at(1), ask.clone())), 1);
    // A thousand queries in ten seconds, which is when a host asks again: two answers.
    let resend = Timing::default().resend;
    let mut again = 0;
    for part in 1..=1000 {
        let time = at(1).monotonic + resend * part / 1000;
        again += embeddings(guest.handle(Now { monotonic: time, unix: time }, ask.clone()));
    }
    assert_eq!(again, 2);
    // An hour in which the host says that it is there, and waits for others.
    let mut unasked = 0;
    for second in 20..3600 {
        guest.handle(at(second), ToGuest::Heartbeat);
        unasked += embeddings(guest.tick(at(second)));
    }
    assert_eq!(unasked, 0);
    assert!(guest.ended().is_none());
    assert_eq!(embeddings(guest.handle(at(3600), ask)), 1);
}

#[test]
fn a_host_that_asks_for_what_was_not_announced_gets_nothing() {
    let (mut guest, mut host) = (new_guest(guest_settings()), new_host(host_settings()).unwrap());
    let hello = guest.tick(at(1)).remove(0).into_message();
    let out = host.handle(at(1), &id("a"), hello);
    let welcome = out[0].message().clone();
    let ToGuest::EmbeddingRequest { exchange, purpose, .. } = out[1].message().clone() else {
        unreachable!("a query")
    };
    guest.handle(at(1), welcome);
    let batch = Batch::new([3, 77].map(|step| Window::whole(Step(step))).to_vec()).unwrap();
    let out = guest.handle(
        at(1),
        ToGuest::EmbeddingRequest { exchange, purpose, batch, missing: None, checkpoint: false },
    );
    let [leave] = &out[..] else { unreachable!("{out:?}") };
    // The host learns what kind of trouble it was, and no more.
    let departure = Departure::Failed(StopReason::other("a peer broke the rules"));
    assert_eq!(*leave.message(), ToHost::Leave { session: 1, departure });
    let Some(GuestEnd::Stopped(PartyError::PeerMisbehaved { what, .. })) = guest.ended() else {
        unreachable!("it must stop")
    };
    assert_eq!(what, "it asked for step 77, which was not announced");
}

/// Checkpoints of one model or dataset are never taken for another's, by either side.
#[test]
fn a_folder_of_something_else_is_refused() {
    let (guest_disk, host_disk) = (MemoryStore::default(), MemoryStore::default());
    let open_guest = |subject: &str| {
        let settings = GuestSettings { subject: Text::of(subject), ..guest_settings() };
        let ledger = Ledger::in_memory(&MemorySink::default(), &settings.party).expect("a ledger");
        let make = Box::new(move |plan: &_| Ok(ToyGuest::new(&id("a"), plan)));
        Guest::new(settings, make, guest_disk.clone(), ledger, at(0))
    };
    let open_host = |subject: &str| {
        let settings = HostSettings { subject: Text::of(subject), ..host_settings() };
        let ledger = Ledger::in_memory(&MemorySink::default(), &settings.party).expect("a ledger");
        let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(vec![id("a")])));
        Host::new(settings, make, host_disk.clone(), ledger, at(0))
    };
    let (mut guest, mut host) = (open_guest("rate 20").unwrap(), open_host("rate 20").unwrap());
    let hello = guest.tick(at(1)).remove(0).into_message();
    for answer in host.handle(at(1), &id("a"), hello) {
        guest.handle(at(1), answer.into_message());
    }
    let other = [open_guest("rate 5").err(), open_host("rate 5").err()];
    for error in other.map(|error| error.map(|error| error.to_string()).unwrap_or_default()) {
        assert!(error.contains("(rate 20), expected rate 5; choose another folder"), "{error}");
    }
    assert!(open_guest("rate 20").is_ok() && open_host("rate 20").is_ok());
}

/// One guest's name and words, which may hold paths of its machine, are not told to another.
#[test]
fn guests_hear_nothing_of_each_other() {
    let guests = [(id("a"), WIDTH as u32), (id("fleet-b"), WIDTH as u32)].into();
    let settings = HostSettings { guests, absent: AbsencePolicy::Stop, ..host_settings() };
    let mut host = new_host(settings).unwrap();
    for party in ["a", "fleet-b"] {
        let hello = Hello { party: id(party), ..hello() };
        host.handle(at(1), &id(party), ToHost::Hello(Box::new(hello)));
    }
    let departure = Departure::Failed(StopReason::other("/home/b/run: no space"));
    let out = host.handle(at(2), &id("fleet-b"), ToHost::Leave { session: 1, departure });
    // Those who run the host read all of it.
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it must stop") };
    assert!(error.to_string().contains("fleet-b") && error.to_string().contains("no space"));
    let told: Vec<_> = out.iter().filter(|message| *message.recipient() == id("a")).collect();
    let [message] = told[..] else { unreachable!("{out:?}") };
    let reason = StopReason::other("a guest has been away for too long");
    assert_eq!(*message.message(), ToGuest::Refuse { session: 0, reason });
}

/// Lets a host and its guest speak, until something has happened or a message is about to be lost.
fn train(
    guest: &mut Guest<ToyGuest, MemoryStore>,
    host: &mut Host<ToyHost, MemoryStore>,
    mut until: impl FnMut(&[Event], &ToHost) -> bool,
) {
    let mut to_host: VecDeque<_> = guest.tick(at(1)).into();
    while let Some(message) = to_host.pop_front() {
        let message = message.into_message();
        if until(&host.take_events(), &message) {
            return;
        }
        for answer in host.handle(at(1), &id("a"), message) {
            to_host.extend(guest.handle(at(1), answer.into_message()));
        }
    }
}

/// Where no number of rounds is given, the clock on the wall alone decides: also within the first minute, and for host and guest
/// the same rounds, since the host tells the guest.
#[test]
fn checkpoints_come_by_time() {
    let checkpoints = CheckpointInterval::default();
    assert_eq!((checkpoints.time.as_secs(), checkpoints.rounds), (30, None));
    let mut host = new_host(HostSettings { checkpoints, ..host_settings() }).unwrap();
    let mut guest = new_guest(guest_settings());
    let (mut seconds, mut of_host, mut of_guest) = (1, Vec::new(), Vec::new());
    let mut to_host: VecDeque<_> = guest.tick(at(1)).into();
    while let Some(message) = to_host.pop_front() {
        let message = message.into_message();
        // A round of training takes ten seconds.
        seconds += if message.kind() == "embedding" { 10 } else { 0 };
        // The monotonic clock stands still while parties compute: it does not count.
        let now = Now { monotonic: at(1).monotonic, unix: at(seconds).unix };
        for answer in host.handle(now, &id("a"), message) {
            to_host.extend(guest.handle(now, answer.into_message()));
        }
        of_host.extend(host.take_events().into_iter().filter_map(|event| match event {
            Event::Checkpointed(round) => Some((round, seconds)),
            _ => None,
        }));
        of_guest.extend(guest.take_events().into_iter().filter_map(|event| match event {
            GuestEvent::Checkpointed(round) => Some((round, seconds)),
            GuestEvent::Begun { .. } => None,
        }));
    }
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))));
    // Round 1 begins at 1 s and round n ends at 10 n + 1 s: the first that begins 30 s after the start is round 4, the next
    // that begins 30 s after its end is round 8, which is also the last that trains.
    let expected = [(Round(4), 41), (Round(8), 81)];
    assert_eq!(of_guest, expected);
    // The host stores the end of the estimates, too.
    assert_eq!(of_host, [&expected[..], &[(Round(9), 91)]].concat());
}

/// The model is complete: a guest that does not confirm is not waited for as in training.
#[test]
fn a_lost_goodbye_does_not_hold_up_the_host() {
    let (mut guest, mut host) = (new_guest(guest_settings()), new_host(host_settings()).unwrap());
    train(&mut guest, &mut host, |_, message| message.kind() == "leave");
    let silence = Timing::default().silence.as_secs();
    host.tick(at(silence));
    assert!(host.ended().is_none());
    host.tick(at(1 + silence));
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))));
    assert_eq!(host.unconfirmed().collect::<Vec<_>>(), [&id("a")]);
}

/// Under `skip`, a guest that leaves before it has stored the last state is not waited for.
#[test]
fn a_guest_that_leaves_after_the_last_round_does_not_hold_up_the_host() {
    let settings = || HostSettings {
        absent: AbsencePolicy::Skip,
        samples: Samples { estimate: Vec::new(), ..samples() },
        ..host_settings()
    };
    let mut checkpoints = 0;
    let mut host = new_host(settings()).unwrap();
    train(&mut new_guest(guest_settings()), &mut host, |_, message| {
        checkpoints += usize::from(message.kind() == "checkpointed");
        false
    });
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))));
    let mut host = new_host(settings()).unwrap();
    train(&mut new_guest(guest_settings()), &mut host, |_, message| {
        checkpoints -= usize::from(message.kind() == "checkpointed");
        checkpoints == 0
    });
    assert_eq!(host.run(), Some(RunId(1)));
    let leave = ToHost::Leave { session: 1, departure: Departure::Stopped };
    host.handle(at(2), &id("a"), leave);
    assert!(host.ended().is_none());
    host.tick(at(2 + Timing::default().silence.as_secs()));
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))));
}

/// Checkpoints of an older version are refused by its name.
#[test]
fn run_records_of_another_version_are_refused() {
    for (record, found) in [
        (&br#"{"run": 1, "attempt": 1}"#[..], "found no format"),
        (br#"{"format": "fedtse-run/1", "record": {}}"#, "found format `fedtse-run/1`"),
    ] {
        let mut store = MemoryStore::default();
        store.put_run_record(record).unwrap();
        let ledger = Ledger::in_memory(&MemorySink::default(), &id("host")).expect("a ledger");
        let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(vec![id("a")])));
        let error = Host::new(host_settings(), make, store, ledger, at(0)).err().expect("an error");
        let expected = format!("{found}, expected `fedtse-run/3`; begin a new run in a new folder");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

/// A guest is not sent to a round that it says it does not hold.
#[test]
fn a_welcome_is_not_repeated_to_a_guest_that_cannot_follow_it() {
    let disk = MemoryStore::default();
    let open = || {
        let ledger = Ledger::in_memory(&MemorySink::default(), &id("host")).expect("a ledger");
        let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(vec![id("a")])));
        Host::new(host_settings(), make, disk.clone(), ledger, at(0)).expect("a host")
    };
    let mut kept = None;
    train(&mut new_guest(guest_settings()), &mut open(), |events, _| {
        kept = events.iter().find_map(|event| match event {
            Event::Checkpointed(round) => Some(*round),
            _ => None,
        });
        kept.is_some()
    });
    let kept = kept.expect("a checkpoint");
    let mut host = open();
    let mut greet = |greeting, rounds| {
        let resume_state =
            ResumeState { run: Some(RunId(1)), checkpoints: rounds, in_memory: None };
        let hello = Hello { session: 2, greeting, resume_state, ..hello() };
        let out = host.handle(at(1), &id("a"), ToHost::Hello(Box::new(hello)));
        out.into_iter().find_map(|message| match message.into_message() {
            ToGuest::Welcome(welcome) => Some(welcome.resume),
            _ => None,
        })
    };
    assert_eq!(greet(1, vec![kept]), Some(Resume::AtRound(kept)));
    assert_eq!(greet(2, vec![kept]), Some(Resume::AtRound(kept)));
    assert_eq!(greet(3, Vec::new()), Some(Resume::AtRound(Round::START)));
}

/// A disk that is full when a checkpoint is due.
struct FullStore(MemoryStore);

impl Store for FullStore {
    fn put(&mut self, _: Round, _: &[u8]) -> Result<(), StoreError> {
        let source = std::io::ErrorKind::StorageFull.into();
        Err(StoreError::Io { path: "run".into(), source })
    }
    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError> {
        self.0.get(round)
    }
    fn rounds(&self) -> Result<Vec<Round>, StoreError> {
        self.0.rounds()
    }
    fn forget_after(&mut self, round: Round) -> Result<(), StoreError> {
        self.0.forget_after(round)
    }
    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        self.0.put_run_record(record)
    }
    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.run_record()
    }
}

/// The others hear of it in the same moment, and not when a silence has lasted too long.
#[test]
fn a_full_disk_is_told_to_the_others_at_once() {
    let ledger = |party| Ledger::in_memory(&MemorySink::default(), &id(party)).expect("a ledger");
    let make_host = || Box::new(|_: &_, _: &_| Ok(ToyHost::new(vec![id("a")])));
    let make_guest = || Box::new(|plan: &_| Ok(ToyGuest::new(&id("a"), plan)));
    for host_is_full in [true, false] {
        let store = |full: bool| -> Box<dyn Store> {
            let store = MemoryStore::default();
            if full { Box::new(FullStore(store)) } else { Box::new(store) }
        };
        let settings = HostSettings { absent: AbsencePolicy::Stop, ..host_settings() };
        let store_of_host = store(host_is_full);
        let mut host =
            Host::new(settings, make_host(), store_of_host, ledger("host"), at(0)).unwrap();
        let store_of_guest = store(!host_is_full);
        let mut guest =
            Guest::new(guest_settings(), make_guest(), store_of_guest, ledger("a"), at(0)).unwrap();
        let mut to_host: VecDeque<_> = guest.tick(at(1)).into();
        while let Some(message) = to_host.pop_front() {
            for answer in host.handle(at(1), &id("a"), message.into_message()) {
                to_host.extend(guest.handle(at(1), answer.into_message()));
            }
        }
        let Some(HostEnd::Stopped(at_host)) = host.ended() else { unreachable!("the host waits") };
        let Some(GuestEnd::Stopped(at_guest)) = guest.ended() else { unreachable!("it waits") };
        let (full, told) = if host_is_full { (at_host, at_guest) } else { (at_guest, at_host) };
        assert!(matches!(full, PartyError::Store(_)), "{full}");
        assert!(told.to_string().contains("its checkpoints failed"), "{told}");
    }
}

/// All have checkpoints, but of different rounds: nobody is told that all is well.
#[test]
fn a_run_that_begins_anew_says_so() {
    let disk = MemoryStore::default();
    let open = || {
        let ledger = Ledger::in_memory(&MemorySink::default(), &id("host")).expect("a ledger");
        let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(vec![id("a")])));
        Host::new(host_settings(), make, disk.clone(), ledger, at(0)).expect("a host")
    };
    let mut kept = None;
    train(&mut new_guest(guest_settings()), &mut open(), |events, _| {
        kept = kept.or(events.iter().find_map(|event| match event {
            Event::Checkpointed(round) => Some(*round),
            _ => None,
        }));
        kept.is_some()
    });
    let kept = kept.expect("a checkpoint");
    let mut host = open();
    let resume_state = ResumeState { run: Some(RunId(1)), checkpoints: vec![], in_memory: None };
    let hello = Hello { session: 2, resume_state, ..hello() };
    host.handle(at(1), &id("a"), ToHost::Hello(Box::new(hello)));
    let events = host.take_events();
    assert!(events.contains(&Event::Restarted(kept)), "{events:?}");
    // The first beginning is none.
    let mut host = new_host(host_settings()).unwrap();
    host.handle(at(1), &id("a"), ToHost::Hello(Box::new(self::hello())));
    assert!(!host.take_events().iter().any(|event| matches!(event, Event::Restarted(_))));
}

/// Batches hold only samples that all parties have; without any the run ends with a word.
#[test]
fn only_samples_that_all_hold_are_asked_for() {
    let some = |ranges: &[(i64, i64)]| {
        let ranges = ranges.iter().map(|&(first, last)| StepRange { first, last }).collect();
        GuestSettings { held: HeldSteps::new(ranges).unwrap(), ..guest_settings() }
    };
    let mut guest = new_guest(some(&[(1, 2), (5, 7)]));
    let mut host = new_host(host_settings()).unwrap();
    let hello = guest.tick(at(1)).remove(0).into_message();
    let out = host.handle(at(1), &id("a"), hello);
    let ToGuest::EmbeddingRequest { batch, .. } = out[1].message() else { unreachable!("a query") };
    assert_eq!(batch.samples(), [1, 2].map(|step| Window::whole(Step(step))));

    let (guest, host) = meet(some(&[(100, 200)]), host_settings());
    assert!(matches!(host.ended(), Some(HostEnd::Stopped(_))));
    assert!(matches!(guest.ended(), Some(GuestEnd::Stopped(_))));
}

#[test]
fn settings_that_nobody_could_follow_are_refused() {
    let with = |change: fn(&mut HostSettings)| {
        let mut settings = host_settings();
        change(&mut settings);
        new_host(settings).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(with(|s| s.timing.heartbeat = s.timing.silence).contains("heartbeat: found 60 s"));
    assert!(with(|s| s.guests.clear()).contains("guests: found none"));
    assert!(with(|s| s.plan.batch = 0).contains("batch: found 0"));
    assert!(with(|s| s.plan.local.count = 0).contains("local updates: found 0"));
    assert!(with(|s| s.plan.optimiser.rate = f32::NAN).contains("learning rate: found NaN"));
    assert!(with(|s| s.plan.optimiser.average = Some(1.0)).contains("average of weights: found 1"));
    assert!(with(|s| s.guests = [(id("a"), u32::MAX)].into()).contains("batch: found 2 samples"));
}
