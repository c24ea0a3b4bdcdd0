//! Federated training with all parties in this process.
//!
//! The same host and guests as over the network, each with its own features, model and ledger; only the messages
//! between them do not leave the process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estimator::artifact::{GuestRecord, ModelRecord};
use estimator::loss::ViewEstimates;
use estimator::{
    Epoch, Estimates, GuestPlan, GuestShape, GuestSlot, HostStudy, ModelShape, NeuralEstimator,
    NeuralPlan, SavedEstimator, Study, SubModel, TrainingSignal, whole_batch,
};
use federation::guest::{GuestEnd, GuestSettings};
use federation::{
    Agreed, CheckpointInterval, Event, FolderStore, Guest, Host, HostSettings, KeyAuthority,
    KeyDesk, LocalAuthority, MemoryStore, Store, Timing, memory,
};
use indicatif::ProgressBar;
use protocol::message::parts::Text;
use protocol::{Ledger, Now, PartyId, Plan, RunId, ledger::MemorySink};
use traffic::{Step, Window};

use crate::absence;
use crate::error::{Context, Result, ensure};
use crate::learner::optimiser_settings;
use crate::options::{FederationOptions, PhysicsOptions};
use crate::party::guest_part::{GuestPart, terms};
use crate::party::{CustomSubModels, GuestParty, host_part};
use crate::releases::{Releases, Written};
use crate::run_fingerprint;
use crate::signal::{LossOptions, SEGMENT, measured_kinds};
use crate::task::{Fitted, Training, Watch};
use crate::watched::{Outputs, WatchedWindows, with_watched};

/// The host's name.
const HOST: &str = "host";
/// The key authority's.
const KEYS: &str = "keys";

/// What is to be trained, and on what.
pub(crate) struct FederatedTask<'a> {
    /// The dataset.
    pub study: &'a Study,
    /// The models.
    pub plan: &'a NeuralPlan,
    /// Custom sub-models.
    pub custom: &'a CustomSubModels,
    /// What is learned from.
    pub signal: TrainingSignal,
    /// The traffic model, if the signal has one.
    pub physics: &'a PhysicsOptions,
    /// The rounds.
    pub options: &'a FederationOptions,
    /// What is estimated at the end.
    pub windows: &'a [Step],
    /// Windows in views of the guests' folds that are estimated besides.
    pub in_views: &'a [Window],
    /// What is asked besides.
    pub watch: Watch,
    /// Where checkpoints, ledgers and at the end the model are kept.
    pub keep: Option<&'a Path>,
}

type AnyStore = Box<dyn Store>;
type Guests = BTreeMap<PartyId, Guest<GuestParty, AnyStore>>;

/// Trains host and guests and estimates some windows. Checkpoints and ledgers of all parties are
/// kept in the folder, if one is given, and a run that was interrupted goes on; at the end the
/// parts are put together there, as a model for `fedtse estimate`. Beside the fit: estimates of all links in the views asked for.
pub(crate) fn train(
    task: &FederatedTask<'_>,
    bar: &ProgressBar,
) -> Result<(Fitted, ViewEstimates)> {
    let &FederatedTask {
        study,
        plan,
        custom,
        signal,
        physics,
        options,
        windows,
        in_views,
        watch,
        keep,
    } = task;
    let each = signal.folds().unwrap_or(1);
    check_guests(&plan.guests, study.fleets().len(), each)?;
    let segment = match signal.has_physics() {
        true => physics.segment.unwrap_or(SEGMENT),
        false => 1,
    };
    let loss = LossOptions {
        signal,
        physics: !physics.no_physics,
        traffic_model: physics.traffic_model,
        learn_physics: physics.learn_physics,
    };
    let looked_at = if watch.each_epoch { windows } else { &[] };
    let privacy = options.privacy.context(&signal, study.folder());
    let sealing = options.privacy.sealing(&signal)?;
    let keyed = sealing.is_some_and(|sealing| sealing.is_keyed());
    let desk = match keyed {
        true => Some(Arc::new(Mutex::new(KeyDesk::new(PartyId::new(HOST)?)))),
        false => None,
    };
    let (mut guests, mut widths, mut slots) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let (mut ledgers, mut trained, mut records) = (Vec::new(), BTreeMap::new(), Vec::new());
    for (guest, fleets) in plan.guests.iter().zip(study.fleets().chunks(each)) {
        let party = PartyId::new(&guest.name)?;
        let (fleets, training) = (fleets.to_vec(), &study.split().train);
        let kinds = measured_kinds(&signal);
        let shape = (guest, plan.sizes);
        let part = GuestPart::of(study.folder(), fleets, training, shape, &kinds, &privacy)?;
        let part = part.with_custom(custom.guests.get(&guest.name));
        slots.push(part.slot());
        records.push(part.record());
        widths.insert(party.clone(), part.width());
        let settings = GuestSettings {
            party: party.clone(),
            host: PartyId::new(HOST)?,
            software: Text::of(env!("CARGO_PKG_VERSION")),
            session: 1,
            terms: part.terms(options.compression.into()),
            subject: part.fingerprint()?,
            held: part.held()?,
            width: part.width(),
            measures: part.measures(),
            sharing: privacy.policy.sharing(),
            timing: Timing::default(),
        };
        let (store, ledger, written) = open_store_and_ledger(keep, &party)?;
        ledgers.push((party.clone(), written));
        trained.insert(party.clone(), part.trained(&party));
        let mut guest = Guest::new(settings, part.maker(), store, ledger, Now::default())?;
        if let Some(desk) = &desk {
            guest = guest.with_key_authority(local(&party, desk)?);
        }
        guests.insert(party, guest);
    }
    let loops = Arc::new(study.loops().clone());
    let host_study = Arc::new(match signal.has_labels() {
        true => HostStudy::new(study, plan)?,
        false => HostStudy::without_truth(&loops, study.split(), plan)?,
    });
    let mut samples = host_part::samples(&signal, study.split(), windows);
    samples.estimate.extend(in_views);
    let settings = HostSettings {
        party: PartyId::new(HOST)?,
        guests: widths,
        software: Text::of(env!("CARGO_PKG_VERSION")),
        run: RunId(plan.seed),
        terms: terms(study.timeline(), options.compression.into()),
        subject: run_fingerprint(&(
            plan,
            host_study.record(),
            windows,
            loss,
            custom.host.as_ref().map(|own| own.embedding),
        ))?,
        plan: Plan {
            seed: plan.seed,
            batch: whole_batch(plan.recipe.batch, segment.into()) as u32,
            epochs: plan.recipe.epochs as u32,
            exchanges: 0,
            optimiser: optimiser_settings(&plan.recipe),
            local: options.local_updates(),
            segment: segment.into(),
            measured: measured_kinds(&signal),
            shares: None,
            sealing,
        },
        checkpoints: match keep {
            Some(_) => {
                let time = Duration::from_secs_f64(options.checkpoint_s);
                CheckpointInterval { time, rounds: None }
            }
            None => CheckpointInterval { time: Duration::MAX, rounds: None },
        },
        measurement_bounds: host_part::measurement_bounds(&loops, study.split()),
        samples: with_watched(samples, looked_at),
        shuffle: plan.recipe.shuffle,
        patience: plan.recipe.patience as u32,
        absent: custom.absent,
        timing: Timing::default(),
    };
    let (store, ledger, written) = open_store_and_ledger(keep, &settings.party)?;
    ledgers.insert(0, (settings.party.clone(), written));
    let exchanges = settings.samples.in_segments(segment.into()).train.len();
    let exchanges = exchanges.div_ceil(settings.plan.batch as usize);
    let record = joint_record(plan, &host_study, slots.clone(), records);
    let places = (slots.clone(), custom.host.as_ref());
    let trained_host = host_part::trained(&host_study, &loops, plan, &settings.party, places);
    let mut make = host_part::maker(&host_study, &loops, plan, loss, (slots, custom.host.as_ref()));
    let (data, looked_at) = (Arc::clone(&host_study), looked_at.to_vec());
    let make = move |plan: &Plan, agreed: &Agreed| {
        Ok(make(plan, agreed)?.watching(WatchedWindows::new(Arc::clone(&data), &looked_at)))
    };
    let host_id = settings.party.clone();
    let mut host = Host::new(settings, Box::new(make), store, ledger, Now::default())?;
    if let Some(desk) = &desk {
        host = host.with_key_authority(local(&host_id, desk)?);
    }
    let summary = memory::run_until(&mut host, &mut guests, |event| {
        if let Event::Epoch(epoch) = event {
            progress::after_epoch(bar, epoch.number as usize, epoch.train, epoch.validation);
        }
        progress::check_stop().err().map(Text::of)
    })?;
    bar.finish_and_clear();
    let epochs = host.history().iter().map(|epoch| Epoch {
        number: epoch.number as usize,
        train: epoch.train,
        validation: epoch.validation,
    });
    let epochs: Vec<Epoch> = epochs.collect();
    let left = left(&guests);
    let (run, host_bytes) = (host.run(), host.ledger().released_bytes());
    let mut model = host.into_model().context("the host's model")?;
    model.fit_read_out(&host_study)?;
    // Each party keeps its part, as over the network.
    if let Some(folder) = keep {
        let best = model.host_model().save_best();
        trained_host.write(&folder.join(HOST), run, &best, model.custom_best()?)?;
        for (party, part) in trained {
            let model = guests.get(&party).and_then(Guest::model);
            if let Some(model) = model.filter(|_| !left.contains_key(party.as_str())) {
                let (best, custom) = model.save_best()?;
                part.write(&folder.join(party.as_str()), run, &best, custom)?;
            }
        }
    }
    // Custom sub-models cannot be put together in one model.
    let estimator = match custom.is_empty() && left.is_empty() {
        true => Some(assembled(study, record, model.host_model(), &guests)?),
        false => None,
    };
    let released = guests.values().map(|guest| guest.ledger().released_bytes());
    let releases = ledgers.iter().map(|(party, written)| Releases::read(party, written));
    let releases = releases.collect::<Result<_>>()?;
    let bytes = host_bytes + released.sum::<u64>();
    model.settle()?;
    let estimates = scored(study, &host_study, &model.estimates(), windows)?;
    let of_views =
        |(window, output): (Window, &[f32])| (window, host_study.record().states(output).collect());
    let in_views = model.estimates_in_views().map(of_views).collect();
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
    let training = Training {
        best_epoch: Some(summary.best_epoch as usize),
        history: epochs,
        exchanges,
        rounds: Some(summary.rounds.0),
        bytes: Some(bytes),
        releases,
        left,
    };
    let estimator = estimator.map(SavedEstimator::Neural);
    let training = Some(training);
    let fitted = Fitted { estimates, by_epoch, absent, training, estimator, ..Fitted::default() };
    Ok((fitted, in_views))
}

/// The key authority, as a party in this process reaches it.
fn local(party: &PartyId, desk: &Arc<Mutex<KeyDesk>>) -> Result<Box<dyn KeyAuthority>> {
    let name = PartyId::new(KEYS)?;
    Ok(Box::new(LocalAuthority::new(name, party.clone(), Arc::clone(desk))))
}

/// Guests that did not come to the end, and why.
fn left(guests: &Guests) -> BTreeMap<String, String> {
    let why = |(party, guest): (&PartyId, &Guest<GuestParty, AnyStore>)| match guest.ended() {
        Some(GuestEnd::Stopped(error)) => Some((party.to_string(), error.to_string())),
        _ => None,
    };
    guests.iter().filter_map(why).collect()
}

/// The best weights of all parties in one model. Only here, where all are in one process.
fn assembled(
    study: &Study,
    record: ModelRecord,
    host: &estimator::HostModel,
    guests: &Guests,
) -> Result<NeuralEstimator> {
    let mut parts = vec![host.best()];
    for guest in &record.plan.guests {
        let model = guests.get(&PartyId::new(&guest.name)?).and_then(Guest::model);
        let model = model.with_context(|| format!("the model of {}", guest.name))?;
        let layers = model.layers().with_context(|| format!("layers of {}", guest.name))?;
        parts.push(layers.best());
    }
    Ok(NeuralEstimator::of_parts(record, study.network(), &parts, host.read_out())?)
}

/// What all parts together assume.
fn joint_record(
    plan: &NeuralPlan,
    host: &HostStudy,
    slots: Vec<GuestSlot>,
    guests: Vec<(GuestRecord, GuestShape)>,
) -> ModelRecord {
    let (guests, shapes) = guests.into_iter().unzip();
    let shape = ModelShape { host: plan.host_shape(host.inputs(), slots), guests: shapes };
    ModelRecord { plan: plan.clone(), shape, host: host.record().clone(), guests }
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
fn open_store_and_ledger(
    keep: Option<&Path>,
    party: &PartyId,
) -> Result<(AnyStore, Ledger, Written)> {
    let Some(folder) = keep else {
        let sink = MemorySink::default();
        let ledger = Ledger::in_memory(&sink, party)?;
        return Ok((Box::new(MemoryStore::default()), ledger, Written::Memory(sink)));
    };
    let own = folder.join(party.as_str());
    let (store, path) = (FolderStore::open(&own)?, own.join("ledger.jsonl"));
    let ledger = Ledger::open(&path, party)?;
    store.remove_unfinished()?;
    Ok((Box::new(store), ledger, Written::File(path)))
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
            format!("step {}: found no estimate; is this folder's run of another part?", step.0)
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
