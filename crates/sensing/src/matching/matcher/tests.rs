use proptest::prelude::*;
use traffic::{GridPlan, LatLon, LinkId, VehicleClass, corridor, grid, point_along};

use super::*;
use crate::matching::{MatchReport, TrackPoint, accuracy};

const VEHICLE: VehicleId = VehicleId(7);

fn city() -> Network {
    grid(GridPlan { rows: 4, columns: 4, ..GridPlan::default() }).unwrap()
}

fn link(network: &Network, name: &str) -> LinkId {
    network.link_named(name).unwrap()
}

fn track_of(network: &Network, points: impl IntoIterator<Item = (f64, Point)>) -> Track {
    let plane = network.plane().unwrap();
    let point = |(time, point)| TrackPoint { time, place: plane.place(point), speed: None };
    Track {
        name: "7".into(),
        class: VehicleClass::Car,
        points: points.into_iter().map(point).collect(),
    }
}

fn match_it(network: &Network, track: &Track) -> MatchedTrack {
    let matcher = Matcher::new(network, MatchParameters::default()).unwrap();
    matcher.match_track(track, VEHICLE, &mut MatchScratch::default())
}

/// Drives along links at constant speed, one place a second, from 30 m after the start of the first
/// to 30 m before the end of the last.
fn drive(network: &Network, route: &[LinkId], speed: f64) -> Vec<VehiclePosition> {
    let whole: f64 = route.iter().map(|&link| network.link(link).length.get()).sum();
    let mut samples = Vec::new();
    let mut driven = 30.0;
    while driven < whole - 30.0 {
        let mut position = driven;
        let mut at = 0;
        while position >= network.link(route[at]).length.get() {
            position -= network.link(route[at]).length.get();
            at += 1;
        }
        samples.push(VehiclePosition {
            time: samples.len() as f64,
            vehicle: VEHICLE,
            link: route[at],
            position: position as f32,
            lane: 0,
            speed: speed as f32,
        });
        driven += speed;
    }
    samples
}

/// The places of samples, each moved by what `error` gives.
fn places(
    network: &Network,
    samples: &[VehiclePosition],
    mut error: impl FnMut() -> [f64; 2],
) -> Track {
    let points = samples.iter().map(|sample| {
        let link = network.link(sample.link);
        let share = f64::from(sample.position) / link.length.get();
        let point = point_along(&link.shape, share).unwrap();
        let [x, y] = error();
        (sample.time, Point { x: point.x + x, y: point.y + y })
    });
    track_of(network, points)
}

fn exact() -> [f64; 2] {
    [0.0; 2]
}

/// White noise of a standard deviation: sums of twelve uniform numbers (SplitMix64).
fn noise(sigma: f64, seed: u64) -> impl FnMut() -> [f64; 2] {
    let mut random = seeded::SplitMix64::new(seed);
    move || [(); 2].map(|()| sigma * ((0..12).map(|_| random.next_f64()).sum::<f64>() - 6.0))
}

/// A random route of some links from a random entry.
fn random_route(network: &Network, choices: &[usize]) -> Vec<LinkId> {
    let entries: Vec<LinkId> = network.entries().collect();
    let mut route = vec![entries[choices[0] % entries.len()]];
    for choice in &choices[1..] {
        let turns = network.outgoing(*route.last().unwrap());
        if turns.is_empty() {
            break;
        }
        route.push(network.turn(turns[choice % turns.len()]).to);
    }
    route
}

fn only_part(matched: &MatchedTrack) -> &[VehiclePosition] {
    assert_eq!(matched.parts.len(), 1, "{:?}", matched.report);
    &matched.parts[0]
}

proptest! {
    /// Without noise the true links come out, and the true positions.
    #[test]
    fn an_exact_track_is_matched_exactly(
        choices in proptest::collection::vec(0usize..1000, 2..12),
        speed in 4.0..14.0f64,
    ) {
        let city = city();
        let truth = drive(&city, &random_route(&city, &choices), speed);
        let matched = match_it(&city, &places(&city, &truth, exact));
        prop_assert_eq!(matched.parts.len(), 1);
        prop_assert_eq!(matched.parts[0].len(), truth.len());
        for (found, real) in matched.parts[0].iter().zip(&truth) {
            // Degrees and back: 1e-9 m; positions in single precision: 1e-5 m. Within a centimetre
            // of a border either link is right.
            let length = city.link(real.link).length.get() as f32;
            let at_border = real.position.min(length - real.position) < 0.01;
            prop_assert!(found.link == real.link || at_border, "{found:?} {real:?}");
            prop_assert!(at_border || (found.position - real.position).abs() < 1e-3);
            prop_assert_eq!(found.time, real.time);
        }
    }

    /// Whatever the places, nothing panics, and what comes out makes sense.
    #[test]
    fn any_places_give_forward_motion(
        steps in proptest::collection::vec((-400.0..400.0f64, -400.0..400.0f64, -1.0..90.0f64), 0..40),
        scale in prop_oneof![Just(0.05), Just(0.2), Just(1.0), Just(f64::NAN)],
    ) {
        let city = city();
        let (mut at, mut time) = (Point { x: 200.0, y: 200.0 }, 0.0);
        let track = track_of(&city, steps.iter().map(|&(x, y, duration)| {
            at = Point { x: at.x + scale * x, y: at.y + scale * y };
            time += duration * scale.min(1.0);
            (time, at)
        }));
        let matched = match_it(&city, &track);
        let report = matched.report;
        prop_assert_eq!(report.points, track.points.len());
        prop_assert_eq!(report.matched_points, matched.parts.iter().map(Vec::len).sum::<usize>());
        for part in &matched.parts {
            check_forward(&city, part)?;
        }
        if track.points.len() > report.matched_points {
            // What is not matched has a reason, and the reasons have the rest of the way and the time.
            let reasons: Vec<_> =
                Unmatched::ALL.iter().filter_map(|&why| report.unmatched(why)).collect();
            prop_assert!(!reasons.is_empty());
            let seconds: f64 = reasons.iter().map(|reason| reason.seconds.get()).sum();
            let rest = (report.total().seconds - report.matched.seconds).get();
            prop_assert!((seconds - rest).abs() <= 1e-6 * (1.0 + rest.abs()), "{} {}", seconds, rest);
        }
    }

    /// Noise up to σ: still forward, whatever is matched.
    #[test]
    fn noise_never_drives_back(seed in any::<u64>(), sigma in 0.0..5.0f64) {
        let city = city();
        let route = random_route(&city, &[seed as usize % 16, 0, 1, 2, 0]);
        let truth = drive(&city, &route, 3.0);
        let matched = match_it(&city, &places(&city, &truth, noise(sigma, seed)));
        for part in &matched.parts {
            check_forward(&city, part)?;
        }
    }
}

/// Positions lie on their links and never decrease; links follow one another.
fn check_forward(network: &Network, part: &[VehiclePosition]) -> Result<(), TestCaseError> {
    for sample in part {
        let length = network.link(sample.link).length.get() as f32;
        prop_assert!((0.0..=length).contains(&sample.position));
        prop_assert!(sample.speed >= 0.0);
    }
    for pair in part.windows(2) {
        prop_assert!(pair[0].time < pair[1].time);
        if pair[0].link == pair[1].link && pair[0].position > pair[1].position {
            // Once around the block, which takes more than three blocks of 150 m.
            let time = pair[1].time - pair[0].time;
            prop_assert!(time * MatchParameters::default().max_speed.get() > 400.0);
        }
        prop_assert!(network.path(pair[0].link, pair[1].link, 12).is_some());
    }
    Ok(())
}

#[test]
fn noise_of_sigma_leaves_most_places_on_the_right_link() {
    let city = city();
    let parameters = MatchParameters::default();
    let matcher = Matcher::new(&city, parameters).unwrap();
    let mut scratch = MatchScratch::default();
    let (mut truth, mut found) = (Vec::new(), Vec::new());
    for number in 0..100u32 {
        let choices: Vec<usize> = (0..8).map(|i| (number as usize * 7 + i * 13) % 31).collect();
        let mut real = drive(&city, &random_route(&city, &choices), 10.0);
        real.iter_mut().for_each(|sample| sample.vehicle = VehicleId(number));
        let track = places(&city, &real, noise(parameters.sigma.get(), u64::from(number)));
        let matched = matcher.match_track(&track, VehicleId(number), &mut scratch);
        found.extend(matched.parts.into_iter().flatten());
        truth.extend(real);
    }
    let accuracy = accuracy(&city, &truth, &found).unwrap();
    // A place is 4 m off (mean 3.2 m along the road) and steps are 10 m: about a third of a place
    // is wrong at each border of links with 15 places, 2 %. Beyond that, turns may be mistaken.
    assert!(accuracy.right_link > 0.95, "{accuracy:?}");
    assert!(accuracy.median_error.get() < parameters.sigma.get(), "{accuracy:?}");
}

#[test]
fn the_direction_decides_between_the_sides_of_a_street() {
    let city = city();
    for route in [["-1_1-0_1", "0_1-1_1", "1_1-2_1"], ["2_1-1_1", "1_1-0_1", "0_1--1_1"]] {
        let route = route.map(|name| link(&city, name));
        let truth = drive(&city, &route, 9.0);
        let matched = match_it(&city, &places(&city, &truth, noise(2.0, 1)));
        let links: Vec<LinkId> = only_part(&matched).iter().map(|sample| sample.link).collect();
        let mut passed = links.clone();
        passed.dedup();
        assert_eq!(passed, route);
    }
}

#[test]
fn a_gap_cuts_the_track_and_both_sides_are_matched() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1", "1_1-2_1", "2_1-3_1"].map(|name| link(&city, name));
    let mut truth = drive(&city, &route, 10.0);
    truth.iter_mut().skip(25).for_each(|sample| sample.time += 120.0);
    let matched = match_it(&city, &places(&city, &truth, exact));
    let lengths: Vec<usize> = matched.parts.iter().map(Vec::len).collect();
    assert_eq!(lengths, [25, truth.len() - 25]);
    let gap = matched.report.unmatched(Unmatched::TimeGap).unwrap();
    assert_eq!(gap.seconds, Seconds::new(121.0));
    // All but the gap of one step is matched: 540 m in steps of 10 m.
    assert!((gap.metres.get() - 10.0).abs() < 1e-6);
    assert!((matched.report.matched.metres.get() - 520.0).abs() < 1e-6);
}

#[test]
fn a_jump_cuts_the_track() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1", "1_1-2_1"].map(|name| link(&city, name));
    let mut truth = drive(&city, &route, 10.0);
    truth.drain(10..30);
    for (index, sample) in truth.iter_mut().enumerate() {
        sample.time = index as f64;
    }
    let matched = match_it(&city, &places(&city, &truth, exact));
    let lengths: Vec<usize> = matched.parts.iter().map(Vec::len).collect();
    assert_eq!(lengths, [10, truth.len() - 10], "every place is matched on either side");
    // 21 steps of 10 m in one second: faster than anybody drives.
    let jump = matched.report.unmatched(Unmatched::Jump).unwrap();
    assert_eq!(jump.seconds, Seconds::new(1.0));
    assert!((jump.metres.get() - 210.0).abs() < 1e-6, "{jump:?}");
}

#[test]
fn a_detour_off_the_network_is_left_out_by_reason() {
    let city = city();
    // Along the street of y = 150 m, then 60 m to the north into the middle of the block, and back.
    let at = |x: f64, y: f64| Point { x, y };
    let corners = [
        at(20.0, 150.0),
        at(220.0, 150.0),
        at(220.0, 220.0),
        at(240.0, 220.0),
        at(240.0, 150.0),
        at(420.0, 150.0),
    ];
    let mut path = Vec::new();
    for pair in corners.windows(2) {
        let steps = (pair[0].distance(pair[1]) / 5.0).round();
        path.extend((0..steps as usize).map(|i| pair[0].towards(pair[1], i as f64 / steps)));
    }
    let track = track_of(&city, path.iter().enumerate().map(|(i, &point)| (i as f64, point)));
    let matched = match_it(&city, &track);
    assert_eq!(matched.parts.len(), 2);
    let street: Vec<&str> =
        matched.parts.iter().flatten().map(|sample| city.link(sample.link).name.as_str()).collect();
    assert!(
        street.iter().all(|name| ["0_1-1_1", "1_1-2_1", "2_1-3_1"].contains(name)),
        "{street:?}"
    );
    let off = matched.report.unmatched(Unmatched::NoLinkNearby).unwrap();
    // Of the 160 m of detour, 2 × 35 m lie within the radius of 35 m; decisions are 10 m apart.
    assert!((off.metres.get() - 90.0).abs() < 25.0, "{off:?}");
    let total = matched.report.total().metres.get();
    assert!((total - 540.0).abs() < 10.0, "{total}");
}

#[test]
fn standing_with_noise_is_standing() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1", "1_1-2_1"].map(|name| link(&city, name));
    let driving = drive(&city, &route, 10.0);
    let mut truth = Vec::new();
    for (index, sample) in driving.iter().enumerate() {
        // Three minutes in the middle of the second link: longer than the longest gap.
        let repeats = if index == 20 { 180 } else { 1 };
        truth.extend((0..repeats).map(|_| *sample));
    }
    for (index, sample) in truth.iter_mut().enumerate() {
        sample.time = index as f64;
    }
    let matched = match_it(&city, &places(&city, &truth, noise(3.0, 5)));
    let part = only_part(&matched);
    for (found, real) in part.iter().zip(&truth).skip(25).take(150) {
        assert_eq!(found.link, real.link);
        // Noise of 3 m averaged over the stop; single places would be off by 9 m at times.
        assert!((found.position - real.position).abs() < 3.0);
    }
    // It moved less than 7 m during the stop, though its places wandered hundreds.
    assert!(part[170].position - part[30].position < 7.0);
}

#[test]
fn a_red_light_is_spent_before_the_stop_line() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1", "1_1-2_1"].map(|name| link(&city, name));
    let mut truth = drive(&city, &route[..2], 10.0);
    let at_line = VehiclePosition { position: 149.0, ..truth[truth.len() - 1] };
    truth.extend([at_line; 60]);
    truth.extend(drive(&city, &route[2..], 10.0));
    for (index, sample) in truth.iter_mut().enumerate() {
        sample.time = index as f64;
    }
    // All places 2 m too far east: while it waits it seems to be 1 m inside the junction.
    let matched = match_it(&city, &places(&city, &truth, || [2.0, 0.0]));
    let waiting = &only_part(&matched)[25..83];
    assert!(waiting.iter().all(|sample| sample.link == route[1]), "{waiting:?}");
}

#[test]
fn turning_round_in_the_street_starts_anew_on_the_other_side() {
    let city = city();
    let east = [link(&city, "0_1-1_1"), link(&city, "1_1-2_1")];
    let there = drive(&city, &east, 8.0);
    let mut track = places(&city, &there, exact);
    let back: Vec<TrackPoint> = track.points.iter().rev().skip(1).copied().collect();
    track.points.extend(back);
    for (index, point) in track.points.iter_mut().enumerate() {
        point.time = index as f64;
    }
    let matched = match_it(&city, &track);
    assert_eq!(matched.parts.len(), 2, "{:?}", matched.report);
    let name = |sample: &VehiclePosition| city.link(sample.link).name.clone();
    assert_eq!(name(&matched.parts[0][0]), "0_1-1_1");
    assert_eq!(name(matched.parts[1].last().unwrap()), "1_1-0_1");
    // What is lost: falling back 15 m, and a decision's spacing.
    let matched_share = matched.report.matched.metres / matched.report.total().metres;
    assert!(matched_share > 0.85, "{:?}", matched.report);
}

#[test]
fn driving_against_a_one_way_street_is_told() {
    let corridor = corridor().unwrap();
    let route = ["E3", "E4", "E5"].map(|name| link(&corridor, name));
    let mut track = places(&corridor, &drive(&corridor, &route, 8.0), exact);
    let times: Vec<f64> = track.points.iter().map(|point| point.time).collect();
    track.points.reverse();
    track.points.iter_mut().zip(times).for_each(|(point, time)| point.time = time);
    let matched = match_it(&corridor, &track);
    let against = matched.report.unmatched(Unmatched::AgainstDirection).unwrap();
    // Short side streets may take a piece near a junction.
    let share = against.metres / matched.report.total().metres;
    assert!(share > 0.8, "{:?}", matched.report);
}

#[test]
fn parked_and_short_tracks_are_told_apart() {
    let city = city();
    let stand = |seconds: usize| {
        track_of(&city, (0..seconds).map(|time| (time as f64, Point { x: 70.0, y: 152.0 })))
    };
    let why = |track: &Track, why| match_it(&city, track).report.unmatched(why);
    assert_eq!(why(&stand(100), Unmatched::Standing).unwrap().seconds, Seconds::new(99.0));
    assert_eq!(why(&stand(5), Unmatched::TooShort).unwrap().seconds, Seconds::new(4.0));
    assert_eq!(why(&stand(1), Unmatched::TooShort), Some(Extent::default()));
    assert_eq!(match_it(&city, &stand(0)), MatchedTrack::default());
    let far = track_of(
        &city,
        (0..50).map(|i| (f64::from(i), Point { x: 5000.0 + f64::from(i) * 9.0, y: 0.0 })),
    );
    assert!((why(&far, Unmatched::NoLinkNearby).unwrap().metres.get() - 441.0).abs() < 1e-6);
}

#[test]
fn lanes_are_told_from_the_side() {
    let corridor = corridor().unwrap();
    let route = [link(&corridor, "E1"), link(&corridor, "E2")];
    let truth = drive(&corridor, &route, 10.0);
    // Unit vector to the left of the street's bearing.
    let shape = &corridor.link(route[0]).shape;
    let length = shape[0].distance(shape[1]);
    let left = [-(shape[1].y - shape[0].y) / length, (shape[1].x - shape[0].x) / length];
    for (lane, offset) in [(0, -6.4), (2, 0.0), (4, 6.4)] {
        let matched = match_it(&corridor, &places(&corridor, &truth, || left.map(|l| l * offset)));
        assert!(only_part(&matched).iter().all(|sample| sample.lane == lane), "lane {lane}");
    }
}

#[test]
fn what_was_matched_before_does_not_matter() {
    let city = city();
    let matcher = Matcher::new(&city, MatchParameters::default()).unwrap();
    let mut used = MatchScratch::default();
    for number in 0..20u64 {
        let route = random_route(&city, &[number as usize, 1, number as usize, 2]);
        let track = places(&city, &drive(&city, &route, 7.0), noise(3.0, number));
        assert_eq!(
            matcher.match_track(&track, VEHICLE, &mut used),
            matcher.match_track(&track, VEHICLE, &mut MatchScratch::default())
        );
    }
}

#[test]
fn speed_comes_from_the_way_where_the_source_has_none() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1"].map(|name| link(&city, name));
    let matched = match_it(&city, &places(&city, &drive(&city, &route, 6.5), exact));
    for sample in only_part(&matched) {
        assert!((sample.speed - 6.5).abs() < 1e-3);
    }
}

#[test]
fn a_single_place_stands_if_it_is_wanted_at_all() {
    let city = city();
    let parameters = MatchParameters { min_extent: Metres::ZERO, ..MatchParameters::default() };
    let matcher = Matcher::new(&city, parameters).unwrap();
    let track = track_of(&city, [(5.0, Point { x: 70.0, y: 150.0 })]);
    let matched = matcher.match_track(&track, VEHICLE, &mut MatchScratch::default());
    assert_eq!(only_part(&matched)[0].speed, 0.0);
}

#[test]
fn bad_parameters_and_networks_without_a_place_are_refused() {
    let city = city();
    let refuse = |parameters| Matcher::new(&city, parameters).err().unwrap().to_string();
    let parameters = MatchParameters::default();
    assert_eq!(
        refuse(MatchParameters { sigma: Metres::new(f64::NAN), ..parameters }),
        "matching: sigma: found NaN m, expected more than 0 m, at most 100 km"
    );
    assert_eq!(
        refuse(MatchParameters { max_candidates: 0, ..parameters }),
        "matching: max_candidates: found 0, expected 1 to 1000"
    );
    let mut parts = city.clone().into_parts();
    parts.origin = None;
    let nowhere = Network::new(parts).unwrap();
    let error = Matcher::new(&nowhere, parameters).err().unwrap().to_string();
    assert!(error.contains("has no origin"), "{error}");
}

#[test]
fn reports_add_up() {
    let city = city();
    let route = ["-1_1-0_1", "0_1-1_1"].map(|name| link(&city, name));
    let whole = match_it(&city, &places(&city, &drive(&city, &route, 10.0), exact)).report;
    let parked = match_it(
        &city,
        &track_of(&city, (0..40).map(|t| (f64::from(t), Point { x: 70.0, y: 150.0 }))),
    );
    let mut one = MatchReport::default();
    one.add(&whole);
    one.add(&parked.report);
    assert_eq!((one.tracks, one.whole_tracks, one.partly_tracks), (2, 1, 0));
    assert_eq!(one.points, one.matched_points + 40);
    assert_eq!(one.unmatched.len(), 1);
    assert_eq!(one.unmatched[0].why, Unmatched::Standing);
    assert_eq!(one.total.seconds, one.matched.seconds + Seconds::new(39.0));
    let json = serde_json::to_value(&one).unwrap();
    assert_eq!(json["unmatched"][0]["why"], "standing");
    assert_eq!(json["unmatched"][0]["seconds"], 39.0);
    assert!(one.to_string().contains("standing"), "{one}");
}

#[test]
fn accuracy_counts_what_is_missing_as_wrong() {
    let city = city();
    let route = [link(&city, "-1_1-0_1"), link(&city, "0_1-1_1")];
    let truth = drive(&city, &route, 10.0);
    let mut found = truth.clone();
    found.truncate(truth.len() - 1);
    found.iter_mut().for_each(|sample| sample.position += 0.5);
    let accuracy = accuracy(&city, &truth, &found).unwrap();
    assert_eq!((accuracy.points, accuracy.matched), (truth.len(), truth.len() - 1));
    assert_eq!(accuracy.right_link, (truth.len() - 1) as f64 / truth.len() as f64);
    assert!((accuracy.median_error.get() - 0.5).abs() < 1e-4);
    assert_eq!(crate::matching::accuracy(&city, &[], &found), None);
}

#[test]
fn places_beyond_the_poles_do_no_harm() {
    let city = city();
    let mut track = places(&city, &drive(&city, &[link(&city, "0_1-1_1")], 5.0), exact);
    track.points[5].place = LatLon { lat: f64::INFINITY, lon: f64::NAN };
    let matched = match_it(&city, &track);
    assert!(matched.report.matched_points < track.points.len());
}
