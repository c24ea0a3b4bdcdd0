//! A live guest's newest rows: what it masks, and masks again in the same way when the members change.

use std::collections::BTreeMap;

use protocol::message::sums::SumPlan;
use protocol::party::PartyId;
use traffic::Step;

use crate::error::PartyError;
use crate::live::MAX_AHEAD;

/// See the [module](self). A step has one row for good: masked twice with the same masks, two rows would tell their difference.
pub(super) struct RecentRows {
    plan: SumPlan,
    rows: BTreeMap<Step, Vec<u64>>,
    /// Rows up to this step are gone, and are not taken again.
    gone: Option<Step>,
}

impl RecentRows {
    pub(super) fn new(plan: SumPlan) -> Self {
        Self { plan, rows: BTreeMap::new(), gone: None }
    }

    /// Refuses a host that sums something else.
    pub(super) fn check(&self, host: &PartyId, theirs: &SumPlan) -> Result<(), PartyError> {
        let columns = |plan: &SumPlan| {
            let SumPlan { folds, cells, movements, queues, width, .. } = plan;
            format!(
                "{width} numbers, folds {folds}, cells {cells}, movements {movements}, queues {queues}"
            )
        };
        let (found, expected) = (columns(theirs), columns(&self.plan));
        if found == expected {
            return Ok(());
        }
        let (party, what) = (host.clone(), "columns of the sum");
        Err(PartyError::PeerIncompatible { party, what, found, expected })
    }

    /// Takes the row of a step; false if the step has one, or had.
    pub(super) fn keep(&mut self, step: Step, row: Vec<u64>) -> bool {
        if self.gone.is_some_and(|gone| step <= gone) || self.rows.contains_key(&step) {
            return false;
        }
        self.rows.insert(step, row);
        if self.rows.len() > MAX_AHEAD {
            let first = self.rows.pop_first();
            self.gone = first.map(|(step, _)| step).max(self.gone);
        }
        true
    }

    /// Forgets rows up to a step.
    pub(super) fn forget_to(&mut self, step: Step) {
        self.rows = self.rows.split_off(&Step(step.0.saturating_add(1)));
        self.gone = Some(step).max(self.gone);
    }

    pub(super) fn row(&self, step: Step) -> Option<&[u64]> {
        self.rows.get(&step).map(Vec::as_slice)
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.rows.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use protocol::message::parts::{StepRange, Text};
    use protocol::message::sums::SumTerms;

    use super::*;

    #[test]
    fn a_step_has_one_row_for_good() {
        let terms = SumTerms { network_hash: Text::of("n"), step_s: 10.0, run: None };
        let training = StepRange { first: 0, last: 1 };
        let (movements, queues) = (false, false);
        let plan = SumPlan { terms, folds: 1, cells: 0, movements, queues, width: 1, training };
        let mut recent = RecentRows::new(plan);
        assert!(recent.keep(Step(5), vec![1]) && !recent.keep(Step(5), vec![2]));
        assert_eq!(recent.row(Step(5)), Some(&[1][..]));
        recent.forget_to(Step(5));
        assert!(recent.row(Step(5)).is_none() && !recent.keep(Step(5), vec![2]));
        assert!(!recent.keep(Step(4), vec![3]) && recent.keep(Step(7), vec![3]));
        for step in 8..8 + MAX_AHEAD as i64 {
            assert!(recent.keep(Step(step), vec![0]));
        }
        assert_eq!(recent.steps().len(), MAX_AHEAD);
        assert!(!recent.keep(Step(6), vec![0]) && !recent.keep(Step(7), vec![0]));
    }
}
