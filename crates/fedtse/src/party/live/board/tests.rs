use traffic::{VehPerKmLane, VehPerMinLane};

use super::*;

fn published(step: i64, guest: Participation) -> Published {
    let state = |density, flow| LinkState {
        density: VehPerKmLane::new(density),
        flow: VehPerMinLane::new(flow),
    };
    Published {
        step: Step(step),
        states: vec![state(20.0, 10.0), state(0.0, 0.0)],
        guests: BTreeMap::from([(PartyId::new("fleet-a").unwrap(), guest)]),
        ended: Instant::now(),
        latency: Duration::from_millis(1500),
    }
}

#[test]
fn an_estimate_says_its_units_age_and_participants() {
    let links = vec!["E1".to_owned(), "E2".to_owned()];
    let board = Board::new(links, 10.0, TargetKind::Smooth, Duration::from_secs(60));
    assert!(board.latest().is_none() && board.trouble().is_some());
    let mut stream = board.subscribe();
    board.publish(published(7, Participation::In));
    assert!(board.trouble().is_none());
    let latest = board.latest().unwrap();
    assert_eq!(
        (&latest["step"], &latest["begin_s"], &latest["end_s"]),
        (&json!(7), &json!(70.0), &json!(80.0))
    );
    // 10 veh/min over 20 veh/km is 0.5 km/min; the conversions round four times.
    let first = &latest["links"][0];
    assert!((first["speed"].as_f64().unwrap() - 30.0).abs() < 4.0 * 30.0 * f64::EPSILON, "{first}");
    assert_eq!((&first["link"], &first["density"]), (&json!("E1"), &json!(20.0)));
    assert_eq!(latest["links"][1]["speed"], Value::Null);
    assert_eq!(latest["participants"], json!({"fleet-a": "in"}));
    assert_eq!((&latest["complete"], &latest["latency_s"]), (&json!(true), &json!(1.5)));
    let event = stream.try_recv().unwrap();
    let event = std::str::from_utf8(&event).unwrap();
    assert!(event.starts_with("id: 7\nevent: estimate\ndata: {") && event.ends_with("}\n\n"));
}

#[test]
fn steps_without_an_estimate_are_counted() {
    let board = Board::new(Vec::new(), 10.0, TargetKind::Raw, Duration::from_secs(60));
    for (step, guest) in
        [(7, Participation::In), (8, Participation::Late), (11, Participation::Absent)]
    {
        board.publish(published(step, guest));
    }
    let shown = board.shown().clone();
    assert_eq!((shown.estimates, shown.complete, shown.missed), (3, 1, 2));
    let text = board.prometheus();
    let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(values.contains(&"fedtse_live_missed_steps_total 2"), "{text}");
    assert!(values.contains(&"fedtse_live_latency_seconds{quantile=\"0.5\"} 1.5"), "{text}");
}
