use traffic::{LinkId, Mark, Passage, Queued, Seconds, VehicleId, VehiclePosition};

use super::*;
use crate::Fleets;
use crate::fleet::part_name;
use crate::test_roads::corridor;

fn sample(time: f64, link: u32, position: f32, speed: f32) -> VehiclePosition {
    let (vehicle, link) = (VehicleId(0), LinkId(link));
    VehiclePosition { time, vehicle, link, position, lane: 0, speed }
}

fn collect(
    samples: &[VehiclePosition],
    until: f64,
) -> Result<Vec<Vec<Passage>>, traffic::NetworkFileError> {
    let network = corridor()?;
    let mut collector = PassageCollector::new(&network, Seconds::new(5.0));
    let mut samples = samples.iter().peekable();
    for second in 0..=until as i64 {
        let time = second as f64;
        let now: Vec<VehiclePosition> =
            samples.next_if(|sample| sample.time == time).copied().into_iter().collect();
        collector.moment(Seconds::new(time), &now);
    }
    Ok(collector.into_passages())
}

/// E1 is 150 m long, E2 110 m.
#[test]
fn a_stop_at_a_signal_has_its_place_and_times() -> Result<(), traffic::NetworkFileError> {
    let mut samples: Vec<VehiclePosition> =
        (0..13).map(|t| sample(f64::from(t), 0, 10.0 * t as f32, 10.0)).collect();
    // At 120 m from 12 s on, started at 33 s, over the line from 145 to 155 m at 35.5 s.
    samples.extend((13..33).map(|t| sample(f64::from(t), 0, 120.0, 0.0)));
    samples
        .extend([(33.0, 125.0), (34.0, 135.0), (35.0, 145.0)].map(|(t, x)| sample(t, 0, x, 9.0)));
    samples.push(sample(36.0, 1, 5.0, 10.0));
    let passages = collect(&samples, 60.0)?;
    let queued = Queued {
        joined: Mark { time: 13.0, distance: 30.0 },
        released: Mark { time: 33.0, distance: 30.0 },
    };
    assert_eq!(passages[0], [Passage { entered: 0.0, left: Some(35.5), queued: Some(queued) }]);
    // Not seen any more on E2, which is not at the network's border: gone where it was.
    assert_eq!(passages[1], [Passage { entered: 35.5, left: Some(36.0), queued: None }]);
    Ok(())
}

#[test]
fn whoever_is_there_at_the_end_has_not_left() -> Result<(), traffic::NetworkFileError> {
    let samples: Vec<VehiclePosition> =
        (0..=20).map(|t| sample(f64::from(t), 0, 5.0 + t as f32, 0.5)).collect();
    let passages = collect(&samples, 20.0)?;
    assert_eq!(passages[0].len(), 1);
    assert_eq!(passages[0][0].left, None);
    // It crawled all the time: joined at once, and still not released.
    let queued = passages[0][0].queued;
    assert_eq!(queued.map(|queued| (queued.joined.time, queued.released.time)), Some((0.0, 20.0)));
    Ok(())
}

/// The intervals that features were made with come back from the names of fleets.
#[test]
fn fleets_of_a_manifest_are_those_that_were_drawn() -> Result<(), FleetError> {
    let nested = Fleets::nested(&[0.2, 0.6], 3)?.divided(&[2, 3])?;
    let partition = Fleets::partition(&[0.1, 0.3, 0.2], 3)?;
    assert!(nested.all().iter().any(|fleet| fleet.name == part_name("fleet-60", 3, 3)));
    for made in [nested, partition] {
        let entries: Vec<(&str, f64)> =
            made.all().iter().map(|fleet| (fleet.name.as_str(), fleet.rate())).collect();
        let read = Fleets::of_entries(&entries, 3, None)?;
        for (made, read) in made.all().iter().zip(read.all()) {
            // Rates are differences of borders: rounding of a few units in the last place.
            assert!((made.from - read.from).abs() < 1e-12, "{made:?} {read:?}");
            assert!((made.to - read.to).abs() < 1e-12, "{made:?} {read:?}");
        }
    }
    Ok(())
}
