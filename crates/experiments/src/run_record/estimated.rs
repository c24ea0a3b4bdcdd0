//! Estimates beside the truth, link by link, with intervals.

use anyhow::{Context, Result};
use estimator::artifact::Coverage;
use estimator::{Intervals, Study, TargetKind};
use serde::{Deserialize, Serialize};
use traffic::{LinkId, LinkState, Step};

/// The level of the intervals that are shown, in percent.
const LEVEL: u8 = 90;

/// Truth and estimates of the target links on some windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimated {
    /// Since the dataset's epoch, of each window's last step.
    pub minutes: Vec<f64>,
    pub links: Vec<LinkEstimates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ShownIntervals>,
}

/// Whose intervals are shown, and how often they hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownIntervals {
    /// The estimator's label.
    pub of: String,
    pub coverage: Coverage,
}

/// One link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEstimates {
    pub link: String,
    pub has_loop: bool,
    pub length_m: f64,
    /// veh/km/lane.
    pub density: QuantitySeries,
    /// veh/min/lane.
    pub flow: QuantitySeries,
}

/// A quantity over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantitySeries {
    pub truth: Vec<f64>,
    pub estimates: Vec<Estimate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[Vec<f64>; 2]>,
}

/// By one estimator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub label: String,
    pub values: Vec<f64>,
}

/// One estimator's states of the target links, window by window, and its intervals, if it has any.
pub struct Shown<'a> {
    pub label: &'a str,
    pub states: &'a [LinkState],
    /// The intervals, and where each target link stands in them.
    pub intervals: Option<(&'a Intervals, Vec<usize>)>,
}

impl Estimated {
    /// Puts estimates beside the truth; the intervals are those of the first that has some.
    pub fn new(
        study: &Study,
        target: TargetKind,
        windows: &[Step],
        shown: &[Shown<'_>],
    ) -> Result<Self> {
        let minutes = windows.iter().map(|step| step.0 as f64 * study.step().get() / 60.0);
        let surest = shown.iter().find_map(|one| {
            let (intervals, places) = one.intervals.as_ref()?;
            intervals.known_level(LEVEL).ok()?;
            Some((one, *intervals, places))
        });
        let links = study.targets().iter().enumerate().map(|(place, &link)| {
            let counted = |id: LinkId| study.network().loops().iter().any(|one| one.link == id);
            let mut all = [QuantitySeries::default(), QuantitySeries::default()];
            for (quantity, series) in QUANTITIES.iter().zip(&mut all) {
                let truth = windows.iter().map(|&step| study.target(target, step, link));
                series.truth = truth.map(|state| rounded(quantity(&state))).collect();
                series.estimates =
                    shown.iter().map(|one| of_link(study, one, place, quantity)).collect();
            }
            if let Some((one, intervals, places)) = surest {
                let level = Intervals::level(LEVEL)?;
                let states = one.states.iter().skip(place).step_by(study.targets().len());
                let borders = states.map(|state| intervals.of(places[place], state, level));
                let borders: Option<Vec<_>> = borders.collect();
                let borders = borders.context("intervals of all target links")?;
                let column = |pick: &dyn Fn(&estimator::LinkInterval) -> f64| -> Vec<f64> {
                    borders.iter().map(|one| rounded(pick(one))).collect()
                };
                all[0].interval = Some([0, 1].map(|side| column(&|one| one.density[side])));
                all[1].interval = Some([0, 1].map(|side| column(&|one| one.flow[side])));
            }
            let [density, flow] = all;
            let found = study.network().link(link);
            let (name, length_m) = (found.name.clone(), found.length.get());
            Ok(LinkEstimates { link: name, has_loop: counted(link), length_m, density, flow })
        });
        let links = links.collect::<Result<Vec<_>>>()?;
        let intervals = match surest {
            Some((one, intervals, places)) => {
                let truths = truths(study, target, windows);
                let coverage = Coverage::measure(intervals, places, one.states, &truths)?;
                let coverage = coverage.into_iter().find(|one| one.level == LEVEL);
                coverage.map(|coverage| ShownIntervals { of: one.label.to_owned(), coverage })
            }
            None => None,
        };
        Ok(Self { minutes: minutes.map(rounded).collect(), links, intervals })
    }
}

/// The true states of the target links, window by window.
pub fn truths(study: &Study, target: TargetKind, windows: &[Step]) -> Vec<LinkState> {
    let of_step = |&step| study.targets().iter().map(move |&link| study.target(target, step, link));
    windows.iter().flat_map(of_step).collect()
}

type Pick = fn(&LinkState) -> f64;
const QUANTITIES: [Pick; 2] = [|state| state.density.get(), |state| state.flow.get()];

fn of_link(study: &Study, shown: &Shown<'_>, place: usize, quantity: &Pick) -> Estimate {
    let states = shown.states.iter().skip(place).step_by(study.targets().len());
    let values = states.map(|state| rounded(quantity(state))).collect();
    Estimate { label: shown.label.to_owned(), values }
}

/// Two decimals are more than any estimate is worth, and a third of the bytes.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
