//! Fits the read-out of a host's model on samples whose targets are known.

use std::collections::{BTreeMap, BTreeSet};

use traffic::Network;

use super::HostModel;
use crate::baseline::Surroundings;
use crate::model::parts::EmbeddingShape;
use crate::model::read_out::{KnownSamples, ReadOut};
use crate::model::sub_model::{PassError, check_len};

/// Some samples in which no guest is absent, and their targets.
pub struct KnownBlock {
    /// The host's own input, `[sample, number]`.
    pub x: Vec<f32>,
    /// What each guest gave by its best weights, alike.
    pub embeddings: BTreeMap<String, Vec<f32>>,
    /// Scaled targets, `[sample, link, (density, flow)]`.
    pub targets: Vec<f32>,
}

impl HostModel {
    /// Fits a [`ReadOut`] beside the best weights, on the training and the validation part, each in the order of time.
    /// `own` says for each link which of the host's own numbers it may look at. Without samples of both parts there is none.
    pub(crate) fn fit_read_out(
        &mut self,
        network: &Network,
        own: &[Vec<usize>],
        train: impl Iterator<Item = Result<KnownBlock, PassError>>,
        validation: impl Iterator<Item = Result<KnownBlock, PassError>>,
    ) -> Result<(), PassError> {
        self.read_out = None;
        let looked_at = |(link, own): (traffic::LinkId, &Vec<usize>)| {
            let adjacent = Surroundings::of(network, link).adjacent;
            let mut columns = own.clone();
            for place in &self.slots {
                let at = place.numbers.start;
                match place.embedding {
                    EmbeddingShape::Whole(_) => columns.extend(place.numbers.clone()),
                    EmbeddingShape::PerLink(each) => {
                        for link in [link].iter().chain(&adjacent) {
                            columns.extend((0..each).map(|i| at + link.index() * each + i));
                        }
                    }
                }
            }
            columns
        };
        let places: Vec<Vec<usize>> = network.link_ids().zip(own).map(looked_at).collect();
        let kept: BTreeSet<usize> = places.iter().flatten().copied().collect();
        let kept: Vec<usize> = kept.into_iter().collect();
        let train = self.estimated(&kept, train)?;
        let validation = self.estimated(&kept, validation)?;
        if !(train.targets.is_empty() || validation.targets.is_empty()) {
            self.read_out = Some(ReadOut::fit(places, &kept, &train, &validation));
        }
        Ok(())
    }

    /// What was fitted.
    pub fn read_out(&self) -> Option<&ReadOut> {
        self.read_out.as_ref()
    }

    fn estimated(
        &self,
        kept: &[usize],
        blocks: impl Iterator<Item = Result<KnownBlock, PassError>>,
    ) -> Result<KnownSamples, PassError> {
        let mut all = KnownSamples::default();
        let width = self.block.model().input_len();
        for block in blocks {
            let KnownBlock { x, embeddings, targets } = block?;
            let given = embeddings.iter().map(|(name, z)| (name.as_str(), z.as_slice())).collect();
            check_len("guests", embeddings.len(), self.slots.len())?;
            let batch = self.batch(&x, &given, targets.len())?;
            let mut y = vec![0.0; targets.len()];
            self.block.kept().infer(&batch, &mut y);
            for row in batch.chunks_exact(width.max(1)) {
                all.rows.extend(kept.iter().map(|&column| row[column]));
            }
            all.estimates.extend(y);
            all.targets.extend(targets);
        }
        Ok(all)
    }
}
