//! FedTSE with all parties in one process: `fedtse train --method fedtse`, and its kin without labels.
//!
//! The same host and guests as over the network (see `fedtse host` and `fedtse guest`), each with
//! its own features, model and ledger; only the messages between them do not leave the process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use estimator::{
    Epoch, Estimates, GuestPlan, HostStudy, NeuralPlan, NeuralStudy, Study, SubModel, whole_batch,
};
use federation::guest::{GuestEnd, GuestSettings};
use federation::{
    Agreed, Event, FolderStore, Guest, Host, HostSettings, MemoryStore, Store, Timing, memory,
};
use indicatif::ProgressBar;
use protocol::ledger::MemorySink;
use protocol::message::parts::Text;
use protocol::{Compression, Ledger, LocalUpdates, LocalVariant, Now, PartyId, Plan, RunId};
use traffic::Step;

use super::absence;
use super::curves;
use super::fit::{Fitted, Training, Watch};
use super::label_free::PhysicsOptions;
use super::releases::{Releases, Written};
use crate::party::guest_part::{GuestPart, terms};
use crate::party::host_part;
use crate::party::learning::{FOLDS, Learning, LossOptions, SEGMENT};
use crate::party::privacy::PrivacyOptions;
use crate::party::watched::{Outputs, Watched, with_watched};
use crate::party::{Brought, GuestOf};
use crate::subject::subject;

/// The host's name.
const HOST: &str = "host";
/// Rounds between two checkpoints, where they are kept in a folder.
const KEEP_EVERY: u32 = 100;

/// What one may choose of the rounds between host and guests.
#[derive(Args, Clone, Copy, Debug)]
pub struct FederationOptions {
    /// Guests of the federated estimators, among which the fleet is divided; more than one needs
    /// `fedtse features --providers`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub guests: u16,
    /// Local updates of each party per exchange
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub q: u32,
    /// Use the first gradient for all local updates, as the authors' code does
    #[arg(long)]
    pub frozen: bool,
    /// Hold weights near those of the exchange by this factor (proximal term)
    #[arg(long, default_value_t = 0.0, value_name = "MU")]
    pub proximal: f32,
    /// How embeddings and gradients cross: `f16` halves their bytes, `q8` leaves a quarter, both with a
    /// small loss
    #[arg(long, value_enum, default_value_t = Packing::None)]
    pub compression: Packing,
    #[command(flatten)]
    pub privacy: PrivacyOptions,
}

/// How embeddings and gradients cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// As they are
    None,
    /// 16 bits a number
    F16,
    /// 8 bits a number, with error feedback
    Q8,
}

impl From<Packing> for Compression {
    fn from(packing: Packing) -> Self {
        match packing {
            Packing::None => Compression::None,
            Packing::F16 => Compression::F16,
            Packing::Q8 => Compression::Q8,
        }
    }
}

impl Default for FederationOptions {
    fn default() -> Self {
        let (compression, privacy) = (Packing::None, PrivacyOptions::clear());
        Self { guests: 1, q: 1, frozen: false, proximal: 0.0, compression, privacy }
    }
}

impl FederationOptions {
    fn local(&self) -> LocalUpdates {
        let variant = if self.frozen { LocalVariant::Frozen } else { LocalVariant::Recompute };
        LocalUpdates { count: self.q, variant, proximal: self.proximal }
    }
}

type AnyStore = Box<dyn Store>;
type Guests = BTreeMap<PartyId, Guest<GuestOf, AnyStore>>;

/// Trains host and guests and estimates some windows. Checkpoints and ledgers of all parties are
/// kept in the folder, if one is given, and a run that was interrupted goes on; at the end the
/// parts are put together there, as a model for `fedtse estimate`.
pub fn train(
    study: &Study,
    (plan, brought): (&NeuralPlan, &Brought),
    (learning, physics): (Learning, &PhysicsOptions),
    options: &FederationOptions,
    windows: &[Step],
    (watch, keep): (Watch, Option<&Path>),
    bar: &ProgressBar,
) -> Result<Fitted> {
    let each = if learning.is_held_out() { FOLDS } else { 1 };
    check_guests(&plan.guests, study.fleets().len(), each)?;
    let segment = match learning.has_physics() {
        true => physics.segment.unwrap_or(SEGMENT),
        false => 1,
    };
    let loss = LossOptions {
        learning,
        physics: !physics.no_physics,
        learn_physics: physics.learn_physics,
    };
    let looked_at = if watch.each_epoch { windows } else { &[] };
    let guard = options.privacy.guard(learning, study.folder());
    let (mut guests, mut widths, mut seats) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let (mut ledgers, mut trained) = (Vec::new(), BTreeMap::new());
    for (guest, fleets) in plan.guests.iter().zip(study.fleets().chunks(each)) {
        let party = PartyId::new(&guest.name)?;
        let (fleets, training) = (fleets.to_vec(), &study.split().train);
        let kinds = learning.kinds();
        let shape = (guest, plan.sizes);
        let part = GuestPart::of(study.folder(), fleets, training, shape, &kinds, &guard)?;
        let part = part.bringing(brought.guests.get(&guest.name));
        seats.push(part.seat());
        widths.insert(party.clone(), part.width());
        let settings = GuestSettings {
            party: party.clone(),
            host: PartyId::new(HOST)?,
            software: Text::of(env!("CARGO_PKG_VERSION")),
            session: 1,
            terms: part.terms(options.compression.into()),
            subject: part.subject()?,
            held: part.held()?,
            width: part.width(),
            measures: part.measures(),
            sharing: guard.policy.sharing(),
            timing: Timing::default(),
        };
        let (store, ledger, written) = shelf(keep, &party)?;
        ledgers.push((party.clone(), written));
        trained.insert(party.clone(), part.trained(&party));
        let guest = Guest::new(settings, part.maker(), store, ledger, Now::default())?;
        guests.insert(party, guest);
    }
    let loops = Arc::new(study.loops().clone());
    let host_study = Arc::new(match learning {
        Learning::Labels => HostStudy::new(study, plan)?,
        _ => HostStudy::without_truth(&loops, study.split(), plan)?,
    });
    let settings = HostSettings {
        party: PartyId::new(HOST)?,
        guests: widths,
        software: Text::of(env!("CARGO_PKG_VERSION")),
        run: RunId(plan.seed),
        terms: terms(study.timeline(), options.compression.into()),
        subject: match &brought.host {
            None => subject(&(plan, host_study.card(), windows, loss))?,
            Some(own) => subject(&(plan, host_study.card(), windows, loss, own.crossing))?,
        },
        plan: Plan {
            seed: plan.seed,
            batch: whole_batch(plan.recipe.batch, segment.into()) as u32,
            epochs: plan.recipe.epochs as u32,
            exchanges: 0,
            recipe: federation::fedbcd::optimiser_settings(&plan.recipe),
            local: options.local(),
            keep_every: if keep.is_some() { KEEP_EVERY } else { u32::MAX },
            segment: segment.into(),
            measured: learning.kinds(),
            shares: None,
            sealing: options.privacy.sealing(learning)?,
        },
        measuring: host_part::measuring(&loops, study.split()),
        samples: with_watched(host_part::samples(learning, study.split(), windows), looked_at),
        shuffle: plan.recipe.shuffle,
        patience: plan.recipe.patience as u32,
        absent: brought.absent,
        timing: Timing::default(),
    };
    let (store, ledger, written) = shelf(keep, &settings.party)?;
    ledgers.insert(0, (settings.party.clone(), written));
    let exchanges = settings.samples.in_segments(segment.into()).train.len();
    let exchanges = exchanges.div_ceil(settings.plan.batch as usize);
    let places = (seats.clone(), brought.host.as_ref());
    let trained_host = host_part::trained(&host_study, &loops, plan, &settings.party, places);
    let mut make =
        host_part::maker(&host_study, &loops, plan, loss, (seats, brought.host.as_ref()));
    let (data, looked_at) = (Arc::clone(&host_study), looked_at.to_vec());
    let make = move |plan: &Plan, agreed: &Agreed| {
        Ok(make(plan, agreed)?.watching(Watched::new(Arc::clone(&data), &looked_at)))
    };
    let mut host = Host::new(settings, Box::new(make), store, ledger, Now::default())?;
    let summary = memory::run_until(&mut host, &mut guests, |event| {
        if let Event::Epoch(epoch) = event {
            progress::after_epoch(bar, epoch.number as usize, epoch.train, epoch.validation);
        }
        progress::go_on().err().map(Text::of)
    })?;
    bar.finish_and_clear();
    let epochs = host.history().iter().map(|epoch| Epoch {
        number: epoch.number as usize,
        train: epoch.train,
        validation: epoch.validation,
    });
    let epochs: Vec<Epoch> = epochs.collect();
    let left = left(&guests);
    // With what is brought along there is no whole to put together: each party keeps its part, as over the network.
    if let Some(folder) = keep.filter(|_| !brought.is_empty()) {
        let (run, model) = (host.run(), host.model().context("the host's model")?);
        let best = model.host_model().save_best();
        trained_host.write(&folder.join(HOST), run, &best, model.own_best()?)?;
        for (party, part) in trained {
            let model = guests.get(&party).and_then(Guest::model);
            if let Some(model) = model.filter(|_| !left.contains_key(party.as_str())) {
                let (best, own) = model.save_best()?;
                part.write(&folder.join(party.as_str()), run, &best, own)?;
            }
        }
    }
    if let Some(folder) = keep.filter(|_| brought.is_empty()) {
        curves::draw(&folder.join("curves.svg"), &epochs)?;
        let model = host.model().context("the host's model")?;
        let best = model.host_model().best();
        let whole = assembled(study, plan, best, &guests)?;
        whole.save(folder, &epochs)?;
    }
    let released = guests.values().map(|guest| guest.ledger().released_bytes());
    let releases = ledgers.iter().map(|(party, written)| Releases::read(party, written));
    let releases = releases.collect::<Result<_>>()?;
    let bytes = host.ledger().released_bytes() + released.sum::<u64>();
    let mut model = host.into_model().context("the host's model")?;
    model.settle()?;
    let estimates = scored(study, &host_study, &model.estimates(), windows)?;
    let by_epoch = model.epochs().iter().map(|all| scored(study, &host_study, all, windows));
    let by_epoch = by_epoch.collect::<Result<_>>()?;
    let mut absent = Vec::new();
    for (party, guest) in &mut guests {
        if let Some(model) = guest.model_mut().filter(|_| !left.contains_key(party.as_str())) {
            model.settle().with_context(|| format!("guest `{party}`"))?;
        }
    }
    if watch.each_absent {
        for (guest, outputs) in absence::each_absent(&mut model, guests, windows)? {
            absent.push((guest, scored(study, &host_study, &outputs, windows)?));
        }
    }
    Ok(Fitted {
        estimates,
        by_epoch,
        absent,
        training: Some(Training {
            best_epoch: Some(summary.best_epoch as usize),
            history: epochs,
            exchanges,
            rounds: Some(summary.rounds.0),
            bytes: Some(bytes),
            releases,
            left,
        }),
    })
}

/// Guests that did not come to the end, and why.
fn left(guests: &Guests) -> BTreeMap<String, String> {
    let why = |(party, guest): (&PartyId, &Guest<GuestOf, AnyStore>)| match guest.ended() {
        Some(GuestEnd::Stopped(error)) => Some((party.to_string(), error.to_string())),
        _ => None,
    };
    guests.iter().filter_map(why).collect()
}

/// The best weights of all parties in one model. Only here, where all are in one process.
fn assembled(
    study: &Study,
    plan: &NeuralPlan,
    host: &[f32],
    guests: &Guests,
) -> Result<estimator::NeuralEstimator> {
    let mut parts = vec![host];
    for guest in &plan.guests {
        let model = guests.get(&PartyId::new(&guest.name)?).and_then(Guest::model);
        let model = model.with_context(|| format!("the model of {}", guest.name))?;
        let layers = model.layers().with_context(|| format!("layers of {}", guest.name))?;
        parts.push(layers.best());
    }
    Ok(NeuralStudy::new(study, plan.clone())?.assemble(&parts)?)
}

/// Guests have fleets, or folds of them, by their place in the list: so many each, and no name twice.
fn check_guests(guests: &[GuestPlan], fleets: usize, each: usize) -> Result<()> {
    let expected = guests.len() * each;
    ensure!(
        fleets == expected,
        "fleets: found {fleets}, expected {expected}, {each} for each guest"
    );
    for (place, guest) in guests.iter().enumerate() {
        let twice = guests[..place].iter().any(|other| other.name == guest.name);
        ensure!(!twice, "guests: found two named `{}`, expected names that differ", guest.name);
    }
    Ok(())
}

/// A party's checkpoints and ledger: in a folder of its own, or in memory.
fn shelf(keep: Option<&Path>, party: &PartyId) -> Result<(AnyStore, Ledger, Written)> {
    let Some(folder) = keep else {
        let sink = MemorySink::default();
        let ledger = Ledger::in_memory(&sink, party)?;
        return Ok((Box::new(MemoryStore::default()), ledger, Written::Memory(sink)));
    };
    let own = folder.join(party.as_str());
    let (store, path) = (FolderStore::open(&own)?, own.join("ledger.jsonl"));
    Ok((Box::new(store), Ledger::open(&path, party)?, Written::File(path)))
}

/// The estimates of the scored links, window by window.
fn scored(
    study: &Study,
    host: &HostStudy,
    outputs: &Outputs,
    windows: &[Step],
) -> Result<Estimates> {
    let estimates = windows.iter().map(|step| {
        outputs.get(step).map(Vec::as_slice).with_context(|| {
            format!("step {}: found no estimate; is this folder's run of another --part?", step.0)
        })
    });
    let estimates = estimates.collect::<Result<Vec<_>>>()?;
    Ok(host_part::of_targets(study.targets(), host, estimates.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guest_has_a_fleet_and_a_name_of_its_own() {
        let (features, arch) = (estimator::GuestFeatures::Totals, estimator::Architecture::Link);
        let guest = |name: &str| GuestPlan::new(name, features, arch);
        let two = [guest("a"), guest("b")];
        assert!(check_guests(&two, 2, 1).is_ok());
        assert!(check_guests(&two, 16, 8).is_ok());
        let error = check_guests(&two, 1, 1).unwrap_err().to_string();
        assert_eq!(error, "fleets: found 1, expected 2, 1 for each guest");
        assert!(check_guests(&two, 3, 1).is_err());
        let error = check_guests(&[guest("a"), guest("b"), guest("a")], 3, 1).unwrap_err();
        assert!(error.to_string().contains("two named `a`"), "{error}");
    }
}
