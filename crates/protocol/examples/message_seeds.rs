//! Writes one message of each kind, as seeds for fuzzing:
//!
//! ```text
//! cargo run -p protocol --example message_seeds -- fuzz/seeds
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use protocol::ledger::{MemorySink, Recorded};
use protocol::message::committed::{
    CheckWeights, CommitmentGroup, CommitmentOpenings, CommitmentReply, CommitmentRequest, Digest,
    ProvenCommitments,
};
use protocol::message::heads::{Countersignature, HeadMessage, LedgerHead};
use protocol::message::parts::{
    Batch, Embedding, EmbeddingGradient, HeldSteps, StepRange, Text, Values,
};
use protocol::message::sealed::{
    BlockWeights, CoefficientEntries, Fingerprint, MissingCiphertexts, Sealed,
};
use protocol::message::sums::{
    Block, CertificateBytes, FromSumGuest, FromSumHost, Included, MaskedWords, Members, Seeds,
    Signature, SignedKey, SumGroup, SumHello, SumMember, SumPlan, SumTerms,
};
use protocol::message::{
    Departure, Hello, PROTOCOL, Resume, ResumeState, StopReason, Terms, Welcome,
};
use protocol::{
    Attempt, Compression, Exchange, Feedback, Ledger, LocalUpdates, MeasurementKind,
    MeasurementLayout, MeasurementOffer, Measurements, Movements, Now, OptimiserSettings, PartyId,
    Plan, Purpose, Released, Round, RunId, Summary, ToGuest, ToHost, TrafficShares,
};
use traffic::{FleetView, LinkId, MeasurementEntry, Quantity, Step, Window};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("expected the folder of seeds")?);
    for message in to_host()? {
        let file = folder.join("message_to_host").join(message.kind());
        std::fs::write(file, released(message)?.bytes())?;
    }
    for message in to_guest()? {
        let file = folder.join("message_to_guest").join(message.kind());
        std::fs::write(file, released(message)?.bytes())?;
    }
    for compression in [Compression::F16, Compression::Q8] {
        let (exchange, purpose) = (exchange(), Purpose::Train);
        let values = compression.pack(2, vec![0.5, -1.0, 2.0, 0.0])?;
        let embedding = Embedding(values.clone());
        let message = ToHost::Embedding { exchange, purpose, embedding };
        let name = |kind: &str| format!("{kind}-{}", compression.name());
        let file = folder.join("message_to_host").join(name(message.kind()));
        std::fs::write(file, released(message)?.bytes())?;
        let message = ToGuest::Gradient { exchange, gradient: EmbeddingGradient(values) };
        let file = folder.join("message_to_guest").join(name(message.kind()));
        std::fs::write(file, released(message)?.bytes())?;
    }
    std::fs::write(folder.join("ledger_audit/ledger.jsonl"), ledger()?)?;
    std::fs::write(folder.join("party_state/left"), left()?)?;
    Ok(())
}

/// A ledger of all that a guest says.
fn ledger() -> Result<Vec<u8>, Box<dyn Error>> {
    let (party, host) = (PartyId::new("fleet-a")?, PartyId::new("city")?);
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &party)?;
    for message in to_host()? {
        ledger.release(Now::default(), &host, message)?;
    }
    Ok(sink.bytes())
}

/// What 8 bits have lost of two samples.
fn left() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut feedback = Feedback::default();
    feedback.pack(
        Compression::Q8,
        &[Window::whole(Step(8)), Window { last: Step(-9), view: FleetView(2) }],
        2,
        vec![0.5, -1.0, 2.0, 0.1],
    )?;
    let mut bytes = Vec::new();
    feedback.save(&mut bytes);
    Ok(bytes)
}

fn to_host() -> Result<Vec<ToHost>, Box<dyn Error>> {
    let hello = Hello {
        protocol: PROTOCOL,
        software: Text::of("fedtse"),
        party: PartyId::new("fleet-a")?,
        session: 5,
        greeting: 1,
        terms: terms(),
        held: HeldSteps::of([8, 9, 12].map(Step))?,
        width: 2,
        offer: MeasurementOffer {
            layout: MeasurementLayout::new(BTreeMap::from([(
                MeasurementKind::Speeds,
                entries(Quantity::Speed),
            )]))?,
            folds: 4,
            passages: Some(2.5),
            stated: Some(0.2),
            movements: Movements { turned: vec![4, 0, 9], left: vec![2], ..Movements::default() },
        },
        resume_state: ResumeState {
            run: Some(RunId(7)),
            checkpoints: vec![Round(3)],
            in_memory: Some((Attempt(1), Round(4))),
        },
    };
    let embedding = Embedding(Values::new(2, vec![0.5, -1.0, 2.0, 0.0])?);
    let departure = Departure::Failed(StopReason::other("no memory left"));
    Ok(vec![
        ToHost::Hello(Box::new(hello)),
        ToHost::Embedding { exchange: exchange(), purpose: Purpose::Train, embedding },
        ToHost::Measurements {
            exchange: exchange(),
            purpose: Purpose::Train,
            measurements: Measurements::new(2, vec![7.5, 0.0, 3.0, 1.5], vec![0.5, 0.0, 2.0, 1.0])?,
        },
        ToHost::PublicKey { exchange: exchange(), key: Sealed::new(vec![9; 7])? },
        ToHost::Upload {
            exchange: exchange(),
            place: 1,
            weights: BlockWeights::new(vec![0.5, 0.0])?,
            upload: Sealed::new(vec![8; 9])?,
        },
        ToHost::Products { exchange: exchange(), size: [3, 4], answer: Sealed::new(vec![7; 5])? },
        ToHost::MaskedProducts {
            exchange: exchange(),
            recipient: PartyId::new("fleet-b")?,
            key: Fingerprint::of(&Sealed::new(vec![9; 7])?),
            size: [3, 4],
            products: Sealed::new(vec![6; 5])?,
        },
        ToHost::Commitment(CommitmentReply::Commitments {
            exchange: exchange(),
            after: Digest::START,
            digest: Digest::new(&[3; 32])?,
            values: 2,
            proven: ProvenCommitments::new(vec![CommitmentGroup {
                commitments: vec![5; 9],
                proof: vec![4; 8],
            }])?,
        }),
        ToHost::Commitment(CommitmentReply::Response {
            exchange: exchange(),
            challenge: Digest::new(&[2; 32])?,
            size: [1, 2],
            openings: CommitmentOpenings::new(vec![vec![1; 36]])?,
        }),
        ToHost::Checkpointed { exchange: exchange() },
        ToHost::Sum(FromSumGuest::Hello(Box::new(SumHello {
            protocol: PROTOCOL,
            software: Text::of("fedtse"),
            party: PartyId::new("fleet-a")?,
            session: 5,
            terms: sum_terms(),
            held: HeldSteps::of([8, 9, 12].map(Step))?,
            folds: 1,
            key: signed_key()?,
        }))),
        ToHost::Sum(FromSumGuest::Masked {
            group: 3,
            block: block()?,
            words: MaskedWords::new(vec![1 << 40, u64::MAX])?,
        }),
        ToHost::Sum(FromSumGuest::Agreed {
            group: 3,
            block: block()?,
            signature: Signature::new(vec![6; 70])?,
        }),
        ToHost::Sum(FromSumGuest::Seeds {
            group: 3,
            block: block()?,
            seeds: Seeds::new([1; 32], vec![[2; 32]])?,
        }),
        ToHost::Ledger(HeadMessage::Head(ledger_head())),
        ToHost::Ledger(countersigned()?),
        ToHost::Heartbeat,
        ToHost::Leave { session: 5, departure },
    ])
}

fn to_guest() -> Result<Vec<ToGuest>, Box<dyn Error>> {
    let (run, attempt) = (RunId(7), Attempt(1));
    let plan = Plan {
        seed: 1,
        batch: 2,
        epochs: 3,
        exchanges: 4,
        optimiser: OptimiserSettings {
            rate: 1e-3,
            one_cycle: true,
            decay: 1e-2,
            clip: Some(1.0),
            average: Some(0.99),
        },
        local: LocalUpdates::default(),
        segment: 2,
        measured: [MeasurementKind::Speeds, MeasurementKind::HeldOut].into(),
        shares: Some(TrafficShares { own: 0.2, all: 0.5 }),
        sealing: None,
    };
    let welcome = Welcome {
        protocol: PROTOCOL,
        software: Text::of("fedtse"),
        session: 5,
        run,
        attempt,
        terms: terms(),
        plan,
        resume: Resume::AtRound(Round(3)),
    };
    let sample = |last, view| Window { last: Step(last), view: FleetView(view) };
    let batch = Batch::new(vec![sample(9, 0), sample(8, 3)])?;
    let gradient = EmbeddingGradient(Values::new(2, vec![0.5, -1.0, 2.0, 0.0])?);
    let summary = Summary { rounds: Round(12), epochs: 3, best_epoch: 2, validation: 0.25 };
    Ok(vec![
        ToGuest::HelloRequest,
        ToGuest::Welcome(Box::new(welcome)),
        ToGuest::EmbeddingRequest {
            exchange: exchange(),
            purpose: Purpose::Validate,
            batch,
            missing: Some(MissingCiphertexts { public_key: true, blocks: vec![0] }),
            checkpoint: true,
        },
        ToGuest::ProductQuery { exchange: exchange(), query: Sealed::new(vec![1, 2, 3])? },
        ToGuest::MaskedGradient { exchange: exchange(), gradient: vec![Sealed::new(vec![4, 5])?] },
        ToGuest::EncryptedCoefficients {
            exchange: exchange(),
            recipient: PartyId::new("fleet-b")?,
            key: Some(Sealed::new(vec![9; 7])?),
            entries: CoefficientEntries::new(vec![0, 17, 1, 18])?,
            coefficients: Sealed::new(vec![1, 2, 3])?,
        },
        ToGuest::Commitment(CommitmentRequest::Samples {
            exchange: exchange(),
            after: Digest::START,
            batch: Batch::new(vec![Window::whole(Step(8)), Window::whole(Step(9))])?,
        }),
        ToGuest::Commitment(CommitmentRequest::Accepted {
            exchange: exchange(),
            digest: Digest::new(&[3; 32])?,
        }),
        ToGuest::Commitment(CommitmentRequest::Challenge {
            exchange: exchange(),
            query: Digest::new(&[2; 32])?,
            weights: CheckWeights::new(vec![5, -7])?,
        }),
        ToGuest::Gradient { exchange: exchange(), gradient },
        ToGuest::ExchangeClosed { exchange: exchange(), best: true, trained: false },
        ToGuest::Finish { run, attempt, summary },
        ToGuest::Sum(FromSumHost::Group(Box::new(SumGroup {
            protocol: PROTOCOL,
            software: Text::of("fedtse"),
            run,
            group: 3,
            plan: SumPlan {
                terms: sum_terms(),
                folds: 1,
                cells: 0,
                movements: true,
                queues: false,
                width: 36,
                training: StepRange { first: 8, last: 10 },
            },
            members: Members::new(vec![SumMember {
                party: PartyId::new("fleet-a")?,
                session: 5,
                key: signed_key()?,
            }])?,
        }))),
        ToGuest::Sum(FromSumHost::Request { group: 3, block: block()? }),
        ToGuest::Sum(FromSumHost::Participants {
            group: 3,
            block: block()?,
            included: Included::new(vec![0, 2])?,
        }),
        ToGuest::Sum(FromSumHost::Signatures {
            group: 3,
            block: block()?,
            signatures: vec![Signature::new(vec![6; 70])?],
        }),
        ToGuest::Sum(FromSumHost::Finish { run }),
        ToGuest::Refuse { session: 5, reason: StopReason::other("another network") },
        ToGuest::Ledger(HeadMessage::Head(ledger_head())),
        ToGuest::Ledger(countersigned()?),
        ToGuest::Heartbeat,
    ])
}

fn entries(quantity: Quantity) -> Vec<MeasurementEntry> {
    [0, 3].map(|link| MeasurementEntry { link: LinkId(link), quantity }).to_vec()
}

fn sum_terms() -> SumTerms {
    SumTerms { network_hash: Text::of("sha256:0"), step_s: 10.0, run: Some(RunId(7)) }
}

fn signed_key() -> Result<SignedKey, Box<dyn Error>> {
    let (certificate, signature) =
        (CertificateBytes::new(vec![5; 9])?, Signature::new(vec![6; 70])?);
    Ok(SignedKey { public: [4; 32], certificate, signature })
}

fn ledger_head() -> LedgerHead {
    LedgerHead { sequence: 12, head: [8; 32] }
}

fn countersigned() -> Result<HeadMessage, Box<dyn Error>> {
    let SignedKey { certificate, signature, .. } = signed_key()?;
    let signed = Countersignature { head: ledger_head(), certificate, signature };
    Ok(HeadMessage::Countersigned(Box::new(signed)))
}

fn block() -> Result<Block, Box<dyn Error>> {
    Ok(Block::new(Step(8), Step(9))?)
}

fn terms() -> Terms {
    Terms {
        network_hash: Text::of("sha256:0"),
        step_s: 10.0,
        origin_s: 0.0,
        window: 9,
        compression: Compression::None,
    }
}

fn exchange() -> Exchange {
    Exchange { run: RunId(7), attempt: Attempt(1), round: Round(5) }
}

fn released<M: Recorded>(message: M) -> Result<Released<M>, Box<dyn Error>> {
    let party = PartyId::new("seeds")?;
    let mut ledger = Ledger::in_memory(&MemorySink::default(), &party)?;
    Ok(ledger.release(Now::default(), &party, message)?)
}
