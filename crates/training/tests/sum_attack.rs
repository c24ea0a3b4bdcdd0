//! What a host learns of one guest in mode `aggregate`: what the sum implies, and nothing from what the guest sends.
//!
//! The adversary knows a guest's totals of the training part from elsewhere, learns to predict them from what it sees, and is scored on the
//! test part. Eight fleets of 5 % are the guests, or halves or quarters of them together: the sum is the same for all.

#[path = "../../estimator/tests/simulated/mod.rs"]
mod simulated;

use attacks::Recovery;
use attacks::decoder::{Examples, decode};
use estimator::data::{FleetRows, SumColumns, SumLayout, train_span};
use estimator::{FleetData, Study};
use sealed::aggregate::{FixedPoint, MaskKey, Masks};
use sensing::{Dataset, FeaturePlan, Fleets, make_features};
use traffic::{Seconds, Step};

const FLEETS: usize = 8;

/// Seconds that some fleets together spend on each scored link in a step.
fn times(study: &Study, fleets: &[FleetData], step: Step) -> Vec<f64> {
    let time = |fleet: &FleetData, link| fleet.totals(step, link).time.get();
    let links = study.targets().iter();
    links.map(|&link| fleets.iter().map(|fleet| time(fleet, link)).sum()).collect()
}

/// How much of a guest's variance a decoder explains of what is seen of each step.
fn explained(
    study: &Study,
    guest: &[FleetData],
    seen: impl Fn(Step) -> Vec<f64>,
) -> Result<f64, Box<dyn std::error::Error>> {
    let (known, asked) = (&study.split().train, &study.split().test);
    let of_guest = |steps: &[Step]| -> Vec<f64> {
        steps.iter().flat_map(|&step| times(study, guest, step)).collect()
    };
    let of_seen =
        |steps: &[Step]| -> Vec<f64> { steps.iter().flat_map(|&step| seen(step)).collect() };
    let (hidden, truth) = (of_guest(known), of_guest(asked));
    let before = of_seen(known);
    let examples = Examples { count: known.len(), seen: &before, hidden: &hidden };
    let guess = decode(examples, &of_seen(asked), 300, 1)?;
    // The trivial guess: the mean of each link.
    let each = study.targets().len();
    let mean = |at: usize| hidden.iter().skip(at).step_by(each).sum::<f64>() / known.len() as f64;
    let means: Vec<f64> = (0..each).map(mean).collect();
    let trivial: Vec<f64> = truth.iter().zip(means.iter().cycle()).map(|(_, mean)| *mean).collect();
    Ok(Recovery::of(&truth, &guess, &trivial).explained)
}

#[test]
fn of_one_guest_a_host_learns_what_the_sum_implies() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    simulated::simulated(&path, 120.0)?;
    let fleets = FeaturePlan::paper(Fleets::partition(&[0.05; FLEETS], 1)?);
    make_features(&Dataset::open(&path)?, fleets, Seconds::new(600.0), |_, _| {})?;
    let names: Vec<String> = (1..=FLEETS).map(|number| format!("guest-{number}")).collect();
    let study = Study::open_fleets(&path, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let fleets = study.fleets();
    let mut found = Vec::new();
    for guests in [1, 2, 4, 8] {
        let guest = &fleets[..FLEETS / guests];
        found.push(explained(&study, guest, |step| times(&study, fleets, step))?);
    }
    println!("explained by the sum over 1, 2, 4 and 8 guests: {found:.3?}");
    // Over one guest the sum is its own data; of more, the less each is of it.
    assert!(found[0] > 0.999, "{found:?}");
    assert!(found.windows(2).all(|pair| pair[1] < pair[0]), "{found:?}");
    assert!(found[3] < found[1] / 2.0, "{found:?}");
    // What it sends itself: the masked words of a step, of which no decoder reads anything.
    let (own, layout) = (&fleets[..1], SumLayout::new(study.timeline(), 1, SumColumns::default()));
    let rows = FleetRows::new(
        layout,
        own.to_vec(),
        None,
        &train_span(&study.split().train, estimator::WINDOW),
    )?;
    let keys = [MaskKey::from_os()?, MaskKey::from_os()?];
    let members = [("a", keys[0].public()), ("b", keys[1].public())];
    let masks = Masks::agree(&keys[0], 0, &members, &[7; 32])?;
    let number = FixedPoint::new((1_u64 << 26) as f64, 30)?;
    let masked = |step: Step| -> Vec<f64> {
        let mut row = Vec::new();
        rows.write(step, &mut row);
        let mut words = number.encode(&row).expect("totals within bounds");
        masks.mask(&step.0.to_le_bytes(), &mut words);
        words.into_iter().map(|word| word as i64 as f64).collect()
    };
    let of_masked = explained(&study, own, masked)?;
    println!("explained by what the guest sends: {of_masked:.3}");
    // At most chance: an overfitted decoder is worse than the trivial guess.
    assert!(of_masked < 0.02, "{of_masked}");
    Ok(())
}
