//! Functional encryption in the rounds: products and runs are those of the plain scheme and of lattice encryption, to the stated
//! error; and what an authority or a party must refuse is refused.

mod corridor;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use estimator::{ModelShape, Recipe, Sizes, SubModel};
use federation::guest::DisclosurePolicy;
use federation::model::{Answers, Embeddings, Learned, Updated};
use federation::{
    Event, GuestEnd, HostEnd, HostModel, KeyAuthority, KeyDesk, KeyFailure, LocalAuthority,
    ModelFailure, ProductRows, Products, memory,
};
use protocol::ledger::{MemorySink, audit};
use protocol::message::key_authority::ToAuthority;
use protocol::{
    Compression, Ledger, LocalUpdates, MeasurementKind, Now, OptimiserSettings, PartyId, Plan,
    Released, Round, Scheme, Sealing, ToGuest,
};
use sealed::ipfe::public_key_request;
use sealed::{Agreement, Grid};
use traffic::Window;
use training::learner::HostLearner;

use corridor::sensors::From;
use corridor::{Columns, Life, parties_that_share, parties_with, plan, recipe, shape, talk};

const KEYED: Sealing = Sealing { scheme: Scheme::KeyAuthority, ..LATTICE };
const LATTICE: Sealing = Sealing { scheme: Scheme::Lattice, most_rows: 4000, commitments: None };
const PLAIN: Sealing = Sealing { scheme: Scheme::Plain, ..LATTICE };
/// Samples of a batch, and numbers of one.
const BATCH: usize = 48;
const ENTRIES: usize = 34;

fn plan_of(sealing: Sealing) -> Plan {
    let recipe = Recipe { clip: None, average: None, batch: BATCH, epochs: 2, ..recipe() };
    Plan {
        batch: recipe.batch as u32,
        epochs: recipe.epochs as u32,
        optimiser: training::learner::optimiser_settings(&recipe),
        segment: 4,
        measured: [MeasurementKind::Queues, MeasurementKind::Speeds].into(),
        sealing: Some(sealing),
        ..plan(LocalUpdates::default())
    }
}

/// Heads as sealed modes have them: an authority issues keys for half as many rows as there are values.
fn small(guests: usize) -> ModelShape {
    let mut shape = shape(guests);
    shape.host.sizes = Sizes::default().for_products();
    shape
}

/// Rows of an exchange and their products, as the host's model sees them.
type Log = Arc<Mutex<Vec<Seen>>>;

/// A host model that notes them.
struct Noting {
    model: HostLearner<Columns>,
    rows: BTreeMap<PartyId, Vec<f64>>,
    log: Log,
}

impl HostModel for Noting {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.model.widths()
    }
    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure> {
        self.model.learn(samples, answers)
    }
    fn validate(&mut self, s: &[Window], a: &Answers, total: f64) -> Result<f64, ModelFailure> {
        self.model.validate(s, a, total)
    }
    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        self.rows.clear();
        self.model.begin_secure_update(samples, answers)
    }
    fn write_rows(
        &mut self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure> {
        self.model.write_rows(party, rows, to)?;
        self.rows.entry(party.clone()).or_default().extend_from_slice(to);
        Ok(())
    }
    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        let mut rows = std::mem::take(&mut self.rows);
        let noted = products.iter().map(|(party, products)| {
            (party.clone(), (rows.remove(party).unwrap_or_default(), products.clone()))
        });
        self.log.lock().expect("a log").push(noted.collect());
        self.model.finish_secure_update(products)
    }
    fn validate_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        self.model.validate_without_values(samples, answers, total)
    }
    fn keep_best(&mut self) {
        self.model.keep_best();
    }
    fn estimate(&mut self, s: &[Window], embeddings: &Embeddings) -> Result<(), ModelFailure> {
        self.model.estimate(s, embeddings)
    }
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        self.model.save()
    }
    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        self.model.restore(saved)
    }
}

/// What the host's model saw of each guest: products and coefficients.
type Seen = BTreeMap<PartyId, (Vec<f64>, Vec<f64>)>;

/// Weights of each party, validation losses, and what the host's model saw.
struct Outcome {
    weights: BTreeMap<String, Vec<f32>>,
    losses: Vec<f64>,
    log: Vec<Seen>,
}

fn run(guests: usize, plan: &Plan) -> Outcome {
    let (log, learned) = (Log::default(), From::Physics);
    let noted = Arc::clone(&log);
    let (mut host, mut guests) = parties_with(
        &small(guests),
        plan,
        (Compression::None, learned, (DisclosurePolicy::default(), Life::default())),
        learned.samples(),
        move |guest| learned.sensors(guest),
        move |model| Noting { model, rows: BTreeMap::new(), log: Arc::clone(&noted) },
    );
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let losses = host.history().iter().map(|epoch| epoch.validation).collect();
    let host = host.into_model().expect("a model");
    let parameters = host.model.host_model().parameters().to_vec();
    let mut weights = BTreeMap::from([("city".to_owned(), parameters)]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), guest.sub_model().best().to_vec());
    }
    drop(host);
    let log = std::mem::take(&mut *log.lock().expect("a log"));
    Outcome { weights, losses, log }
}

/// The rows of the first exchange are the same whatever the scheme, so that products differ by the rounding of weights alone:
/// Σ|w| is 2^34/2^14 less half a unit for each of n values, each weight is off by half a unit at most, and a value is 1.5 times its
/// range from the middle of the grid at most.
#[test]
fn gradients_are_those_of_the_plain_scheme() {
    let plan = |sealing| Plan { epochs: 1, ..plan_of(sealing) };
    let (keyed, plain) = (run(2, &plan(KEYED)), run(2, &plan(PLAIN)));
    let ranges = |column: usize| if column % ENTRIES < ENTRIES / 2 { 250.0 } else { 40.0 };
    let n = BATCH * ENTRIES;
    let (mut products, mut largest) = (0, 0.0f64);
    for (party, (rows, found)) in &keyed.log[0] {
        let (same, expected) = &plain.log[0][party];
        assert!(rows == same && found.len() == expected.len() && rows.len() == n * found.len());
        for ((row, found), expected) in rows.chunks_exact(n).zip(found).zip(expected) {
            let norm: f64 = row.iter().enumerate().map(|(at, a)| (a * ranges(at)).abs()).sum();
            let unit = norm / ((1 << 20) - n as i64 / 2) as f64;
            let most = 0.5 * unit * n as f64 * 1.5 + 1e-9 * norm;
            assert!((found - expected).abs() <= most, "{found}, expected {expected} within {most}");
            products += 1;
            largest = largest.max(if norm > 0.0 { (found - expected).abs() / norm } else { 0.0 });
        }
    }
    // Hundreds of products, and most of the bound is unused: roundings are as often up as down.
    assert!(products > 100, "{products} products");
    assert!(largest < 1e-4, "{largest} of a row's norm");
}

/// As in `sealed.rs`: a hundredth of what weights move, but for units whose gradient is less than what rounding leaves of it.
/// Weights of rows have 10 bits more in lattice products than here.
#[test]
fn runs_end_as_with_lattice_encryption() {
    for guests in [1, 2] {
        let (keyed, lattice) = (run(guests, &plan_of(KEYED)), run(guests, &plan_of(LATTICE)));
        let one = Plan { epochs: 1, ..plan_of(LATTICE) };
        let still = Plan { optimiser: OptimiserSettings { rate: 0.0, ..one.optimiser }, ..one };
        let still = run(guests, &still);
        let differences = |a: &[f32], b: &[f32]| -> Vec<f32> {
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect()
        };
        for (party, weights) in &lattice.weights {
            let moved = differences(weights, &still.weights[party]);
            let moved = moved.into_iter().fold(0.0, f32::max);
            assert!(moved > 0.001, "training moves weights of {party} by {moved}");
            let apart = differences(weights, &keyed.weights[party]);
            let others = apart.iter().filter(|apart| **apart >= 0.02 * moved).count();
            assert!(64 * others <= weights.len(), "{party}: {others} of {}", weights.len());
        }
        let gain = |losses: &[f64]| losses[0] - losses[1];
        let (a, b) = (gain(&lattice.losses), gain(&keyed.losses));
        assert!((a - b).abs() < 0.02 * a.abs(), "validation gains {a} and {b}");
    }
}

/// Rows that no message has room for are asked in parts: the keys are the same.
#[test]
fn rows_in_parts_are_those_of_one_message() {
    let plan = |most_rows| Plan { epochs: 1, ..plan_of(Sealing { most_rows, ..KEYED }) };
    let (few, all) = (run(1, &plan(400)), run(1, &plan(4000)));
    assert!(few.weights == all.weights && few.losses == all.losses);
}

/// The training part has 92 samples: two batches of 44, and one of 4, for whose 136 values an authority issues fewer keys than the
/// host has parameters.
#[test]
fn nothing_is_learned_from_a_rest_that_is_too_small() {
    let outcome = run(1, &Plan { epochs: 1, batch: 44, ..plan_of(KEYED) });
    let products: Vec<usize> =
        outcome.log.iter().flat_map(|one| one.values()).map(|(_, found)| found.len()).collect();
    assert!(products.len() == 2 && products.iter().all(|count| *count > 136 / 2), "{products:?}");
    assert_eq!(outcome.losses.len(), 1);
}

fn named(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

#[test]
fn plans_without_an_authority_and_policies_that_count_are_refused() {
    let parties = |sharing| {
        parties_that_share(&small(1), &plan_of(KEYED), Compression::None, From::Physics, sharing)
    };
    let counted = DisclosurePolicy { most_products: Some(5.0), ..DisclosurePolicy::default() };
    let (mut host, mut guests) = parties(counted);
    talk(&mut host, &mut guests, |message| message, |message| message);
    let stopped = |guest: &corridor::GuestParty| match guest.ended() {
        Some(GuestEnd::Stopped(error)) => error.to_string(),
        other => format!("{other:?}"),
    };
    let error = stopped(&guests[&named("totals")]);
    assert!(error.contains("which this guest could not count (policy: most-products)"), "{error}");
    // A guest without an authority, of a host that trains with one.
    let (mut host, _) = parties(DisclosurePolicy::default());
    let (_, mut guests) = parties_that_share(
        &small(1),
        &plan_of(LATTICE),
        Compression::None,
        From::Physics,
        DisclosurePolicy::default(),
    );
    talk(&mut host, &mut guests, |message| message, |message| message);
    let error = stopped(&guests[&named("totals")]);
    assert!(error.contains("and this guest has none (section key-authority"), "{error}");
    // What is sealed as it is not made for.
    let measured = [MeasurementKind::HeldOut].into();
    let held_out = Plan { exchanges: 1, segment: 1, measured, ..plan_of(KEYED) };
    let error = held_out.check().unwrap_err().to_string();
    assert!(error.contains("found held-out totals, expected speeds or queues"), "{error}");
}

/// A head with more parameters than an authority issues keys for, before the first exchange.
#[test]
fn heads_that_need_too_many_keys_are_refused_before_the_first_exchange() {
    let few = Plan { batch: 4, ..plan_of(KEYED) };
    let (mut host, mut guests) = parties_that_share(
        &small(1),
        &few,
        Compression::None,
        From::Physics,
        DisclosurePolicy::default(),
    );
    talk(&mut host, &mut guests, |message| message, |message| message);
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it has no keys") };
    let error = error.to_string();
    assert!(error.contains("with 136 measurements of `totals`, expected at most 68"), "{error}");
    assert!(error.contains("choose a batch of"), "{error}");
    assert_eq!(host.round(), Round::START);
}

/// An authority that a test listens to, and that gives wrong keys or none.
struct Listening {
    authority: LocalAuthority,
    heard: Arc<Mutex<Vec<ToAuthority>>>,
    refuses: bool,
}

impl KeyAuthority for Listening {
    fn name(&self) -> &PartyId {
        self.authority.name()
    }
    fn ask(&mut self, message: &Released<ToAuthority>) -> Result<Vec<u8>, KeyFailure> {
        self.heard.lock().expect("a list").push(message.message().clone());
        if self.refuses && matches!(message.message(), ToAuthority::Keys { .. }) {
            return Err(KeyFailure("found enough".to_owned()));
        }
        self.authority.ask(message)
    }
}

/// The authority hears of rows, a public key for each exchange and no ciphertext; guests hear of no rows.
#[test]
fn the_authority_sees_rows_and_guests_see_none() {
    let plan = Plan { epochs: 1, ..plan_of(KEYED) };
    let (host, guests) = parties_that_share(
        &small(1),
        &plan,
        Compression::None,
        From::Physics,
        DisclosurePolicy::default(),
    );
    let desk = Arc::new(Mutex::new(KeyDesk::new(named("city"))));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listening = |party: &PartyId, refuses| {
        let authority = LocalAuthority::new(named("keys"), party.clone(), Arc::clone(&desk));
        Box::new(Listening { authority, heard: Arc::clone(&heard), refuses })
    };
    let mut host = host.with_key_authority(listening(&named("city"), false));
    let mut guests: BTreeMap<_, _> = guests
        .into_iter()
        .map(|(party, guest)| {
            let keys = listening(&party, false);
            (party, guest.with_key_authority(keys))
        })
        .collect();
    let mut asked = Vec::new();
    talk(
        &mut host,
        &mut guests,
        |message| message,
        |message| {
            asked.push(matches!(message, ToGuest::ProductQuery { .. }));
            message
        },
    );
    assert!(matches!(host.ended(), Some(HostEnd::Finished(_))), "{:?}", host.ended());
    assert!(asked.len() > 10 && !asked.contains(&true));
    let heard = std::mem::take(&mut *heard.lock().expect("a list"));
    let mut rounds = Vec::new();
    for pair in heard.chunks(2) {
        let [
            ToAuthority::PublicKey { round, .. },
            ToAuthority::Keys { round: same, guest, size, .. },
        ] = pair
        else {
            unreachable!("{pair:?}")
        };
        assert!(round == same && *guest == named("totals"));
        assert_eq!(size[1] as usize % ENTRIES, 0);
        rounds.push(*round);
    }
    // Two exchanges that train and one that validates.
    assert_eq!(rounds.len(), 3);
    rounds.dedup();
    assert_eq!(rounds.len(), 3);
    // Both ledgers name them.
    let guest = &guests[&named("totals")];
    assert!(host.ledger().numbers("function-keys-request") > (BATCH * ENTRIES) as u64);
    assert_eq!(guest.ledger().numbers("products"), 0);
    assert!(guest.ledger().numbers("masked-products") > 0);

    // An authority that gives no keys ends the run; it is no guest's fault.
    let (host, mut guests) = parties_that_share(
        &small(1),
        &plan,
        Compression::None,
        From::Physics,
        DisclosurePolicy::default(),
    );
    let mut host = host.with_key_authority(listening(&named("city"), true));
    let keys = listening(&named("totals"), false);
    let guest = guests.remove(&named("totals")).expect("a guest").with_key_authority(keys);
    guests.insert(named("totals"), guest);
    talk(&mut host, &mut guests, |message| message, |message| message);
    let Some(HostEnd::Stopped(error)) = host.ended() else { unreachable!("it has no keys") };
    assert_eq!(error.to_string(), "key authority: found enough");
    assert!(!host.take_events().iter().any(|event| matches!(event, Event::Refused(..))));
}

#[test]
fn an_authority_refuses_wrong_roles_and_sizes() {
    let mut desk = KeyDesk::new(named("city"));
    let grid = Grid::new(-1.0, 2.0, 16384).expect("a grid");
    let request = |width| {
        let agreement = Agreement { width, grid, most_rows: 1, most_blocks: 1 };
        ToAuthority::PublicKey { round: Round(1), request: public_key_request(&agreement) }
    };
    let error = desk.answer(&named("city"), &request(4)).unwrap_err().to_string();
    assert!(error.contains("found a request of the host, `city`, for a public key"), "{error}");
    let error = desk.answer(&named("fleet"), &request((1 << 16) + 1)).unwrap_err().to_string();
    assert!(error.contains("found 65537, expected 1 to 65536"), "{error}");
    desk.answer(&named("fleet"), &request(4)).expect("a key");
    let question = ToAuthority::Keys {
        round: Round(1),
        guest: named("fleet"),
        size: [1, 4],
        question: vec![0; 100],
    };
    for guest in ["fleet", "other"] {
        let error = desk.answer(&named(guest), &question).unwrap_err().to_string();
        assert!(error.ends_with("expected one of the host alone"), "{error}");
    }
    let error = desk.answer(&named("city"), &question).unwrap_err().to_string();
    assert!(error.starts_with("the peer sent no valid question"), "{error}");
    // Messages are recorded before they can be sent.
    let sink = MemorySink::default();
    let mut ledger = Ledger::in_memory(&sink, &named("city")).expect("a ledger");
    let released = ledger.release(Now::default(), &named("keys"), question).expect("a message");
    assert_eq!(released.recipient(), &named("keys"));
    let found = audit(&sink.bytes()[..], "ledger".as_ref(), &named("city")).expect("a ledger");
    assert_eq!(found.messages, 1);
}
