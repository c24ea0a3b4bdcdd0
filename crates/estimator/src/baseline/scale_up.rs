//! The plainest reference: the fleet's totals divided by its rate.

use traffic::{LinkId, LinkState, Seconds, Step, VehPerKmLane, VehPerMinLane};

use crate::data::observed::{Asked, Observed};
use crate::data::study::TargetKind;
use crate::metrics::Estimates;

/// Estimates windows by scale-up; smooth targets by the mean over the last 60 s of the window.
pub fn scale_up(observed: &Observed<'_>, asked: &Asked<'_>) -> Estimates {
    averaged(observed.step(), asked, |step, link| observed.scaled_up(step, link))
}

/// Estimates windows by states of single steps, over which smooth targets are averaged.
pub(crate) fn averaged(
    length: Seconds,
    asked: &Asked<'_>,
    state: impl Fn(Step, LinkId) -> LinkState,
) -> Estimates {
    let steps = averaged_steps(asked.target, length);
    let mut estimates = Vec::with_capacity(asked.windows.len() * asked.links.len());
    for &last in asked.windows {
        for &link in asked.links {
            let (mut density, mut flow) = (0.0, 0.0);
            for step in last.0 + 1 - steps..=last.0 {
                let state = state(Step(step), link);
                density += state.density.get();
                flow += state.flow.get();
            }
            let count = steps as f64;
            estimates.push(LinkState {
                density: VehPerKmLane::new(density / count),
                flow: VehPerMinLane::new(flow / count),
            });
        }
    }
    estimates
}

/// Steps over which a target is the mean, the last ones of its window.
pub(crate) fn averaged_steps(kind: TargetKind, step: Seconds) -> i64 {
    match kind {
        TargetKind::Raw => 1,
        TargetKind::Smooth => ((60.0 / step.get()).round() as i64).max(1),
    }
}
