//! How far off estimates are without ground truth, for methods that hold part of a fleet out.

use estimator::artifact::KnownError;
use estimator::baseline::FleetShare;
use estimator::loss::{EstimatedErrors, HeldOutJudge, ViewEstimates, share_by_loops};
use estimator::{FleetData, HeldOutEstimator, Study};
use traffic::{FleetView, Step, Window};

use crate::error::Result;

/// Numbers of estimates in views that are kept of a model, at most: where there are more, windows are thinned out evenly.
const MOST_JUDGED: usize = 8_000_000;

/// Of each link, of density and of flow: what estimates got wrong.
pub type KnownErrors = Vec<[Vec<KnownError>; 2]>;

/// A judge by the folds of a study, and the windows by which it judges.
pub(crate) struct Judged<'a> {
    pub judge: HeldOutJudge,
    study: &'a Study,
    folds: usize,
    every: usize,
}

impl<'a> Judged<'a> {
    /// The fleets of the study are so many folds of each guest. Says where their share of all vehicles is in doubt.
    pub(crate) fn new(study: &'a Study, folds: usize) -> Result<Self> {
        let guests: Vec<&[FleetData]> = study.fleets().chunks(folds).collect();
        let judge = HeldOutJudge::new(study.loops(), &guests, &study.train_span())?;
        let stated: f64 = study.fleets().iter().map(FleetData::rate).sum();
        let by_loops = share_by_loops(study.loops(), study.fleets(), &study.train_span())?;
        let share = FleetShare::by_loops(by_loops, stated);
        if share.is_contradictory() || share.is_unknown() {
            eprintln!("fleets: {share}");
        } else if by_loops.is_none() && !study.network().loops().is_empty() {
            eprintln!(
                "fleets: {share}; warning: loops do not tell it: they count nothing or fewer than pass, or the fleet passes none of them"
            );
        }
        let windows = study.timeline().windows().len();
        let numbers = windows * folds * study.network().links().len() * 2;
        Ok(Self { judge, study, folds, every: numbers.div_ceil(MOST_JUDGED).max(1) })
    }

    /// Those of some windows by which it judges.
    pub(crate) fn thinned(&self, steps: &[Step]) -> Vec<Step> {
        steps.iter().copied().step_by(self.every).collect()
    }

    /// Those of estimated windows whose errors are told: of the test part; of all windows if none is of it.
    pub(crate) fn told(&self, windows: &[Step]) -> Vec<Step> {
        let test = &self.study.split().test;
        let tested = windows.iter().copied().filter(|step| test.binary_search(step).is_ok());
        let tested: Vec<Step> = tested.collect();
        self.thinned(if tested.is_empty() { windows } else { &tested })
    }

    /// Windows without each fold.
    pub(crate) fn in_views(&self, steps: &[Step]) -> Vec<Window> {
        let views = (0..self.folds).filter_map(FleetView::without);
        steps
            .iter()
            .flat_map(|&last| views.clone().map(move |view| Window { last, view }))
            .collect()
    }

    /// Errors of a model of the whole fleet on some windows.
    pub(crate) fn errors_of(
        &self,
        estimator: &HeldOutEstimator,
        windows: &[Step],
    ) -> Result<EstimatedErrors> {
        let (loops, fleets) = (self.study.loops(), self.study.fleets());
        let views = estimator.estimate_in_views(loops, fleets, &self.told(windows))?;
        Ok(self.judge.errors(&views, true))
    }

    /// What a model of the whole fleet got wrong on the validation part.
    pub(crate) fn known_of(&self, estimator: &HeldOutEstimator) -> Result<KnownErrors> {
        let windows = self.thinned(&self.study.split().validation);
        let (loops, fleets) = (self.study.loops(), self.study.fleets());
        let views = estimator.estimate_in_views(loops, fleets, &windows)?;
        Ok(self.judge.known_errors(&views, true))
    }

    /// What a federation's model got wrong in views of the validation part.
    pub(crate) fn known_in_views(&self, views: &ViewEstimates) -> KnownErrors {
        let validation = &self.study.split().validation;
        let of_part = |window: &Window| validation.binary_search(&window.last).is_ok();
        let own = views.iter().filter(|(window, _)| of_part(window));
        let own = own.map(|(window, states)| (*window, states.clone())).collect();
        self.judge.known_errors(&own, false)
    }

    /// Errors of a federation's model, by what it estimated in views.
    pub(crate) fn errors_in_views(
        &self,
        views: &ViewEstimates,
        windows: &[Step],
    ) -> EstimatedErrors {
        let told = self.told(windows);
        let own = views.iter().filter(|(window, _)| told.binary_search(&window.last).is_ok());
        let own = own.map(|(window, states)| (*window, states.clone())).collect();
        self.judge.errors(&own, false)
    }
}
