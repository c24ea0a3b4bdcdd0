//! What guests measure, as the host agrees on it with them.
//!
//! Which entries a guest measures and how many of its vehicles pass the loops it says in its hello;
//! its share of the traffic it is told in the welcome. Both hold for the whole run.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::Hello;
use protocol::message::measurements::{MeasurementKind, MeasurementOffer, names};
use protocol::message::parts::{HeldSteps, PartError, StepRange};
use protocol::party::PartyId;
use traffic::Step;

use super::{HostContext, RunRecord};
use crate::error::PartyError;
use crate::model::Agreed;
use crate::store::Store;

/// More than the traffic by this much is sampling and counting error, and counts as all of it.
const MOST: f64 = 1.05;

/// The share of the training part's steps in which host and guest may count apart: p̂ errs by about as much.
const OTHER_STEPS: f64 = 0.01;

/// What a host compares with what guests say that they measure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasurementBounds {
    /// Links of the network.
    pub links: u32,
    /// Vehicles that all loops together count in a step of the training part, in the mean; none where there are no
    /// loops, or one never reported.
    pub counted: Option<f64>,
}

impl MeasurementBounds {
    /// Refuses to begin with counts that no shares of the traffic can be made of.
    pub(super) fn check(&self, asked: &BTreeSet<MeasurementKind>) -> Result<(), PartError> {
        let wrong = self.counted.filter(|counted| !(counted.is_finite() && *counted > 0.0));
        match wrong.filter(|_| asked.contains(&MeasurementKind::HeldOut)) {
            Some(found) => {
                let what = "vehicles that loops count in the training part";
                Err(PartError::new(what, found, "some, or none known"))
            }
            None => Ok(()),
        }
    }
}

impl<M, S: Store> HostContext<M, S> {
    /// Whether a guest measures what the plan asks for, and the same as when the run began.
    pub(super) fn check_offer(
        &self,
        from: &PartyId,
        hello: &Hello,
        record: Option<&RunRecord>,
    ) -> Result<(), PartyError> {
        let incompatible = |what, found: String, expected: String| {
            Err(PartyError::PeerIncompatible { party: from.clone(), what, found, expected })
        };
        let (measures, held) = (&hello.offer, &hello.held);
        measures.check().map_err(|error| PartyError::misbehaved(from, error.to_string()))?;
        let samples = &self.settings.samples;
        let folds = samples.all().map(|sample| sample.view.0).max().unwrap_or(0);
        if measures.folds < folds {
            return incompatible("folds", measures.folds.to_string(), format!("{folds} or more"));
        }
        let asked = &self.settings.plan.measured;
        let announced: BTreeSet<MeasurementKind> = measures.layout.kinds().collect();
        if !asked.is_subset(&announced) {
            let (found, expected) = (names(announced), names(asked.iter().copied()));
            return incompatible("measurements", found, expected);
        }
        let layout = measures.layout.of(asked);
        let links = self.settings.measurement_bounds.links;
        let mut entries = layout.groups().flat_map(|(_, entries)| entries);
        if let Some(entry) = entries.find(|entry| entry.link.0 >= links) {
            let what = format!("it measures link {} of {links}", entry.link.0);
            return Err(PartyError::misbehaved(from, what));
        }
        if asked.contains(&MeasurementKind::HeldOut) {
            self.share(from, measures)?;
            self.check_counted_steps(from, held)?;
        }
        match record {
            Some(record) if !asked.is_empty() && !record.agreed.layouts.contains_key(from) => {
                let found = "none: it was not there when measurements and shares were agreed";
                let expected = "to be there when a run begins; a new run takes it in";
                incompatible("measurements", found.to_owned(), expected.to_owned())
            }
            Some(record)
                if !asked.is_empty() && record.agreed.layouts.get(from) != Some(&layout) =>
            {
                let found = "other ones than when the run began".to_owned();
                incompatible("measurements", found, "the same".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// A share compares a guest's mean over its steps with the loops' mean over the host's: of other steps it
    /// would be that of another time.
    fn check_counted_steps(&self, from: &PartyId, held: &HeldSteps) -> Result<(), PartyError> {
        let train = self.settings.samples.train.iter().map(|sample| sample.last.0);
        let train: BTreeSet<i64> = train.collect();
        let Some(&last) = train.last() else { return Ok(()) };
        let common = train.iter().filter(|step| held.contains(Step(**step))).count();
        // Its training part begins with its first step.
        let until = |range: &StepRange| (range.last.min(last) - range.first + 1).max(0) as u64;
        let its: u64 = held.ranges().iter().map(until).sum();
        let differ = (train.len() - common) as u64 + its.saturating_sub(common as u64);
        if differ as f64 <= OTHER_STEPS * train.len() as f64 {
            return Ok(());
        }
        Err(PartyError::PeerIncompatible {
            party: from.clone(),
            what: "steps in which vehicles are counted",
            found: format!("{differ} that only one of us has, of {} to learn from", train.len()),
            expected: format!("at most {} %", 100.0 * OTHER_STEPS),
        })
    }

    /// What the guests that are here have said, as far as the plan asks for it.
    pub(super) fn agree_on(&self) -> Result<Agreed, PartyError> {
        let asked = &self.settings.plan.measured;
        let mut agreed = Agreed { shares: self.shares()?, ..Agreed::default() };
        for (party, guest) in self.guests.iter() {
            let Some(hello) = &guest.hello else { continue };
            if !asked.is_empty() {
                agreed.layouts.insert(party.clone(), hello.offer.layout.of(asked));
                agreed.movements.add(&hello.offer.movements);
            }
        }
        Ok(agreed)
    }

    /// The shares of the traffic that the guests have, if they hold out parts of their fleets.
    fn shares(&self) -> Result<BTreeMap<PartyId, f64>, PartyError> {
        let mut shares = BTreeMap::new();
        if !self.settings.plan.measured.contains(&MeasurementKind::HeldOut) {
            return Ok(shares);
        }
        for (party, guest) in self.guests.iter() {
            if let Some(hello) = &guest.hello {
                shares.insert(party.clone(), self.share(party, &hello.offer)?);
            }
        }
        let all: f64 = shares.values().sum();
        if all > MOST {
            let each = shares.iter().map(|(party, share)| format!("`{party}` {share:.3}"));
            return Err(PartyError::Shares { all, each: each.collect::<Vec<_>>().join(", ") });
        }
        // Counting errors must not make them more than everyone.
        shares.values_mut().for_each(|share| *share /= all.max(1.0));
        Ok(shares)
    }

    /// A guest's share, by what loops count; where they count nothing, or its fleet passes none of them or more often than
    /// they count, as it states it.
    fn share(&self, party: &PartyId, offer: &MeasurementOffer) -> Result<f64, PartyError> {
        let passages = offer.passages;
        let Some(counted) = self.settings.measurement_bounds.counted else {
            return offer.stated.ok_or_else(|| PartyError::PeerIncompatible {
                party: party.clone(),
                what: "share of the traffic",
                found: "none that it states, and no vehicles that loops count".to_owned(),
                expected: "a fleet that knows its share, or loops that count vehicles".to_owned(),
            });
        };
        let by_loops = passages.map(|passages| passages / counted);
        let by_loops = by_loops.filter(|share| *share > 0.0 && *share <= MOST);
        // Loops that tell no share are no reason to refuse one who knows it.
        by_loops.or(passages.and(offer.stated)).ok_or_else(|| {
            let vehicles = |number: Option<f64>| match number {
                Some(number) => format!("{number:.3} vehicles a step at the loops"),
                None => "no number of vehicles at the loops".to_owned(),
            };
            PartyError::PeerIncompatible {
                party: party.clone(),
                what: "share of the traffic",
                found: vehicles(passages),
                expected: format!("some, and no more than these count: {counted:.3}"),
            }
        })
    }
}
