//! Host, guests, their disks, the clock, and the messages on their way.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use federation::guest::GuestSettings;
use federation::{
    AbsencePolicy, Event, FolderStore, Guest, GuestEnd, Host, HostEnd, HostSettings,
    MeasurementBounds, Store, Timing,
};
use protocol::ledger::{MemorySink, audit};
use protocol::message::Terms;
use protocol::message::parts::{HeldSteps, Text};
use protocol::{
    Bounds, CommitmentTerms, Compression, Ledger, MeasurementOffer, Now, PartyId, Round, RunId,
    ToGuest, ToHost,
};
use tempfile::TempDir;
use traffic::Step;

use crate::disk::DiskStore;
use crate::operations::Op;
use crate::toy::{
    ToyGuest, ToyHost, WIDTH, checkpoints, in_parts, lattice_plan, measured_plan, measures, plan,
    samples, sealed_plan, viewed_samples,
};

const TIMING: Timing = Timing {
    resend: Duration::from_secs(10),
    heartbeat: Duration::from_secs(20),
    silence: Duration::from_secs(60),
    // Far more than all pauses of a list without long ones.
    limit: Duration::from_secs(10_000),
};

/// How a run ended.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// All have finished; everything that each has learned, the host's first.
    Finished(Vec<Vec<u32>>),
    /// All have stopped with an error: their words.
    Stopped(Vec<String>),
    /// Some have finished, others have stopped: their words.
    Mixed(Vec<String>),
    /// Someone waits for ever.
    Hangs(Vec<String>),
}

#[derive(Clone)]
enum Sent {
    ToHost(PartyId, ToHost),
    ToGuest(PartyId, ToGuest),
}

/// What outlives a crash.
#[derive(Default)]
struct Disk {
    store: DiskStore,
    /// A real folder instead.
    folder: Option<TempDir>,
    ledger: MemorySink,
    /// Messages that have left.
    sent: u64,
    /// Lines of the ledger that a torn one took away.
    torn: u64,
}

/// What guests measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    Nothing,
    /// It crosses as it is; samples come in segments and views.
    Clear,
    /// The same, in products alone, which hide nothing.
    Sealed,
    /// In products that do.
    Lattice,
    /// The same of guests that are held to what they have committed to.
    Committed,
    /// As `Sealed`, in parts.
    SealedInParts,
    /// As `Committed`, in parts.
    CommittedInParts,
}

const COMMITTING: CommitmentTerms = CommitmentTerms { bounds: Bounds::Noised, checks: 1 };

/// What the parties are told.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub absent: AbsencePolicy,
    pub guests: usize,
    pub compression: Compression,
    /// What guests measure.
    pub measured: Measured,
    /// Whether disks are real folders.
    pub folders: bool,
}

impl Setting {
    pub fn new(absent: AbsencePolicy, guests: usize) -> Self {
        Self {
            absent,
            guests,
            compression: Compression::None,
            measured: Measured::Nothing,
            folders: false,
        }
    }
}

impl Disk {
    fn new(folders: bool) -> Self {
        let folder = folders.then(|| tempfile::tempdir().expect("a folder"));
        Self { folder, ..Self::default() }
    }

    fn store(&self) -> Box<dyn Store> {
        match &self.folder {
            Some(folder) => Box::new(FolderStore::open(folder.path()).expect("a folder")),
            None => Box::new(self.store.clone()),
        }
    }
}

type HostParty = Host<ToyHost, Box<dyn Store>>;
type GuestParty = Guest<ToyGuest, Box<dyn Store>>;

pub struct World {
    setting: Setting,
    now: Duration,
    host: Option<HostParty>,
    host_disk: Disk,
    guests: BTreeMap<PartyId, Option<GuestParty>>,
    disks: BTreeMap<PartyId, Disk>,
    sessions: u64,
    queue: VecDeque<Sent>,
    past: Vec<Sent>,
    /// Whether any party was missed or has lost its memory.
    disturbed: bool,
    /// Rounds that the host has told to be done again, each time that training began anew.
    repeated: Vec<u64>,
}

fn host_id() -> PartyId {
    PartyId::new("host").expect("a name")
}

fn terms(compression: Compression) -> Terms {
    Terms { network_hash: Text::of("toy"), step_s: 10.0, origin_s: 0.0, window: 1, compression }
}

impl World {
    pub fn new(setting: Setting) -> Self {
        let guests = setting.guests;
        let names = ["a", "b", "c"].into_iter().take(guests);
        let names = names.map(|name| PartyId::new(name).expect("a name"));
        let mut world = World {
            setting,
            now: Duration::ZERO,
            host: None,
            host_disk: Disk::new(setting.folders),
            guests: names.map(|name| (name, None)).collect(),
            disks: BTreeMap::new(),
            sessions: 0,
            queue: VecDeque::new(),
            past: Vec::new(),
            disturbed: false,
            repeated: Vec::new(),
        };
        for party in 0..=guests {
            world.restart(party);
        }
        world.disturbed = false;
        world.tick();
        world
    }

    /// Messages that have left anyone.
    pub fn messages(&self) -> u64 {
        self.host_disk.sent + self.disks.values().map(|disk| disk.sent).sum::<u64>()
    }

    fn now(&self) -> Now {
        Now { monotonic: self.now, unix: self.now }
    }

    fn guest(&self, number: usize) -> Option<PartyId> {
        self.guests.keys().nth(number.checked_sub(1)?).cloned()
    }

    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver(count) => (0..count).for_each(|_| {
                self.deliver();
            }),
            Op::Lose => {
                self.queue.pop_front();
            }
            Op::LoseAnswers => {
                let before = self.queue.len();
                if self.deliver() {
                    self.queue.truncate(before - 1);
                }
            }
            Op::Double => {
                if let Some(message) = self.queue.front().cloned() {
                    self.deliver();
                    self.queue.push_back(message);
                }
            }
            Op::Delay(places) => {
                if let Some(message) = self.queue.pop_front() {
                    self.queue.insert(places.min(self.queue.len()), message);
                }
            }
            Op::Reverse => self.queue.make_contiguous().reverse(),
            Op::Replay(before) => {
                let message =
                    self.past.len().checked_sub(1 + before).map(|at| self.past[at].clone());
                self.queue.extend(message);
            }
            Op::Crash(party) => self.crash(party),
            Op::CrashInCheckpoint(0, death) => self.host_disk.store.kill(death),
            Op::CrashInCheckpoint(party, death) => {
                let disk = self.guest(party).and_then(|guest| self.disks.get(&guest));
                disk.into_iter().for_each(|disk| disk.store.kill(death));
            }
            Op::Restart(party) => self.restart(party),
            Op::LoseDisk(party) => self.lose_disk(party),
            Op::Tear(party) => self.tear(party),
            Op::Pause(seconds) => self.pause(Duration::from_secs(seconds)),
        }
    }

    /// The faults are over: lost parties come back, messages arrive, time passes.
    pub fn recover(&mut self) -> Outcome {
        self.disks.values().chain([&self.host_disk]).for_each(|disk| disk.store.spare());
        for party in 0..=self.guests.len() {
            if if party == 0 { self.host.is_none() } else { self.is_down(party) } {
                self.restart(party);
            }
        }
        // Each pause is a resend; a run has some ten rounds; the limit is a thousand pauses.
        for _ in 0..5000 {
            while self.deliver() {}
            if self.all_ended() {
                return self.outcome();
            }
            // A host does not wait long for guests that were away at the end; started again, it
            // tells them.
            let host = self.host.as_ref().and_then(|host| host.ended());
            if matches!(host, Some(HostEnd::Finished(_))) {
                self.restart(0);
            }
            self.pause(TIMING.resend);
        }
        Outcome::Hangs(self.words())
    }

    fn is_down(&self, party: usize) -> bool {
        self.guest(party).is_some_and(|guest| self.guests[&guest].is_none())
    }

    /// The oldest message arrives.
    fn deliver(&mut self) -> bool {
        let now = self.now();
        let Some(message) = self.queue.pop_front() else { return false };
        self.past.push(message.clone());
        match message {
            Sent::ToHost(from, message) => {
                if let Some(host) = &mut self.host {
                    let out = host.handle(now, &from, message);
                    self.sent_by_host(out);
                }
            }
            Sent::ToGuest(to, message) => {
                if let Some(Some(guest)) = self.guests.get_mut(&to) {
                    let out = guest.handle(now, message);
                    self.sent_by_guest(&to, out);
                }
            }
        }
        true
    }

    fn pause(&mut self, time: Duration) {
        // Parties look at the clock at least as often as anything is due.
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + TIMING.resend);
            self.tick();
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        if let Some(host) = &mut self.host {
            let out = host.tick(now);
            self.sent_by_host(out);
        }
        let parties: Vec<PartyId> = self.guests.keys().cloned().collect();
        for party in parties {
            if let Some(Some(guest)) = self.guests.get_mut(&party) {
                let out = guest.tick(now);
                self.sent_by_guest(&party, out);
            }
        }
    }

    fn sent_by_host(&mut self, out: federation::host::ToGuestOutbox) {
        self.host_disk.sent += out.len() as u64;
        let events = self.host.as_mut().map(Host::take_events).unwrap_or_default();
        self.disturbed |= events.iter().any(|event| matches!(event, Event::Missed(_)));
        self.repeated.extend(events.iter().filter_map(|event| match event {
            Event::Begun { round, furthest, .. } => Some(furthest.0 - round.0),
            _ => None,
        }));
        if self.host_disk.store.has_killed() {
            return self.crash(0);
        }
        let sent = out.into_iter().map(|m| Sent::ToGuest(m.recipient().clone(), m.into_message()));
        self.queue.extend(sent);
    }

    fn sent_by_guest(&mut self, party: &PartyId, out: federation::guest::ToHostOutbox) {
        if let Some(disk) = self.disks.get_mut(party) {
            disk.sent += out.len() as u64;
            if disk.store.has_killed() {
                let number = self.guests.keys().position(|guest| guest == party);
                return self.crash(1 + number.expect("a guest"));
            }
        }
        let sent = out.into_iter().map(|m| Sent::ToHost(party.clone(), m.into_message()));
        self.queue.extend(sent);
    }

    fn crash(&mut self, party: usize) {
        self.disturbed = true;
        if party == 0 {
            self.host = None;
            self.queue.retain(|message| matches!(message, Sent::ToGuest(..)));
        } else if let Some(guest) = self.guest(party) {
            self.queue.retain(|message| !matches!(message, Sent::ToGuest(to, _) if *to == guest));
            self.guests.insert(guest, None);
        }
    }

    fn lose_disk(&mut self, party: usize) {
        self.crash(party);
        if let Some(guest) = self.guest(party) {
            self.disks.insert(guest, Disk::new(self.setting.folders));
        }
    }

    /// Rounds of which the host has a checkpoint.
    pub fn kept_by_host(&self) -> Vec<Round> {
        self.host_disk.store().rounds().expect("a store")
    }

    /// The disk did not get all of the last line: as if the party had died in the middle of it.
    fn tear(&mut self, party: usize) {
        let down = if party == 0 { self.host.is_none() } else { self.is_down(party) };
        let guest = self.guest(party);
        let disk = match &guest {
            Some(guest) => self.disks.get_mut(guest),
            None => (party == 0).then_some(&mut self.host_disk),
        };
        let Some(disk) = disk.filter(|_| down) else { return };
        let bytes = disk.ledger.bytes();
        if bytes.last() == Some(&b'\n') {
            disk.ledger.truncate(bytes.len() - 10);
            disk.torn += 1;
        }
    }

    fn restart(&mut self, party: usize) {
        self.crash(party);
        if party == 0 {
            self.restart_host();
        } else if let Some(guest) = self.guest(party) {
            self.restart_guest(guest);
        }
    }

    fn restart_host(&mut self) {
        let guests: Vec<PartyId> = self.guests.keys().cloned().collect();
        let settings = HostSettings {
            party: host_id(),
            guests: guests.iter().map(|guest| (guest.clone(), WIDTH as u32)).collect(),
            software: Text::of("toy"),
            run: RunId(3),
            terms: terms(self.setting.compression),
            subject: Text::of("test"),
            plan: match self.setting.measured {
                Measured::Nothing => plan(),
                Measured::Clear => measured_plan(),
                Measured::Sealed => sealed_plan(),
                Measured::Lattice => lattice_plan(None),
                Measured::Committed => lattice_plan(Some(COMMITTING)),
                Measured::SealedInParts => in_parts(sealed_plan()),
                Measured::CommittedInParts => in_parts(lattice_plan(Some(COMMITTING))),
            },
            checkpoints: checkpoints(),
            measurement_bounds: MeasurementBounds { links: 3, counted: Some(8.0) },
            samples: match self.setting.measured {
                Measured::Nothing => samples(),
                _ => viewed_samples(),
            },
            shuffle: true,
            patience: 10,
            absent: self.setting.absent,
            timing: TIMING,
        };
        let ledger = Ledger::in_memory(&self.host_disk.ledger, &host_id()).expect("a whole ledger");
        let make = Box::new(move |_: &_, _: &_| Ok(ToyHost::new(guests.clone())));
        let host = Host::new(settings, make, self.host_disk.store(), ledger, self.now());
        self.host = Some(host.expect("a host that can go on"));
    }

    fn restart_guest(&mut self, party: PartyId) {
        self.sessions += 1;
        let settings = GuestSettings {
            party: party.clone(),
            host: host_id(),
            software: Text::of("toy"),
            session: self.sessions,
            terms: terms(self.setting.compression),
            subject: Text::of("test"),
            held: HeldSteps::of((0..10).map(Step)).expect("steps"),
            width: WIDTH as u32,
            measures: match self.setting.measured {
                Measured::Nothing => MeasurementOffer::default(),
                _ => measures(),
            },
            sharing: Default::default(),
            timing: TIMING,
        };
        let now = self.now();
        let folders = self.setting.folders;
        let disk = self.disks.entry(party.clone()).or_insert_with(|| Disk::new(folders));
        let ledger = Ledger::in_memory(&disk.ledger, &party).expect("a whole ledger");
        let name = party.clone();
        let make = Box::new(move |plan: &_| Ok(ToyGuest::new(&name, plan)));
        let guest = Guest::new(settings, make, disk.store(), ledger, now);
        self.guests.insert(party, Some(guest.expect("a guest that can go on")));
    }

    fn all_ended(&self) -> bool {
        let host = self.host.as_ref().is_some_and(|host| host.ended().is_some());
        host && self.guests.values().flatten().all(|guest| guest.ended().is_some())
    }

    fn outcome(&self) -> Outcome {
        self.check_ledgers();
        let guests = || self.guests.values().flatten();
        let host = self.host.as_ref().and_then(|host| host.ended());
        let host_done = matches!(host, Some(HostEnd::Finished(_)));
        let done = guests().filter(|g| matches!(g.ended(), Some(GuestEnd::Finished(_)))).count();
        if host_done && done == self.guests.len() {
            let host = self.host.as_ref().and_then(Host::model).map(ToyHost::bits);
            let guests = guests().map(|guest| guest.model().map(ToyGuest::bits));
            let all = [host].into_iter().chain(guests);
            return Outcome::Finished(all.map(Option::unwrap_or_default).collect());
        }
        if host_done || done > 0 {
            Outcome::Mixed(self.words())
        } else {
            Outcome::Stopped(self.words())
        }
    }

    /// Rounds that were done again, each time that training began.
    pub fn repeated(&self) -> &[u64] {
        &self.repeated
    }

    /// Embeddings in the ledgers of the guests, without those that were said again because their message got lost.
    pub fn embeddings(&self) -> Vec<usize> {
        let of_guest = |disk: &Disk| {
            let bytes = disk.ledger.bytes();
            let text = String::from_utf8_lossy(&bytes);
            let new = |line: &&str| {
                line.contains("\"kind\":\"embedding\"") && !line.contains("\"again\":true")
            };
            text.lines().filter(new).count()
        };
        self.disks.values().map(of_guest).collect()
    }

    pub fn host_has_ended(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.ended().is_some())
    }

    /// Whether any party was missed or has lost its memory.
    pub fn was_disturbed(&self) -> bool {
        self.disturbed
    }

    /// What must hold when all have finished, also where the host has gone on without a guest.
    pub fn check_agreement(&self) {
        let host = self.host.as_ref().expect("a host");
        let Some(HostEnd::Finished(summary)) = host.ended() else { return };
        let mut models = BTreeMap::new();
        for (party, guest) in &self.guests {
            let guest = guest.as_ref().expect("a guest");
            let Some(GuestEnd::Finished(its)) = guest.ended() else { return };
            assert_eq!(its, summary, "summary of {party}");
            let model = guest.model().expect("a model");
            // Learning rates follow from this: a guest that was away goes on with those of the others.
            let exchanges = u64::from(summary.epochs) * 3;
            assert_eq!(model.exchanges(), exchanges, "training exchanges of {party}");
            models.insert(party.clone(), model);
        }
        let model = host.model().expect("a model");
        assert!(summary.validation.is_finite());
        // Everyone ends with the weights that the estimates were made with.
        assert!(model.estimated_with_some(&models), "estimates of no weights that were kept");
    }

    /// Where everyone stands, in words.
    fn words(&self) -> Vec<String> {
        let host =
            self.host.as_ref().map(|host| format!("host {:?} {:?}", host.round(), host.ended()));
        let guests = self.guests.iter().filter_map(|(party, guest)| {
            guest.as_ref().map(|guest| format!("{party} {:?} {:?}", guest.round(), guest.ended()))
        });
        host.into_iter().chain(guests).collect()
    }

    /// Every ledger is whole and has every message that left.
    fn check_ledgers(&self) {
        let guests = self.disks.iter().map(|(party, disk)| (party.clone(), disk));
        for (party, disk) in guests.chain([(host_id(), &self.host_disk)]) {
            let bytes = disk.ledger.bytes();
            let audit =
                audit(bytes.as_slice(), Path::new("ledger"), &party).expect("a whole ledger");
            assert_eq!(audit.messages + disk.torn, disk.sent, "messages of {party}");
        }
    }
}
