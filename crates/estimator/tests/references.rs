//! The references on simulated traffic, against what must hold.

mod simulated;

use estimator::{FeatureSet, Ridge, Study, TargetKind, scale_up, score};
use sensing::{Dataset, FeaturePlan, Fleets, make_features};
use simulated::simulated;
use traffic::Seconds;

#[test]
fn who_sees_every_vehicle_makes_no_error_and_who_sees_more_errs_less() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    simulated(&data, 240.0).unwrap();
    for kind in [TargetKind::Raw, TargetKind::Smooth] {
        // A fleet of everyone: the target is a feature, or the mean of six of them.
        let study = Study::open(&data, "fleet-100").unwrap();
        let test = &study.split().test;
        let exact =
            score(&study, kind, test, &scale_up(&study.observed(), &study.asked(kind, test)));
        // The same sums in another order: rounding only.
        assert!(exact.density.rmse < 1e-9 && exact.flow.rmse < 1e-9, "{exact:?}");
        let ridge = Ridge::fit(&study, kind, FeatureSet::Both, study.targets(), || {}).unwrap();
        let fitted = score(
            &study,
            kind,
            test,
            &ridge.estimate(&study.observed(), &study.asked(kind, test)).unwrap(),
        );
        // The scaled-up state is among its choices and misses nothing. Choices with a mean square below 1e-4 count alike, and others by
        // the eighth power of how much more they miss: together they err by less than the root of 1e-4.
        assert!(fitted.density.rmse < 1e-2 && fitted.flow.rmse < 1e-2, "{fitted:?}");

        // A fleet of 20 %: more features help, and the regression beats its own input.
        let study = Study::open(&data, "fleet-20").unwrap();
        let with = |party| {
            let ridge = Ridge::fit(&study, kind, party, study.targets(), || {}).unwrap();
            score(
                &study,
                kind,
                test,
                &ridge.estimate(&study.observed(), &study.asked(kind, test)).unwrap(),
            )
            .density
            .rmse
        };
        let plain =
            score(&study, kind, test, &scale_up(&study.observed(), &study.asked(kind, test)))
                .density
                .rmse;
        let (host, both) = (with(FeatureSet::Host), with(FeatureSet::Both));
        assert!(both < host && both < plain, "{both} {host} {plain}");
    }
}

#[test]
fn a_dataset_too_short_to_split_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    simulated(&data, 240.0).unwrap();
    let plan = FeaturePlan::paper(Fleets::nested(&[0.2], 1).unwrap());
    make_features(&Dataset::open(&data).unwrap(), plan, Seconds::new(14_300.0), |_, _| {}).unwrap();
    let error = Study::open(&data, "fleet-20").err().unwrap().to_string();
    assert!(error.contains("found no windows of 9 steps"), "{error}");
}

#[test]
fn fewer_samples_are_the_last_before_the_test_part() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    simulated(&data, 60.0).unwrap();
    let open = || Study::open(&data, "fleet-20").unwrap();
    let all = open().split().clone();
    let before = [&all.train[..], &all.validation[..]].concat();
    let some = open().with_samples(83).unwrap().split().clone();
    // One in eight validates: 10 of 83.
    assert_eq!((some.train.len(), some.validation.len()), (73, 10));
    assert_eq!([some.train, some.validation].concat(), before[before.len() - 83..]);
    assert_eq!(some.test, all.test);
    for found in [7, before.len() + 1] {
        let error = open().with_samples(found).err().unwrap().to_string();
        let expected = format!("samples: found {found}, expected 8 to {}", before.len());
        assert!(error.contains(&expected), "{error}");
    }
}
