//! Fusion by sum, in this process: the host trains on the sum over guests.
//!
//! 1. Each guest makes rows of its fleet, or of the folds of its own fleet ([`FleetRows`]), as numbers of fixed point.
//! 2. They are added modulo 2^64: as they are, or masked so that only the sum is seen ([`sealed::aggregate`]). Both give the
//!    same bits.
//! 3. The host makes fleets of the sum ([`FleetSum`]) and trains [`Method::centralised`](crate::Method::centralised) on them.

use std::borrow::Cow;
use std::sync::Arc;

use estimator::artifact::ModelFile;
use estimator::data::{
    FleetRows, FleetSum, SumColumns, SumLayout, SummedFleets, Timeline, WholeFleet, train_span,
};
use estimator::{FeatureSet, FleetData, Study, TrainingSignal};
use protocol::MeasurementKind;
use sealed::aggregate::{FixedPoint, masked_sum};
use traffic::Step;

use crate::error::{Context, Result, ensure};
use crate::method::{EstimatorKind, Method};
use crate::options::FederationOptions;
use crate::party::Contribution;
use crate::party::policy::{NOISE_FOLDER, Policy, PrivacyContext};
use crate::party::privacy::Mode;

/// No number of a row is larger: seconds and metres that a fleet drives on a link in a step, vehicles, weights.
pub(crate) const BOUND: f64 = (1_u64 << 26) as f64;
/// A billionth of a second or metre: far below what positions tell, and a float holds such sums up to 8 million exactly.
pub(crate) const FRACTION_BITS: u32 = 30;
/// Numbers that a guest sends at once.
const BLOCK: usize = 1 << 18;
/// What the joined fleet is called.
pub(crate) const JOINED: &str = "all guests";

/// The numbers of sums.
pub(crate) fn fixed_point() -> Result<FixedPoint> {
    Ok(FixedPoint::new(BOUND, FRACTION_BITS)?)
}

/// What a method needs of the guests besides totals of links.
pub(crate) fn columns(method: Method) -> SumColumns {
    let spec = method.spec();
    let all = spec.estimator == EstimatorKind::Combination;
    let queues = spec.signal.and_then(|signal| signal.measurements().map(|terms| terms.queues));
    SumColumns {
        cells: spec.features == FeatureSet::BothAndCells,
        movements: all || spec.signal.is_some_and(|signal| signal.has_physics()),
        queues: all || queues.unwrap_or(false),
    }
}

/// What it needs of them at use: nothing that only training looks at.
pub(crate) fn columns_at_use(method: Method) -> SumColumns {
    SumColumns { cells: columns(method).cells, ..SumColumns::default() }
}

/// The guests of a study, ready to be summed.
pub(crate) struct SummedGuests {
    timeline: Arc<Timeline>,
    layout: SumLayout,
    names: Vec<String>,
    rows: Vec<FleetRows>,
    masked: bool,
    noised: bool,
}

impl SummedGuests {
    /// The fleets of a study are so many folds of each guest, for this centralised method.
    pub(crate) fn of(study: &Study, method: Method, options: &FederationOptions) -> Result<Self> {
        let spec = method.spec();
        let folds = method.folds().unwrap_or(1);
        let expected = folds * usize::from(options.guests);
        let found = study.fleets().len();
        ensure!(
            found == expected,
            "fleets: found {found}, expected {expected}, {folds} for each guest"
        );
        let columns = columns(method);
        let layout = SumLayout::new(study.timeline(), folds, columns);
        let kinds = columns.queues.then_some(MeasurementKind::Queues).into_iter().collect();
        let features = spec.features.guest_features().context("features of guests")?;
        let mode = options.privacy.privacy.unwrap_or(Mode::Aggregate);
        let privacy = match &options.privacy.policy {
            Some(file) => {
                let policy = file.over(&Policy::default());
                PrivacyContext { policy, noise_folder: study.folder().join(NOISE_FOLDER) }
            }
            None => {
                let signal = spec.signal.unwrap_or(TrainingSignal::Labels);
                options.privacy.context(&signal, study.folder())
            }
        };
        let policy = &privacy.policy;
        check_noise(policy, columns, folds)?;
        let noised = policy.noise.is_some();
        let allowed = policy.kinds.as_ref();
        ensure!(
            !columns.queues || allowed.is_none_or(|kinds| kinds.contains(&MeasurementKind::Queues)),
            "measures: found queues, which the policy does not allow"
        );
        let (mut rows, mut names) = (Vec::new(), Vec::new());
        for (number, fleets) in study.fleets().chunks(folds).enumerate() {
            let name = format!("guest-{}", number + 1);
            let own = Contribution::of(study.folder(), fleets.to_vec(), features, &kinds, &privacy);
            let Contribution { fleets, unclipped, mut tables } =
                own.with_context(|| name.clone())?;
            let fleets = unclipped.map_or(fleets, |fleet| vec![fleet]);
            let queues = tables.remove(&MeasurementKind::Queues);
            rows.push(FleetRows::new(layout, fleets, queues, &study.train_span())?);
            names.push(name);
        }
        let masked = mode != Mode::Clear;
        if masked && names.len() == 1 {
            eprintln!(
                "aggregate: the sum over one guest is its own data: the host sees its totals"
            );
        }
        Ok(Self { timeline: Arc::clone(study.timeline()), layout, names, rows, masked, noised })
    }

    /// The sum over all guests.
    pub(crate) fn all(&self) -> Result<SummedFleets> {
        self.sum(&self.rows.iter().collect::<Vec<_>>(), None)
    }

    /// The sums over all guests but one, for each, scaled up to what all have together.
    pub(crate) fn without_each(
        &self,
        whole: WholeFleet,
    ) -> impl Iterator<Item = Result<(&str, SummedFleets)>> {
        self.names.iter().enumerate().map(move |(absent, name)| {
            let there = self.rows.iter().enumerate().filter(|(at, _)| *at != absent);
            let there: Vec<&FleetRows> = there.map(|(_, rows)| rows).collect();
            Ok((name.as_str(), self.sum(&there, Some(whole))?))
        })
    }

    /// Bytes that leave all guests together.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rows.len() * self.timeline.held().len() * self.layout.width() * 8) as u64
    }

    fn sum(&self, guests: &[&FleetRows], whole: Option<WholeFleet>) -> Result<SummedFleets> {
        let (layout, timeline) = (self.layout, &self.timeline);
        let mode = (self.masked, self.noised);
        Ok(sum_of(layout, timeline, guests, mode)?.finish(JOINED, whole)?)
    }
}

/// Noise is drawn of totals of links: refuses it where other numbers are summed, which have none.
pub(crate) fn check_noise(policy: &Policy, columns: SumColumns, folds: usize) -> Result<()> {
    let totals = folds == 1 && columns == SumColumns::default();
    ensure!(
        policy.noise.is_none() || totals,
        "noise: found a method that sums folds, cells, turns or queue densities, expected fedtse: noise is drawn of totals of links"
    );
    Ok(())
}

fn sum_of(
    layout: SumLayout,
    timeline: &Arc<Timeline>,
    guests: &[&FleetRows],
    (masked, noised): (bool, bool),
) -> Result<FleetSum> {
    let (width, number) = (layout.width(), fixed_point()?);
    let sum = FleetSum::new(layout, timeline);
    let mut sum = if noised { sum.with_noise() } else { sum };
    let steps: Vec<Step> = timeline.steps().collect();
    for steps in steps.chunks((BLOCK / width).max(1)) {
        let words = guests.iter().map(|guest| {
            let mut row = Vec::with_capacity(steps.len() * width);
            steps.iter().for_each(|&step| guest.write(step, &mut row));
            number.encode(&row)
        });
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let total = if masked && words.len() > 1 {
            masked_sum(&words)?
        } else {
            let mut total = vec![0_u64; steps.len() * width];
            for own in &words {
                total.iter_mut().zip(own).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            }
            total
        };
        // Where the only guest is absent, nothing is summed.
        let numbers = number.decode(guests.len().max(1), &total)?;
        numbers.chunks(width).try_for_each(|row| sum.push(row))?;
    }
    Ok(sum)
}

/// Fleets, and their names guest by guest.
type FleetsAndNames<'a> = (Cow<'a, [FleetData]>, Cow<'a, [Vec<String>]>);

/// Fleets of a dataset as a model reads them, of which `fleets` are those that its file names: themselves, or what the host
/// of a sum makes of them. With them the names, guest by guest.
pub fn fleets_at_use<'a>(
    file: &'a ModelFile,
    fleets: &'a [FleetData],
) -> Result<FleetsAndNames<'a>> {
    let Some(columns) = file.sum else {
        return Ok((Cow::Borrowed(fleets), Cow::Borrowed(&file.fleets)));
    };
    let folds = file.fleets.first().map_or(0, Vec::len);
    let expected: usize = file.fleets.iter().map(Vec::len).sum();
    ensure!(
        folds > 0 && fleets.len() == expected,
        "fleets: found {}, expected {expected}",
        fleets.len()
    );
    let timeline = fleets[0].timeline();
    let layout = SumLayout::new(timeline, folds, columns);
    let steps = train_span(timeline.windows(), timeline.window());
    let guests = fleets.chunks(folds).map(|own| FleetRows::new(layout, own.to_vec(), None, &steps));
    let guests = guests.collect::<Result<Vec<_>, _>>()?;
    let all: Vec<&FleetRows> = guests.iter().collect();
    let summed = sum_of(layout, timeline, &all, (false, false))?.finish(JOINED, None)?;
    let names = summed.fleets.iter().map(|fleet| fleet.name().to_owned()).collect();
    Ok((Cow::Owned(summed.fleets), Cow::Owned(vec![names])))
}
