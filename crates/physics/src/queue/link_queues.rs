//! A link's queues, cycle after cycle.

use traffic::Passage;

use super::loop_curve::LoopCurve;
use super::profile::Profile;
use super::program::{Problem, SolveOutcome, Terms, cholesky, variance};
use super::relation::Relations;
use super::road::{QueueError, Road, positive};
use super::tally::Tally;
use super::usual::Usual;
use super::window::Window;

/// What is known of a link besides the fleet's passages.
#[derive(Clone, Debug)]
pub struct Knowledge {
    /// The fleet's share of all vehicles.
    pub rate: f64,
    /// What queue positions say.
    pub relations: Relations,
    /// By slot of the cycle, the share of the lanes that may leave; all always, if not known.
    pub open: Option<Vec<f64>>,
    /// A loop on the link.
    pub loop_curve: Option<LoopCurve>,
}

/// How a cycle came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleReport {
    /// When it begins.
    pub begin: f64,
    /// Vehicles of the fleet on the link in it.
    pub fleet: usize,
    /// How the program came out.
    pub outcome: SolveOutcome,
    /// The largest distance from the stop line to the back of the queue.
    pub longest: f64,
}

/// Relations of one cycle share their errors: lanes differ for all of them. So many weigh half.
const SHARED: f64 = 20.0;
/// Whoever is counted now is still there half a minute later: counts in a row are no news.
const SAME_VEHICLES: f64 = 30.0;
/// A queue position this many standard deviations off is set aside.
const CONTRADICTION: f64 = 4.0;
/// Least variance of what others do in a slot, vehicles² a second.
const RESTLESSNESS: f64 = 0.02;
/// Loops miss or double a vehicle now and then.
const LOOP_SLACK: f64 = 2.0;
/// Slots before and after a cycle at most.
const MOST_AROUND: usize = 40;

/// All that is needed to solve a link's cycles.
pub struct LinkQueues<'a> {
    road: Road,
    pub(super) tally: &'a Tally,
    /// In order of entering.
    passages: &'a [Passage],
    knowledge: &'a Knowledge,
    usual: Usual,
    /// Slots before and after a cycle that are solved with it.
    around: usize,
    /// The longest that any vehicle stayed.
    longest_stay: f64,
}

impl<'a> LinkQueues<'a> {
    /// Of a link, with passages in order of entering.
    pub fn new(
        road: Road,
        tally: &'a Tally,
        passages: &'a [Passage],
        knowledge: &'a Knowledge,
    ) -> Result<Self, QueueError> {
        positive("penetration rate", knowledge.rate)?;
        if knowledge.rate > 1.0 {
            let (found, expected) = (knowledge.rate, "at most 1");
            return Err(QueueError::Number { what: "penetration rate", found, expected });
        }
        if let Some(index) = passages.windows(2).position(|two| two[0].entered > two[1].entered) {
            let problem = "found one that enters before it, expected them in order of entering";
            return Err(QueueError::Passage { index: index + 1, problem });
        }
        let mut usual = Usual::of(tally, knowledge.rate);
        if let Some(curve) = &knowledge.loop_curve {
            usual.level_by(tally, &curve.in_slots(tally), knowledge.rate);
        }
        let lag = (road.length / road.wave_speed / tally.slot).ceil() as usize;
        let around = lag.max(tally.per_cycle / 3).min(MOST_AROUND);
        let end = tally.start_of(tally.cycles());
        let stays = passages.iter().map(|passage| passage.left.unwrap_or(end) - passage.entered);
        let longest_stay = stays.fold(0.0, f64::max);
        Ok(Self { road, tally, passages, knowledge, usual, around, longest_stay })
    }

    /// Solves a cycle.
    pub fn cycle(&self, cycle: usize) -> (Profile, CycleReport, Vec<[f64; 2]>) {
        let window = self.window(cycle);
        let near = self.near(window.begin, window.begin + window.slots as f64 * window.slot);
        let begin = self.tally.start_of(cycle);
        let end = begin + self.tally.per_cycle as f64 * self.tally.slot;
        let fleet = near.iter().filter(|passage| touches(passage, begin, end)).count();
        let mut problem = self.counted(&window);
        let relations = problem.measured.len();
        self.weigh_queued(&window, near, &mut problem);
        let limits = problem.limits.len();
        self.limit_by_loop(&window, &mut problem);
        let (solution, outcome) = solve(&mut problem, relations, limits);
        let borders = window.slots + 1;
        let (entered, left) = match solution {
            Some(mut unknowns) => {
                unknowns.truncate(2 * borders);
                let left = unknowns.split_off(borders);
                (unknowns, left)
            }
            None => self.usual_curves(&window),
        };
        let profile =
            Profile { road: self.road, begin: window.begin, slot: window.slot, entered, left };
        let steps = (0..=self.tally.per_cycle).map(|s| begin + s as f64 * self.tally.slot);
        let longest = steps.map(|time| profile.back(time)).fold(0.0, f64::max);
        let variances = self.variances(&window, &problem);
        (profile, CycleReport { begin, fleet, outcome, longest }, variances)
    }

    /// The program of a cycle, for whoever would solve it otherwise.
    pub fn problem(&self, cycle: usize) -> Problem {
        let window = self.window(cycle);
        let near = self.near(window.begin, window.begin + window.slots as f64 * window.slot);
        let mut problem = self.counted(&window);
        self.weigh_queued(&window, near, &mut problem);
        self.limit_by_loop(&window, &mut problem);
        problem
    }

    fn window(&self, cycle: usize) -> Window {
        let tally = self.tally;
        let first = (cycle * tally.per_cycle).saturating_sub(self.around);
        let last = ((cycle + 1) * tally.per_cycle + self.around).min(tally.entered.len());
        let begin = tally.begin + first as f64 * tally.slot;
        Window { first, slots: last - first, begin, slot: tally.slot }
    }

    /// Passages that touch a time.
    fn near(&self, begin: f64, end: f64) -> &'a [Passage] {
        let first = self.passages.partition_point(|p| p.entered < begin - self.longest_stay);
        let last = self.passages.partition_point(|p| p.entered < end);
        &self.passages[first.min(last)..last]
    }

    /// Slots and counts, which every cycle has.
    fn counted(&self, window: &Window) -> Problem {
        let (tally, usual, rate) = (self.tally, &self.usual, self.knowledge.rate);
        let others = 1.0 - rate;
        // One more for the count of a loop at the window's begin.
        let mut problem = Problem::new(2 * (window.slots + 1) + 1);
        let restless = RESTLESSNESS * window.slot;
        for slot in 0..window.slots {
            let at = window.first + slot;
            let [entered, left] = [Window::entered, Window::left].map(|curve| {
                Terms::default()
                    .and(&[(curve(window, slot + 1), 1.0)])
                    .less(&[(curve(window, slot), 1.0)])
            });
            let sides = [
                (entered, tally.entered[at], usual.entering[at]),
                (left, tally.left[at], usual.leaving[at]),
            ];
            for (terms, own, usual) in sides {
                let mean = others * usual;
                problem.weigh(terms, own + mean, 1.0 / (mean + restless));
                problem.limit(Terms::default().less(terms.all()), -own);
            }
            let open =
                self.knowledge.open.as_ref().map_or(1.0, |open| open[at % open.len().max(1)]);
            let most = self.road.capacity * window.slot * open;
            // Drivers may be quicker than the diagram; half a vehicle keeps the limits apart.
            problem.limit(left, most.max(tally.left[at] + 0.5));
        }
        for border in 0..=window.slots {
            let at = window.first + border;
            let terms = Terms::default()
                .and(&[(window.entered(border), 1.0)])
                .less(&[(window.left(border), 1.0)]);
            let own = tally.present[at];
            let chance = usual.present[at].max(0.5) * others / rate + 0.5;
            problem.weigh(terms, own / rate, window.slot / SAME_VEHICLES / chance);
            problem.limit(Terms::default().less(terms.all()), -own);
            problem.limit(terms, self.road.room().max(own + 1.0));
        }
        // The curves count from the window's begin.
        problem.weigh(Terms::default().and(&[(window.left(0), 1.0)]), 0.0, 1.0);
        // So that every unknown has a place, with a loop or without.
        let count = 2 * (window.slots + 1);
        problem.weigh(Terms::default().and(&[(count, 1.0)]), 0.0, 1e-6);
        problem
    }

    /// Queue positions of the fleet.
    fn weigh_queued(&self, window: &Window, near: &[Passage], problem: &mut Problem) {
        let wave = self.road.wave_speed;
        let cycles = window.slots as f64 / self.tally.per_cycle as f64;
        let queued = near.iter().filter(|passage| passage.queued.is_some()).count() as f64;
        let share = 1.0 / (1.0 + queued / cycles / SHARED);
        for passage in near {
            let Some(queued) = passage.queued else { continue };
            let joined = queued.joined;
            if let (Some(entered), Some(ahead)) = (
                window.at(Window::entered, passage.entered),
                window.at(Window::left, joined.time - joined.distance / wave),
            ) {
                let (value, weight) =
                    self.knowledge.relations.joining.at(self.road.standing(joined.distance));
                problem.weigh(Terms::default().and(&entered).less(&ahead), value, weight * share);
            }
            let (released, Some(left)) = (queued.released, passage.left) else { continue };
            let start = released.time.min(left) - released.distance / wave;
            if let (Some(left), Some(ahead)) =
                (window.at(Window::left, left), window.at(Window::left, start))
            {
                let (value, weight) =
                    self.knowledge.relations.leaving.at(self.road.standing(released.distance));
                problem.weigh(Terms::default().and(&left).less(&ahead), value, weight * share);
            }
        }
    }

    /// Whoever crossed the loop has entered and has left or stands between loop and stop line.
    fn limit_by_loop(&self, window: &Window, problem: &mut Problem) {
        let Some(curve) = &self.knowledge.loop_curve else { return };
        let base = 2 * (window.slots + 1);
        let ahead = self.road.standing(curve.distance);
        let behind = self.road.room() - ahead;
        let first = ((window.begin - curve.begin) / curve.interval).ceil().max(0.0) as usize;
        let mut count = 0.0;
        for interval in first..curve.counts.len() {
            let time = curve.begin + interval as f64 * curve.interval;
            let (Some(entered), Some(left)) =
                (window.at(Window::entered, time), window.at(Window::left, time))
            else {
                break;
            };
            let crossed = [(base, 1.0)];
            // left ≤ crossed ≤ left + room ahead, crossed ≤ entered ≤ crossed + room behind.
            let least = Terms::default().and(&left).less(&crossed);
            problem.limit(least, count + LOOP_SLACK);
            problem.limit(Terms::default().less(least.all()), ahead + LOOP_SLACK - count);
            let most = Terms::default().and(&entered).less(&crossed);
            problem.limit(Terms::default().less(most.all()), LOOP_SLACK - count);
            problem.limit(most, count + behind + LOOP_SLACK);
            // From here on nothing is known.
            let Some(more) = curve.counts[interval] else { break };
            count += more;
        }
    }

    /// What would be usual, where nothing can be solved.
    fn usual_curves(&self, window: &Window) -> (Vec<f64>, Vec<f64>) {
        let usual = &self.usual;
        let mut left = vec![0.0];
        let mut sum = 0.0;
        for slot in 0..window.slots {
            sum += usual.leaving[window.first + slot];
            left.push(sum);
        }
        let present = |border: usize| usual.present[window.first + border].min(self.road.room());
        let entered =
            left.iter().enumerate().map(|(border, left)| left + present(border)).collect();
        (entered, left)
    }

    /// Variances of the vehicles on the link and of the flow, at the borders of slots, were there no
    /// limits: these only make them smaller.
    fn variances(&self, window: &Window, problem: &Problem) -> Vec<[f64; 2]> {
        let unknowns = 2 * (window.slots + 1) + 1;
        let Some(factor) = cholesky(problem.hessian(), unknowns) else {
            let usual = &self.usual.present[window.first..];
            return usual.iter().take(window.slots + 1).map(|n| [n * n + 1.0, n + 1.0]).collect();
        };
        let mut scratch = Vec::new();
        let mut of = |terms: Terms| variance(&factor, unknowns, &terms, &mut scratch);
        (0..=window.slots)
            .map(|border| {
                let here = Terms::default()
                    .and(&[(window.entered(border), 1.0)])
                    .less(&[(window.left(border), 1.0)]);
                let (before, after) = (border.saturating_sub(1), (border + 1).min(window.slots));
                let seconds = (after - before) as f64 * window.slot;
                let passed = [window.entered(after), window.left(after)].map(|u| (u, 0.5));
                let earlier = [window.entered(before), window.left(before)].map(|u| (u, 0.5));
                let flow = of(Terms::default().and(&passed).less(&earlier));
                [of(here), flow / (seconds * seconds)]
            })
            .collect()
    }
}

/// Solves; what contradicts all else is left out: queue positions (measurements from `relations` on),
/// then the loop (limits from `limits` on).
fn solve(
    problem: &mut Problem,
    relations: usize,
    limits: usize,
) -> (Option<Vec<f64>>, SolveOutcome) {
    let hessian = problem.hessian();
    let mut outcome = SolveOutcome::Solved;
    let mut solution = problem.solve_with(&hessian);
    if solution.is_none() && problem.limits.len() > limits {
        problem.limits.truncate(limits);
        solution = problem.solve_with(&hessian);
        outcome = SolveOutcome::WithoutLoop;
    }
    let Some(unknowns) = solution else { return (None, SolveOutcome::Failed) };
    let off: Vec<usize> = (relations..problem.measured.len())
        .filter(|&at| problem.residual(at, &unknowns).abs() > CONTRADICTION)
        .collect();
    if off.is_empty() {
        return (Some(unknowns), outcome);
    }
    for at in off.iter().rev() {
        problem.measured.swap_remove(*at);
    }
    match problem.solve() {
        Some(again) if outcome == SolveOutcome::Solved => {
            (Some(again), SolveOutcome::SetAside(off.len()))
        }
        Some(again) => (Some(again), outcome),
        None => (Some(unknowns), outcome),
    }
}

fn touches(passage: &Passage, begin: f64, end: f64) -> bool {
    passage.entered < end && passage.left.is_none_or(|left| left > begin)
}
