//! The host's part of FedBCD where guests' measurements are sealed (Algorithm 2).
//!
//! One product per parameter and exchange, and one for the loss, which comes last. Parameters that no
//! measurement of a batch touches are not asked for. Variant `recompute` asks anew for each of the Q updates of an
//! exchange, with the same embeddings: its rows are those of the weights as they are then.

use std::collections::BTreeMap;
use std::ops::Range;

use estimator::loss::MeasurementWeights;
use estimator::model::HostBatch;
use estimator::{Objective, WindowSource, gather_rows};
use federation::model::{Answers, Updated};
use federation::{GuestRows, ModelFailure, ProductRows, Products};
use protocol::{LocalVariant, NameError, PartyId};
use sealed::ipfe::most_keys;
use traffic::Window;

use super::failed;
use super::host::{HostLearner, given};
use super::host_loss::{Gathering, WithoutValues, weights_by_name};
use super::sealed_size::updates_with_products;

/// Rows that can be asked for.
#[derive(Default)]
pub(super) enum PendingRows {
    /// None.
    #[default]
    None,
    /// Of an update: the model has them.
    Update(PendingUpdate),
    /// Of a validation: one of each guest.
    Validation(BTreeMap<PartyId, Vec<f64>>),
}

/// What stays at the host while products are on their way.
pub(super) struct PendingUpdate {
    /// The known part of the loss.
    loss: f64,
    /// The parameters of whose gradients a party was asked for its part, in order.
    asked: BTreeMap<PartyId, Vec<usize>>,
}

/// The weights of sealed measurements, as an objective names their parties.
fn weights(answers: &Answers) -> MeasurementWeights<'_> {
    answers.weights.iter().map(|(party, all)| (party.as_str(), all.as_slice())).collect()
}

impl<D: WindowSource> HostLearner<D> {
    /// Fuses, computes what needs no values, and the rows for the rest.
    pub(super) fn rows_of_training(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        gather_rows(&self.data, samples, &mut self.x);
        let embeddings = given(&answers.embeddings);
        let nobody = BTreeMap::new();
        let gathered = Gathering::of(&self.loss.sources, samples, &nobody)?;
        let (measured, weights) = (gathered.batch(), weights(answers));
        let named = weights_by_name(&self.loss.sources.layouts, &weights);
        let any = named.values().any(|all| all.iter().any(|weight| *weight > 0.0));
        if !any && !self.loss.objective.has_terms(&measured) {
            self.pace.exchanges += 1;
            return Ok(None);
        }
        if self.done == 0 {
            self.model.begin_round();
        }
        let noise = self.pace.noise(self.done);
        let x = &self.x;
        let batch = HostBatch { samples, x, embeddings: &embeddings, measured: &measured };
        let (objective, layouts) = (self.loss.objective.as_mut(), &self.loss.sources.layouts);
        let mut objective = WithoutValues { objective, layouts };
        let step = self.model.train_without_values(&batch, &weights, &mut objective, noise);
        let step = step.map_err(failed)?;
        let (mut rows, mut asked) = (ProductRows::new(), BTreeMap::new());
        for (party, own) in step.parties {
            let party = PartyId::new(&party).map_err(failed)?;
            asked.insert(party.clone(), own.touched);
            let others = own.others.into_iter().map(|(name, d)| Ok((PartyId::new(&name)?, d)));
            let others = others.collect::<Result<_, NameError>>().map_err(failed)?;
            let (embedding, known) = (own.embedding, own.known);
            let count = asked.get(&party).map_or(0, Vec::len) + 1;
            rows.insert(party, GuestRows { rows: count, embedding, others, known });
        }
        if self.done == 0 && !self.has_keys(samples.len(), &rows)? {
            self.model.forget_rows();
            self.pace.exchanges += 1;
            return Ok(None);
        }
        self.pending = PendingRows::Update(PendingUpdate { loss: step.loss, asked });
        Ok(Some(rows))
    }

    /// Whether an authority, where there is one, issues keys for all products of an exchange. It does not for the last batch
    /// of an epoch, where that is a small rest: nothing is learned from it, as from any batch without measurements.
    fn has_keys(&self, samples: usize, rows: &ProductRows) -> Result<bool, ModelFailure> {
        for (party, rows) in rows.iter().filter(|_| self.pace.keyed) {
            let entries = self.loss.sources.layouts.get(party).map_or(0, |layout| layout.len());
            let (found, values) =
                (rows.rows * updates_with_products(&self.pace.local), samples * entries);
            let most = most_keys(values);
            if found > most && self.pace.each <= 1 {
                return Err(ModelFailure(format!(
                    "found {found} products of an exchange with {values} measurements of `{party}`, expected at most {most}: a key \
                     authority issues keys for half as many products as values; train on more steps, or with fewer head units \
                     (`--head-units`)"
                )));
            }
            if found > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Some rows of a guest.
    pub(super) fn rows_of(
        &self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure> {
        match &self.pending {
            PendingRows::Update(_) => {
                self.model.write_rows(party.as_str(), rows, to).map_err(failed)
            }
            PendingRows::Validation(all) => {
                let row = all.get(party).filter(|row| rows == (0..1) && row.len() == to.len());
                let wrong = || ModelFailure(format!("rows {rows:?} of `{party}` are not asked"));
                to.copy_from_slice(row.ok_or_else(wrong)?);
                Ok(())
            }
            PendingRows::None => Err(ModelFailure("no rows are asked".into())),
        }
    }

    /// One update of an exchange with the products of its rows; `frozen`: all of them.
    pub(super) fn update_by(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        let pending = std::mem::take(&mut self.pending);
        let PendingRows::Update(PendingUpdate { mut loss, asked }) = pending else {
            return Err(ModelFailure("found products, expected none: no rows are asked".into()));
        };
        self.model.forget_rows();
        let mut gradient = vec![0.0; self.model.parameter_count()];
        for (party, products) in products {
            let asked = asked.get(party).map_or(&[][..], Vec::as_slice);
            let Some((of_loss, of_parameters)) =
                products.split_last().filter(|(_, rest)| rest.len() == asked.len())
            else {
                let (found, expected) = (products.len(), asked.len() + 1);
                let problem = format!("products of `{party}`: found {found}, expected {expected}");
                return Err(ModelFailure(problem));
            };
            loss += of_loss;
            asked.iter().zip(of_parameters).for_each(|(&at, product)| gradient[at] += product);
        }
        self.model.add_to_gradient(&gradient).map_err(failed)?;
        self.loss.objective.update();
        let (rate, local) = (self.pace.rate(), self.pace.local);
        let all = local.of_host();
        let now = if local.variant == LocalVariant::Frozen { all } else { 1 };
        (0..now).for_each(|_| self.model.update(rate));
        self.done += now;
        let more = self.done < all;
        if !more {
            self.done = 0;
            self.pace.exchanges += 1;
        }
        Ok(Updated { loss, more })
    }

    /// The validation losses of samples without what guests measured, and the row of each guest for the rest.
    pub(super) fn rows_of_validation(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        let mut y = self.outputs(samples);
        self.model.infer(&self.x, &given(&answers.embeddings), &mut y).map_err(failed)?;
        let nobody = BTreeMap::new();
        let gathered = Gathering::of(&self.loss.sources, samples, &nobody)?;
        let (measured, weights) = (gathered.batch(), weights(answers));
        let (objective, layouts) = (self.loss.objective.as_mut(), &self.loss.sources.layouts);
        let mut objective = WithoutValues { objective, layouts };
        let partial =
            objective.validate_without_values(samples, &measured, &weights, &y).map_err(failed)?;
        let (mut rows, mut of_loss) = (ProductRows::new(), BTreeMap::new());
        for (party, part) in partial.parties {
            let party = PartyId::new(&party).map_err(failed)?;
            rows.insert(party.clone(), GuestRows { rows: 1, ..GuestRows::default() });
            of_loss.insert(party, part.loss);
        }
        self.pending = PendingRows::Validation(of_loss);
        Ok((total + partial.known, rows))
    }
}
