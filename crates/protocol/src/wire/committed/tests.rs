use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use traffic::{FleetView, Step, Window};

use super::*;
use crate::message::parts::Batch;
use crate::message::{Exchange, ToGuest, ToHost};
use crate::party::{Attempt, Round, RunId};
use crate::wire::{decode_to_guest, decode_to_host, encode_to_guest, encode_to_host};

fn exchange() -> Exchange {
    Exchange { run: RunId(7), attempt: Attempt(2), round: Round(9) }
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(|bytes| Digest::new(&bytes).expect("32 bytes"))
}

fn reply() -> impl Strategy<Value = CommitmentReply> {
    let group = (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..40))
        .prop_map(|(commitments, proof)| CommitmentGroup { commitments, proof });
    let proven =
        vec(group, 1..=MOST_GROUPS).prop_map(|groups| ProvenCommitments::new(groups).expect("few"));
    let openings = vec(vec(any::<u8>(), 0..64), 1..=MOST_CHECKS as usize)
        .prop_map(|openings| CommitmentOpenings::new(openings).expect("few"));
    let exchange = exchange();
    prop_oneof![
        (digest(), digest(), any::<u32>(), proven).prop_map(
            move |(after, digest, values, proven)| {
                CommitmentReply::Commitments { exchange, after, digest, values, proven }
            }
        ),
        (digest(), any::<[u32; 2]>(), openings).prop_map(move |(challenge, size, openings)| {
            CommitmentReply::Response { exchange, challenge, size, openings }
        }),
    ]
}

fn request() -> impl Strategy<Value = CommitmentRequest> {
    let samples = vec((-1000i64..1000, 0u16..4), 1..9).prop_map(|samples| {
        let sample = |(step, view)| Window { last: Step(step), view: FleetView(view) };
        Batch::new(samples.into_iter().map(sample).collect()).expect("a batch")
    });
    let weights =
        vec(any::<i32>(), 1..50).prop_map(|weights| CheckWeights::new(weights).expect("few"));
    let exchange = exchange();
    prop_oneof![
        (digest(), samples).prop_map(move |(after, batch)| CommitmentRequest::Samples {
            exchange,
            after,
            batch
        }),
        digest().prop_map(move |digest| CommitmentRequest::Accepted { exchange, digest }),
        (digest(), weights).prop_map(move |(query, weights)| {
            CommitmentRequest::Challenge { exchange, query, weights }
        }),
    ]
}

proptest! {
    #[test]
    fn messages_come_back_from_the_wire(reply in reply(), request in request()) {
        let (reply, request) = (ToHost::Commitment(reply), ToGuest::Commitment(request));
        prop_assert_eq!(decode_to_host(&encode_to_host(&reply)).unwrap(), reply);
        prop_assert_eq!(decode_to_guest(&encode_to_guest(&request)).unwrap(), request);
    }

    /// A message that is cut is none, or another one: never a panic.
    #[test]
    fn cut_messages_are_refused_or_read(reply in reply(), request in request(), keep in 0.0..1.0) {
        let cut = |bytes: Vec<u8>| bytes[..(bytes.len() as f64 * keep) as usize].to_vec();
        let reply = ToHost::Commitment(reply);
        prop_assert!(decode_to_host(&cut(encode_to_host(&reply))).is_ok_and(|m| m != reply)
            || decode_to_host(&cut(encode_to_host(&reply))).is_err());
        let request = ToGuest::Commitment(request);
        prop_assert!(decode_to_guest(&cut(encode_to_guest(&request))).is_ok_and(|m| m != request)
            || decode_to_guest(&cut(encode_to_guest(&request))).is_err());
    }
}

#[test]
fn too_much_or_of_the_wrong_length_is_refused_by_name() {
    let part =
        || wire::CommitmentGroup { commitments: vec![0; 8].into(), proof: vec![0; 8].into() };
    let commitments = wire::Commitments {
        exchange: Some(of_exchange(&exchange())),
        after: vec![0; 32].into(),
        digest: vec![0; 32].into(),
        values: 1,
        groups: vec![part()],
    };
    let refused = |change: &dyn Fn(&mut wire::Commitments)| {
        let mut message = commitments.clone();
        change(&mut message);
        let message = Some(to_host::Message::Commitments(message));
        let error = decode_to_host(&wire::ToHost { message }.encode_to_vec()).unwrap_err();
        error.to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut wire::Commitments);
    let cases: [(&str, Change<'_>); 7] = [
        ("exchange: found nothing", &|m| m.exchange = None),
        ("digest of commitments: found 31", &|m| m.after = vec![0; 31].into()),
        ("digest of commitments: found 33", &|m| m.digest = vec![0; 33].into()),
        ("groups of commitments: found 0", &|m| m.groups.clear()),
        ("groups of commitments: found 17", &|m| m.groups = vec![part(); 17]),
        ("commitments: found 16401", &|m| m.groups[0].commitments = vec![0; 16_401].into()),
        ("range proof: found 2049", &|m| m.groups[0].proof = vec![0; 2049].into()),
    ];
    for (words, change) in cases {
        let error = refused(change);
        assert!(error.starts_with(words), "{error}");
    }
    let exchange = || Some(of_exchange(&exchange()));
    let response = |openings: Vec<Vec<u8>>| {
        let challenge = vec![0; 32].into();
        let openings = openings.into_iter().map(Into::into).collect();
        response(wire::CommitmentOpenings {
            exchange: exchange(),
            challenge,
            rows: 1,
            values: 1,
            openings,
        })
    };
    for openings in [vec![], vec![vec![0; 65]], vec![vec![]; 17]] {
        assert!(response(openings).is_err());
    }
    let challenge = |bytes: usize| {
        let (query, weights) = (vec![0; 32].into(), vec![0; bytes].into());
        challenge(wire::Challenge { exchange: exchange(), query, weights })
    };
    assert!(challenge(0).is_err() && challenge(7).is_err() && challenge(8).is_ok());
    assert!(challenge((16 << 20) + 4).is_err());
    let bounds = |bounds, checks| read_terms(wire::CommitmentTerms { bounds, checks });
    assert!(bounds(0, 1).is_err() && bounds(3, 1).is_err());
    assert!(bounds(1, 0).unwrap().check().is_err() && bounds(2, 17).unwrap().check().is_err());
    assert!(bounds(1, 16).unwrap().check().is_ok());
}
