//! How far off estimates are, as held-out folds tell it: without ground truth.
//!
//! Of a box with the total `N`, let `y` be an estimate by a model that saw all folds but one, and `u` the label of that
//! fold. Given what the model saw, `u` differs from `N` by noise without bias, so
//!
//! ```text
//! E (y − u)² = E (y − N)² + Var(u)
//! ```
//!
//! and the folds tell `Var(u)` ([`FoldRates`]). So the mean square of `y − u` less the mean variance of `u` estimates the mean
//! squared error. A model that has met the label of the same vehicles in training, where they stand for long, is close to it without
//! being close to `N`: by how much shows in how far its answers and the labels differ alike from fold to fold
//! (`docs/held-out-fleet.md`), and is added. Folds of several guests, whose fleets have no vehicle in common, count as folds of one fleet.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use traffic::{FleetView, LinkId, LinkState, Seconds, Step, VehPerKmLane, Window};

use super::convex_fit::{ConvexFit, known_by_heart};
use super::error::HeldOutError;
use super::folds::Choices;
use super::noise::squares;
use super::penetration::penetration;
use super::rates::FoldRates;
use crate::artifact::intervals::KnownError;
use crate::data::sources::{FleetData, LoopData};

/// Estimates of all links, window by window.
pub type ViewEstimates = BTreeMap<Window, Vec<LinkState>>;

/// Labels and their variances, for all boxes.
pub struct HeldOutJudge {
    rates: FoldRates,
    choices: Choices,
    targets: Vec<LinkId>,
}

/// Errors of density (veh/km/lane) and flow (veh/min/lane), as they are estimated without ground truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedErrors {
    /// Root mean squares; none where the noise of the labels hides them.
    pub rmse: [Option<f64>; 2],
}

impl HeldOutJudge {
    /// Of each guest's folds, as many of each. The fleets' share comes from loops and some steps, those of the training part.
    pub fn new(
        loops: &LoopData,
        guests: &[&[FleetData]],
        training: &RangeInclusive<Step>,
    ) -> Result<Self, HeldOutError> {
        let count = guests.first().map_or(0, |folds| folds.len());
        let one = |fold: usize| {
            let parts: Vec<&FleetData> = guests.iter().filter_map(|own| own.get(fold)).collect();
            let rate = parts.iter().map(|part| part.rate()).sum();
            let name = parts.first().map_or("", |part| part.name());
            FleetData::together(&parts, name, rate).ok_or(HeldOutError::Folds(count))
        };
        let folds = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
        let rates = FoldRates::new(penetration(loops, &folds, training)?, count)?;
        let choices = Choices::of(loops, &folds, &rates)?;
        Ok(Self::of_choices(rates, choices, loops))
    }

    pub(super) fn of_choices(rates: FoldRates, choices: Choices, loops: &LoopData) -> Self {
        let targets = loops.timeline().network().targets();
        Self { rates, choices, targets }
    }

    /// Length of a step.
    pub(super) fn step(&self) -> Seconds {
        self.choices.whole.timeline().step()
    }

    /// The shares of fleets and folds.
    pub fn rates(&self) -> &FoldRates {
        &self.rates
    }

    /// What the fold that a window leaves out tells of all traffic on a link: density and flow; none for whole fleets.
    fn label(&self, window: Window, link: LinkId) -> Option<[f64; 2]> {
        let fold = window.view.held_out()?;
        let (seen, out) = (self.choices.seen.get(fold)?, self.choices.held_out.get(fold)?);
        let (seen, out) =
            (pair(seen.scaled_up(window.last, link)), pair(out.scaled_up(window.last, link)));
        let rates = &self.rates;
        Some([0, 1].map(|at| rates.label(rates.seen() * seen[at], rates.held_out() * out[at])))
    }

    /// What a step tells of models that have estimated it in all views: of density and of flow.
    pub(super) fn told_of(&self, models: &[&ViewEstimates], step: Step) -> [ConvexFit; 2] {
        let empty = ConvexFit::new(models.len());
        let mut told = [empty.clone(), empty];
        let views = (0..self.choices.seen.len()).filter_map(FleetView::without);
        let windows: Vec<Window> = views.map(|view| Window { last: step, view }).collect();
        let states: Option<Vec<Vec<&Vec<LinkState>>>> = models
            .iter()
            .map(|model| windows.iter().map(|window| model.get(window)).collect())
            .collect();
        let Some(states) = states else { return told };
        for &link in &self.targets {
            let labels: Option<Vec<[f64; 2]>> =
                windows.iter().map(|&window| self.label(window, link)).collect();
            let Some(labels) = labels else { continue };
            let noise = self.label_variance(step, link);
            for (at, told) in told.iter_mut().enumerate() {
                let of_model = |views: &Vec<&Vec<LinkState>>| {
                    views.iter().map(|states| pair(states[link.index()])[at]).collect()
                };
                let values: Vec<Vec<f64>> = states.iter().map(of_model).collect();
                let labels: Vec<f64> = labels.iter().map(|label| label[at]).collect();
                told.add_box(&values, &labels, noise[at]);
            }
        }
        told
    }

    /// The variance of these labels, estimated without bias; below zero at times.
    fn label_variance(&self, step: Step, link: LinkId) -> [f64; 2] {
        squares(&self.choices.held_out, &self.rates, step, link)
            .map(|squares| self.rates.label_variance(squares))
    }

    /// Errors, on the links that are scored, of the estimator whose estimates in views these are.
    ///
    /// `mean_of_views`: the estimator takes what the whole fleet sees as it is, and the mean over the views for the rest. Then the
    /// error of the mean is that of a view less what the views differ by among themselves (for any numbers, the mean square of
    /// `y_j − N` is the square of `ȳ − N` plus the mean square of `y_j − ȳ`), and it counts for the share `1 − p` that the whole
    /// fleet does not see, not for the `1 − s` that a view does not see.
    pub fn errors(&self, estimates: &ViewEstimates, mean_of_views: bool) -> EstimatedErrors {
        let mut sums = [Sums::default(); 2];
        for (&step, views) in &by_step(estimates) {
            for &link in &self.targets {
                let noise = self.label_variance(step, link);
                let own =
                    |at: usize| views.iter().map(move |(_, states)| pair(states[link.index()])[at]);
                for (at, sums) in sums.iter_mut().enumerate() {
                    let count = views.len() as f64;
                    let (_, spread) = mean_and_spread(&own(at).collect::<Vec<_>>());
                    let labels: Vec<f64> = views
                        .iter()
                        .filter_map(|(window, _)| Some(self.label(*window, link)?[at]))
                        .collect();
                    let square = own(at).zip(&labels).map(|(own, label)| (own - label).powi(2));
                    sums.add(square.sum::<f64>() / count, noise[at], spread);
                    sums.memory += known_by_heart(&own(at).collect::<Vec<_>>(), &labels);
                }
            }
        }
        let whole = (1.0 - self.rates.fleet()) / (1.0 - self.rates.seen());
        let rmse = sums.map(|sums| {
            let (spread, share) = if mean_of_views { (sums.spread, whole) } else { (0.0, 1.0) };
            let memory = self.rates.noise_beside_folds() * sums.memory.max(0.0);
            let of_view = (sums.squares - sums.noise + 2.0 * memory) / sums.count;
            let told = of_view > LEAST_SHARE * sums.noise / sums.count;
            let square = of_view - spread / sums.count;
            (told && square > 0.0).then(|| share * square.sqrt())
        });
        EstimatedErrors { rmse }
    }

    /// What estimates got wrong on all links, as the folds that their views leave out tell it: for intervals. Of each step the mean over
    /// its views, less the mean of their labels: the labels' noise is several times smaller in the mean.
    ///
    /// With the variances over views of the estimates `y` and the labels `u`, for any numbers
    ///
    /// ```text
    /// (ȳ − ū)² = mean (y_j − u_j)² − Var(y) − Var(u) + 2·Cov(y, u)
    /// ```
    ///
    /// where the first term expects the mean square of `y_j − N` and the variance of a label. So `V − Var(u) + 2·Cov(y, u)` is what
    /// labels' noise adds to the square of the mean's error. Where the estimator takes what the whole fleet sees as it is, its error is
    /// that of the mean and counts for the share that the fleet does not see; otherwise it is that of a view, larger by `Var(y)`.
    pub fn known_errors(
        &self,
        estimates: &ViewEstimates,
        mean_of_views: bool,
    ) -> Vec<[Vec<KnownError>; 2]> {
        let unseen = (1.0 - self.rates.fleet()) / (1.0 - self.rates.seen());
        let share = if mean_of_views { unseen } else { 1.0 };
        let steps = by_step(estimates);
        let links = self.choices.whole.timeline().network().link_ids();
        let boxes_of = |link: LinkId| {
            let mut boxes = [Vec::new(), Vec::new()];
            for (&step, views) in &steps {
                let labels = views.iter().map(|(window, _)| self.label(*window, link));
                let Some(labels) = labels.collect::<Option<Vec<_>>>() else { continue };
                let variance = self.label_variance(step, link);
                for (at, boxes) in boxes.iter_mut().enumerate() {
                    let own = views.iter().map(|(_, states)| pair(states[link.index()])[at]);
                    let (own, labels): (Vec<f64>, Vec<f64>) =
                        own.zip(labels.iter().map(|label| label[at])).unzip();
                    boxes.push(JudgedBox::of(&own, &labels, variance[at], mean_of_views));
                }
            }
            boxes
        };
        let boxes: Vec<[Vec<JudgedBox>; 2]> = links.map(boxes_of).collect();
        // What is known by heart, as in `errors`, counts in proportion to the noise of a box.
        let by_heart = [0, 1].map(|at| {
            let all = || boxes.iter().flat_map(|of_link| &of_link[at]);
            let alike: f64 = all().map(|one| one.alike).sum();
            let noise: f64 = all().map(|one| one.label_variance).sum();
            let memory = 2.0 * self.rates.noise_beside_folds() * alike.max(0.0);
            if noise > 0.0 { memory / noise } else { 0.0 }
        });
        let of_link = |of_link: [Vec<JudgedBox>; 2]| {
            let [density, flow] = of_link;
            [(density, by_heart[0]), (flow, by_heart[1])].map(|(boxes, by_heart)| {
                let known = |one: JudgedBox| KnownError {
                    estimate: one.estimate,
                    error: share * one.error,
                    noise: share * share * (one.noise - by_heart * one.label_variance),
                };
                boxes.into_iter().map(known).collect()
            })
        };
        boxes.into_iter().map(of_link).collect()
    }

    /// The weights, none below zero and 1 together, with which several models' estimates are combined: of each model those of
    /// density and of flow. All models have estimated the same windows; the first ones, so many, are plain.
    ///
    /// Half of the weight stays with the plain models, in equal parts: weights fitted to few data by themselves do worse than equal
    /// ones. The other half goes where it comes closest to the labels, among models whose errors are not larger than the best one's
    /// beyond chance. Where labels cannot tell the errors from their own noise, nothing has shown that it helps, and the plain models have all: so it
    /// is where the same vehicles stand all the time, which models know by heart from training.
    pub fn combine(&self, models: &[&ViewEstimates], plain: usize) -> Vec<[f64; 2]> {
        let Some(first) = models.first() else { return Vec::new() };
        let windows: Vec<Window> = first.keys().copied().collect();
        let mut problems = [0, 1].map(|_| vec![ConvexFit::new(models.len()); BLOCKS]);
        let mut values = vec![0.0; models.len()];
        for (place, window) in windows.iter().enumerate() {
            let states: Option<Vec<_>> = models.iter().map(|model| model.get(window)).collect();
            let Some(states) = states else { continue };
            for &link in &self.targets {
                let Some(label) = self.label(*window, link) else { continue };
                for (at, blocks) in problems.iter_mut().enumerate() {
                    let own = states.iter().map(|states| pair(states[link.index()])[at]);
                    values.iter_mut().zip(own).for_each(|(value, own)| *value = own);
                    // Windows are in the order of time.
                    blocks[place * BLOCKS / windows.len()].add(&values, label[at]);
                }
            }
        }
        let told: Vec<[bool; 2]> = models
            .iter()
            .map(|model| self.errors(model, false).rmse.map(|one| one.is_some()))
            .collect();
        let weights = [0, 1].map(|at| {
            let fitted = told.iter().all(|told| told[at]).then(|| fitted_weights(&problems[at]));
            with_plain(fitted, models.len(), plain)
        });
        let [density, flow] = weights;
        density.into_iter().zip(flow).map(|(density, flow)| [density, flow]).collect()
    }
}

/// Stretches of time by which errors are compared: neighbouring steps err alike, stretches hardly do.
const BLOCKS: usize = 8;
/// A mean difference of errors this many standard errors above zero is not chance: 5 % of Student's distribution with 7 degrees of
/// freedom lie beyond.
const BEYOND_CHANCE: f64 = 1.9;

/// Weights by the labels alone.
fn fitted_weights(blocks: &[ConvexFit]) -> Vec<f64> {
    let mut all = ConvexFit::new(blocks.first().map_or(0, |block| block.moments.len()));
    blocks.iter().for_each(|block| all.take(block));
    let models = 0..all.moments.len();
    let mut weights = vec![0.0; all.moments.len()];
    let best = models.clone().min_by(|&a, &b| all.error_of(a).total_cmp(&all.error_of(b)));
    let Some(best) = best else { return weights };
    let good: Vec<usize> = models.filter(|&model| !is_worse(blocks, model, best)).collect();
    for (&model, weight) in good.iter().zip(all.among(&good).solve()) {
        weights[model] = weight;
    }
    weights
}

/// Half of those weights, if there are any, and the rest in equal parts for the plain models.
fn with_plain(fitted: Option<Vec<f64>>, models: usize, plain: usize) -> Vec<f64> {
    let plain = plain.clamp(1, models.max(1));
    let left = if fitted.is_some() { 0.5 } else { 1.0 };
    let fitted = fitted.unwrap_or_else(|| vec![0.0; models]);
    let of = |(model, weight): (usize, f64)| {
        let equal = if model < plain { left / plain as f64 } else { 0.0 };
        (1.0 - left) * weight + equal
    };
    fitted.into_iter().enumerate().map(of).collect()
}

/// Whether a model's errors are larger than another's beyond chance, from block to block.
fn is_worse(blocks: &[ConvexFit], model: usize, best: usize) -> bool {
    let differences: Vec<f64> = blocks
        .iter()
        .filter(|block| block.count > 0.0)
        .map(|block| (block.error_of(model) - block.error_of(best)) / block.count)
        .collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    model != best && mean > BEYOND_CHANCE * error
}

/// Below this share of the labels' own noise, an error is not told from it.
const LEAST_SHARE: f64 = 0.01;

/// Of many boxes.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Mean squares of estimates less labels.
    squares: f64,
    /// Variances of labels.
    noise: f64,
    /// Mean squares by which views differ from their mean.
    spread: f64,
    /// By which views and labels differ alike.
    memory: f64,
    count: f64,
}

impl Sums {
    fn add(&mut self, square: f64, noise: f64, spread: f64) {
        self.squares += square;
        self.noise += noise;
        self.spread += spread;
        self.count += 1.0;
    }
}

/// No road holds more vehicles than stand on it: where traffic never stood in the training part, a model may tell any number.
pub fn limit_to_standing(state: &mut LinkState) {
    let density = state.density.get().clamp(0.0, physics::STANDING.get());
    state.density = VehPerKmLane::new(density);
}

/// What the views of a box tell of the estimator's error there.
struct JudgedBox {
    /// The mean over the views.
    estimate: f64,
    /// The mean label less that.
    error: f64,
    /// What labels' noise adds to the square of the error; below zero at times.
    noise: f64,
    /// The variance of one label.
    label_variance: f64,
    /// By how much estimates and labels differ alike.
    alike: f64,
}

impl JudgedBox {
    fn of(own: &[f64], labels: &[f64], label_variance: f64, mean_of_views: bool) -> Self {
        let count = own.len() as f64;
        let (estimate, own_spread) = mean_and_spread(own);
        let (label, label_spread) = mean_and_spread(labels);
        let alike = known_by_heart(own, labels);
        let covariance = alike * (count - 1.0).max(1.0) / count;
        let own_spread = if mean_of_views { 0.0 } else { own_spread };
        let noise = label_variance - label_spread + 2.0 * covariance - own_spread;
        Self { estimate, error: label - estimate, noise, label_variance, alike }
    }
}

/// Views of each step.
fn by_step(estimates: &ViewEstimates) -> BTreeMap<Step, Vec<(Window, &Vec<LinkState>)>> {
    let mut steps: BTreeMap<Step, Vec<(Window, &Vec<LinkState>)>> = BTreeMap::new();
    for (&window, states) in estimates {
        steps.entry(window.last).or_default().push((window, states));
    }
    steps
}

/// The mean of some numbers and the mean square of what they differ from it.
fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

fn pair(state: LinkState) -> [f64; 2] {
    [state.density.get(), state.flow.get()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // Rounding.
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    /// Blocks of labels 0 and errors of three models.
    fn blocks(errors: impl Fn(usize) -> [f64; 3]) -> Vec<ConvexFit> {
        let block = |at| {
            let mut block = ConvexFit::new(3);
            for sign in [1.0, -1.0] {
                block.add(&errors(at).map(|error| sign * error), 0.0);
            }
            block
        };
        (0..BLOCKS).map(block).collect()
    }

    proptest::proptest! {
        /// Without the noise, the square of the mean's error is the mean square of the views' errors without theirs, less what views
        /// differ by; whatever the numbers.
        #[test]
        fn a_mean_tells_of_errors_what_its_views_tell(
            views in proptest::collection::vec((0.0..200.0f64, 0.0..900.0f64), 1..9),
            variance in 0.0..5e4f64,
        ) {
            let (own, labels): (Vec<f64>, Vec<f64>) = views.iter().copied().unzip();
            let count = views.len() as f64;
            let of_views = views.iter().map(|(y, u)| (y - u).powi(2)).sum::<f64>() / count - variance;
            let mean = own.iter().sum::<f64>() / count;
            let spread = own.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / count;
            for (mean_of_views, expected) in [(true, of_views - spread), (false, of_views)] {
                let told = JudgedBox::of(&own, &labels, variance, mean_of_views);
                // Rounding of squares below 10⁶.
                proptest::prop_assert!((told.error.powi(2) - told.noise - expected).abs() < 1e-7);
                proptest::prop_assert!((told.estimate - mean).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn what_is_worse_beyond_chance_gets_no_weight() {
        // The third errs more in every block; the others take turns.
        let third_worse = |at| if at % 2 == 0 { [1.0, 2.0, 3.0] } else { [2.0, 1.0, 3.0] };
        let weights = fitted_weights(&blocks(third_worse));
        assert_close(&weights, &[0.5, 0.5, 0.0]);
        // One bad block among good ones may be chance.
        let good = [0, 1, 2].map(|model| {
            !is_worse(&blocks(|at| [1.0, 1.0, if at == 0 { 4.0 } else { 0.9 }]), model, 0)
        });
        assert_eq!(good, [true; 3]);
        // Half stays with the plain models, or all.
        assert_close(&with_plain(Some(vec![0.0, 0.2, 0.8]), 3, 2), &[0.25, 0.35, 0.4]);
        assert_close(&with_plain(None, 3, 2), &[0.5, 0.5, 0.0]);
        assert_close(&with_plain(None, 1, 2), &[1.0]);
        assert_eq!(fitted_weights(&[]), [0.0; 0]);
    }
}
