//! Host and guests on a simulated network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use federation::certificates::{Authority, Issued, Validity};
use federation::grpc::identity::read_certificates;
use federation::grpc::{GuestCertificates, Identity, SigningKey};
use federation::sums::{
    BlockSum, SumEvent, SumGuest, SumGuestSettings, SumHost, SumHostSettings, SumRows, SumTrust,
};
use federation::{AbsencePolicy, MemoryStore, ModelFailure, PartyError, Timing};
use protocol::ledger::{MemorySink, SumRecords};
use protocol::message::parts::{HeldSteps, StepRange, Text};
use protocol::message::sums::{Block, SumPlan, SumTerms};
use protocol::wire::{decode_to_guest, decode_to_host};
use protocol::{Ledger, Now, PartyId, RunId};
use seeded::SplitMix64;
use tempfile::TempDir;

/// Steps that are summed: runs apart, each of which is a block.
pub(crate) const BLOCKS: [(i64, i64); 4] = [(0, 4), (10, 10), (20, 26), (40, 41)];
/// Numbers of a row.
pub(crate) const WIDTH: usize = 3;
const TICK: Duration = Duration::from_millis(20);
/// No schedule takes longer.
const MOST_TICKS: usize = 20_000;

/// How often something happens to a message, or to a party in a tick.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub lost: f64,
    pub twice: f64,
    pub late: f64,
    /// An earlier message of the same way comes again.
    pub replayed: f64,
    pub guest_crash: f64,
    pub host_crash: f64,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self { lost: 0.0, twice: 0.0, late: 0.0, replayed: 0.0, guest_crash: 0.0, host_crash: 0.0 }
    }
}

pub(crate) fn party(name: &str) -> PartyId {
    PartyId::new(name).unwrap()
}

pub(crate) fn name(number: usize) -> PartyId {
    party(&format!("guest-{number:02}"))
}

/// An authority and its guests, made once.
pub(crate) struct Certificates {
    folder: TempDir,
    identities: BTreeMap<PartyId, (String, String)>,
}

pub(crate) fn certificates() -> &'static Certificates {
    static MADE: OnceLock<Certificates> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(Validity::days(10)).unwrap();
        std::fs::write(folder.path().join("authority.pem"), &authority.issued.certificate).unwrap();
        let mut identities = BTreeMap::new();
        for party in (0..16).map(name) {
            let issued = authority.guest(party.as_str(), Validity::days(10)).unwrap();
            let Issued { certificate, key } = issued;
            let files = ["pem", "key"].map(|end| format!("{party}.{end}"));
            std::fs::write(folder.path().join(&files[0]), certificate).unwrap();
            durable::write_private(&folder.path().join(&files[1]), key.as_bytes()).unwrap();
            identities.insert(party, (files[0].clone(), files[1].clone()));
        }
        Certificates { folder, identities }
    })
}

impl Certificates {
    pub(crate) fn verifier(&self) -> GuestCertificates {
        let authority = read_certificates(&self.folder.path().join("authority.pem")).unwrap();
        GuestCertificates::new(&authority, None).unwrap()
    }

    pub(crate) fn key(&self, party: &PartyId) -> SigningKey {
        let (certificate, key) = &self.identities[party];
        let file = |name: &str| self.folder.path().join(name);
        let identity = Identity::read(&file(certificate), &file(key)).unwrap();
        SigningKey::of(&identity).unwrap()
    }
}

/// What a guest adds: other words for each guest, step and column.
pub(crate) fn word(guest: &PartyId, step: i64, column: usize) -> u64 {
    let number: u64 = guest.as_str().bytes().map(u64::from).fold(7, |a, b| a.wrapping_mul(31) ^ b);
    seeded::mix(number ^ seeded::mix(step as u64 ^ ((column as u64) << 48)))
}

struct Rows(PartyId);

impl SumRows for Rows {
    fn prepare(&mut self, plan: &SumPlan) -> Result<(), ModelFailure> {
        assert_eq!(plan.width as usize, WIDTH);
        Ok(())
    }
    fn rows(&mut self, block: Block) -> Result<Vec<u64>, ModelFailure> {
        let row = |step: traffic::Step| (0..WIDTH).map(move |column| (step, column));
        let words = block.steps().flat_map(row);
        Ok(words.map(|(step, column)| word(&self.0, step.0, column)).collect())
    }
}

pub(crate) fn terms() -> SumTerms {
    SumTerms { network_hash: Text::of("network"), step_s: 10.0, run: None }
}

pub(crate) fn plan() -> SumPlan {
    SumPlan {
        terms: terms(),
        folds: 1,
        cells: 0,
        movements: false,
        queues: false,
        width: WIDTH as u32,
        training: StepRange { first: 0, last: 20 },
    }
}

fn held() -> HeldSteps {
    let range = |(first, last)| StepRange { first, last };
    HeldSteps::new(BLOCKS.map(range).to_vec()).unwrap()
}

fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing { resend: ms(200), heartbeat: ms(100), silence: ms(1000), limit: ms(60_000) }
}

pub(crate) fn guest(party: &PartyId, session: u64, least: usize, records: &Path) -> SumGuest {
    let settings = SumGuestSettings {
        party: party.clone(),
        host: self::party("city"),
        software: Text::of("test"),
        session,
        terms: terms(),
        held: held(),
        folds: 1,
        least,
        timing: timing(),
    };
    let trust = SumTrust {
        credentials: Box::new(certificates().key(party)),
        verifier: Box::new(certificates().verifier()),
        records: SumRecords::open(records).unwrap(),
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), party).unwrap();
    SumGuest::new(settings, trust, Box::new(Rows(party.clone())), ledger, Now::default()).unwrap()
}

enum Letter {
    ToHost(PartyId, Arc<[u8]>),
    ToGuest(PartyId, Arc<[u8]>),
}

impl Letter {
    fn again(&self) -> Self {
        match self {
            Self::ToHost(party, bytes) => Self::ToHost(party.clone(), Arc::clone(bytes)),
            Self::ToGuest(party, bytes) => Self::ToGuest(party.clone(), Arc::clone(bytes)),
        }
    }
}

/// See the [module](self).
pub(crate) struct World {
    folder: TempDir,
    random: SplitMix64,
    faults: Faults,
    absent: AbsencePolicy,
    now: Duration,
    store: MemoryStore,
    host: SumHost<MemoryStore>,
    /// None while it is down for good.
    guests: BTreeMap<PartyId, Option<SumGuest>>,
    all: BTreeSet<PartyId>,
    sessions: u64,
    /// By the tick in which they arrive.
    on_the_way: Vec<(usize, Letter)>,
    delivered: Vec<Letter>,
    gone: Option<(usize, PartyId)>,
    without: Vec<(Block, Vec<PartyId>)>,
}

impl World {
    pub(crate) fn new(guests: usize, absent: AbsencePolicy, faults: Faults, seed: u64) -> Self {
        let all: BTreeSet<PartyId> = (0..guests).map(name).collect();
        let store = MemoryStore::default();
        let folder = tempfile::tempdir().unwrap();
        let host = host(&all, absent, store.clone(), Duration::ZERO);
        let mut world = Self {
            folder,
            random: SplitMix64::new(seed),
            faults,
            absent,
            now: Duration::ZERO,
            store,
            host,
            guests: BTreeMap::new(),
            all: all.clone(),
            sessions: 0,
            on_the_way: Vec::new(),
            delivered: Vec::new(),
            gone: None,
            without: Vec::new(),
        };
        for party in all {
            let guest = world.start(&party);
            world.guests.insert(party, Some(guest));
        }
        world
    }

    /// The first guest is down for good after so many ticks.
    pub(crate) fn gone_after(&mut self, tick: usize) -> PartyId {
        let party = name(0);
        self.gone = Some((tick, party.clone()));
        party
    }

    fn start(&mut self, party: &PartyId) -> SumGuest {
        self.sessions += 1;
        // Over a single guest only a guest that says so.
        let least = self.all.len().min(2);
        guest(party, self.sessions, least, &self.folder.path().join(party.as_str()))
    }

    pub(crate) fn run(&mut self) -> Vec<BlockSum> {
        self.drive().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same; nothing if that guest had signed to take part before it went.
    pub(crate) fn run_or_absent(&mut self, gone: &PartyId) -> Option<Vec<BlockSum>> {
        match self.drive() {
            Ok(sums) => Some(sums),
            Err(PartyError::Absent { party, .. }) if party == *gone => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn chance(&mut self, of: f64) -> bool {
        self.random.next_f64() < of
    }

    fn now(&self) -> Now {
        Now { monotonic: self.now, unix: self.now }
    }

    fn post(&mut self, tick: usize, letter: Letter) {
        let Faults { lost, twice, late, replayed, .. } = self.faults;
        if self.chance(replayed) && !self.delivered.is_empty() {
            let place = (self.random.next_u64() % self.delivered.len() as u64) as usize;
            self.on_the_way.push((tick + 1, self.delivered[place].again()));
        }
        if self.chance(twice) {
            let delay = 1 + (self.random.next_u64() % 40) as usize;
            self.on_the_way.push((tick + delay, letter.again()));
        }
        if self.chance(lost) {
            return;
        }
        let delay = if self.chance(late) { (self.random.next_u64() % 30) as usize } else { 0 };
        self.on_the_way.push((tick + 1 + delay, letter));
    }

    fn post_to_guests(&mut self, tick: usize, out: Vec<protocol::Released<protocol::ToGuest>>) {
        for message in out {
            let bytes: Arc<[u8]> = message.bytes().to_vec().into();
            self.post(tick, Letter::ToGuest(message.recipient().clone(), bytes));
        }
    }

    fn post_to_host(
        &mut self,
        tick: usize,
        from: &PartyId,
        out: Vec<protocol::Released<protocol::ToHost>>,
    ) {
        for message in out {
            let bytes: Arc<[u8]> = message.bytes().to_vec().into();
            self.post(tick, Letter::ToHost(from.clone(), bytes));
        }
    }

    fn drive(&mut self) -> Result<Vec<BlockSum>, PartyError> {
        for tick in 0..MOST_TICKS {
            self.now += TICK;
            self.break_something(tick);
            let (due, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.on_the_way).into_iter().partition(|(at, _)| *at <= tick);
            self.on_the_way = rest;
            for (_, letter) in due {
                self.deliver(tick, &letter);
                self.delivered.push(letter);
            }
            let now = self.now();
            let parties: Vec<PartyId> = self.all.iter().cloned().collect();
            for party in parties {
                if let Some(Some(guest)) = self.guests.get_mut(&party) {
                    let out = guest.tick(now);
                    if let Some(error) = guest.stopped() {
                        panic!("{party}: {error}");
                    }
                    self.post_to_host(tick, &party, out);
                }
            }
            let out = self.host.tick(now);
            self.post_to_guests(tick, out);
            for event in self.host.take_events() {
                if let SumEvent::Without(block, guests) = event {
                    self.without.push((block, guests));
                }
            }
            if self.host.has_ended() {
                let next = host(&self.all, self.absent, MemoryStore::default(), self.now);
                let host = std::mem::replace(&mut self.host, next);
                return match host.stopped() {
                    Some(PartyError::Absent { party, seconds, reason }) => {
                        let (party, seconds, reason) = (party.clone(), *seconds, reason.clone());
                        Err(PartyError::Absent { party, seconds, reason })
                    }
                    Some(error) => panic!("the host: {error}"),
                    None => Ok(host.into_sums().unwrap().1),
                };
            }
        }
        panic!("found no end after {MOST_TICKS} ticks");
    }

    fn deliver(&mut self, tick: usize, letter: &Letter) {
        let now = self.now();
        match letter {
            Letter::ToHost(from, bytes) => {
                let out = self.host.handle(now, from, decode_to_host(bytes).unwrap());
                self.post_to_guests(tick, out);
            }
            Letter::ToGuest(to, bytes) => {
                if let Some(Some(guest)) = self.guests.get_mut(to) {
                    let out = guest.handle(now, decode_to_guest(bytes).unwrap());
                    if let Some(error) = guest.stopped() {
                        panic!("{to}: {error}");
                    }
                    self.post_to_host(tick, to, out);
                }
            }
        }
    }

    fn break_something(&mut self, tick: usize) {
        if let Some((at, party)) = &self.gone
            && *at == tick
        {
            self.guests.insert(party.clone(), None);
        }
        let Faults { guest_crash, host_crash, .. } = self.faults;
        let parties: Vec<PartyId> = self.all.iter().cloned().collect();
        for party in parties {
            let runs = matches!(self.guests.get(&party), Some(Some(guest)) if !guest.has_ended());
            if runs && self.chance(guest_crash) {
                // Its file is free before it is opened again.
                self.guests.insert(party.clone(), None);
                let guest = self.start(&party);
                self.guests.insert(party, Some(guest));
            }
        }
        if self.chance(host_crash) {
            self.host = host(&self.all, self.absent, self.store.clone(), self.now);
        }
    }

    /// Guests that have come to their end.
    pub(crate) fn ended(&self) -> usize {
        self.guests.values().flatten().filter(|guest| guest.has_ended()).count()
    }

    /// Each block is the sum over its participants: all but those that may be missing in it.
    pub(crate) fn check(&self, sums: &[BlockSum], may_miss: &[PartyId]) {
        let blocks: Vec<(i64, i64)> =
            sums.iter().map(|sum| (sum.block.first().0, sum.block.last().0)).collect();
        assert_eq!(blocks, BLOCKS);
        for sum in sums {
            let without = self.without.iter().find(|(block, _)| *block == sum.block);
            let without = without.map_or(&[][..], |(_, guests)| &guests[..]);
            assert!(without.iter().all(|guest| may_miss.contains(guest)));
            let there: Vec<&PartyId> =
                self.all.iter().filter(|guest| !without.contains(guest)).collect();
            assert_eq!(sum.guests, there.len());
            let mut words = sum.words.iter();
            for step in sum.block.steps() {
                for column in 0..WIDTH {
                    let expected = there.iter().map(|guest| word(guest, step.0, column));
                    let expected = expected.fold(0, u64::wrapping_add);
                    assert_eq!(words.next(), Some(&expected), "step {} column {column}", step.0);
                }
            }
            assert_eq!(words.next(), None);
        }
    }
}

fn host(
    guests: &BTreeSet<PartyId>,
    absent: AbsencePolicy,
    store: MemoryStore,
    now: Duration,
) -> SumHost<MemoryStore> {
    let settings = SumHostSettings {
        party: party("city"),
        guests: guests.clone(),
        software: Text::of("test"),
        run: RunId(7),
        subject: Text::of("subject"),
        plan: plan(),
        held: held(),
        absent,
        timing: timing(),
        verifier: Box::new(certificates().verifier()),
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), &party("city")).unwrap();
    SumHost::new(settings, store, ledger, Now { monotonic: now, unix: now }).unwrap()
}
