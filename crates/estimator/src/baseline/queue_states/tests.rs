use std::path::Path;

use sensing::{DatasetWriter, FeaturePlan, Fleets, Provenance, VehicleTable, make_features};
use traffic::{PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

use super::*;
use crate::baseline::scale_up::scale_up;
use crate::metrics::score;
use crate::{Study, TargetKind};

/// An hour and a half of the built-in world with a fleet of 20 %.
fn simulate(folder: &Path) {
    let network = corridor().expect("the corridor");
    let until = Seconds::new(5400.0);
    let demand = corridor_demand(&network).expect("its demand");
    let departures: Vec<_> = demand.departures(&network, 1, until).collect();
    let mut vehicles = VehicleTable::default();
    for departure in &departures {
        vehicles.number(&format!("v{}", departure.vehicle.0), departure.class);
    }
    let plan = SimulationPlan { until, ..SimulationPlan::default() };
    let mut world = Simulation::new(&network, plan, departures).expect("sound test data");
    let provenance = Provenance { epoch: "simulation start".into(), ..Provenance::default() };
    let mut writer = DatasetWriter::create(folder, &network, provenance, Seconds::new(60.0))
        .expect("sound test data");
    let mut moment = Vec::new();
    while let Some(time) = world.next_moment(&mut moment).expect("sound test data") {
        writer.moment(time, &moment).expect("sound test data");
    }
    writer.finish(&vehicles, &[]).expect("sound test data");
    let dataset = Dataset::open(folder).expect("sound test data");
    let features = FeaturePlan::paper(Fleets::nested(&[0.2], 1).expect("sound test data"));
    make_features(&dataset, features, Seconds::new(300.0), |_, _| ()).expect("sound test data");
}

#[test]
fn profiles_beat_scale_up_without_knowing_the_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    simulate(folder.path());
    let study = Study::open(folder.path(), "fleet-20").expect("sound test data");
    let windows = study.windows().to_vec();
    let scaled = scale_up(&study.observed(), &study.asked(TargetKind::Raw, &windows));
    let scaled = score(&study, TargetKind::Raw, &windows, &scaled);
    for knowledge in [QueueKnowledge::Fleet, QueueKnowledge::FleetAndHost] {
        let states = QueueStates::read(folder.path(), "fleet-20", knowledge).expect("states");
        // A few hundred stops in an hour and a half; and the loops count nearly all vehicles.
        let rate = states.report().share.used;
        assert!((rate / 0.2 - 1.0).abs() < 0.25, "{knowledge:?}: {rate}");
        assert!(states.report().failed == 0 && states.report().cycles > 500);
        let estimates = states.estimate(&study.asked(TargetKind::Raw, &windows));
        let by_queues = score(&study, TargetKind::Raw, &windows, &estimates);
        // On SUMO's corridor half the error of scale-up; two thirds leave room for chance.
        let (density, flow) = (by_queues.density.rmse, by_queues.flow.rmse);
        assert!(density < 0.67 * scaled.density.rmse, "{density} of {}", scaled.density.rmse);
        assert!(flow < 0.8 * scaled.flow.rmse, "{flow} of {}", scaled.flow.rmse);
        let (mut squares, mut variances, mut fallbacks) = (0.0, 0.0, 0);
        for &step in &windows {
            for &link in study.targets() {
                let state = states.state(step, link);
                assert!(state.density_variance > 0.0 && state.density_variance.is_finite());
                assert!(state.flow_variance > 0.0 && state.flow_variance.is_finite());
                let truth = study.target(TargetKind::Raw, step, link).density;
                squares += (state.state.density - truth).get().powi(2);
                variances += state.density_variance;
                fallbacks += usize::from(state.origin == Origin::Fallback);
            }
        }
        // Variances are those of counts and relations: right within a factor of three.
        let ratio = squares / variances;
        assert!((1.0 / 3.0..3.0).contains(&ratio), "{ratio}");
        assert!(fallbacks < windows.len() * study.targets().len() / 2);
    }
}

#[test]
fn without_hindsight_a_step_is_told_by_what_was_seen_by_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    simulate(folder.path());
    let study = Study::open(folder.path(), "fleet-20").expect("sound test data");
    // Steps at all times of the cycle of 90 s.
    let windows: Vec<Step> = study.windows().iter().copied().step_by(4).collect();
    let scaled = scale_up(&study.observed(), &study.asked(TargetKind::Raw, &windows));
    let scaled = score(&study, TargetKind::Raw, &windows, &scaled);
    for knowledge in [QueueKnowledge::Fleet, QueueKnowledge::FleetAndHost] {
        let mut queues =
            LiveQueues::read_union(folder.path(), &["fleet-20"], knowledge).expect("queues");
        let (estimates, report) =
            queues.estimate(&study.asked(TargetKind::Raw, &windows)).expect("estimates");
        assert!(report.failed == 0 && report.cycles == windows.len() * study.targets().len());
        let by_queues = score(&study, TargetKind::Raw, &windows, &estimates);
        let (density, flow) = (by_queues.density.rmse, by_queues.flow.rmse);
        assert!(density < 0.8 * scaled.density.rmse, "{density} of {}", scaled.density.rmse);
        assert!(flow < 0.9 * scaled.flow.rmse, "{flow} of {}", scaled.flow.rmse);
        // Smooth targets are means of the same states.
        let last = &windows[windows.len() - 1..];
        let (smooth, _) =
            queues.estimate(&study.asked(TargetKind::Smooth, last)).expect("estimates");
        let link = study.targets()[0];
        let states = (last[0].0 - 5..=last[0].0)
            .map(|step| queues.state(Step(step), link).expect("a state").0.state.density.get());
        assert_eq!(smooth[0].density.get(), states.sum::<f64>() / 6.0);
        // Nothing changes if the recording ends with the step.
        for &step in windows.iter().step_by(windows.len() / 5) {
            let of = |queues: &LiveQueues, link: LinkId| queues.state(step, link).expect("a state");
            let known = study.targets().iter().map(|&link| of(&queues, link)).collect::<Vec<_>>();
            queues.forget_after(step);
            let then = study.targets().iter().map(|&link| of(&queues, link)).collect::<Vec<_>>();
            assert_eq!(known, then, "{knowledge:?}, {step:?}");
            queues =
                LiveQueues::read_union(folder.path(), &["fleet-20"], knowledge).expect("queues");
        }
    }
}

#[test]
fn the_plan_of_a_link_opens_its_lanes_in_green() {
    let network = corridor().expect("the corridor");
    let named = |name: &str| network.link_named(name).expect("a link of the corridor");
    // J1: green for E1 from 0 to 46 s, yellow to 49 s, of 90 s; slots of 5 s.
    let LinkPlan { timing, open } =
        planned(&network, named("E1")).expect("a plan").expect("a signal");
    assert!(timing.cycle == 90.0 && timing.green.rem_euclid(90.0) < 1.0, "{timing:?}");
    let open = open.expect("one cycle");
    assert_eq!(open.len(), 18);
    assert!(open[..9].iter().all(|&share| share == 1.0) && open[10..].iter().all(|&s| s == 0.0));
    // From 45 to 50 s four seconds of five, looked at each half second.
    assert!((open[9] - 0.8).abs() < 0.11, "{}", open[9]);
    // Free to go, in the time of the junction before.
    let LinkPlan { timing, open } =
        planned(&network, named("off_R1")).expect("a plan").expect("a time");
    assert!(timing.cycle == 90.0 && open.is_none());
}

#[test]
fn a_fleet_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = QueueStates::read(folder.path(), "fleet-20", QueueKnowledge::Fleet);
    assert!(missing.is_err_and(|error| error.to_string().contains("network.toml")));
}

/// As games have them that wait for a click: such a plan says nothing, and nothing fails.
#[test]
fn plans_that_never_turn_are_left_out() {
    let corridor = corridor().expect("the corridor");
    let mut parts = corridor.parts().clone();
    for signal in &mut parts.signals {
        signal.phases[0].duration = Seconds::new(20_000.0);
    }
    let network = traffic::Network::new(parts).expect("a network");
    let plans = |network: &traffic::Network| {
        network
            .link_ids()
            .filter(|&link| planned(network, link).expect("a plan or none").is_some())
            .count()
    };
    assert!(plans(&corridor) > 10);
    assert_eq!(plans(&network), 0);
}
