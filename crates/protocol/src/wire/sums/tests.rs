use super::*;
use crate::message::{PROTOCOL, ToGuest, ToHost};
use crate::wire::{decode_to_guest, decode_to_host, encode_to_guest, encode_to_host};

fn a_key() -> SignedKey {
    SignedKey {
        public: [3; 32],
        certificate: CertificateBytes::new(vec![1, 2, 3]).unwrap(),
        signature: a_signature(),
    }
}

fn a_signature() -> Signature {
    Signature::new(vec![7; 70]).unwrap()
}

fn a_block() -> Block {
    Block::new(Step(-3), Step(12)).unwrap()
}

fn some_terms(run: Option<RunId>) -> SumTerms {
    SumTerms { network_hash: Text::of("sha256:0"), step_s: 10.0, run }
}

fn a_member(name: &str) -> SumMember {
    SumMember { party: PartyId::new(name).unwrap(), session: 5, key: a_key() }
}

fn a_group() -> SumGroup {
    SumGroup {
        protocol: PROTOCOL,
        software: Text::of("fedtse"),
        run: RunId(7),
        group: u64::MAX,
        plan: SumPlan {
            terms: some_terms(None),
            folds: 8,
            cells: 24,
            movements: true,
            queues: false,
            width: 36,
            training: StepRange { first: -3, last: 9 },
        },
        members: Members::new(vec![a_member("fleet-a"), a_member("fleet-b")]).unwrap(),
    }
}

#[test]
fn messages_come_back_as_they_were() {
    let (group, block, signature) = (9, a_block(), a_signature());
    let words = MaskedWords::new(vec![0, u64::MAX, 1 << 63]).unwrap();
    let to_host = [
        FromSumGuest::Hello(Box::new(SumHello {
            protocol: PROTOCOL,
            software: Text::of("fedtse"),
            party: PartyId::new("fleet-a").unwrap(),
            session: 5,
            terms: some_terms(Some(RunId(0))),
            held: HeldSteps::of([8, 9, 12].map(Step)).unwrap(),
            folds: 1,
            key: a_key(),
        })),
        FromSumGuest::Masked { group, block, words },
        FromSumGuest::Agreed { group, block, signature: signature.clone() },
        FromSumGuest::Seeds { group, block, seeds: Seeds::new([1; 32], vec![[2; 32]; 3]).unwrap() },
    ];
    for message in to_host.map(ToHost::Sum) {
        assert_eq!(decode_to_host(&encode_to_host(&message)).unwrap(), message);
    }
    let signatures = vec![signature.clone(), signature];
    let to_guest = [
        FromSumHost::Group(Box::new(a_group())),
        FromSumHost::Request { group, block },
        FromSumHost::Participants { group, block, included: Included::new(vec![0, 63]).unwrap() },
        FromSumHost::Signatures { group, block, signatures },
        FromSumHost::Finish { run: RunId(7) },
    ];
    for message in to_guest.map(ToGuest::Sum) {
        assert_eq!(decode_to_guest(&encode_to_guest(&message)).unwrap(), message);
    }
}

#[test]
fn parts_beyond_their_bounds_are_refused() {
    let refused =
        |error: Option<WireError>| error.map_or("taken".into(), |error| error.to_string());
    let a_block = || Some(wire::StepRange { first: 1, last: 2 });
    let masked = |words: Vec<u8>, block| {
        refused(super::masked(wire::MaskedTotals { group: 1, block, words: words.into() }).err())
    };
    assert_eq!(masked(vec![0; 8], a_block()), "taken");
    assert!(masked(vec![0; 9], a_block()).contains("found 9, expected a multiple of 8"));
    assert!(masked(vec![], a_block()).contains("words of masked totals: found 0"));
    assert_eq!(masked(vec![0; 8], None), "block: found nothing, expected a value");
    for (first, last) in [(2, 1), (0, 4096), (i64::MIN, i64::MAX), (MAX_STEP, MAX_STEP + 1)] {
        let error = masked(vec![0; 8], Some(wire::StepRange { first, last }));
        assert!(error.starts_with("steps of a sum: found"), "{error}");
    }
    let included = |included: Vec<u32>| {
        let message = wire::SumParticipants { group: 1, block: a_block(), included };
        refused(super::participants(message).err())
    };
    assert_eq!(included(vec![0, 5, 63]), "taken");
    for wrong in [vec![], vec![1, 1], vec![2, 1], vec![64]] {
        assert!(included(wrong).starts_with("participants of a sum: found ["));
    }
    assert!(included(vec![0; 65]).contains("at most 64"));
    let seeds = |own: &'static [u8], dropped: usize| {
        let dropped = vec![Bytes::from_static(&[2; 32]); dropped];
        let own = Bytes::from_static(own);
        let message = wire::MaskSeeds { group: 1, block: a_block(), own, dropped };
        refused(super::seeds(message).err())
    };
    assert_eq!(seeds(&[1; 32], 63), "taken");
    assert_eq!(seeds(&[1; 31], 0), "seed of a mask: found 31, expected 32 bytes");
    assert!(seeds(&[1; 32], 64).contains("found 64, expected fewer than 64"));
    let sent = |change: &dyn Fn(&mut wire::SumGroup)| {
        let message = FromSumHost::Group(Box::new(a_group()));
        let to_guest::Message::SumGroup(mut group) = from_host(&message) else {
            panic!("found another message")
        };
        change(&mut group);
        refused(super::group(group).err())
    };
    let plan =
        |change: &dyn Fn(&mut wire::SumPlan)| sent(&|group| change(group.plan.as_mut().unwrap()));
    assert_eq!(sent(&|_| {}), "taken");
    assert!(sent(&|group| group.members.clear()).contains("found 0, expected 1 to 64"));
    assert!(sent(&|group| group.members.reverse()).contains("the order of their names"));
    assert!(
        sent(&|group| group.members = vec![group.members[0].clone(); 65]).contains("at most 64")
    );
    assert!(sent(&|group| group.members[0].party = "../x".into()).contains("name of a party"));
    assert!(plan(&|plan| plan.width = 0).contains("numbers of a row: found 0"));
    assert!(plan(&|plan| plan.folds = 65).contains("folds: found 65, expected 1 to 64"));
    assert!(plan(&|plan| plan.folds = 0).contains("folds: found 0"));
    assert!(plan(&|plan| plan.training = None).contains("training: found nothing"));
    let far = wire::StepRange { first: i64::MIN, last: 0 };
    assert!(plan(&|plan| plan.training = Some(far)).contains("training part: found"));
    let key = |change: &dyn Fn(&mut wire::SignedKey)| {
        sent(&|group| change(group.members[0].key.as_mut().unwrap()))
    };
    assert!(key(&|key| key.public = vec![0; 33].into()).contains("public key: found 33"));
    assert!(key(&|key| key.signature = vec![0; 513].into()).contains("1 to 512 bytes"));
    assert!(key(&|key| key.certificate = vec![0; 8193].into()).contains("1 to 8192 bytes"));
}

#[test]
fn numbers_and_secrets_are_not_shown() {
    let words = MaskedWords::new(vec![123_456_789; 2]).unwrap();
    let seeds = Seeds::new([77; 32], vec![[78; 32]]).unwrap();
    assert_eq!(format!("{words:?} {seeds:?}"), "[2 masked words] [2 seeds]");
}
