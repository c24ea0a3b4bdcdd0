//! Means over steps of what the curves of cycles say.

use super::link_queues::{CycleReport, LinkQueues};
use super::profile::Profile;
use super::program::SolveOutcome;

/// A link in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepQueue {
    /// Mean number of vehicles on the link.
    pub vehicles: f64,
    /// Its variance.
    pub vehicles_variance: f64,
    /// Vehicles a second, mean over the link.
    pub flow: f64,
    /// Its variance.
    pub flow_variance: f64,
    /// Whether the fleet was on the link in that cycle and the program was solved; else these are
    /// usual values.
    pub measured: bool,
}

/// Sums over the parts of a step that cycles cover.
#[derive(Clone, Copy)]
struct Sum {
    of: StepQueue,
    seconds: f64,
}

impl LinkQueues<'_> {
    /// Solves all cycles and takes means over steps of a length, from the first, numbered from time
    /// zero.
    pub fn steps(
        &self,
        first: i64,
        count: usize,
        length: f64,
    ) -> (Vec<StepQueue>, Vec<CycleReport>) {
        let mut sums = vec![Sum::NOTHING; count];
        let mut reports = Vec::with_capacity(self.tally.cycles());
        for cycle in 0..self.tally.cycles() {
            let (profile, report, variances) = self.cycle(cycle);
            let end = report.begin + self.tally.per_cycle as f64 * self.tally.slot;
            reports.push(report);
            let mut begin = report.begin.max(first as f64 * length);
            while begin < end {
                let number = (begin / length).floor() as i64;
                let until = ((number + 1) as f64 * length).min(end);
                let Some(step) = usize::try_from(number - first).ok().filter(|&at| at < count)
                else {
                    break;
                };
                // Rounding may leave nothing of a step.
                if until <= begin {
                    begin = (number + 1) as f64 * length;
                    continue;
                }
                sums[step].add(&profile, &report, &variances, [begin, until]);
                begin = until;
            }
        }
        (sums.iter().map(Sum::mean).collect(), reports)
    }

    /// The last seconds of the last cycle.
    pub fn last(&self, seconds: f64) -> (StepQueue, CycleReport) {
        let cycle = self.tally.cycles().saturating_sub(1);
        let (profile, report, variances) = self.cycle(cycle);
        let end = self.tally.start_of(cycle + 1);
        let mut sum = Sum::NOTHING;
        sum.add(&profile, &report, &variances, [end - seconds, end]);
        (sum.mean(), report)
    }
}

impl Sum {
    const NOTHING: Self = Self {
        of: StepQueue {
            vehicles: 0.0,
            vehicles_variance: 0.0,
            flow: 0.0,
            flow_variance: 0.0,
            measured: true,
        },
        seconds: 0.0,
    };

    /// What a cycle says of a time.
    fn add(
        &mut self,
        profile: &Profile,
        report: &CycleReport,
        variances: &[[f64; 2]],
        [begin, until]: [f64; 2],
    ) {
        let seconds = until - begin;
        let border = ((0.5 * (begin + until) - profile.begin) / profile.slot).round();
        let [vehicles, flow] = variances
            .get((border.max(0.0)) as usize)
            .or(variances.last())
            .copied()
            .unwrap_or([f64::MAX; 2]);
        self.of.vehicles += profile.vehicle_seconds(begin, until);
        self.of.vehicles_variance += vehicles * seconds;
        self.of.flow += profile.passed(begin, until);
        self.of.flow_variance += flow * seconds;
        self.of.measured &= report.fleet > 0 && report.outcome != SolveOutcome::Failed;
        self.seconds += seconds;
    }

    fn mean(&self) -> StepQueue {
        if self.seconds <= 0.0 {
            return StepQueue { measured: false, ..self.of };
        }
        StepQueue {
            vehicles: self.of.vehicles / self.seconds,
            vehicles_variance: self.of.vehicles_variance / self.seconds,
            flow: self.of.flow / self.seconds,
            flow_variance: self.of.flow_variance / self.seconds,
            measured: self.of.measured,
        }
    }
}
