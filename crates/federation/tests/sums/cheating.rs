//! A host that does not follow the protocol, against real guests.

use std::path::Path;

use federation::sums::SumGuest;
use protocol::message::parts::Text;
use protocol::message::sums::{
    Block, FromSumGuest, FromSumHost, Included, Members, Signature, SumGroup, SumHello, SumMember,
};
use protocol::message::{Departure, PROTOCOL};
use protocol::wire::{decode_to_guest, decode_to_host};
use protocol::{Ledger, Now, PartyId, Released, RunId, ToGuest, ToHost};
use sealed::aggregate::{Contribution, Reveal, Seed, unmask};
use traffic::Step;

use crate::world::{WIDTH, guest, name, party, plan, word};

/// Guests, and the host in the hands of the test.
struct Cheat {
    folder: tempfile::TempDir,
    guests: Vec<SumGuest>,
    hellos: Vec<SumHello>,
    sessions: u64,
}

fn block() -> Block {
    Block::new(Step(0), Step(4)).unwrap()
}

fn answers(out: Vec<Released<ToHost>>) -> Vec<ToHost> {
    out.into_iter().map(|message| decode_to_host(message.bytes()).unwrap()).collect()
}

impl Cheat {
    fn new(guests: usize, least: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cheat = Self { folder, guests: Vec::new(), hellos: Vec::new(), sessions: 0 };
        for number in 0..guests {
            cheat.guests.push(cheat.start(number, least, 1));
        }
        cheat.greet();
        cheat
    }

    fn start(&self, number: usize, least: usize, start: u64) -> SumGuest {
        let party = name(number);
        let records: &Path = &self.folder.path().join(party.as_str());
        guest(&party, 100 * start + number as u64, least, records)
    }

    /// All guests start again: a new run, with the same files.
    fn start_again(&mut self, least: usize) {
        self.sessions += 1;
        let guests = self.guests.len();
        self.guests.clear();
        for number in 0..guests {
            let again = self.start(number, least, 2 + self.sessions);
            self.guests.push(again);
        }
        self.greet();
    }

    fn greet(&mut self) {
        self.hellos.clear();
        for guest in &mut self.guests {
            let hello = answers(guest.handle(Now::default(), ToGuest::HelloRequest));
            let [ToHost::Sum(FromSumGuest::Hello(hello))] = &hello[..] else { panic!("{hello:?}") };
            self.hellos.push((**hello).clone());
        }
    }

    fn group(&self, members: &[usize]) -> SumGroup {
        let member = |&number: &usize| {
            let SumHello { party, session, key, .. } = self.hellos[number].clone();
            SumMember { party, session, key }
        };
        SumGroup {
            protocol: PROTOCOL,
            software: Text::of("test"),
            run: RunId(1),
            group: 5,
            plan: plan(),
            members: Members::new(members.iter().map(member).collect()).unwrap(),
        }
    }

    fn say(&mut self, to: usize, message: FromSumHost) -> Vec<ToHost> {
        // As bytes, as a guest gets it.
        let sink = protocol::ledger::MemorySink::default();
        let mut ledger = Ledger::in_memory(&sink, &party("city")).unwrap();
        let message = ToGuest::Sum(message);
        let sent = ledger.release(Now::default(), &name(to), message).unwrap();
        let message = decode_to_guest(sent.bytes()).unwrap();
        answers(self.guests[to].handle(Now::default(), message))
    }

    /// All join and send masked totals.
    fn masked(&mut self, members: &[usize]) -> Vec<Vec<u64>> {
        let group = self.group(members);
        let masked = members.iter().map(|&to| {
            assert!(self.say(to, FromSumHost::Group(Box::new(group.clone()))).is_empty());
            let said = self.say(to, FromSumHost::Request { group: 5, block: block() });
            let [ToHost::Sum(FromSumGuest::Masked { words, .. })] = &said[..] else {
                panic!("{said:?}")
            };
            words.as_slice().to_vec()
        });
        masked.collect()
    }

    fn sign(&mut self, to: usize, included: &[u32]) -> Result<Signature, String> {
        let included = Included::new(included.to_vec()).unwrap();
        let said = self.say(to, FromSumHost::Participants { group: 5, block: block(), included });
        match &said[..] {
            [ToHost::Sum(FromSumGuest::Agreed { signature, .. })] => Ok(signature.clone()),
            _ => Err(self.stopped(to, &said)),
        }
    }

    fn reveal(&mut self, to: usize, signatures: Vec<Signature>) -> Result<Reveal, String> {
        let said = self.say(to, FromSumHost::Signatures { group: 5, block: block(), signatures });
        match &said[..] {
            [ToHost::Sum(FromSumGuest::Seeds { seeds, .. })] => {
                let dropped = seeds.dropped().iter().map(|seed| Seed::from_bytes(*seed)).collect();
                Ok(Reveal { own: Seed::from_bytes(*seeds.own()), dropped })
            }
            _ => Err(self.stopped(to, &said)),
        }
    }

    /// Why a guest stopped; it must have told the host nothing but that.
    fn stopped(&self, guest: usize, said: &[ToHost]) -> String {
        let left = |message: &ToHost| {
            matches!(message, ToHost::Leave { departure: Departure::Failed(_), .. })
        };
        assert!(said.iter().all(left), "{said:?}");
        self.guests[guest].stopped().map_or("it said nothing".to_owned(), ToString::to_string)
    }
}

fn totals(guest: &PartyId) -> Vec<u64> {
    let row = |step: Step| (0..WIDTH).map(move |column| (step, column));
    block().steps().flat_map(row).map(|(step, column)| word(guest, step.0, column)).collect()
}

fn sum(of: &[usize]) -> Vec<u64> {
    let all: Vec<Vec<u64>> = of.iter().map(|&number| totals(&name(number))).collect();
    (0..all[0].len()).map(|at| all.iter().fold(0, |sum, own| own[at].wrapping_add(sum))).collect()
}

fn unmasked(members: usize, there: &[(usize, Vec<u64>, Reveal)]) -> Vec<u64> {
    let all = there.iter();
    let all = all.map(|(place, masked, reveal)| Contribution { place: *place, masked, reveal });
    unmask(members, &all.collect::<Vec<_>>()).unwrap()
}

#[test]
fn what_leaves_a_guest_before_all_have_signed_says_nothing_of_it() {
    let mut cheat = Cheat::new(3, 2);
    let masked = cheat.masked(&[0, 1, 2]);
    for (number, masked) in masked.iter().enumerate() {
        let own = totals(&name(number));
        let differences = masked.iter().zip(&own).map(|(masked, own)| masked.wrapping_sub(*own));
        let differences: std::collections::BTreeSet<u64> = differences.collect();
        // One mask of its own for each word.
        assert_eq!(differences.len(), own.len());
    }
    // Asked again it says the same, and not another mask of the same numbers.
    let said = cheat.say(0, FromSumHost::Request { group: 5, block: block() });
    let [ToHost::Sum(FromSumGuest::Masked { words, .. })] = &said[..] else { panic!("{said:?}") };
    assert_eq!(words.as_slice(), masked[0]);
    // Nothing is revealed before it was asked to sign, nor before all have.
    assert_eq!(cheat.reveal(0, Vec::new()).unwrap_err(), "it said nothing");
    let own = cheat.sign(0, &[0, 1, 2]).unwrap();
    let error = cheat.reveal(0, vec![own.clone(), own.clone(), own]).unwrap_err();
    assert!(error.contains("participants signed by `guest-01`: signature"), "{error}");
}

/// The attack on Bonawitz et al. without the round of agreement: one guest is told that all take part, and reveals the seed of its own
/// mask; the others are told that it dropped out, and reveal the seeds that they share with it. Together that is all of its masks.
#[test]
fn a_host_that_lies_about_participation_learns_nothing() {
    let mut cheat = Cheat::new(3, 2);
    cheat.masked(&[0, 1, 2]);
    let victim = cheat.sign(0, &[0, 1, 2]).unwrap();
    let others = [1, 2].map(|other| cheat.sign(other, &[1, 2]).unwrap());
    // The others' signatures are of other participants.
    let signatures = vec![victim, others[0].clone(), others[1].clone()];
    let error = cheat.reveal(0, signatures).unwrap_err();
    assert!(error.contains("participants signed by `guest-01`: signature"), "{error}");
    // And they sign no others for this block.
    let error = cheat.sign(1, &[0, 1, 2]).unwrap_err();
    assert!(error.contains("found [0, 1, 2], expected [1, 2] as before"), "{error}");
    // What they have agreed to, the host may have: the sum over both.
    let second = cheat.sign(2, &[1, 2]).unwrap();
    let reveal = cheat.reveal(2, vec![others[0].clone(), second]).unwrap();
    assert_eq!(reveal.dropped.len(), 1);
}

#[test]
fn less_than_half_of_a_group_or_fewer_than_the_policy_says_are_no_sum() {
    let mut cheat = Cheat::new(4, 3);
    cheat.masked(&[0, 1, 2, 3]);
    let error = cheat.sign(0, &[0, 1]).unwrap_err();
    assert!(error.contains("found 2, expected 3 or more"), "{error}");
    // Of five, three: two sums of the same steps have a guest in common, which signs one of them.
    let mut cheat = Cheat::new(5, 2);
    cheat.masked(&[0, 1, 2, 3, 4]);
    let error = cheat.sign(3, &[3, 4]).unwrap_err();
    assert!(error.contains("found 2, expected 3 or more"), "{error}");
    // A group that does not say who else there is.
    let mut cheat = Cheat::new(2, 2);
    let alone = cheat.group(&[0]);
    let said = cheat.say(0, FromSumHost::Group(Box::new(alone)));
    let error = cheat.stopped(0, &said);
    assert!(error.contains("found 1, expected 2 or more"), "{error}");
    // Nobody signs for others.
    let mut cheat = Cheat::new(3, 2);
    cheat.masked(&[0, 1, 2]);
    let error = cheat.sign(0, &[1, 2]).unwrap_err();
    assert!(error.contains("expected places among them with ours"), "{error}");
}

/// The sum over all less the sum over all but one is that one's.
#[test]
fn a_later_run_over_other_guests_is_refused() {
    let mut cheat = Cheat::new(4, 2);
    let masked = cheat.masked(&[0, 1, 2, 3]);
    let all = [0, 1, 2, 3];
    let signatures = all.map(|guest| cheat.sign(guest, &[0, 1, 2, 3]).unwrap());
    let there: Vec<_> = all
        .iter()
        .map(|&guest| {
            (guest, masked[guest].clone(), cheat.reveal(guest, signatures.to_vec()).unwrap())
        })
        .collect();
    assert_eq!(unmasked(4, &there), sum(&all));
    // The same sum again, of a new run, is the same sum.
    cheat.start_again(2);
    let masked = cheat.masked(&all);
    let signatures = all.map(|guest| cheat.sign(guest, &[0, 1, 2, 3]).unwrap());
    let again: Vec<_> = all
        .iter()
        .map(|&guest| {
            (guest, masked[guest].clone(), cheat.reveal(guest, signatures.to_vec()).unwrap())
        })
        .collect();
    assert_eq!(unmasked(4, &again), sum(&all));
    // Other masks: the first run's say nothing of these.
    assert_ne!(there[0].1, again[0].1);
    assert_ne!(there[0].2.own, again[0].2.own);
    // Over others it is refused, whether the rest is said to be absent or left out of the group.
    cheat.start_again(2);
    cheat.masked(&all);
    let error = cheat.sign(0, &[0, 1, 2]).unwrap_err();
    assert!(
        error.contains("steps 0 to 4: found a sum over guest-00, guest-01, guest-02"),
        "{error}"
    );
    cheat.start_again(2);
    cheat.masked(&[0, 1, 2]);
    let error = cheat.sign(1, &[0, 1, 2]).unwrap_err();
    assert!(error.contains("the difference between two sums"), "{error}");
}

/// Finding 10 of the review: keys that the host hands on are signed by those whose they are.
#[test]
fn keys_that_the_host_puts_in_place_of_others_are_refused() {
    let refused = |change: &dyn Fn(&Cheat, &mut Vec<SumMember>)| {
        let mut cheat = Cheat::new(3, 2);
        let group = cheat.group(&[0, 1, 2]);
        let mut members = group.members.as_slice().to_vec();
        change(&cheat, &mut members);
        let group = SumGroup { members: Members::new(members).unwrap(), ..group };
        let said = cheat.say(0, FromSumHost::Group(Box::new(group)));
        cheat.stopped(0, &said)
    };
    let error = refused(&|_, members| members[1].key.public = [9; 32]);
    assert!(error.contains("key of `guest-01`: signature"), "{error}");
    let error = refused(&|_, members| members[1].session += 1);
    assert!(error.contains("key of `guest-01`: signature"), "{error}");
    let error = refused(&|cheat, members| members[1].key = cheat.hellos[2].key.clone());
    assert!(error.contains("expected one of the guest `guest-01`"), "{error}");
    let error = refused(&|_, members| members[0].key.public = [9; 32]);
    assert!(error.contains("another key of ours"), "{error}");
    let error = refused(&|_, members| drop(members.remove(0)));
    assert!(error.contains("found no `guest-00` in it"), "{error}");
}

#[test]
fn signatures_of_one_block_are_none_of_another() {
    let mut cheat = Cheat::new(2, 2);
    cheat.masked(&[0, 1]);
    let other = Block::new(Step(20), Step(26)).unwrap();
    for to in [0, 1] {
        assert_eq!(cheat.say(to, FromSumHost::Request { group: 5, block: other }).len(), 1);
    }
    let of_first = cheat.sign(1, &[0, 1]).unwrap();
    let included = Included::new(vec![0, 1]).unwrap();
    let said = cheat.say(0, FromSumHost::Participants { group: 5, block: other, included });
    let [ToHost::Sum(FromSumGuest::Agreed { signature, .. })] = &said[..] else {
        panic!("{said:?}")
    };
    let signatures = vec![signature.clone(), of_first];
    let said = cheat.say(0, FromSumHost::Signatures { group: 5, block: other, signatures });
    let error = cheat.stopped(0, &said);
    assert!(error.contains("participants signed by `guest-01`: signature"), "{error}");
}

#[test]
fn steps_that_were_not_announced_are_refused() {
    let mut cheat = Cheat::new(2, 2);
    cheat.masked(&[0, 1]);
    let outside = Block::new(Step(4), Step(5)).unwrap();
    let said = cheat.say(0, FromSumHost::Request { group: 5, block: outside });
    let error = cheat.stopped(0, &said);
    assert!(error.contains("totals of step 5, expected one that was announced"), "{error}");
}
