//! Windows of steps, as estimators see them: the last step, and which part of the fleets is visible.

use crate::state::Step;

/// A window of consecutive steps as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The window's last step, which is estimated.
    pub last: Step,
    /// Which folds of the fleets are visible.
    pub view: FleetView,
}

/// Which folds of the fleets a model sees: all of them, or all but one that is held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetView(pub u16);

impl Window {
    /// With whole fleets.
    pub fn whole(last: Step) -> Self {
        Self { last, view: FleetView::WHOLE }
    }

    /// Whether `next` is the step after this one, seen alike: a traffic model leads from one to the
    /// other.
    pub fn leads_to(self, next: Self) -> bool {
        next.view == self.view && self.last.0.checked_add(1) == Some(next.last.0)
    }
}

impl FleetView {
    /// All folds.
    pub const WHOLE: Self = Self(0);

    /// All folds but one; none past the largest number of folds.
    pub fn without(fold: usize) -> Option<Self> {
        u16::try_from(fold + 1).ok().map(Self)
    }

    /// The fold that is held out, if any.
    pub fn held_out(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_step_seen_alike_follows() {
        let at = |last, view| Window { last: Step(last), view: FleetView(view) };
        assert!(at(4, 1).leads_to(at(5, 1)));
        for other in [at(5, 0), at(6, 1), at(4, 1), at(3, 1)] {
            assert!(!at(4, 1).leads_to(other));
        }
        assert!(!at(i64::MAX, 0).leads_to(at(i64::MIN, 0)));
        assert_eq!(FleetView::without(2).and_then(FleetView::held_out), Some(2));
        assert_eq!(FleetView::WHOLE.held_out(), None);
        assert_eq!(FleetView::without(usize::from(u16::MAX)), None);
    }
}
