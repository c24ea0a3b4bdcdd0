//! The host's part of FedBCD where guests' measurements are sealed (Algorithm 2).
//!
//! One product per parameter and exchange, and one for the loss, which comes first. Of the Q updates of an
//! exchange the host has products for the first alone: the others take the same gradient again.

use std::collections::BTreeMap;

use estimator::{HostBatch, Sample, WeightsApart};

use super::host::given;
use super::loss::Gathering;
use super::{FedHost, Windows, failed, gather};
use crate::model::{Answers, GuestRows, ModelFailure, Products, RowsApart};
use crate::party::PartyId;

/// The weights of sealed measurements, as an objective names their parties.
fn weights(answers: &Answers) -> WeightsApart<'_> {
    answers.weights.iter().map(|(party, all)| (party.as_str(), all.as_slice())).collect()
}

impl<D: Windows> FedHost<D> {
    /// Fuses, computes what needs no values, and the rows for the rest.
    pub(super) fn rows_of_training(
        &mut self,
        samples: &[Sample],
        answers: &Answers,
    ) -> Result<Option<RowsApart>, ModelFailure> {
        gather(&self.data, samples, &mut self.x);
        let embeddings = given(&answers.embeddings);
        let nobody = BTreeMap::new();
        let gathered = Gathering::of(&self.loss.sources, samples, &nobody)?;
        let (measured, weights) = (gathered.batch(), weights(answers));
        let any = weights.values().any(|all| all.iter().any(|weight| *weight > 0.0));
        if !any && !self.loss.objective.has_terms(&measured) {
            self.pace.exchanges += 1;
            return Ok(None);
        }
        self.model.begin_round();
        let noise = self.pace.noise(0);
        let x = &self.x;
        let batch = HostBatch { samples, x, embeddings: &embeddings, measured: &measured };
        let objective = self.loss.objective.as_mut();
        let step = self.model.train_apart(&batch, &weights, objective, noise).map_err(failed)?;
        self.waiting = Some(step.loss);
        let mut rows = RowsApart::new();
        for (party, own) in step.parties {
            let party = PartyId::new(&party).map_err(failed)?;
            let all = [own.loss, own.parameters].concat();
            let rows_of = GuestRows { rows: all, embedding: own.embedding, known: own.known };
            rows.insert(party, rows_of);
        }
        Ok(Some(rows))
    }

    /// All updates of an exchange, with the products of its rows. Tells the loss.
    pub(super) fn update_by(&mut self, products: &Products) -> Result<f64, ModelFailure> {
        let Some(mut loss) = self.waiting.take() else {
            return Err(ModelFailure("found products, expected none: no rows are asked".into()));
        };
        for (party, products) in products {
            let Some((of_loss, of_parameters)) = products.split_first() else {
                return Err(ModelFailure(format!("found no products of `{party}`")));
            };
            loss += of_loss;
            self.model.add_to_gradient(of_parameters).map_err(failed)?;
        }
        let rate = self.pace.rate();
        (0..self.pace.local.count).for_each(|_| self.model.update(rate));
        self.pace.exchanges += 1;
        Ok(loss)
    }

    /// The validation losses of samples without what guests measured, and the row of each guest for the rest.
    pub(super) fn rows_of_validation(
        &mut self,
        samples: &[Sample],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, RowsApart), ModelFailure> {
        let mut y = self.outputs(samples);
        self.model.infer(&self.x, &given(&answers.embeddings), &mut y).map_err(failed)?;
        let nobody = BTreeMap::new();
        let gathered = Gathering::of(&self.loss.sources, samples, &nobody)?;
        let (measured, weights) = (gathered.batch(), weights(answers));
        let objective = self.loss.objective.as_mut();
        let apart = objective.judge_apart(samples, &measured, &weights, &y).map_err(failed)?;
        let mut rows = RowsApart::new();
        for (party, part) in apart.parties {
            let party = PartyId::new(&party).map_err(failed)?;
            rows.insert(party, GuestRows { rows: part.loss, ..GuestRows::default() });
        }
        Ok((total + apart.known, rows))
    }
}
