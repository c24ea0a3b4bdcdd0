//! A host and guests over the corridor, with random data: each party sees its own columns of one
//! table, which a joint model sees as a whole.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod sensors;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use estimator::loss::LossWeights;
use estimator::model::HostShape;
use estimator::{
    Architecture, EmbeddingShape, GuestShape, GuestSlot, LayerSubModel, MeasurementSource,
    ModelShape, Recipe, Sizes, SubModel, SubModelKind, WINDOW, WindowSource,
};
use federation::guest::{DisclosurePolicy, GuestSettings};
use federation::{
    AbsencePolicy, Agreed, CheckpointInterval, Guest, Host, HostModel, HostSettings, KeyAuthority,
    KeyDesk, LocalAuthority, MeasurementBounds, MemoryStore, Samples, Timing,
};
use neural::{Layer, hash, unit};
use protocol::ledger::MemorySink;
use protocol::message::Terms;
use protocol::message::parts::{HeldSteps, Text};
use protocol::{
    Compression, Ledger, LocalUpdates, Now, PartyId, Plan, Released, RunId, ToGuest, ToHost,
};
use traffic::{Step, Window, corridor};
use training::learner::{GuestLearner, HostLearner, optimiser_settings, update_rule};

use sensors::From;

pub(crate) const SEED: u64 = 11;
pub(crate) const TRAIN: Range<i64> = 0..90;
pub(crate) const VALIDATION: Range<i64> = 90..110;
pub(crate) const ESTIMATE: Range<i64> = 110..120;

pub(crate) type GuestParty = Guest<GuestLearner<LayerSubModel, Columns>, MemoryStore>;
pub(crate) type HostParty = Host<HostLearner<Columns>, MemoryStore>;
pub(crate) type Guests = BTreeMap<PartyId, GuestParty>;

/// Some columns of the table.
#[derive(Clone)]
pub(crate) struct Columns {
    all: usize,
    own: Range<usize>,
    weights: Vec<f32>,
}

impl Columns {
    fn number(key: u64, step: Step, i: usize) -> f32 {
        2.0 * unit(hash([key, step.0 as u64, i as u64])) - 1.0
    }
}

impl WindowSource for Columns {
    fn row_len(&self) -> usize {
        self.own.len()
    }
    fn write_row(&self, sample: Window, to: &mut [f32]) {
        // Each view of a step has numbers of its own.
        let seen = Step(sample.last.0 + 1000 * i64::from(sample.view.0));
        let number = |i| Self::number(1, seen, i);
        to.iter_mut().zip(self.own.clone()).for_each(|(x, i)| *x = number(i));
    }
}

impl Columns {
    pub(crate) fn loss_weights(&self) -> LossWeights {
        LossWeights { training: self.weights.clone(), validation: self.weights.clone() }
    }

    /// The same table, other columns.
    pub(crate) fn with_own(&self, own: Range<usize>) -> Self {
        Self { own, ..self.clone() }
    }
}

/// The labels of a table.
#[derive(Clone)]
pub(crate) struct Targets(pub Columns);

impl WindowSource for Targets {
    fn row_len(&self) -> usize {
        self.0.weights.len()
    }
    fn write_row(&self, sample: Window, to: &mut [f32]) {
        // Something that can be learned: a mix of a few inputs.
        let x = |i: usize| Columns::number(1, sample.last, i * 7 % self.0.all);
        to.iter_mut().enumerate().for_each(|(i, y)| *y = x(i) - 0.5 * x(i + 3) + 0.3);
    }
}

pub(crate) fn sizes() -> Sizes {
    Sizes { units: 12, embedding: 3, ..Sizes::default() }
}

/// Guests that all differ: in what they know, in their model, in what they give.
pub(crate) fn shape(guests: usize) -> ModelShape {
    let totals = GuestShape {
        name: "totals".into(),
        sub_model: SubModelKind::Link,
        channels: 3 * WINDOW,
        totals: true,
        embedding: EmbeddingShape::PerLink(3),
        sizes: sizes(),
        window: WINDOW,
    };
    let speeds = GuestShape {
        name: "speeds".into(),
        channels: 2 * WINDOW,
        totals: false,
        embedding: EmbeddingShape::PerLink(2),
        ..totals.clone()
    };
    let paper = GuestShape {
        name: "paper".into(),
        sub_model: SubModelKind::Stgcn,
        channels: 2,
        embedding: EmbeddingShape::PerLink(1),
        ..totals.clone()
    };
    let guests: Vec<_> = [totals, speeds, paper].into_iter().take(guests).collect();
    let host = HostShape {
        architecture: Architecture::Link,
        shared: 5,
        channels: 2,
        slots: guests.iter().map(GuestSlot::of).collect(),
        party_dropout: 0.1,
        sizes: sizes(),
        window: WINDOW,
    };
    ModelShape { host, guests }
}

pub(crate) fn recipe() -> Recipe {
    // Short enough that some gradients of each party are clipped.
    let clip = Some(0.3);
    Recipe { epochs: 3, batch: 20, clip, ..Recipe::of(Architecture::Link) }
}

pub(crate) fn plan(local: LocalUpdates) -> Plan {
    Plan {
        seed: SEED,
        batch: recipe().batch as u32,
        epochs: recipe().epochs as u32,
        exchanges: 0,
        optimiser: optimiser_settings(&recipe()),
        local,
        segment: 1,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

pub(crate) fn steps(range: Range<i64>) -> Vec<Step> {
    range.map(Step).collect()
}

pub(crate) fn terms(compression: Compression) -> Terms {
    Terms {
        network_hash: Text::of("sha256:corridor"),
        step_s: 10.0,
        origin_s: 0.0,
        window: 9,
        compression,
    }
}

/// The whole table.
pub(crate) fn table(shape: &ModelShape) -> Columns {
    let model = shape.build(&corridor().expect("the corridor")).expect("a model");
    let (all, outputs) = (model.input_len(), model.output_len());
    Columns { all, own: 0..all, weights: vec![1.0 / 17.0; outputs] }
}

/// Host and guests of a shape, each with its columns.
pub(crate) fn parties(
    shape: &ModelShape,
    plan: &Plan,
) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    packed_parties(shape, plan, Compression::None)
}

/// The same with some compression.
pub(crate) fn packed_parties(
    shape: &ModelShape,
    plan: &Plan,
    compression: Compression,
) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    parties_that_learn(shape, plan, compression, From::Labels)
}

/// The same from something else than labels.
pub(crate) fn parties_that_learn(
    shape: &ModelShape,
    plan: &Plan,
    compression: Compression,
    learned: From,
) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    parties_that_share(shape, plan, compression, learned, DisclosurePolicy::default())
}

/// The same with what guests give of sealed measurements.
pub(crate) fn parties_that_share(
    shape: &ModelShape,
    plan: &Plan,
    compression: Compression,
    learned: From,
    sharing: DisclosurePolicy,
) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    let sensors = move |guest: &str| learned.sensors(guest);
    let given = (sharing, Life::default());
    parties_of(shape, plan, compression, learned, given, learned.samples(), sensors)
}

/// A start of the guests: the number of it, and the folders that they find.
#[derive(Clone, Default)]
pub(crate) struct Life {
    pub number: u64,
    pub stores: BTreeMap<String, MemoryStore>,
}

/// The same with other samples, and guests that measure something else.
pub(crate) fn parties_of(
    shape: &ModelShape,
    plan: &Plan,
    compression: Compression,
    learned: From,
    given: (DisclosurePolicy, Life),
    samples: Samples,
    sensors: impl Fn(&str) -> Vec<Arc<dyn MeasurementSource>> + Clone + Send + 'static,
) -> (HostParty, BTreeMap<PartyId, GuestParty>) {
    let given = (compression, learned, given);
    parties_with(shape, plan, given, samples, sensors, |learner| learner)
}

/// The same with a host model that is made of the usual one.
pub(crate) fn parties_with<H: HostModel>(
    shape: &ModelShape,
    plan: &Plan,
    (compression, learned, (sharing, life)): (Compression, From, (DisclosurePolicy, Life)),
    samples: Samples,
    sensors: impl Fn(&str) -> Vec<Arc<dyn MeasurementSource>> + Clone + Send + 'static,
    wrapped: impl Fn(HostLearner<Columns>) -> H + Send + 'static,
) -> (Host<H, MemoryStore>, BTreeMap<PartyId, GuestParty>) {
    let network = corridor().expect("the corridor");
    let whole = table(shape);
    let host_model = move |plan: &Plan, shape: &ModelShape| {
        estimator::HostModel::new(&shape.host, &network, SEED, update_rule(plan))
            .map_err(|error| federation::ModelFailure(error.to_string()))
    };
    let host_id = PartyId::new("city").expect("a name");
    let host_inputs = host_model(plan, shape).expect("a model").input_len();
    let mut from = host_inputs;
    let keyed = plan.sealing.is_some_and(|sealing| sealing.is_keyed());
    let desk = keyed.then(|| Arc::new(Mutex::new(KeyDesk::new(host_id.clone()))));
    let mut guests = BTreeMap::new();
    let mut widths = BTreeMap::new();
    for guest in &shape.guests {
        let network = corridor().expect("the corridor");
        let sub_model =
            LayerSubModel::of(guest, &network, SEED, update_rule(plan)).expect("a model");
        let own = from..from + sub_model.input_len();
        from = own.end;
        let data = Columns { own, ..whole.clone() };
        let party = PartyId::new(&guest.name).expect("a name");
        let width = sub_model.output_len() as u32;
        widths.insert(party.clone(), width);
        let settings = GuestSettings {
            party: party.clone(),
            host: host_id.clone(),
            software: Text::of("test"),
            session: hash([9 + life.number, from as u64]) | 1,
            terms: terms(compression),
            subject: Text::of("test"),
            held: HeldSteps::of(steps(0..ESTIMATE.end)).expect("steps"),
            width,
            measures: learned.measures(&guest.name),
            sharing,
            timing: Timing::default(),
        };
        let (guest, sensors) = (guest.clone(), sensors.clone());
        let make = move |plan: &Plan| {
            let sub_model = LayerSubModel::of(&guest, &network, plan.seed, update_rule(plan))
                .map_err(|error| federation::ModelFailure(error.to_string()))?;
            let sensors = sensors(&guest.name);
            Ok(GuestLearner::new(sub_model, data.clone(), plan)?.measuring(sensors))
        };
        let ledger = Ledger::in_memory(&MemorySink::default(), &party).expect("a ledger");
        let store = life.stores.get(party.as_str()).cloned().unwrap_or_default();
        let guest = Guest::new(settings, Box::new(make), store, ledger, Now::default());
        let mut guest = guest.expect("a guest");
        if let Some(desk) = &desk {
            guest = guest.with_key_authority(at_desk(&party, desk));
        }
        guests.insert(party, guest);
    }
    let settings = HostSettings {
        party: host_id.clone(),
        guests: widths,
        software: Text::of("test"),
        run: RunId(7),
        terms: terms(compression),
        subject: Text::of("test"),
        plan: plan.clone(),
        checkpoints: CheckpointInterval {
            rounds: NonZeroU32::new(4),
            ..CheckpointInterval::default()
        },
        measurement_bounds: MeasurementBounds { links: 17, counted: Some(10.0) },
        samples,
        shuffle: recipe().shuffle,
        patience: recipe().patience as u32,
        absent: AbsencePolicy::Wait,
        timing: Timing::default(),
    };
    let shape = shape.clone();
    let own = Columns { own: 0..host_inputs, ..whole };
    let make = move |plan: &Plan, agreed: &Agreed| {
        let loss = learned.loss(&own, agreed);
        Ok(wrapped(HostLearner::new(host_model(plan, &shape)?, own.clone(), loss, plan)?))
    };
    let ledger = Ledger::in_memory(&MemorySink::default(), &host_id).expect("a ledger");
    let store = MemoryStore::default();
    let host = Host::new(settings, Box::new(make), store, ledger, Now::default());
    let mut host = host.expect("a host");
    if let Some(desk) = &desk {
        host = host.with_key_authority(at_desk(&host_id, desk));
    }
    (host, guests)
}

/// The authority of all parties, as one of them reaches it.
fn at_desk(party: &PartyId, desk: &Arc<Mutex<KeyDesk>>) -> Box<dyn KeyAuthority> {
    let name = PartyId::new("keys").expect("a name");
    Box::new(LocalAuthority::new(name, party.clone(), Arc::clone(desk)))
}

/// Hands messages over, changed on their way, until nobody says anything; gives up after many.
pub(crate) fn talk(
    host: &mut HostParty,
    guests: &mut Guests,
    mut to_host: impl FnMut(ToHost) -> ToHost,
    mut to_guest: impl FnMut(ToGuest) -> ToGuest,
) {
    let now = Now::default();
    let mut up: Vec<(PartyId, Released<ToHost>)> = Vec::new();
    for (party, guest) in guests.iter_mut() {
        up.extend(guest.tick(now).into_iter().map(|message| (party.clone(), message)));
    }
    for _ in 0..2000 {
        if up.is_empty() {
            return;
        }
        let (from, message) = up.remove(0);
        for message in host.handle(now, &from, to_host(message.into_message())) {
            let to = message.recipient().clone();
            let guest = guests.get_mut(&to).expect("a guest");
            let said = guest.handle(now, to_guest(message.into_message()));
            up.extend(said.into_iter().map(|message| (to.clone(), message)));
        }
    }
}
