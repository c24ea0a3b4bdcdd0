//! Estimates of parties trained by federation, with all their data in one place: what they would
//! estimate live.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use estimator::artifact::HostRecord;
use estimator::{
    FleetData, GuestInputs, HostInputs, HostModel, LoopData, PartyFile, TrainedGuest, TrainedHost,
};
use traffic::{LinkState, Step};

use training::InvalidOption;
use training::party::{CustomSubModelSpecs, HOST_SUB_MODEL, TrainedCustomSubModel, TrainedModel};

use crate::data::features::make_parts;

/// The host and its guests.
pub(super) struct Parties {
    model: HostModel,
    record: HostRecord,
    inputs: HostInputs,
    /// A sub-model of the host's own.
    own: Option<TrainedCustomSubModel>,
    guests: Vec<(String, TrainedModel, GuestInputs)>,
}

impl Parties {
    /// Reads the folders of all parties, and a dataset with the features of all their fleets.
    pub(super) fn read(
        folders: &[PathBuf],
        data: &Path,
        loops: &LoopData,
        own: &CustomSubModelSpecs,
    ) -> Result<Self> {
        let (mut host, mut guests) = (None, Vec::new());
        for folder in folders {
            match PartyFile::<TrainedHost>::read(folder) {
                Ok(read) => host = Some((folder, read)),
                Err(_) => guests.push((folder, PartyFile::<TrainedGuest>::read(folder)?)),
            }
        }
        let (folder, (host, network, weights)) =
            host.ok_or_else(|| InvalidOption::new("party", "found no host, expected one"))?;
        let known = |name: &String| {
            *name == host.name || guests.iter().any(|(_, (file, ..))| *name == file.name)
        };
        if let Some(unknown) = own.keys().find(|name| !known(name)) {
            bail!("sub-models: found one of `{unknown}`, expected the name of a party given");
        }
        host.part.host.check(loops)?;
        let model = host.part.model(&network, &weights)?;
        let inputs = HostInputs::new(loops, host.part.arrangement(), &host.part.host.inputs)?;
        let (place, own_of_host) = ((&*network, inputs.len()), own.get(&host.name));
        let of_host =
            TrainedCustomSubModel::of_host(folder, &host.name, &host.part, place, own_of_host)?;
        let read = guests.iter().map(|(folder, (file, network, weights))| {
            if file.run != host.run {
                let (name, found, expected) = (&file.name, &file.run, &host.run);
                let problem =
                    format!("`{name}`: found run {found}, expected the host's, {expected}");
                return Err(InvalidOption::new("party", problem).into());
            }
            let (part, record) = (&file.part, &file.part.guest);
            // Parts that training held out in turn are made where the data do not have them yet.
            let names: Vec<&str> = record.fleets.iter().map(String::as_str).collect();
            let fleet = make_parts(data, &names, || FleetData::open_for(data, record))?;
            record.check(&fleet)?;
            let inputs =
                GuestInputs::new(&fleet, record.features, part.arrangement(), &record.inputs)?;
            let (weights, own) = ((&**network, weights), own.get(&file.name));
            let model = TrainedModel::of_guest(folder, &file.name, part, weights, own)?;
            Ok((file.name.clone(), model, inputs))
        });
        let guests = read.collect::<Result<_>>()?;
        Ok(Parties { model, record: host.part.host, inputs, own: of_host, guests })
    }

    /// States of all links, window by window. A guest whose folder was not given is absent.
    pub(super) fn estimate(&mut self, windows: &[Step]) -> Result<Vec<LinkState>> {
        let mut x = gather(windows, self.inputs.len(), |step, to| self.inputs.write(step, to));
        let mut embeddings = Vec::new();
        if let Some(own) = &mut self.own {
            embeddings.push((HOST_SUB_MODEL, own.infer(&x, windows.len())?));
            // The built-in part sees nothing, as in training.
            x.fill(0.0);
        }
        for (name, model, inputs) in &mut self.guests {
            let x = gather(windows, inputs.len(), |step, to| inputs.write(step, to));
            embeddings.push((name.as_str(), model.infer(&x, windows.len())?));
        }
        let given = embeddings.iter().map(|(name, z)| (*name, z.as_slice())).collect();
        let mut y = vec![0.0; windows.len() * self.model.output_len()];
        self.model.infer_best(&x, &given, &mut y)?;
        let states = y.chunks_exact(self.model.output_len()).map(|y| self.record.states(y));
        Ok(states.flatten().collect())
    }
}

fn gather(steps: &[Step], each: usize, write: impl Fn(Step, &mut [f32])) -> Vec<f32> {
    let mut x = vec![0.0; steps.len() * each];
    for (&step, x) in steps.iter().zip(x.chunks_exact_mut(each.max(1))) {
        write(step, x);
    }
    x
}
