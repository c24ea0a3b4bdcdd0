//! Features of a table in memory: rows of time, vehicle and place in any order.
//!
//! The same moments as a dataset of these rows would have: rows of one time belong together, a silence
//! longer than `gap` ends a recording. Rows that are in the order of time are read where they lie.

use thiserror::Error;
use traffic::{Network, Seconds};

use crate::extract::{ExtractError, ExtractReport, FeatureExtractor, FeaturePlan, StepFeatures};
use crate::features::Verdict;
use crate::journey::{Position, PositionError, is_time};
use crate::vehicles::VehicleTable;

/// Rows of a table.
pub struct Frame<'f, P> {
    /// When, in seconds since the epoch.
    pub times: &'f [f64],
    /// Who is where in a row; why it cannot be told, if so.
    pub position: P,
    /// Names and classes of the vehicles, by their numbers.
    pub vehicles: &'f VehicleTable,
    /// The longest silence within a recording.
    pub gap: Seconds,
    /// What comes before this is left out.
    pub from: Seconds,
}

/// Why a table has no features.
#[derive(Debug, Error)]
pub enum FrameError {
    /// A row that cannot be true.
    #[error("row {row}: {problem}")]
    Row {
        /// The row, from 0.
        row: usize,
        /// What is wrong.
        problem: String,
    },
    /// The plan.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// Whoever watches said so.
    #[error("features: stopped before the end")]
    Stopped,
}

/// Feeds a table to an extractor. `progress` is told the rows done and the rows in all.
pub fn extract_frame<V: Verdict>(
    network: &Network,
    plan: FeaturePlan,
    frame: &Frame<'_, impl Fn(usize) -> Result<Position, String>>,
    mut on_step: impl FnMut(&StepFeatures),
    mut progress: impl FnMut(u64, u64) -> V,
) -> Result<ExtractReport, FrameError> {
    let mut extractor = FeatureExtractor::new(network, plan)?;
    let times = frame.times;
    if let Some(row) = times.iter().position(|&time| !is_time(time)) {
        return Err(bad(row, PositionError::Time(times[row])));
    }
    let order = order(times);
    let row = |at: usize| order.as_ref().map_or(at, |order| order[at]);
    let mut moment: Vec<(Position, usize)> = Vec::new();
    let mut positions: Vec<Position> = Vec::new();
    let mut last = None::<f64>;
    let mut at = 0;
    while at < times.len() {
        let time = times[row(at)];
        let begin = at;
        moment.clear();
        while at < times.len() && times[row(at)] == time {
            let row = row(at);
            let position = (frame.position)(row);
            moment.push((position.map_err(|problem| FrameError::Row { row, problem })?, row));
            at += 1;
        }
        if time < frame.from.get() {
            continue;
        }
        // In order of number, as a dataset's are: sums are then the same to the last bit.
        moment.sort_unstable_by_key(|(position, row)| (position.vehicle, *row));
        positions.clear();
        positions.extend(moment.iter().map(|(position, _)| *position));
        if last.is_some_and(|last| time - last > frame.gap.get()) {
            extractor.end(Seconds::new(last.unwrap_or(time)), &mut on_step);
        }
        last = Some(time);
        let taken =
            extractor.positions(Seconds::new(time), &positions, frame.vehicles, &mut on_step);
        taken.map_err(|wrong| bad(moment[wrong.at].1, wrong.error))?;
        let told = begin >> 12 != at >> 12;
        if told && !progress(at as u64, times.len() as u64).should_continue() {
            return Err(FrameError::Stopped);
        }
    }
    if let Some(last) = last {
        extractor.end(Seconds::new(last), &mut on_step);
    }
    Ok(*extractor.report())
}

fn bad(row: usize, error: PositionError) -> FrameError {
    FrameError::Row { row, problem: error.to_string() }
}

/// The rows in the order of time; none if they are.
fn order(times: &[f64]) -> Option<Vec<usize>> {
    if times.is_sorted() {
        return None;
    }
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    Some(order)
}

#[cfg(test)]
mod tests {
    use traffic::{LinkId, VehicleClass, VehicleId, VehiclePosition};

    use super::*;
    use crate::dataset::{Dataset, DatasetWriter, Provenance};
    use crate::features::extract_dataset;
    use crate::fleet::Fleets;

    const GAP: Seconds = Seconds::new(30.0);

    /// Ten vehicles on the corridor's first link, 2 m/s, with a silence of 60 s in between.
    fn samples() -> (Vec<VehiclePosition>, VehicleTable) {
        let mut vehicles = VehicleTable::default();
        let mut samples = Vec::new();
        for number in 0..10_u32 {
            let vehicle = vehicles.number(&format!("v{number}"), VehicleClass::Car);
            for second in (0..30).chain(90..120) {
                samples.push(VehiclePosition {
                    time: f64::from(second),
                    vehicle,
                    link: LinkId(0),
                    position: (second % 30 * 2 + number % 3) as f32,
                    lane: 0,
                    speed: 2.0,
                });
            }
        }
        (samples, vehicles)
    }

    fn of_frame(
        samples: &[VehiclePosition],
        vehicles: &VehicleTable,
    ) -> (Vec<StepFeatures>, ExtractReport) {
        let network = traffic::corridor().expect("the corridor");
        let times: Vec<f64> = samples.iter().map(|sample| sample.time).collect();
        let position = |row: usize| {
            let VehiclePosition { vehicle, link, position: metres, .. } = samples[row];
            Ok(Position { vehicle, link, metres })
        };
        let frame = Frame { times: &times, position, vehicles, gap: GAP, from: Seconds::ZERO };
        let mut steps = Vec::new();
        let plan = FeaturePlan::paper(Fleets::nested(&[0.5], 1).expect("a fleet"));
        let on_step = |step: &StepFeatures| steps.push(step.clone());
        let report = extract_frame(&network, plan, &frame, on_step, |_, _| ()).expect("sound rows");
        (steps, report)
    }

    #[test]
    fn a_table_in_any_order_has_the_features_of_the_dataset_of_its_rows() {
        let (mut samples, vehicles) = samples();
        let by_vehicle = of_frame(&samples, &vehicles);
        samples.sort_by(|a, b| a.time.total_cmp(&b.time));
        assert_eq!(by_vehicle, of_frame(&samples, &vehicles));

        let folder = tempfile::tempdir().unwrap();
        let network = traffic::corridor().unwrap();
        let path = folder.path().join("data");
        let mut writer =
            DatasetWriter::create(&path, &network, Provenance::default(), GAP).unwrap();
        for moment in samples.chunk_by(|a, b| a.time == b.time) {
            writer.moment(Seconds::new(moment[0].time), moment).unwrap();
        }
        writer.finish(&vehicles, &[]).unwrap();
        let dataset = Dataset::open(&path).unwrap();
        let mut steps = Vec::new();
        let plan = FeaturePlan::paper(Fleets::nested(&[0.5], 1).unwrap());
        let on_step = |step: &StepFeatures| steps.push(step.clone());
        let report = extract_dataset(&dataset, plan, Seconds::ZERO, on_step, |_, _| ()).unwrap();
        assert_eq!(by_vehicle, (steps, report));
        // Twice 29 s of ten vehicles; nobody is seen in the silence, which breaks no track.
        assert_eq!(by_vehicle.1.trajectory_time, Seconds::new(580.0));
    }

    #[test]
    fn a_wrong_row_is_named_wherever_it_is() {
        let network = traffic::corridor().unwrap();
        let mut vehicles = VehicleTable::default();
        let vehicle = vehicles.number("a", VehicleClass::Car);
        let error = |times: &[f64], metres: f32| {
            let position = |_| Ok(Position { vehicle, link: LinkId(0), metres });
            let frame =
                Frame { times, position, vehicles: &vehicles, gap: GAP, from: Seconds::ZERO };
            let plan = FeaturePlan::paper(Fleets::nested(&[0.5], 1).unwrap());
            extract_frame(&network, plan, &frame, |_| (), |_, _| ()).unwrap_err().to_string()
        };
        assert!(error(&[1.0, f64::NAN], 1.0).contains("row 1: time: found NaN"));
        assert!(error(&[3.0, 1.0], -5.0).contains("row 1: position: found -5"));
        // The same vehicle twice at one time.
        assert!(error(&[1.0, 1.0], 1.0).starts_with("row 1: "));
        let unknown = VehicleId(7);
        let position = |_| Ok(Position { vehicle: unknown, link: LinkId(0), metres: 1.0 });
        let frame =
            Frame { times: &[1.0], position, vehicles: &vehicles, gap: GAP, from: Seconds::ZERO };
        let plan = FeaturePlan::paper(Fleets::nested(&[0.5], 1).unwrap());
        let error = extract_frame(&network, plan, &frame, |_| (), |_, _| ()).unwrap_err();
        assert!(error.to_string().starts_with("row 0: vehicle"), "{error}");
    }
}
