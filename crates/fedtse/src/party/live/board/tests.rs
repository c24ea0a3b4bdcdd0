use super::*;

fn published(step: i64, guest: Participation) -> Published {
    Published {
        step: Step(step),
        guests: BTreeMap::from([(PartyId::new("fleet-a").unwrap(), guest)]),
        ended: Instant::now(),
        latency: Duration::from_millis(1500),
    }
}

#[test]
fn steps_without_an_estimate_are_counted() {
    let board = Board::new(Duration::from_secs(60));
    assert!(board.trouble().is_some());
    for (step, guest) in
        [(7, Participation::In), (8, Participation::Late), (11, Participation::Absent)]
    {
        board.note(published(step, guest));
    }
    assert!(board.trouble().is_none());
    let shown = board.shown().clone();
    assert_eq!((shown.estimates, shown.complete, shown.missed), (3, 1, 2));
    let text = board.prometheus();
    let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(values.contains(&"fedtse_live_missed_steps_total 2"), "{text}");
    assert!(values.contains(&"fedtse_live_latency_seconds{quantile=\"0.5\"} 1.5"), "{text}");
}
