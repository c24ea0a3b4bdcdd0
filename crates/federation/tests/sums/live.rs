//! Sums of single steps, live: real guests and a real host, with certificates, signatures and masks, on a simulated network and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use federation::live::{
    Estimated, LiveEvent, LiveSumGuest, LiveSumGuestSettings, LiveSumHost, LiveSumHostSettings,
    LiveSumModel, Participation, SumEstimate,
};
use federation::sums::SumTrust;
use federation::{ModelFailure, Timing};
use protocol::ledger::{MemorySink, SumRecords};
use protocol::message::parts::Text;
use protocol::message::sums::{
    Block, FromSumGuest, FromSumHost, Included, Members, SumGroup, SumMember, SumPlan, SumTerms,
};
use protocol::message::{Departure, PROTOCOL};
use protocol::wire::{decode_to_guest, decode_to_host};
use protocol::{Ledger, Now, PartyId, Released, RunId, ToGuest, ToHost};
use seeded::SplitMix64;
use tempfile::TempDir;
use traffic::Step;

use crate::world::{WIDTH, certificates, name, party, plan, word};

const DEADLINE: u64 = 2000;
const RUN: RunId = RunId(9);

fn at(ms: u64) -> Now {
    Now { monotonic: Duration::from_millis(ms), unix: Duration::from_millis(ms) }
}

fn live_plan() -> SumPlan {
    let plan = plan();
    SumPlan { terms: SumTerms { run: Some(RUN), ..plan.terms.clone() }, ..plan }
}

fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing { resend: ms(500), heartbeat: ms(400), silence: ms(30_000), limit: ms(600_000) }
}

fn row(guest: &PartyId, step: i64) -> Vec<u64> {
    (0..WIDTH).map(|column| word(guest, step, column)).collect()
}

fn sum(guests: &[usize], step: i64) -> Vec<u64> {
    let add = |sum: Vec<u64>, guest: &usize| -> Vec<u64> {
        sum.iter().zip(row(&name(*guest), step)).map(|(a, b)| a.wrapping_add(b)).collect()
    };
    guests.iter().fold(vec![0; WIDTH], add)
}

/// The sums that the host has seen, by step: over how many, and what.
type Seen = Arc<Mutex<BTreeMap<i64, Option<(usize, Vec<u64>)>>>>;

struct Recorder(Seen);

impl LiveSumModel for Recorder {
    type Own = ();
    type Estimate = ();

    fn estimate(
        &mut self,
        step: Step,
        (): (),
        sum: Option<(usize, &[u64])>,
    ) -> Result<SumEstimate<()>, ModelFailure> {
        let sum = sum.map(|(guests, words)| (guests, words.to_vec()));
        self.0.lock().unwrap().insert(step.0, sum.clone());
        Ok(if sum.is_some() { SumEstimate::Estimate(()) } else { SumEstimate::NoWindow })
    }
}

fn guest(party: &PartyId, session: u64, least: usize, folder: &TempDir) -> LiveSumGuest {
    let settings = LiveSumGuestSettings {
        party: party.clone(),
        host: self::party("city"),
        software: Text::of("test"),
        session,
        plan: live_plan(),
        least,
        timing: timing(),
    };
    let trust = SumTrust {
        credentials: Box::new(certificates().key(party)),
        verifier: Box::new(certificates().verifier()),
        records: SumRecords::open(&folder.path().join(party.as_str())).unwrap(),
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), party).unwrap();
    LiveSumGuest::new(settings, trust, ledger, at(0)).unwrap()
}

/// A host with its guests.
struct Live {
    folder: TempDir,
    host: LiveSumHost<Recorder>,
    guests: BTreeMap<PartyId, LiveSumGuest>,
    seen: Seen,
    now: u64,
    sessions: u64,
    /// Messages from and to these are lost.
    cut: BTreeSet<PartyId>,
    /// Kinds of what each guest has sent, but for signs of life.
    said: BTreeMap<PartyId, Vec<&'static str>>,
    /// A guest that is cut off as soon as it has sent a message of this kind.
    cut_after: Option<(PartyId, &'static str)>,
    estimated: Vec<Estimated<()>>,
}

impl Live {
    fn new(guests: usize) -> Self {
        let all: BTreeSet<PartyId> = (0..guests).map(name).collect();
        let seen = Seen::default();
        let settings = LiveSumHostSettings {
            party: party("city"),
            guests: all.clone(),
            software: Text::of("test"),
            run: RUN,
            plan: live_plan(),
            deadline: Duration::from_millis(DEADLINE),
            timing: timing(),
            verifier: Box::new(certificates().verifier()),
        };
        let ledger = Ledger::in_memory(&MemorySink::default(), &party("city")).unwrap();
        let host = LiveSumHost::new(settings, Recorder(Arc::clone(&seen)), ledger, at(0));
        let mut live = Self {
            folder: tempfile::tempdir().unwrap(),
            host,
            guests: BTreeMap::new(),
            seen,
            now: 0,
            sessions: 0,
            cut: BTreeSet::new(),
            said: BTreeMap::new(),
            cut_after: None,
            estimated: Vec::new(),
        };
        for party in &all {
            live.start(party, 2.min(guests));
        }
        live
    }

    /// Starts a guest, again if it ran: it has forgotten all but its file of participants.
    fn start(&mut self, party: &PartyId, least: usize) {
        self.sessions += 1;
        self.guests.remove(party);
        let mut guest = guest(party, self.sessions, least, &self.folder);
        self.cut.remove(party);
        let now = at(self.now);
        let out = self.host.connection(now, party, true);
        let said = guest.connected(now);
        self.guests.insert(party.clone(), guest);
        self.talk(out);
        self.hear(party, said);
    }

    /// The host hears a guest, and all talk until nobody has anything to say.
    fn hear(&mut self, from: &PartyId, said: Vec<Released<ToHost>>) {
        for message in said {
            if self.cut.contains(from) {
                return;
            }
            let message = decode_to_host(message.bytes()).unwrap();
            let kind = message.kind();
            if kind != "heartbeat" {
                self.said.entry(from.clone()).or_default().push(kind);
            }
            let cuts = self.cut_after.as_ref() == Some(&(from.clone(), kind));
            if cuts {
                self.cut.insert(from.clone());
            }
            let out = self.host.handle(at(self.now), from, message);
            self.talk(out);
        }
    }

    fn talk(&mut self, out: Vec<Released<ToGuest>>) {
        for message in out {
            let to = message.recipient().clone();
            if self.cut.contains(&to) {
                continue;
            }
            let Some(guest) = self.guests.get_mut(&to) else { continue };
            let said = guest.handle(at(self.now), decode_to_guest(message.bytes()).unwrap());
            self.hear(&to, said);
        }
        for event in self.host.take_events() {
            if let LiveEvent::Estimated(estimated) = event {
                self.estimated.push(estimated);
            }
        }
    }

    /// The host's own data of a step are there, and the totals of these guests.
    fn step(&mut self, step: i64, guests: &[usize]) {
        let out = self.host.open(at(self.now), Step(step), ());
        self.talk(out);
        for guest in guests {
            self.totals(*guest, step);
        }
    }

    fn totals(&mut self, guest: usize, step: i64) {
        let party = name(guest);
        let row = row(&party, step);
        if let Some(guest) = self.guests.get_mut(&party) {
            let said = guest.totals(at(self.now), Step(step), row);
            self.hear(&party, said);
        }
    }

    /// Time passes.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now += 100;
            let out = self.host.tick(at(self.now));
            self.talk(out);
            let parties: Vec<PartyId> = self.guests.keys().cloned().collect();
            for party in parties {
                let said = self.guests.get_mut(&party).unwrap().tick(at(self.now));
                self.hear(&party, said);
            }
        }
    }

    fn seen(&self, step: i64) -> Option<(usize, Vec<u64>)> {
        let seen = self.seen.lock().unwrap();
        seen.get(&step).unwrap_or_else(|| panic!("step {step}: not settled")).clone()
    }

    fn kinds(&mut self, guest: usize) -> Vec<&'static str> {
        self.said.remove(&name(guest)).unwrap_or_default()
    }
}

/// The sum is that of the participants, bit for bit; each has sent three messages of the step, and nothing that is not masked.
#[test]
fn a_live_step_is_the_sum_over_all_guests_and_nothing_else_leaves_them() {
    for guests in [1, 2, 5, 16] {
        let mut live = Live::new(guests);
        let all: Vec<usize> = (0..guests).collect();
        live.said.clear();
        for step in 100..104 {
            live.step(step, &all);
            assert_eq!(live.seen(step), Some((guests, sum(&all, step))), "step {step}");
        }
        for guest in all {
            let expected = [["masked-totals", "sum-agreed", "mask-seeds"]; 4].concat();
            assert_eq!(live.kinds(guest), expected, "guest {guest}");
            assert_eq!(live.guests[&name(guest)].counts().taken, 4);
        }
        assert_eq!(live.estimated.len(), 4);
        assert!(live.estimated.iter().all(|made| made.waited == Duration::ZERO));
    }
}

/// A guest sends a step's numbers under masks that are drawn at its start: no two of its starts send the same, and no word is its own.
#[test]
fn a_single_guests_numbers_never_leave_it() {
    let mut sent = Vec::new();
    for _ in 0..2 {
        let mut live = Live::new(3);
        let party = name(0);
        live.cut.insert(name(1));
        let own = row(&party, 7);
        let said = live.guests.get_mut(&party).unwrap().totals(at(0), Step(7), own.clone());
        let message = decode_to_host(said[0].bytes()).unwrap();
        let ToHost::Sum(FromSumGuest::Masked { words, .. }) = message else {
            panic!("{message:?}")
        };
        assert!(words.as_slice().iter().zip(&own).all(|(masked, own)| masked != own));
        sent.push(words.as_slice().to_vec());
    }
    assert!(sent[0].iter().zip(&sent[1]).all(|(first, second)| first != second));
}

/// Who is late is left out: each of the others sends one message, with one more seed. What the late guest sends then is of no use: the
/// host lacks the seed of its own mask, and the guest signs no other participants.
#[test]
fn a_late_guest_costs_its_data_and_its_late_totals_stay_hidden() {
    let mut live = Live::new(4);
    live.said.clear();
    live.step(5, &[0, 1, 3]);
    live.pass(DEADLINE / 2 - 100);
    assert!(live.seen.lock().unwrap().is_empty());
    live.pass(100);
    assert_eq!(live.seen(5), Some((3, sum(&[0, 1, 3], 5))));
    for guest in [0, 1, 3] {
        assert_eq!(live.kinds(guest), ["masked-totals", "sum-agreed", "mask-seeds"]);
    }
    let late = live.estimated.last().unwrap().guests[&name(2)];
    assert_eq!(late, Participation::Late);
    // It learns that, and sends nothing of the step.
    live.totals(2, 5);
    assert!(live.kinds(2).is_empty());
    let counts = live.guests[&name(2)].counts();
    assert_eq!((counts.missed, counts.unsent, counts.sent), (1, 1, 0));
    // In time again.
    live.step(6, &[0, 1, 2, 3]);
    assert_eq!(live.seen(6), Some((4, sum(&[0, 1, 2, 3], 6))));
}

#[test]
fn a_guest_that_crashes_is_left_out_until_it_is_back() {
    let mut live = Live::new(3);
    live.step(1, &[0, 1, 2]);
    // Before it has sent anything of a step.
    live.guests.remove(&name(1));
    let out = live.host.connection(at(live.now), &name(1), false);
    live.talk(out);
    live.step(2, &[0, 2]);
    assert_eq!(live.seen(2), Some((2, sum(&[0, 2], 2))));
    let absent = live.estimated.last().unwrap().guests[&name(1)];
    assert_eq!(absent, Participation::Absent);
    // After it has masked, before it has signed: the others have signed three participants, and sign no others.
    live.start(&name(1), 2);
    live.step(3, &[0, 1, 2]);
    assert_eq!(live.seen(3), Some((3, sum(&[0, 1, 2], 3))));
    live.cut_after = Some((name(1), "masked-totals"));
    live.step(4, &[0, 1, 2]);
    live.pass(DEADLINE);
    assert_eq!(live.seen(4), None);
    // Back under another key, while a step waits: the others mask again for the new group.
    live.cut_after = None;
    live.step(5, &[0, 2]);
    live.start(&name(1), 2);
    live.totals(1, 5);
    live.pass(DEADLINE);
    let (there, words) = live.seen(5).unwrap();
    let expected = if there == 3 { sum(&[0, 1, 2], 5) } else { sum(&[0, 2], 5) };
    assert_eq!(words, expected);
    live.step(6, &[0, 1, 2]);
    assert_eq!(live.seen(6), Some((3, sum(&[0, 1, 2], 6))));
}

/// The policy of one guest says that it adds to sums over four: over three there is none, and it goes on.
#[test]
fn fewer_participants_than_a_policy_says_are_no_sum_live() {
    let mut live = Live::new(4);
    live.start(&name(0), 4);
    live.step(1, &[0, 1, 2, 3]);
    assert_eq!(live.seen(1), Some((4, sum(&[0, 1, 2, 3], 1))));
    live.said.clear();
    live.step(2, &[0, 1, 2]);
    live.pass(DEADLINE);
    assert_eq!(live.seen(2), None);
    // It has sent masked totals, and nothing that takes masks off.
    assert_eq!(live.kinds(0), ["masked-totals"]);
    live.step(3, &[0, 1, 2, 3]);
    assert_eq!(live.seen(3), Some((4, sum(&[0, 1, 2, 3], 3))));
    // Less than half of all: the host asks nobody to sign.
    let mut live = Live::new(4);
    live.said.clear();
    live.step(1, &[0, 1]);
    live.pass(DEADLINE);
    assert_eq!(live.seen(1), None);
    assert_eq!(live.kinds(0), ["masked-totals"]);
}

/// A step that was summed, in training or before a restart, is summed with the same guests or not at all.
#[test]
fn a_step_has_one_set_of_participants_for_good_live_too() {
    let mut live = Live::new(3);
    live.step(1, &[0, 1, 2]);
    assert!(live.seen(1).is_some());
    for guest in 0..3 {
        live.start(&name(guest), 2);
    }
    // A host that begins anew, with the same guests.
    let folder = std::mem::replace(&mut live.folder, tempfile::tempdir().unwrap());
    live.guests.clear();
    let mut again = Live::new(3);
    again.guests.clear();
    again.folder = folder;
    for guest in 0..3 {
        again.start(&name(guest), 2);
    }
    again.said.clear();
    again.step(1, &[0, 1]);
    again.pass(DEADLINE);
    assert_eq!(again.seen(1), None);
    assert_eq!(again.kinds(0), ["masked-totals"]);
    again.step(2, &[0, 1, 2]);
    assert_eq!(again.seen(2), Some((3, sum(&[0, 1, 2], 2))));
}

/// Hosts that do not follow the protocol: different participants to different guests, old totals, another model.
#[test]
fn a_live_host_that_lies_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut guests: Vec<LiveSumGuest> =
        (0..3).map(|at| guest(&name(at), 1 + at as u64, 2, &folder)).collect();
    let answers = |out: Vec<Released<ToHost>>| -> Vec<ToHost> {
        out.into_iter().map(|message| decode_to_host(message.bytes()).unwrap()).collect()
    };
    let mut members = Vec::new();
    for guest in &mut guests {
        let said = answers(guest.connected(at(0)));
        let [ToHost::Sum(FromSumGuest::Hello(hello))] = &said[..] else { panic!("{said:?}") };
        assert!(hello.held.ranges().is_empty());
        let (party, session, key) = (hello.party.clone(), hello.session, hello.key.clone());
        members.push(SumMember { party, session, key });
    }
    let group = SumGroup {
        protocol: PROTOCOL,
        software: Text::of("test"),
        run: RUN,
        group: 5,
        plan: live_plan(),
        members: Members::new(members).unwrap(),
    };
    let block = Block::new(Step(3), Step(3)).unwrap();
    for (number, guest) in guests.iter_mut().enumerate() {
        let message = ToGuest::Sum(FromSumHost::Group(Box::new(group.clone())));
        assert!(answers(guest.handle(at(0), message)).is_empty());
        assert!(guest.is_live());
        let said = answers(guest.totals(at(0), Step(3), row(&name(number), 3)));
        assert!(matches!(&said[..], [ToHost::Sum(FromSumGuest::Masked { .. })]), "{said:?}");
        // Other numbers of the same step would tell their difference under the same mask.
        assert!(guest.totals(at(0), Step(3), vec![1; WIDTH]).is_empty());
    }
    let mut sign = |guest: usize, included: &[u32]| {
        let included = Included::new(included.to_vec()).unwrap();
        let message = FromSumHost::Participants { group: 5, block, included };
        let said = answers(guests[guest].handle(at(0), ToGuest::Sum(message)));
        match &said[..] {
            [ToHost::Sum(FromSumGuest::Agreed { signature, .. })] => signature.clone(),
            _ => panic!("{said:?}"),
        }
    };
    // The first is told that all take part, the others that it is late.
    let signatures = vec![sign(0, &[0, 1, 2]), sign(1, &[1, 2]), sign(2, &[1, 2])];
    let message = FromSumHost::Signatures { group: 5, block, signatures };
    let said = answers(guests[0].handle(at(0), ToGuest::Sum(message)));
    let left =
        |message: &ToHost| matches!(message, ToHost::Leave { departure: Departure::Failed(_), .. });
    assert!(said.iter().all(left), "{said:?}");
    let error = guests[0].ended().unwrap().to_string();
    assert!(error.contains("participants signed by `guest-01`: signature"), "{error}");
    // Totals are sent when they are new, not on request.
    let message = ToGuest::Sum(FromSumHost::Request { group: 5, block });
    let said = answers(guests[1].handle(at(0), message));
    assert!(said.iter().all(left), "{said:?}");
    // Another run, or other columns.
    let refuses = |change: &dyn Fn(&mut SumPlan)| {
        let mut plan = live_plan();
        change(&mut plan);
        let mut new = guest(&name(3), 9, 1, &folder);
        let said = answers(new.connected(at(0)));
        let [ToHost::Sum(FromSumGuest::Hello(hello))] = &said[..] else { panic!("{said:?}") };
        let (party, session, key) = (hello.party.clone(), hello.session, hello.key.clone());
        let members = Members::new(vec![SumMember { party, session, key }]).unwrap();
        let group = SumGroup { plan, members, ..group.clone() };
        new.handle(at(0), ToGuest::Sum(FromSumHost::Group(Box::new(group))));
        new.ended().unwrap().to_string()
    };
    let error = refuses(&|plan| plan.terms.run = Some(RunId(1)));
    assert!(error.contains("run that it was trained in"), "{error}");
    let error = refuses(&|plan| plan.queues = true);
    assert!(error.contains("columns of the sum"), "{error}");
}

/// Guests come late, crash and come back in any order: each sum is that of its participants, and a step has one or none.
#[test]
fn schedules_of_late_and_crashed_guests_change_no_live_sum() {
    let mut sums = 0;
    for seed in crate::seeds() {
        let guests = crate::guests(seed);
        let mut random = SplitMix64::new(seed);
        let mut chance = |of: f64| random.next_f64() < of;
        let mut live = Live::new(guests);
        for step in 0..12 {
            for guest in 0..guests {
                if chance(0.05) {
                    live.cut.insert(name(guest));
                    let out = live.host.connection(at(live.now), &name(guest), false);
                    live.talk(out);
                }
                if live.cut.contains(&name(guest)) && chance(0.4) {
                    live.start(&name(guest), 2);
                }
            }
            let kinds = ["masked-totals", "sum-agreed", "mask-seeds"];
            let kind = kinds[(step % 3) as usize];
            live.cut_after = chance(0.1).then(|| (name((seed % guests as u64) as usize), kind));
            let there: Vec<usize> = (0..guests).filter(|_| !chance(0.1)).collect();
            live.step(step, &there);
            live.pass(DEADLINE);
            live.cut_after = None;
            let Some((count, words)) = live.seen(step) else { continue };
            sums += 1;
            let made = live.estimated.last().unwrap();
            assert_eq!(made.step, Step(step));
            let is_in = |guest: &usize| made.guests[&name(*guest)] == Participation::In;
            let participants: Vec<usize> = (0..guests).filter(is_in).collect();
            assert_eq!((count, words), (participants.len(), sum(&participants, step)));
            assert!(2 * count > guests, "seed {seed}: {count} of {guests}");
        }
    }
    assert!(sums > 200, "{sums} sums");
}
