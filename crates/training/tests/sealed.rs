//! Sealed measurements: a run gives what the same run in the clear gives, to the stated error; and what is malformed,
//! too much or out of turn is refused, at both sides.

mod corridor;

use std::collections::BTreeMap;

use estimator::{Recipe, SubModel};
use federation::guest::DisclosurePolicy;
use federation::{GuestEnd, HostEnd, memory};
use protocol::message::sealed::{CoefficientEntries, Fingerprint, Sealed};
use protocol::{
    Compression, LocalUpdates, LocalVariant, MeasurementKind, Now, OptimiserSettings, PartyId,
    Plan, Scheme, Sealing, ToGuest, ToHost,
};

use corridor::sensors::From;
use corridor::{GuestParty, Guests, HostParty, parties_that_learn, plan, recipe, shape, talk};

const LATTICE: Sealing = Sealing { scheme: Scheme::Lattice, most_rows: 4000, commitments: None };
const PLAIN: Sealing = Sealing { scheme: Scheme::Plain, ..LATTICE };

fn plan_of(sealing: Option<Sealing>) -> Plan {
    let recipe = Recipe { clip: None, average: None, batch: 12, epochs: 2, ..recipe() };
    Plan {
        batch: recipe.batch as u32,
        epochs: recipe.epochs as u32,
        optimiser: training::learner::optimiser_settings(&recipe),
        segment: 4,
        measured: [MeasurementKind::Queues, MeasurementKind::Speeds].into(),
        sealing,
        ..plan(LocalUpdates::default())
    }
}

/// Weights of each party, and the validation losses.
type Outcome = (BTreeMap<String, Vec<f32>>, Vec<f64>);

fn run(guests: usize, plan: &Plan) -> Outcome {
    run_on(From::Physics, guests, plan)
}

fn run_on(learned: From, guests: usize, plan: &Plan) -> Outcome {
    let (mut host, mut guests) =
        parties_that_learn(&shape(guests), plan, Compression::None, learned);
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    outcome(host, guests)
}

fn outcome(host: HostParty, guests: Guests) -> Outcome {
    let losses = host.history().iter().map(|epoch| epoch.validation).collect();
    let host = host.into_model().expect("a model");
    let mut weights =
        BTreeMap::from([("city".to_owned(), host.host_model().parameters().to_vec())]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), guest.sub_model().best().to_vec());
    }
    (weights, losses)
}

/// The largest difference between weights.
fn apart(one: &Outcome, two: &Outcome) -> f32 {
    let pairs = one.0.values().zip(two.0.values());
    let differences = pairs.flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a - b).abs()));
    differences.fold(0.0, f32::max)
}

/// How far training moves weights.
fn moved(outcome: &Outcome) -> f32 {
    let one = Plan { epochs: 1, ..plan_of(None) };
    let still = Plan { optimiser: OptimiserSettings { rate: 0.0, ..one.optimiser }, ..one };
    apart(outcome, &run(outcome.0.len() - 1, &still))
}

/// Values are put on a grid of steps of 1.5/2^14 of their range: 250 veh/km/lane or 40 m/s, so they err by at most
/// 0.012 veh/km/lane and 0.002 m/s, of values of some 10. Products err by less. Gradients then differ by about a
/// thousandth, and Adam, which divides gradients by their size, moves weights by as much of the learning rate in each of
/// the 10 updates: a hundredth of all that they move. A hidden unit whose gradient is less than the grid's error moves by
/// that error alone: such are at most one of the 64 of a layer.
#[test]
fn a_sealed_run_gives_what_a_clear_one_gives() {
    agree(1, LATTICE);
}

/// The same with several guests, each of which learns from what all of them have measured. Shares that others compute
/// err by the grid, as its own does.
#[test]
fn with_several_guests_a_sealed_run_gives_what_a_clear_one_gives() {
    agree(2, LATTICE);
    agree(3, LATTICE);
    agree(3, PLAIN);
}

/// What guests hold out of their fleets adds up to one label, which no party sees: sealed, its products add up.
#[test]
fn held_out_fleets_are_learned_from_sealed_as_in_the_clear() {
    agree_on(From::HeldOut, 1, LATTICE);
    agree_on(From::HeldOut, 3, LATTICE);
    agree_on(From::HeldOut, 3, PLAIN);
}

fn agree(guests: usize, sealing: Sealing) {
    agree_on(From::Physics, guests, sealing);
}

fn agree_on(learned: From, guests: usize, sealing: Sealing) {
    let plan_of = |sealing| Plan {
        segment: learned.segment(),
        measured: learned.kinds(),
        ..plan_of(sealing)
    };
    let run = |plan: &Plan| run_on(learned, guests, plan);
    let clear = run(&plan_of(None));
    let sealed = run(&plan_of(Some(sealing)));
    let one = Plan { epochs: 1, ..plan_of(None) };
    let still = Plan { optimiser: OptimiserSettings { rate: 0.0, ..one.optimiser }, ..one };
    let moved = apart(&clear, &run(&still));
    assert!(moved > 0.01, "training moves weights by {moved}");
    for (party, weights) in &clear.0 {
        let differences = weights.iter().zip(&sealed.0[party]).map(|(a, b)| (a - b).abs());
        let others = differences.filter(|difference| *difference >= 0.02 * moved).count();
        assert!(
            64 * others <= weights.len(),
            "{party}: {others} of {} weights differ by more than {}",
            weights.len(),
            0.02 * moved
        );
    }
    // The loss of sealed runs lacks Σ w·u²/2, which no estimate changes: what an epoch gains is the same.
    let gain = |losses: &[f64]| losses[0] - losses[1];
    let (a, b) = (gain(&clear.1), gain(&sealed.1));
    assert!((a - b).abs() < 0.02 * a.abs(), "validation gains {a} in the clear and {b} sealed");
}

/// Encryption adds the rounding of weights to 25 bits and nothing else, whatever it draws: runs are alike to far
/// less than the grid's error, and the same one gives the same bits.
#[test]
fn encryption_changes_nothing_but_the_last_digits() {
    let plan = Plan { epochs: 1, ..plan_of(Some(LATTICE)) };
    let (one, again) = (run(2, &plan), run(2, &plan));
    assert!(one == again);
    let plain = run(2, &Plan { sealing: Some(PLAIN), ..plan });
    let found = apart(&one, &plain);
    assert!(found < 1e-3 * moved(&one), "weights differ by {found}");
}

/// A guest goes Q steps along the gradient that it was granted, the host along its own: that of the first update, or
/// one of products that it asks for anew.
#[test]
fn local_updates_work_with_sealed_measurements() {
    let outcomes = [LocalVariant::Frozen, LocalVariant::Recompute].map(|variant| {
        let local = LocalUpdates { count: 3, variant, ..LocalUpdates::default() };
        let plan = |sealing| Plan { epochs: 1, local, ..plan_of(sealing) };
        let (clear, sealed) = (run(1, &plan(None)), run(1, &plan(Some(PLAIN))));
        let (found, moved) = (apart(&clear, &sealed), moved(&clear));
        assert!(found < 0.02 * moved, "{variant:?}: weights differ by {found}, moved by {moved}");
        sealed
    });
    // The variants are not the same: each update has rows of its own, or none.
    let [frozen, recomputed] = outcomes;
    assert!(apart(&frozen, &recomputed) > 0.02 * moved(&frozen));
}

fn two_parties(sealing: Sealing) -> (HostParty, Guests) {
    parties_that_learn(&shape(1), &plan_of(Some(sealing)), Compression::None, From::Physics)
}

fn three_parties(sealing: Sealing) -> (HostParty, Guests) {
    parties_that_learn(&shape(2), &plan_of(Some(sealing)), Compression::None, From::Physics)
}

fn host_says(host: &mut HostParty) -> String {
    host.take_events().iter().map(|event| format!("{event:?} ")).collect()
}

#[test]
fn malformed_answers_of_a_guest_are_refused() {
    let damage = |bytes: &Sealed| {
        let mut bytes = bytes.as_slice().to_vec();
        bytes.truncate(bytes.len() / 2);
        Sealed::new(bytes).expect("fewer bytes")
    };
    let spoil = |kind: &'static str| {
        move |message: ToHost| match message {
            ToHost::PublicKey { exchange, key } if kind == "key" => {
                ToHost::PublicKey { exchange, key: damage(&key) }
            }
            ToHost::Upload { exchange, place, weights, upload } if kind == "upload" => {
                ToHost::Upload { exchange, place, weights, upload: damage(&upload) }
            }
            ToHost::Upload { exchange, weights, upload, .. } if kind == "place 99" => {
                ToHost::Upload { exchange, place: 99, weights, upload }
            }
            ToHost::Products { exchange, size, answer } if kind == "products" => {
                ToHost::Products { exchange, size, answer: damage(&answer) }
            }
            ToHost::MaskedProducts { exchange, recipient, key, size, products }
                if kind == "masked products" =>
            {
                ToHost::MaskedProducts {
                    exchange,
                    recipient,
                    key,
                    size,
                    products: damage(&products),
                }
            }
            ToHost::MaskedProducts { exchange, recipient, size, products, .. }
                if kind == "key of" =>
            {
                let key = Fingerprint::of(&products);
                ToHost::MaskedProducts { exchange, recipient, key, size, products }
            }
            other => other,
        }
    };
    for kind in ["key", "upload", "place 99", "products", "masked products", "key of"] {
        let several = ["masked products", "key of"].contains(&kind);
        let (mut host, mut guests) =
            if several { three_parties(LATTICE) } else { two_parties(LATTICE) };
        talk(&mut host, &mut guests, spoil(kind), |message| message);
        let said = host_says(&mut host);
        assert!(said.contains("Refused") && said.contains(kind), "{kind}: {said}");
        let guest = guests.values().next().expect("a guest");
        assert!(matches!(guest.ended(), Some(GuestEnd::Stopped(_))), "{kind}");
    }
}

#[test]
fn malformed_questions_of_a_host_are_refused() {
    type Spoil = fn(ToGuest) -> ToGuest;
    let cases: [(&str, Spoil); 11] = [
        ("its coefficients: the peer sent no valid coefficients", |message| match message {
            ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients } => {
                let coefficients =
                    Sealed::new(coefficients.as_slice()[..1000].to_vec()).expect("bytes");
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("no valid public key", |message| match message {
            ToGuest::EncryptedCoefficients {
                exchange,
                recipient,
                key: Some(key),
                entries,
                coefficients,
            } => {
                let key = Some(Sealed::new(key.as_slice()[..1000].to_vec()).expect("bytes"));
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("coefficients for `city`, which is no other guest", |message| match message {
            ToGuest::EncryptedCoefficients { exchange, key, entries, coefficients, .. } => {
                let recipient = PartyId::new("city").expect("a name");
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        // Coefficients of a guest's own gradient with the key of somebody.
        ("coefficients for `speeds`, which is no other guest", |message| match message {
            ToGuest::EncryptedCoefficients {
                exchange,
                recipient,
                key: None,
                entries,
                coefficients,
            } => {
                let key = Some(Sealed::new(vec![1; 100]).expect("bytes"));
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("its coefficients: found entry 34, expected less than 34", |message| match message {
            ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients } => {
                let beyond = entries.as_slice().iter().map(|_| 34).collect();
                let entries = CoefficientEntries::new(beyond).expect("as many");
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("its coefficients: found", |message| match message {
            ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients } => {
                // There are 12 samples, and coefficients for all of them.
                let entries = entries.from_sample(1);
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("its coefficients: found", |message| match message {
            ToGuest::EncryptedCoefficients { exchange, recipient, key, coefficients, .. } => {
                let entries = CoefficientEntries::new(vec![0; 34]).expect("some");
                ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients }
            }
            other => other,
        }),
        ("query", |message| match message {
            ToGuest::ProductQuery { exchange, query } => {
                let bytes = query.as_slice()[..1000].to_vec();
                ToGuest::ProductQuery { exchange, query: Sealed::new(bytes).expect("bytes") }
            }
            other => other,
        }),
        ("masked gradient: found 1224 numbers, expected 612", |message| match message {
            ToGuest::MaskedGradient { exchange, gradient } => {
                let gradient = [gradient.clone(), gradient].concat();
                ToGuest::MaskedGradient { exchange, gradient }
            }
            other => other,
        }),
        ("masked gradient", |message| match message {
            ToGuest::MaskedGradient { exchange, gradient } => {
                let bytes = gradient[0].as_slice()[..100].to_vec();
                let gradient = vec![Sealed::new(bytes).expect("bytes")];
                ToGuest::MaskedGradient { exchange, gradient }
            }
            other => other,
        }),
        ("beyond the batch", |message| match message {
            ToGuest::EmbeddingRequest {
                exchange,
                purpose,
                batch,
                missing: Some(mut missing),
                checkpoint,
            } => {
                missing.blocks = vec![6];
                ToGuest::EmbeddingRequest {
                    exchange,
                    purpose,
                    batch,
                    missing: Some(missing),
                    checkpoint,
                }
            }
            other => other,
        }),
    ];
    for (words, spoil) in cases {
        let several = words.contains("coefficients") || words.contains("public key");
        let (mut host, mut guests) =
            if several { three_parties(LATTICE) } else { two_parties(LATTICE) };
        talk(&mut host, &mut guests, |message| message, spoil);
        let guest = guests.values().next().expect("a guest");
        let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("{words}") };
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

/// Rows and coefficients that one message has no room for are asked in parts: not a bit of the weights depends on it.
#[test]
fn products_in_parts_are_those_of_one_message() {
    let few = Sealing { most_rows: 400, ..LATTICE };
    let plan = |sealing| Plan { epochs: 1, ..plan_of(Some(sealing)) };
    let learned = [few, LATTICE].map(|sealing| {
        let (mut host, mut guests) =
            parties_that_learn(&shape(2), &plan(sealing), Compression::None, From::Physics);
        // Queries, coefficients, and the most parts of a gradient.
        let mut messages = [0; 3];
        let count = |message| {
            match &message {
                ToGuest::ProductQuery { .. } => messages[0] += 1,
                ToGuest::EncryptedCoefficients { .. } => messages[1] += 1,
                ToGuest::MaskedGradient { gradient, .. } => {
                    messages[2] = messages[2].max(gradient.len());
                }
                _ => {}
            }
            message
        };
        talk(&mut host, &mut guests, |message| message, count);
        (messages, outcome(host, guests))
    });
    let [(parts, in_parts), (whole, at_once)] = learned;
    // 12 samples of 51 or 34 numbers: 7 or 11 at a time.
    assert!(parts[0] > whole[0] && parts[1] > whole[1], "{parts:?} {whole:?}");
    assert_eq!((parts[2], whole[2]), (2, 1));
    assert!(in_parts == at_once);
}

/// Products in parts cost what products at once do: each is charged to the steps that it is of.
#[test]
fn products_in_parts_cost_what_products_at_once_do() {
    let spent = |most_rows| {
        let plan = Plan { epochs: 1, ..plan_of(Some(Sealing { most_rows, ..PLAIN })) };
        let sharing = DisclosurePolicy { most_products: Some(1e9), ..DisclosurePolicy::default() };
        let (mut host, mut guests) = corridor::parties_that_share(
            &shape(1),
            &plan,
            Compression::None,
            From::Physics,
            sharing,
        );
        talk(&mut host, &mut guests, |message| message, |message| message);
        let guest = guests.values().next().expect("a guest");
        let numbers = |kind| guest.ledger().numbers(kind);
        let most = guest.ledger().queries().most().expect("products").1;
        (numbers("products"), numbers("masked-products"), most)
    };
    assert_eq!(spent(400), spent(4000));
}

/// A guest that has agreed on fewer rows refuses the query.
#[test]
fn more_rows_than_agreed_are_refused() {
    let few = Sealing { most_rows: 5, ..LATTICE };
    let (mut host, mut guests) = two_parties(LATTICE);
    let told_otherwise = |message: ToGuest| match message {
        ToGuest::Welcome(mut welcome) => {
            welcome.plan.sealing = Some(few);
            ToGuest::Welcome(welcome)
        }
        other => other,
    };
    talk(&mut host, &mut guests, |message| message, told_otherwise);
    let guest = guests.values().next().expect("a guest");
    let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
    assert!(error.to_string().contains("rows of the question"), "{error}");
}

/// A host that asks for no new key in the second exchange reads none of the batches: what a guest has encrypted in several exchanges
/// it does not answer about, beyond what tells its key.
#[test]
fn a_guest_gives_few_products_with_a_key_of_several_exchanges() {
    let plan = plan_of(Some(LATTICE));
    let sharing = DisclosurePolicy::default();
    let (mut host, mut guests) =
        corridor::parties_that_share(&shape(1), &plan, Compression::None, From::Physics, sharing);
    let mut keys = 0;
    let keep = |message| match message {
        ToGuest::EmbeddingRequest {
            exchange,
            purpose,
            batch,
            missing: Some(mut missing),
            checkpoint,
        } => {
            keys += usize::from(missing.public_key);
            missing.public_key &= keys == 1;
            ToGuest::EmbeddingRequest {
                exchange,
                purpose,
                batch,
                missing: Some(missing),
                checkpoint,
            }
        }
        other => other,
    };
    talk(&mut host, &mut guests, |message| message, keep);
    let guest = guests.values().next().expect("a guest");
    let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
    let error = error.to_string();
    assert!(error.contains("products under a key of several exchanges"), "{error}");
    assert_eq!(keys, 2, "an honest host asks for a new key");
}

/// Masked products count like answers: with one product less in its budget than a run needs, it stops.
#[test]
fn masked_products_are_in_the_ledger_and_the_budget() {
    let talked = |most_products| {
        let sharing = DisclosurePolicy { most_products, ..DisclosurePolicy::default() };
        let plan = plan_of(Some(PLAIN));
        let (mut host, mut guests) = corridor::parties_that_share(
            &shape(2),
            &plan,
            Compression::None,
            From::Physics,
            sharing,
        );
        talk(&mut host, &mut guests, |message| message, |message| message);
        guests
    };
    let free = talked(None);
    let [(_, speeds), (_, totals)] =
        free.iter().collect::<Vec<_>>().try_into().unwrap_or_else(|_| unreachable!("two guests"));
    let masked_products = |guest: &GuestParty| guest.ledger().numbers("masked-products");
    // Two epochs of 23 segments of 4 samples, which cover 90 steps; a sample has 34 values, and embeddings have 3·17 and
    // 2·17 numbers, each of which depends on all values. A guest's products for itself count like those for the other.
    assert_eq!(masked_products(speeds), 2 * 92 * (51 + 34) * 34);
    assert_eq!(masked_products(totals), 2 * 92 * (51 + 34) * 34);
    // Both have 34 numbers of a step. The one with the most products of one of them is the first to stop.
    let all = |guest: &GuestParty| guest.ledger().queries().most().expect("products").1;
    let most = all(speeds).max(all(totals));
    // All steps that were trained with were asked about, and those of two segments twice as often as others.
    let answered = |guest: &GuestParty| masked_products(guest) + guest.ledger().numbers("products");
    let mean = |guest: &GuestParty| answered(guest) as f64 / (34.0 * 120.0);
    assert!(all(speeds) > mean(speeds) && all(totals) > mean(totals));
    let ended = |budget: f64| {
        let guests = talked(Some(budget));
        let stopped = guests.values().find_map(|guest| match guest.ended() {
            Some(GuestEnd::Stopped(error)) => Some(error.to_string()),
            _ => None,
        });
        stopped.unwrap_or_default()
    };
    // Products of a step are whole: one of them, among 34 numbers, is far more than rounding.
    assert_eq!(ended(most), "");
    assert!(ended(most - 1.0 / 34.0).contains("the budget is spent"));
}

/// With Q updates of their own products, each query takes the place of the one before. One that comes once more after
/// that is neither answered nor charged again.
#[test]
fn questions_that_come_late_are_not_answered_again() {
    let local = LocalUpdates { count: 3, ..LocalUpdates::default() };
    let plan = Plan { epochs: 1, local, ..plan_of(Some(LATTICE)) };
    let parties = || {
        let sharing = DisclosurePolicy::default();
        corridor::parties_that_share(&shape(1), &plan, Compression::None, From::Physics, sharing)
    };
    let (mut host, mut guests) = parties();
    talk(&mut host, &mut guests, |message| message, |message| message);
    let undisturbed = guests.values().map(|guest| guest.ledger().numbers("products")).max();

    let (mut host, mut guests) = parties();
    let (party, guest) = guests.iter_mut().next().expect("a guest");
    let (now, mut up, mut queries) = (Now::default(), guest.tick(Now::default()), Vec::new());
    let mut late = 0;
    while !up.is_empty() {
        for message in host.handle(now, party, up.remove(0).into_message()) {
            let message = message.into_message();
            up.extend(guest.handle(now, message.clone()));
            if let ToGuest::ProductQuery { .. } = &message {
                // All but the one that counts.
                for old in &queries {
                    let said = guest.handle(now, ToGuest::clone(old));
                    late += 1;
                    assert!(said.is_empty(), "{said:?}");
                }
                queries.push(message);
            }
        }
    }
    assert!(late > 10, "{late}");
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))), "{:?}", host.ended());
    assert_eq!(Some(guest.ledger().numbers("products")), undisturbed);
}

#[test]
fn a_guest_gives_no_more_products_than_its_budget() {
    let talked = |scheme, most_products| {
        let sharing =
            DisclosurePolicy { sealed_only: true, most_products, ..DisclosurePolicy::default() };
        let plan = plan_of(Some(scheme));
        let (mut host, mut guests) = corridor::parties_that_share(
            &shape(1),
            &plan,
            Compression::None,
            From::Physics,
            sharing,
        );
        talk(&mut host, &mut guests, |message| message, |message| message);
        (host, guests)
    };
    let (_, guests) = talked(PLAIN, None);
    let guest = guests.values().next().expect("a guest");
    let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
    // `plain` hides nothing of the host, but this guest's measurements would be as safe; it takes no part in it.
    assert!(error.to_string().contains("in the clear"), "{error}");

    let (_, guests) = talked(LATTICE, None);
    let most = |guest: &GuestParty| guest.ledger().queries().most().expect("products").1;
    // Enough for the first of two epochs.
    let limit = 0.6 * guests.values().map(most).fold(0.0, f64::max);
    let (host, guests) = talked(LATTICE, Some(limit));
    let guest = guests.values().next().expect("a guest");
    let Some(GuestEnd::Stopped(error)) = guest.ended() else { unreachable!("it must stop") };
    assert!(error.to_string().contains("the budget is spent"), "{error}");
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it must stop") };
    assert!(error.to_string().contains("refuses further products"), "{error}");
    // What it has answered stands in its ledger, and is within the budget of each step.
    assert!(guest.ledger().numbers("products") > 0);
    assert!(most(guest) > 0.0 && most(guest) <= limit, "{} of {limit}", most(guest));
}
