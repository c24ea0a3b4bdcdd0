//! Estimates of parties that were trained apart, with all their data in one place: what they would
//! estimate live.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use estimator::{
    FleetData, GuestInputs, HostCard, HostInputs, HostModel, LayerSubModel, LoopData, PartyFile,
    SubModel, TrainedGuest, TrainedHost,
};
use traffic::{LinkState, Step};

/// Windows that are estimated together.
const BLOCK: usize = 512;

/// The host and its guests.
pub struct Parties {
    model: HostModel,
    card: HostCard,
    inputs: HostInputs,
    guests: Vec<(String, LayerSubModel, GuestInputs)>,
}

impl Parties {
    /// Reads the folders of all parties, and a dataset with the features of all their fleets.
    pub fn read(folders: &[PathBuf], data: &Path, loops: &LoopData) -> Result<Self> {
        let (mut host, mut guests) = (None, Vec::new());
        for folder in folders {
            match PartyFile::<TrainedHost>::read(folder) {
                Ok(read) => host = Some(read),
                Err(_) => guests.push(PartyFile::<TrainedGuest>::read(folder)?),
            }
        }
        let (host, network, weights) = host.context("--party: found no host, expected one")?;
        host.part.host.check(loops)?;
        let model = host.part.model(&network, &weights)?;
        let inputs = HostInputs::new(loops, host.part.arrangement(), &host.part.host.inputs)?;
        let read = guests.iter().map(|(file, network, weights)| {
            ensure!(
                file.run == host.run,
                "--party: `{}`: found run {}, expected the host's, {}",
                file.name,
                file.run,
                host.run
            );
            let (part, card) = (&file.part, &file.part.guest);
            let fleet = FleetData::open(data, &card.fleet)?;
            card.check(&fleet)?;
            let inputs = GuestInputs::new(&fleet, card.features, part.arrangement(), &card.inputs)?;
            Ok((file.name.clone(), part.model(network, weights)?, inputs))
        });
        let guests = read.collect::<Result<_>>()?;
        Ok(Parties { model, card: host.part.host, inputs, guests })
    }

    /// States of all links, window by window. A guest whose folder was not given is absent.
    pub fn estimate(&self, windows: &[Step]) -> Result<Vec<LinkState>> {
        let mut states = Vec::new();
        for block in windows.chunks(BLOCK) {
            let x = gather(block, self.inputs.len(), |step, to| self.inputs.write(step, to));
            let mut embeddings = Vec::new();
            for (name, model, inputs) in &self.guests {
                let x = gather(block, inputs.len(), |step, to| inputs.write(step, to));
                let mut z = vec![0.0; block.len() * model.output_len()];
                model.infer_best(&x, &mut z)?;
                embeddings.push((name.as_str(), z));
            }
            let given = embeddings.iter().map(|(name, z)| (*name, z.as_slice())).collect();
            let mut y = vec![0.0; block.len() * self.model.output_len()];
            self.model.infer_best(&x, &given, &mut y)?;
            for y in y.chunks_exact(self.model.output_len()) {
                states.extend(self.card.states(y));
            }
        }
        Ok(states)
    }
}

fn gather(steps: &[Step], each: usize, write: impl Fn(Step, &mut [f32])) -> Vec<f32> {
    let mut x = vec![0.0; steps.len() * each];
    for (&step, x) in steps.iter().zip(x.chunks_exact_mut(each.max(1))) {
        write(step, x);
    }
    x
}
