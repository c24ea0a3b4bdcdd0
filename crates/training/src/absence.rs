//! Estimates of a trained federation without one of its guests: the host replaces the embedding by the vector that it
//! learned for that guest's absence.

use std::collections::BTreeMap;

use federation::model::Embeddings;
use federation::{Guest, GuestModel, HostModel, Store};
use protocol::PartyId;
use protocol::message::parts::{Embedding, Values};
use traffic::{Step, Window};

use crate::error::{Context, Result};
use crate::party::{GuestParty, HostParty};
use crate::watched::Outputs;

/// Windows that are embedded together.
const BLOCK: usize = 512;

/// Estimates windows by the best weights once for each guest, without that guest.
pub(crate) fn each_absent<S: Store>(
    host: &mut HostParty,
    guests: BTreeMap<PartyId, Guest<GuestParty, S>>,
    windows: &[Step],
) -> Result<Vec<(String, Outputs)>> {
    let mut models = Vec::new();
    for (party, guest) in guests {
        let model = guest.into_model().with_context(|| format!("the model of {party}"))?;
        models.push((party, model));
    }
    let mut embedded = Vec::new();
    let samples: Vec<Window> = windows.iter().map(|&last| Window::whole(last)).collect();
    for block in samples.chunks(BLOCK) {
        let mut embeddings = Embeddings::new();
        for (party, model) in &mut models {
            let values = Values::new(model.width(), model.estimate(block)?)?;
            embeddings.insert(party.clone(), Some(Embedding(values)));
        }
        embedded.push((block, embeddings));
    }
    let mut all = Vec::new();
    for (absent, _) in &models {
        for (block, embeddings) in &mut embedded {
            let there = embeddings.insert(absent.clone(), None).flatten();
            host.estimate(block, embeddings)?;
            embeddings.insert(absent.clone(), there);
        }
        all.push((absent.to_string(), host.estimates()));
    }
    Ok(all)
}
