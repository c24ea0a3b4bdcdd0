//! Guests that are held to their data: an honest one trains as without, whoever trains with something else is found, and
//! what is malformed, too much or out of turn is refused at both sides. Few samples, since proofs take long.

mod corridor;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use estimator::{MeasurementSource, Recipe, SubModel};
use federation::guest::{CommitmentPolicy, DisclosurePolicy};
use federation::{GuestEnd, HostEnd, MemoryStore, Samples, memory};
use protocol::message::committed::{
    CheckWeights, CommitmentGroup, CommitmentOpenings, CommitmentReply, CommitmentRequest, Digest,
    ProvenCommitments,
};
use protocol::message::parts::Batch;
use protocol::{
    Bounds, CommitmentTerms, Compression, LocalUpdates, MeasurementKind, Now, Plan, Scheme,
    Sealing, ToGuest, ToHost,
};
use traffic::{MeasurementEntry, Step, Window};

use corridor::sensors::From;
use corridor::{Guests, HostParty, Life, parties_of, plan, recipe, shape, steps, talk};

const LATTICE: Sealing = Sealing { scheme: Scheme::Lattice, most_rows: 4000, commitments: None };
const PHYSICAL: CommitmentTerms = CommitmentTerms { bounds: Bounds::Physical, checks: 1 };

/// Training on 4 steps, validation on 2: 17 speeds of each are 102 values, one proof.
fn samples() -> Samples {
    Samples::whole(&steps(0..4), &steps(4..6), &steps(6..7))
}

fn plan_of(commitments: Option<CommitmentTerms>) -> Plan {
    let recipe = Recipe { clip: None, average: None, batch: 2, epochs: 2, ..recipe() };
    Plan {
        batch: recipe.batch as u32,
        epochs: recipe.epochs as u32,
        optimiser: training::learner::optimiser_settings(&recipe),
        segment: 2,
        measured: [MeasurementKind::Speeds].into(),
        sealing: Some(Sealing { commitments, ..LATTICE }),
        ..plan(LocalUpdates::default())
    }
}

/// What a guest measures, without queues.
fn speeds(guest: &str) -> Vec<Arc<dyn MeasurementSource>> {
    From::Physics.sensors(guest).split_off(1)
}

fn parties(guests: usize, plan: &Plan, sharing: DisclosurePolicy) -> (HostParty, Guests) {
    start(guests, plan, sharing, Life::default())
}

fn start(guests: usize, plan: &Plan, sharing: DisclosurePolicy, life: Life) -> (HostParty, Guests) {
    let sensors = |guest: &str| speeds(guest);
    let (shape, given) = (shape(guests), (sharing, life));
    parties_of(&shape, plan, Compression::None, From::Physics, given, samples(), sensors)
}

/// The same until a query of this round is on its way, which gets lost with all else.
fn talk_up_to(host: &mut HostParty, guests: &mut Guests, round: u64) {
    let now = Now::default();
    let (party, guest) = guests.iter_mut().next().expect("a guest");
    let mut up = guest.tick(now);
    while !up.is_empty() {
        for message in host.handle(now, party, up.remove(0).into_message()) {
            let message = message.into_message();
            if let ToGuest::ProductQuery { exchange, .. } = &message
                && exchange.round.0 == round
            {
                return;
            }
            up.extend(guest.handle(now, message));
        }
    }
}

/// A guest that starts anew in the middle of a run, with its folder or without.
fn restarted(with_folder: bool) -> (HostParty, Guests, u64) {
    let plan = plan_of(Some(PHYSICAL));
    let stores = || BTreeMap::from([("totals".to_owned(), MemoryStore::default())]);
    let life = Life { number: 0, stores: stores() };
    let (mut host, mut guests) = start(1, &plan, DisclosurePolicy::default(), life.clone());
    talk_up_to(&mut host, &mut guests, 3);
    let made = guests.values().map(|guest| guest.ledger().numbers("commitments")).sum();
    let life = Life { number: 1, stores: if with_folder { life.stores } else { stores() } };
    let (_, mut guests) = start(1, &plan, DisclosurePolicy::default(), life);
    talk(&mut host, &mut guests, |message| message, |message| message);
    (host, guests, made)
}

#[test]
fn a_guest_that_starts_anew_is_held_to_what_it_has_committed_to() {
    let (mut host, mut guests) = parties(1, &plan_of(None), DisclosurePolicy::default());
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let undisturbed = weights(host, guests);
    let (host, guests, made) = restarted(true);
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))), "{:?}", host.ended());
    // It opens sums of what it had committed to before, without committing anew.
    let again: u64 = guests.values().map(|guest| guest.ledger().numbers("commitments")).sum();
    assert_eq!((made, again), (6 * 17, 0));
    assert!(undisturbed == weights(host, guests));
}

/// Without its folder, it has lost what hides its commitments, and those that it makes instead are others.
#[test]
fn a_guest_without_its_folder_cannot_commit_to_something_else() {
    let (mut host, guests, _) = restarted(false);
    let said: String = host.take_events().iter().map(|event| format!("{event:?} ")).collect();
    assert!(said.contains("cannot take part: commitments: found"), "{said}");
    assert!(said.contains("as when the run began; restore its data and folder"), "{said}");
    let guest = guests.values().next().expect("a guest");
    assert!(matches!(guest.ended(), Some(GuestEnd::Stopped(_))));
}

/// A guest that could answer before it commits could choose its commitments by the weights that it is then told.
#[test]
fn nothing_is_taken_of_a_guest_before_it_has_committed() {
    let plan = plan_of(Some(PHYSICAL));
    let first = OnceCell::new();
    let (mut host, mut guests) = parties(1, &plan, DisclosurePolicy::default());
    let watched = |message: ToGuest| {
        if let ToGuest::EmbeddingRequest { .. } = &message {
            first.get_or_init(|| message.clone());
        }
        message
    };
    talk(&mut host, &mut guests, |message| message, watched);
    let Some(ToGuest::EmbeddingRequest { purpose, batch, missing, .. }) = first.into_inner() else {
        unreachable!("it was asked")
    };

    // It knows what will be asked, and sends all of that instead of commitments.
    let (mut host, mut guests) = parties(1, &plan, DisclosurePolicy::default());
    let (ahead, accepted, early) = (Cell::new(0), Cell::new(false), Cell::new(0));
    let hasty = |message: ToGuest| match message {
        ToGuest::Commitment(CommitmentRequest::Samples { exchange, .. }) => {
            ahead.set(ahead.get() + 1);
            ToGuest::EmbeddingRequest {
                exchange,
                purpose,
                batch: batch.clone(),
                missing: missing.clone(),
                checkpoint: false,
            }
        }
        ToGuest::Commitment(CommitmentRequest::Accepted { .. }) => {
            accepted.set(true);
            message
        }
        ToGuest::ProductQuery { .. } | ToGuest::Commitment(CommitmentRequest::Challenge { .. })
            if !accepted.get() =>
        {
            early.set(early.get() + 1);
            message
        }
        other => other,
    };
    talk(&mut host, &mut guests, |message| message, hasty);
    assert_eq!((ahead.get(), early.get()), (1, 0));
    // It was heard and not answered: its host waits for commitments until it gives up.
    assert!(host.ended().is_none() && !accepted.get());
    assert!(guests.values().all(|guest| guest.ledger().numbers("embedding") > 0));
}

fn weights(host: HostParty, guests: Guests) -> Vec<Vec<f32>> {
    let host = host.into_model().expect("a model").host_model().parameters().to_vec();
    let guests = guests.into_values().map(|guest| guest.into_model().expect("a model"));
    [host].into_iter().chain(guests.map(|guest| guest.sub_model().best().to_vec())).collect()
}

#[test]
fn honest_guests_train_exactly_as_without_commitments() {
    for guests in [1, 2] {
        let run = |commitments| {
            let plan = plan_of(commitments);
            let (mut host, mut guests) = parties(guests, &plan, DisclosurePolicy::default());
            memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
            (host, guests)
        };
        let (host, parties) = run(None);
        let without = weights(host, parties);
        let (host, parties) = run(Some(CommitmentTerms { checks: 2, ..PHYSICAL }));
        for guest in parties.values() {
            let numbers = |kind| guest.ledger().numbers(kind);
            assert_eq!(numbers("commitments"), 6 * 17);
            // Two epochs of two exchanges of training and one of validation, each with two rows of 2 samples.
            assert_eq!(numbers("commitment-openings"), 2 * 3 * 2 * 2 * 17);
            // Products are those of the rows of the model, and of as many.
            assert!(numbers("products") > numbers("commitment-openings"));
        }
        assert!(without == weights(host, parties), "{guests} guests");
    }
}

#[test]
fn both_parties_know_commitments_by_the_same_digest() {
    let (mut host, mut guests) = parties(1, &plan_of(Some(PHYSICAL)), DisclosurePolicy::default());
    let (mut made, mut accepted) = (Vec::new(), Vec::new());
    let to_host = |message: ToHost| {
        if let ToHost::Commitment(CommitmentReply::Commitments { after, digest, .. }) = &message {
            made.push((*after, *digest));
        }
        message
    };
    let to_guest = |message: ToGuest| {
        if let ToGuest::Commitment(CommitmentRequest::Accepted { digest, .. }) = &message {
            accepted.push(*digest);
        }
        message
    };
    talk(&mut host, &mut guests, to_host, to_guest);
    let [(after, digest)] = made[..] else { unreachable!("102 values are committed to at once") };
    assert_eq!((after, &accepted[..]), (Digest::START, &[digest][..]));
}

/// A fleet whose measurements are others once it has committed to them.
struct Changing {
    honest: Arc<dyn MeasurementSource>,
    changed: Arc<AtomicBool>,
}

impl MeasurementSource for Changing {
    fn entries(&self) -> &[MeasurementEntry] {
        self.honest.entries()
    }

    fn write(&self, sample: Window, values: &mut [f32], weights: &mut [f32]) {
        self.honest.write(sample, values, weights);
        // One number of one step of all: a tenth of a metre per second.
        if self.changed.load(Ordering::Relaxed) && sample.last == Step(3) {
            let measured = weights.iter().position(|weight| *weight > 0.0);
            measured.into_iter().for_each(|at| values[at] += 0.1);
        }
    }
}

#[test]
fn a_guest_that_trains_with_something_else_is_found() {
    let changed = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&changed);
    let sensors = move |guest: &str| {
        let honest = speeds(guest).into_iter();
        let changing = honest.map(|honest| {
            Arc::new(Changing { honest, changed: Arc::clone(&switch) })
                as Arc<dyn MeasurementSource>
        });
        changing.collect()
    };
    let plan = plan_of(Some(PHYSICAL));
    let given = (DisclosurePolicy::default(), Life::default());
    let (mut host, mut guests) =
        parties_of(&shape(2), &plan, Compression::None, From::Physics, given, samples(), sensors);
    let mut said = Vec::new();
    let to_guest = |message: ToGuest| {
        if matches!(message, ToGuest::Commitment(CommitmentRequest::Accepted { .. })) {
            changed.store(true, Ordering::Relaxed);
        }
        if let ToGuest::Refuse { reason, .. } = &message {
            said.push((message.kind(), reason.to_string()));
        }
        message
    };
    let mut left = Vec::new();
    let to_host = |message: ToHost| {
        if let ToHost::Leave { .. } = &message {
            left.push(message.kind());
        }
        message
    };
    talk(&mut host, &mut guests, to_host, to_guest);
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it must stop") };
    let error = error.to_string();
    let words = "what was trained with is not what was committed to: guest `";
    assert!(error.starts_with(words), "{error}");
    // Steps of one exchange: one segment.
    assert!(error.contains("round ") && error.ends_with("blocks of steps 2 to 3"), "{error}");
    // Both ledgers have it; the guest that was found hears all of it, the other one no name.
    assert!(
        said.iter().all(|(kind, _)| *kind == "commitment-mismatch") && said.len() == 2,
        "{said:?}"
    );
    assert_eq!(said.iter().filter(|(_, reason)| *reason == error).count(), 1);
    assert_eq!(left, ["commitment-mismatch"; 2]);
    for guest in guests.values() {
        let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
        assert!(error.to_string().contains(&words[..words.len() - 9]), "{error}");
    }
}

/// Bytes that are half of what they should be.
fn half(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

#[test]
fn malformed_pledges_of_a_guest_are_refused() {
    let change = |message: CommitmentReply, kind: &str| match (message, kind) {
        (
            CommitmentReply::Commitments { exchange, after, digest, values, proven },
            "points" | "proof" | "values" | "digest",
        ) => {
            let mut groups = proven.groups().to_vec();
            let CommitmentGroup { commitments, proof } = &mut groups[0];
            match kind {
                "points" => *commitments = half(commitments),
                "proof" => proof[40] ^= 1,
                // A group twice is well proven, and too much.
                "values" => groups = [groups.clone(), groups].concat(),
                _ => commitments[40] ^= 1,
            }
            let proven = ProvenCommitments::new(groups).expect("groups");
            // What was changed on its way has another digest; only with that it is looked at.
            let committed: Vec<_> = steps(0..6).into_iter().map(Window::whole).collect();
            let digest = if kind == "digest" { digest } else { after.and(&committed, &proven) };
            CommitmentReply::Commitments { exchange, after, digest, values, proven }
        }
        (CommitmentReply::Response { exchange, challenge, size, openings }, "opening" | "rows") => {
            let opening = openings.rows()[0].clone();
            let rows = match kind {
                "opening" => vec![half(&opening)],
                _ => vec![opening.clone(), opening],
            };
            let openings = CommitmentOpenings::new(rows).expect("openings");
            CommitmentReply::Response { exchange, challenge, size, openings }
        }
        (other, _) => other,
    };
    for (kind, words) in [
        ("points", "no valid commitments"),
        ("proof", "range proof"),
        ("values", "found 204 values, expected 102"),
        ("digest", "which is not what they make"),
        ("opening", "no valid opening"),
        ("rows", "opened 2 rows, expected 1"),
    ] {
        let (mut host, mut guests) =
            parties(1, &plan_of(Some(PHYSICAL)), DisclosurePolicy::default());
        let spoil = |message| match message {
            ToHost::Commitment(message) => ToHost::Commitment(change(message, kind)),
            other => other,
        };
        talk(&mut host, &mut guests, spoil, |message| message);
        let said: String = host.take_events().iter().map(|event| format!("{event:?} ")).collect();
        assert!(said.contains("Refused") && said.contains(words), "{kind}: {said}");
    }
}

#[test]
fn what_a_host_may_not_ask_is_refused() {
    type Spoil = fn(CommitmentRequest) -> CommitmentRequest;
    let cases: [(&str, Spoil); 4] = [
        ("step 999, which was not announced", |message| match message {
            CommitmentRequest::Samples { exchange, after, .. } => {
                let batch = Batch::new(vec![Window::whole(Step(999))]).expect("a batch");
                CommitmentRequest::Samples { exchange, after, batch }
            }
            other => other,
        }),
        ("commitments to 121 samples at a time", |message| match message {
            CommitmentRequest::Samples { exchange, after, .. } => {
                let samples = (0..121).map(|step| Window::whole(Step(step % 100))).collect();
                CommitmentRequest::Samples {
                    exchange,
                    after,
                    batch: Batch::new(samples).expect("a batch"),
                }
            }
            other => other,
        }),
        // Wide weights would show several numbers at once.
        ("sum of weights", |message| match message {
            CommitmentRequest::Challenge { exchange, query, weights } => {
                let mut weights = weights.as_slice().to_vec();
                weights[0] = 1 << 26;
                let weights = CheckWeights::new(weights).expect("weights");
                CommitmentRequest::Challenge { exchange, query, weights }
            }
            other => other,
        }),
        ("35 weights, expected 1 of 34", |message| match message {
            CommitmentRequest::Challenge { exchange, query, weights } => {
                let weights = [weights.as_slice(), &[1]].concat();
                let weights = CheckWeights::new(weights).expect("weights");
                CommitmentRequest::Challenge { exchange, query, weights }
            }
            other => other,
        }),
    ];
    for (words, spoil) in cases {
        let (mut host, mut guests) =
            parties(1, &plan_of(Some(PHYSICAL)), DisclosurePolicy::default());
        let spoil = |message| match message {
            ToGuest::Commitment(message) => ToGuest::Commitment(spoil(message)),
            other => other,
        };
        talk(&mut host, &mut guests, |message| message, spoil);
        let guest = guests.values().next().expect("a guest");
        let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("{words}") };
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn a_policy_refuses_commitments_and_limits_what_is_opened() {
    let answered = Cell::new(0.0);
    let ended = |sharing, bounds| {
        let plan = plan_of(Some(CommitmentTerms { bounds, ..PHYSICAL }));
        let (mut host, mut guests) = parties(1, &plan, sharing);
        talk(&mut host, &mut guests, |message| message, |message| message);
        let guest = guests.values().next().expect("a guest");
        answered.set(guest.ledger().queries().most().map_or(0.0, |(_, products)| products));
        match guest.ended() {
            Some(GuestEnd::Stopped(error)) => {
                (guest.ledger().numbers("commitment-openings"), error.to_string())
            }
            _ => (guest.ledger().numbers("commitment-openings"), String::new()),
        }
    };
    let commits = |commits| DisclosurePolicy { commits, ..DisclosurePolicy::default() };
    let (opened, error) = ended(commits(CommitmentPolicy::Never), Bounds::Noised);
    assert!(opened == 0 && error.contains("this guest's policy refuses"), "{error}");
    let (opened, error) = ended(commits(CommitmentPolicy::WithNoise), Bounds::Physical);
    assert!(opened == 0 && error.contains("this guest's have noise"), "{error}");
    assert_eq!(ended(commits(CommitmentPolicy::WithNoise), Bounds::Noised).1, "");
    // Each query and each sum counts: a budget that suffices without the last sum is spent with it.
    let all = answered.get();
    let ended_by = |budget: f64| {
        let most_products = Some(budget);
        ended(DisclosurePolicy { most_products, ..DisclosurePolicy::default() }, Bounds::Noised).1
    };
    // Products of a step are whole: one of them, among 17 numbers, is far more than rounding.
    assert_eq!(ended_by(all), "");
    assert!(ended_by(all - 1.0 / 17.0).contains("the budget is spent"));
}
