use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use traffic::{FleetView, LinkId, MeasurementEntry, Quantity, Step, Window};

use super::*;
use crate::compression::Compression;
use crate::message::heads::{Countersignature, HeadMessage, LedgerHead};
use crate::message::measurements::{
    MAX_ENTRIES, MAX_FOLDS, MAX_MOVEMENTS, MeasurementKind, MeasurementLayout, MeasurementOffer,
    Measurements, Movements, TrafficShares,
};
use crate::message::parts::{
    Batch, Embedding, EmbeddingGradient, HeldSteps, MAX_CHECKPOINTS, MAX_EXCHANGES, MAX_RANGES,
    MAX_STEP, MAX_STEPS, MAX_TEXT, StepRange, Text, Values,
};
use crate::message::sealed::{
    BlockWeights, CoefficientEntries, Fingerprint, MissingCiphertexts, Sealed,
};
use crate::message::sums::{CertificateBytes, Signature};
use crate::message::{
    Departure, Exchange, Hello, MissedRounds, Purpose, Resume, ResumeState, StopCode, StopReason,
    Terms, Welcome,
};
use crate::party::{Attempt, PartyId, Round, RunId};
use crate::plan::{HostUpdates, LocalUpdates, LocalVariant, OptimiserSettings, Plan, Summary};

fn text() -> impl Strategy<Value = Text> {
    "[ -~äßé→]{0,40}".prop_map(Text::of)
}

fn stop_reason() -> impl Strategy<Value = StopReason> {
    let code = prop_oneof![
        Just(StopCode::Other),
        Just(StopCode::BudgetSpent),
        Just(StopCode::CommitmentMismatch)
    ];
    (code, text()).prop_map(|(code, text)| StopReason { code, text })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(run, attempt, round)| Exchange {
        run: RunId(run),
        attempt: Attempt(attempt),
        round: Round(round),
    })
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![Just(Purpose::Train), Just(Purpose::Validate), Just(Purpose::Estimate)]
}

fn values() -> impl Strategy<Value = Values> {
    (1usize..5, 1usize..6).prop_flat_map(|(width, samples)| {
        let number = any::<f32>().prop_map(|number| if number.is_finite() { number } else { 0.0 });
        // Near the end of the range the largest of 16 bits would have none.
        let number = number.prop_map(|number: f32| number.clamp(-1e38, 1e38));
        (compression(), vec(number, width * samples)).prop_map(move |(compression, numbers)| {
            compression.pack(width, numbers).expect("finite numbers")
        })
    })
}

fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::F16), Just(Compression::Q8)]
}

fn terms() -> impl Strategy<Value = Terms> {
    (text(), -1e9..1e9, -1e9..1e9, any::<u32>(), compression()).prop_map(
        |(network_hash, step_s, origin_s, window, compression)| Terms {
            network_hash,
            step_s,
            origin_s,
            window,
            compression,
        },
    )
}

fn held() -> impl Strategy<Value = HeldSteps> {
    vec((1i64..1000, 0i64..1000), 0..6).prop_map(|pairs| {
        let mut end = -MAX_STEP - 1;
        let range = |(gap, length): (i64, i64)| {
            let first = end + gap;
            end = first + length;
            StepRange { first, last: end }
        };
        HeldSteps::new(pairs.into_iter().map(range).collect()).expect("in order and apart")
    })
}

fn resume_state() -> impl Strategy<Value = ResumeState> {
    (
        option::of(any::<u64>().prop_map(RunId)),
        vec(any::<u64>().prop_map(Round), 0..MAX_CHECKPOINTS),
        option::of((any::<u32>().prop_map(Attempt), any::<u64>().prop_map(Round))),
    )
        .prop_map(|(run, checkpoints, in_memory)| ResumeState { run, checkpoints, in_memory })
}

fn kind() -> impl Strategy<Value = MeasurementKind> {
    prop_oneof![
        Just(MeasurementKind::Speeds),
        Just(MeasurementKind::Queues),
        Just(MeasurementKind::HeldOut)
    ]
}

fn entry() -> impl Strategy<Value = MeasurementEntry> {
    let quantity =
        prop_oneof![Just(Quantity::Density), Just(Quantity::Flow), Just(Quantity::Speed)];
    (any::<u32>(), quantity)
        .prop_map(|(link, quantity)| MeasurementEntry { link: LinkId(link), quantity })
}

fn measures() -> impl Strategy<Value = MeasurementOffer> {
    let entries = prop::collection::btree_set(entry(), 1..6)
        .prop_map(|entries| entries.into_iter().rev().collect());
    let layout = prop::collection::btree_map(kind(), entries, 0..3);
    let counts = || vec(any::<u64>(), 0..4);
    let movements = [(); 6].map(|()| counts()).prop_map(
        |[turned, left, free_metres, free_seconds, queued_metres, queued_steps]| Movements {
            turned,
            left,
            free_metres,
            free_seconds,
            queued_metres,
            queued_steps,
        },
    );
    let stated = option::of(0.001..=1.0);
    (layout, 0..=MAX_FOLDS, option::of(0.0..1e9), stated, movements).prop_map(
        |(layout, folds, passages, stated, movements)| MeasurementOffer {
            layout: MeasurementLayout::new(layout).expect("no entry twice"),
            folds,
            passages,
            stated,
            movements,
        },
    )
}

fn measurements() -> impl Strategy<Value = Measurements> {
    (1usize..5, 1usize..6).prop_flat_map(|(entries, samples)| {
        let count = entries * samples;
        (vec(-1e30f32..1e30, count), vec(0f32..1e30, count)).prop_map(
            move |(mut values, mut weights)| {
                // Every third is not measured.
                for place in (0..count).step_by(3) {
                    (values[place], weights[place]) = (0.0, 0.0);
                }
                weights.iter_mut().zip(&values).for_each(|(weight, value)| {
                    *weight = if *value == 0.0 { 0.0 } else { weight.max(1e-30) };
                });
                Measurements::new(entries, values, weights).expect("measurements")
            },
        )
    })
}

fn to_host() -> impl Strategy<Value = ToHost> {
    let hello = (
        (any::<u32>(), text(), any::<u64>(), any::<u64>(), any::<u32>()),
        (terms(), held(), measures(), resume_state()),
    )
        .prop_map(
            |(
                (protocol, software, session, greeting, width),
                (terms, held, measures, resume_state),
            )| {
                let party = PartyId::new("fleet-a").expect("a name");
                ToHost::Hello(Box::new(Hello {
                    protocol,
                    software,
                    party,
                    session,
                    greeting,
                    terms,
                    held,
                    width,
                    offer: measures,
                    resume_state,
                }))
            },
        );
    let departure = prop_oneof![
        Just(Departure::Finished),
        Just(Departure::Stopped),
        stop_reason().prop_map(Departure::Failed)
    ];
    prop_oneof![
        hello,
        (exchange(), purpose(), values()).prop_map(|(exchange, purpose, values)| {
            ToHost::Embedding { exchange, purpose, embedding: Embedding(values) }
        }),
        (exchange(), purpose(), measurements()).prop_map(|(exchange, purpose, measurements)| {
            ToHost::Measurements { exchange, purpose, measurements }
        }),
        (exchange(), sealed()).prop_map(|(exchange, key)| ToHost::PublicKey { exchange, key }),
        (exchange(), any::<u32>(), vec(0.0f32..1e6, 1..9), sealed()).prop_map(
            |(exchange, place, weights, upload)| {
                let weights = BlockWeights::new(weights).expect("weights");
                ToHost::Upload { exchange, place, weights, upload }
            }
        ),
        (exchange(), any::<[u32; 2]>(), sealed())
            .prop_map(|(exchange, size, answer)| ToHost::Products { exchange, size, answer }),
        (exchange(), any::<[u8; 32]>(), any::<[u32; 2]>(), sealed()).prop_map(
            |(exchange, key, size, products)| {
                let (recipient, key) = (PartyId::new("b").expect("a name"), Fingerprint::new(&key));
                ToHost::MaskedProducts {
                    exchange,
                    recipient,
                    key: key.expect("32 bytes"),
                    size,
                    products,
                }
            }
        ),
        exchange().prop_map(|exchange| ToHost::Checkpointed { exchange }),
        Just(ToHost::Heartbeat),
        head_message().prop_map(ToHost::Ledger),
        (any::<u64>(), departure)
            .prop_map(|(session, departure)| ToHost::Leave { session, departure }),
    ]
}

fn head_message() -> impl Strategy<Value = HeadMessage> {
    let head = (1_u64.., any::<[u8; 32]>());
    let head = head.prop_map(|(sequence, head)| LedgerHead { sequence, head });
    let signed = (head.clone(), vec(any::<u8>(), 1..99), vec(any::<u8>(), 1..99));
    prop_oneof![
        head.prop_map(HeadMessage::Head),
        signed.prop_map(|(head, certificate, signature)| {
            let certificate = CertificateBytes::new(certificate).expect("bytes");
            let signature = Signature::new(signature).expect("bytes");
            let signed = Countersignature { head, certificate, signature };
            HeadMessage::Countersigned(Box::new(signed))
        }),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let recipe =
        (0f32..1.0, any::<bool>(), 0f32..1.0, option::of(0f32..9.0), option::of(0f32..0.9))
            .prop_map(|(rate, one_cycle, decay, clip, average)| OptimiserSettings {
                rate,
                one_cycle,
                decay,
                clip,
                average,
            });
    let variant = prop_oneof![Just(LocalVariant::Recompute), Just(LocalVariant::Frozen)];
    let host = prop_oneof![Just(HostUpdates::Each), Just(HostUpdates::Once)];
    let local =
        (1u32..1000, variant, 0f32..1.0, host).prop_map(|(count, variant, proximal, host)| {
            LocalUpdates { count, variant, proximal, host }
        });
    let counts = (any::<u64>(), 1u32..256, 1u32..1000, 1u32..u32::MAX);
    let measured = prop::collection::btree_set(kind(), 0..3);
    let shares = option::of((0.01..0.5).prop_map(|own: f64| TrafficShares { own, all: 1.9 * own }));
    (counts, recipe, local, (1u32..16, measured, shares)).prop_map(
        |((seed, batch, epochs, exchanges), recipe, local, measuring)| Plan {
            seed,
            batch: batch * measuring.0,
            epochs,
            exchanges,
            optimiser: recipe,
            local,
            segment: measuring.0,
            measured: measuring.1,
            shares: measuring.2,
            sealing: None,
        },
    )
}

fn sealed() -> impl Strategy<Value = Sealed> {
    vec(any::<u8>(), 0..50).prop_map(|bytes| Sealed::new(bytes).expect("few bytes"))
}

fn coefficient_entries() -> impl Strategy<Value = CoefficientEntries> {
    (vec(any::<u32>(), 1..50), any::<u32>()).prop_map(|(entries, first)| {
        CoefficientEntries::new(entries).expect("few entries").from_sample(first)
    })
}

fn to_guest() -> impl Strategy<Value = ToGuest> {
    let resume = prop_oneof![
        any::<u64>().prop_map(|round| Resume::AtRound(Round(round))),
        (any::<u64>(), 0..=MAX_EXCHANGES, any::<bool>()).prop_map(|(round, exchanges, best)| {
            Resume::NewestWeights(MissedRounds { round: Round(round), exchanges, best })
        })
    ];
    let welcome = (
        (any::<u32>(), text(), any::<u64>(), any::<u64>(), any::<u32>()),
        (terms(), plan(), resume),
    )
        .prop_map(|((protocol, software, session, run, attempt), (terms, plan, resume))| {
            let (run, attempt) = (RunId(run), Attempt(attempt));
            ToGuest::Welcome(Box::new(Welcome {
                protocol,
                software,
                session,
                run,
                attempt,
                terms,
                plan,
                resume,
            }))
        });
    let views = prop_oneof![2 => Just(0), 1 => 0..=MAX_FOLDS];
    let sample = (-MAX_STEP..=MAX_STEP, views)
        .prop_map(|(last, view)| Window { last: Step(last), view: FleetView(view) });
    let samples = vec(sample, 1..20);
    let summary = (any::<u64>(), any::<u32>(), any::<u32>(), -1e9..1e9).prop_map(
        |(rounds, epochs, best_epoch, validation)| Summary {
            rounds: Round(rounds),
            epochs,
            best_epoch,
            validation,
        },
    );
    prop_oneof![
        Just(ToGuest::HelloRequest),
        welcome,
        (exchange(), purpose(), samples, proptest::option::of(any::<bool>()), any::<bool>())
            .prop_map(|(exchange, purpose, samples, missing, checkpoint)| {
                ToGuest::EmbeddingRequest {
                    checkpoint,
                    exchange,
                    purpose,
                    missing: missing.map(|public_key| MissingCiphertexts {
                        public_key,
                        blocks: (0..samples.len() as u32).collect(),
                    }),
                    batch: Batch::new(samples).expect("some samples"),
                }
            }),
        (exchange(), sealed())
            .prop_map(|(exchange, query)| ToGuest::ProductQuery { exchange, query }),
        (exchange(), vec(sealed(), 1..4))
            .prop_map(|(exchange, gradient)| ToGuest::MaskedGradient { exchange, gradient }),
        (exchange(), proptest::option::of(sealed()), coefficient_entries(), sealed()).prop_map(
            |(exchange, key, entries, coefficients)| {
                let recipient = PartyId::new("b").expect("a name");
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
        ),
        (exchange(), values()).prop_map(|(exchange, values)| ToGuest::Gradient {
            exchange,
            gradient: EmbeddingGradient(values)
        }),
        (exchange(), any::<bool>(), any::<bool>()).prop_map(|(exchange, best, trained)| {
            ToGuest::ExchangeClosed { exchange, best, trained }
        }),
        (any::<u64>(), any::<u32>(), summary).prop_map(|(run, attempt, summary)| {
            ToGuest::Finish { run: RunId(run), attempt: Attempt(attempt), summary }
        }),
        (any::<u64>(), stop_reason())
            .prop_map(|(session, reason)| ToGuest::Refuse { session, reason }),
        Just(ToGuest::Heartbeat),
        head_message().prop_map(ToGuest::Ledger),
    ]
}

proptest! {
    #[test]
    fn a_guests_message_comes_back_as_it_was(message in to_host()) {
        let bytes = encode_to_host(&message);
        prop_assert_eq!(decode_to_host(&bytes).unwrap(), message);
    }

    #[test]
    fn a_hosts_message_comes_back_as_it_was(message in to_guest()) {
        let bytes = encode_to_guest(&message);
        prop_assert_eq!(decode_to_guest(&bytes).unwrap(), message);
    }

    /// A message that was damaged on the way is another message or an error, never a panic.
    #[test]
    fn damaged_messages_do_no_harm(
        ours in to_host(),
        theirs in to_guest(),
        damage in vec((any::<usize>(), any::<u8>()), 1..8),
        cut in any::<usize>(),
    ) {
        for bytes in [encode_to_host(&ours), encode_to_guest(&theirs)] {
            let mut bytes = bytes;
            for (place, byte) in &damage {
                let length = bytes.len();
                bytes[place % length] = *byte;
            }
            bytes.truncate(cut % (bytes.len() + 1));
            let _ = decode_to_host(&bytes);
            let _ = decode_to_guest(&bytes);
        }
    }
}

fn an_exchange() -> Option<generated::Exchange> {
    Some(generated::Exchange { run: 1, attempt: 2, round: 3 })
}

fn refused_by_host(message: generated::to_host::Message) -> String {
    let message = generated::ToHost { message: Some(message) };
    decode_to_host(&message.encode_to_vec()).unwrap_err().to_string()
}

fn refused_by_guest(message: generated::to_guest::Message) -> String {
    let message = generated::ToGuest { message: Some(message) };
    decode_to_guest(&message.encode_to_vec()).unwrap_err().to_string()
}

#[test]
fn what_is_missing_is_not_zero() {
    use generated::{to_guest, to_host};
    assert_eq!(
        decode_to_host(&[]).unwrap_err().to_string(),
        "message: found nothing, expected a value"
    );
    assert_eq!(
        decode_to_guest(&[]).unwrap_err().to_string(),
        "message: found nothing, expected a value"
    );
    let embedding = generated::Embedding { exchange: None, purpose: 1, numbers: None };
    assert!(
        refused_by_host(to_host::Message::Embedding(embedding))
            .starts_with("exchange: found nothing")
    );
    let embedding = generated::Embedding { exchange: an_exchange(), purpose: 1, numbers: None };
    assert!(
        refused_by_host(to_host::Message::Embedding(embedding))
            .starts_with("numbers: found nothing")
    );
    let embedding = generated::Embedding { exchange: an_exchange(), purpose: 0, numbers: None };
    assert!(
        refused_by_host(to_host::Message::Embedding(embedding)).starts_with("purpose: found 0")
    );
    let leave = generated::Leave { departure: None, session: 1 };
    assert!(refused_by_host(to_host::Message::Leave(leave)).starts_with("leave: found nothing"));
    let settled = generated::ExchangeClosed { exchange: None, best: true, trained: true };
    assert!(
        refused_by_guest(to_guest::Message::ExchangeClosed(settled))
            .starts_with("exchange: found nothing")
    );
}

#[test]
fn what_is_beyond_bounds_is_refused() {
    use generated::{numbers, to_guest, to_host};
    let embedding = |width, numbers: &[f32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let values = Some(numbers::Values::F32(bytes.into()));
        refused_by_host(to_host::Message::Embedding(generated::Embedding {
            exchange: an_exchange(),
            purpose: 1,
            numbers: Some(generated::Numbers { width, values }),
        }))
    };
    assert!(embedding(2, &[1.0, f32::NAN]).contains("NaN at place 1"));
    assert!(embedding(2, &[1.0, f32::INFINITY]).contains("inf at place 1"));
    assert!(embedding(2, &[1.0; 3]).contains("a whole number of samples of 2"));
    assert!(embedding(0, &[1.0; 3]).contains("a whole number of samples of 0"));
    assert!(embedding(1, &[]).contains("found 0"));
    assert!(embedding(1, &vec![0.0; MAX_VALUES + 1]).contains("at most"));

    let packed = |width, values| {
        refused_by_host(to_host::Message::Embedding(generated::Embedding {
            exchange: an_exchange(),
            purpose: 1,
            numbers: Some(generated::Numbers { width, values: Some(values) }),
        }))
    };
    let f16 = |width, exponent, numbers: Vec<u8>| {
        packed(width, numbers::Values::F16(generated::Halves { exponent, numbers: numbers.into() }))
    };
    assert!(f16(1, 0, vec![0; 3]).contains("a multiple of 2"));
    assert!(f16(1, 0, vec![]).contains("found 0"));
    assert!(f16(3, 0, vec![0; 4]).contains("a whole number of samples of 3"));
    assert!(f16(1, 114, vec![0; 2]).contains("exponent of numbers: found 114"));
    assert!(f16(1, i32::MIN, vec![0; 2]).contains("expected -125 to 113"));
    // Infinity, and not a number.
    assert!(f16(1, 0, vec![0x00, 0x7c]).contains("finite numbers"));
    assert!(f16(1, 0, vec![0x01, 0x7c]).contains("finite numbers"));
    // The largest one, times too much.
    assert!(f16(1, 113, vec![0xff, 0x7b]).contains("finite numbers"));
    assert!(f16(1, 0, vec![0; 2 * (MAX_VALUES + 1)]).contains("at most"));

    let q8 = |width, steps: &[f32], codes: Vec<u8>| {
        let steps: Vec<u8> = steps.iter().flat_map(|step| step.to_le_bytes()).collect();
        let codes = generated::Codes { steps: steps.into(), codes: codes.into() };
        packed(width, numbers::Values::Q8(codes))
    };
    assert!(q8(2, &[1.0], vec![1, 2]).contains("steps of numbers: found 1, expected 2"));
    assert!(q8(2, &[1.0; 2], vec![1, 2, 3]).contains("a whole number of samples of 2"));
    assert!(q8(0, &[], vec![]).contains("found 0"));
    assert!(q8(1, &[1.0], vec![]).contains("found 0"));
    assert!(q8(1, &[1.0], vec![0x80]).contains("codes of numbers: found -128"));
    assert!(q8(1, &[-1.0], vec![1]).contains("steps of numbers: found -1"));
    assert!(q8(1, &[f32::NAN], vec![1]).contains("steps of numbers: found NaN"));
    assert!(q8(1, &[f32::INFINITY], vec![1]).contains("steps of numbers: found inf"));
    assert!(q8(1, &[f32::MIN_POSITIVE / 2.0], vec![1]).contains("steps of numbers"));
    assert!(q8(1, &[f32::MAX], vec![2]).contains("finite numbers"));
    assert!(q8(1, &[1.0], vec![0; MAX_VALUES + 1]).contains("at most"));

    let ask_views = |first, offset, view| {
        let exchange = an_exchange();
        let ask = generated::EmbeddingRequest {
            exchange,
            purpose: 1,
            first,
            offset,
            view,
            missing: None,
            checkpoint: false,
        };
        refused_by_guest(to_guest::Message::EmbeddingRequest(ask))
    };
    assert!(
        ask_views(0, vec![1, 2], vec![1]).contains("views asked for: found 1, expected none, or 2")
    );
    assert!(ask_views(0, vec![1, 2], vec![1, 65]).contains("views up to 64"));
    assert!(ask_views(0, vec![1], vec![u32::MAX]).contains("small numbers"));
    let ask = |first, offset| ask_views(first, offset, Vec::new());
    assert!(ask(0, vec![]).contains("found 0"));
    assert!(ask(0, vec![0; MAX_STEPS + 1]).contains("at most 4096 samples"));
    assert!(ask(0, vec![u64::MAX]).contains("steps within"));
    assert!(ask(i64::MAX, vec![1]).contains("steps within"));
    assert!(ask(i64::MIN, vec![0]).contains("steps within"));
    assert!(ask(MAX_STEP, vec![1]).contains("steps within"));

    let refuse = |reason: String| {
        refused_by_guest(to_guest::Message::Refuse(generated::Refuse {
            reason,
            session: 0,
            code: 1,
        }))
    };
    assert!(refuse("x".repeat(MAX_TEXT + 1)).contains("at most 512 bytes"));
    assert!(refuse("\u{1b}[2J".into()).contains("control character"));

    let hello = |held: usize, kept: usize, party: &str| {
        refused_by_host(to_host::Message::Hello(generated::Hello {
            protocol: 1,
            party: party.into(),
            terms: Some(generated::Terms { compression: 1, ..generated::Terms::default() }),
            held: vec![generated::StepRange { first: 0, last: 0 }; held],
            resume_state: Some(generated::ResumeState {
                run: None,
                checkpoints: vec![0; kept],
                in_memory: None,
            }),
            ..generated::Hello::default()
        }))
    };
    assert!(hello(MAX_RANGES + 1, 0, "a").contains("at most 4096 ranges"));
    assert!(hello(2, 0, "a").contains("in order and apart"));
    assert!(hello(0, MAX_CHECKPOINTS + 1, "a").contains("at most 8 rounds"));
    assert!(hello(0, 0, "../a").contains("name of a party"));

    let hello = |measures: Vec<generated::MeasurementLayout>, folds, passages| {
        refused_by_host(to_host::Message::Hello(generated::Hello {
            party: "a".into(),
            terms: Some(generated::Terms { compression: 1, ..generated::Terms::default() }),
            resume_state: Some(generated::ResumeState::default()),
            measurements: measures,
            folds,
            passages,
            ..generated::Hello::default()
        }))
    };
    let layout = |kind, links: std::ops::Range<u32>, quantity| generated::MeasurementLayout {
        kind,
        entries: links.map(|link| generated::Entry { link, quantity }).collect(),
    };
    let many = MAX_ENTRIES as u32 + 1;
    assert!(hello(vec![layout(1, 0..many, 1)], 0, None).contains("at most 16384 entries"));
    assert!(hello(vec![layout(9, 0..1, 1)], 0, None).contains("kind of measurements: found 9"));
    assert!(hello(vec![layout(1, 0..1, 7)], 0, None).contains("quantity of a measurement"));
    assert!(hello(vec![layout(1, 0..0, 1)], 0, None).contains("at least one"));
    let twice =
        generated::MeasurementLayout { entries: vec![generated::Entry::default(); 2], kind: 1 };
    let twice = hello(vec![twice], 0, None);
    assert!(twice.contains("quantity of a measurement: found 0"), "{twice}");
    let two = generated::MeasurementLayout {
        entries: vec![generated::Entry { link: 3, quantity: 1 }; 2],
        kind: 1,
    };
    assert!(hello(vec![two], 0, None).contains("none twice"));
    let same = hello(vec![layout(1, 0..1, 1), layout(1, 1..2, 1)], 0, None);
    assert!(same.contains("1 twice"), "{same}");
    assert!(hello(vec![], 65, None).contains("at most 64"));
    assert!(hello(vec![], 1 << 20, None).contains("a small number"));
    let counted = to_host::Message::Hello(generated::Hello {
        party: "a".into(),
        terms: Some(generated::Terms { compression: 1, ..generated::Terms::default() }),
        resume_state: Some(generated::ResumeState::default()),
        left: vec![1; MAX_MOVEMENTS + 1],
        ..generated::Hello::default()
    });
    assert!(refused_by_host(counted).contains("movements: found 16385"));
    assert!(hello(vec![], 0, Some(-1.0)).contains("passages: found -1"));
    assert!(hello(vec![], 0, Some(f64::NAN)).contains("passages: found NaN"));

    let measured = |entries, values: &[f32], weights: &[f32]| {
        let words = |numbers: &[f32]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        refused_by_host(to_host::Message::Measurements(generated::Measurements {
            exchange: an_exchange(),
            purpose: 1,
            entries,
            values: words(values).into(),
            weights: words(weights).into(),
        }))
    };
    assert!(measured(1, &[], &[]).contains("found 0"));
    assert!(measured(0, &[1.0], &[1.0]).contains("a whole number of samples of 0"));
    assert!(measured(2, &[1.0; 3], &[1.0; 3]).contains("a whole number of samples of 2"));
    assert!(measured(1, &[1.0; 2], &[1.0]).contains("found 1 weights, expected 2"));
    assert!(measured(1, &[1.0, f32::NAN], &[1.0; 2]).contains("NaN with weight 1 at place 1"));
    assert!(measured(1, &[1.0], &[-1.0]).contains("weights of 0 or more"));
    assert!(measured(1, &[1.0], &[f32::INFINITY]).contains("finite numbers"));
    // Nothing is told where nothing was measured.
    assert!(measured(1, &[1.0], &[0.0]).contains("0 for nothing"));
    let many = vec![1.0; MAX_VALUES / 2 + 1];
    assert!(measured(1, &many, &many).contains("expected 1 to"));

    let too_long = vec![0; MAX_MESSAGE + 1];
    assert!(matches!(decode_to_host(&too_long), Err(WireError::TooLong { .. })));
}

/// The numbers of an exchange are nearly all of its bytes: 2 % at most are something else, for the
/// default model on the corridor of the paper (128 samples, 17 links, 2 numbers per link), from
/// whichever round.
#[test]
fn an_exchange_is_its_numbers() {
    let exchange = Exchange { run: RunId(u64::MAX), attempt: Attempt(9), round: Round(100_000) };
    let (samples, width) = (128, 34);
    let values = Values::new(width, vec![1.5; samples * width]).unwrap();
    // Steps of a day anywhere in this century, in any order.
    let step = |sample: i64| Step(170_000_000 + sample * 6007 % 8640);
    let steps = (0..samples as i64).map(|sample| Window::whole(step(sample))).collect();
    let bytes = encode_to_guest(&ToGuest::EmbeddingRequest {
        exchange,
        purpose: Purpose::Train,
        batch: Batch::new(steps).unwrap(),
        missing: None,
        checkpoint: false,
    })
    .len()
        + encode_to_host(&ToHost::Embedding {
            exchange,
            purpose: Purpose::Train,
            embedding: Embedding(values.clone()),
        })
        .len()
        + encode_to_guest(&ToGuest::Gradient { exchange, gradient: EmbeddingGradient(values) })
            .len();
    let numbers = 2 * 4 * samples * width;
    assert!(bytes > numbers, "{bytes} bytes for {numbers}");
    assert!(bytes * 100 < numbers * 102, "{bytes} bytes for {numbers}");
}

/// Half the bytes, and a quarter: for the same exchange as above, in both directions.
#[test]
fn compressed_numbers_are_half_and_a_quarter() {
    let exchange = Exchange { run: RunId(u64::MAX), attempt: Attempt(9), round: Round(100_000) };
    let (samples, width) = (128, 34);
    let length = |compression: Compression| {
        let numbers = (0..samples * width).map(|i| (i as f32).sin()).collect();
        let values = compression.pack(width, numbers).unwrap();
        let purpose = Purpose::Train;
        let embedding = Embedding(values.clone());
        encode_to_host(&ToHost::Embedding { exchange, purpose, embedding }).len()
            + encode_to_guest(&ToGuest::Gradient { exchange, gradient: EmbeddingGradient(values) })
                .len()
    };
    let plain = length(Compression::None) as f64;
    // One exponent for 4352 numbers; a step of 4 bytes for 128 numbers; and what stands around them.
    assert!((length(Compression::F16) as f64 / plain - 0.5).abs() < 0.005);
    assert!((length(Compression::Q8) as f64 / plain - 0.25 * (1.0 + 4.0 / 128.0)).abs() < 0.005);
}
