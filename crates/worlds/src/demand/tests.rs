use std::collections::HashMap;

use traffic::{GridPlan, LinkId, grid};

use super::*;
use crate::departure::Departure;

const DAY: Seconds = Seconds::new(810.0 * 60.0);

fn corridor() -> (Network, Demand) {
    let network = traffic::corridor().unwrap();
    let demand = corridor_demand(&network).unwrap();
    (network, demand)
}

fn departures(seed: u64) -> Vec<Departure> {
    let (network, demand) = corridor();
    demand.departures(&network, seed, DAY).collect()
}

fn edited(from: &str, to: &str) -> Result<Demand, DemandError> {
    let text = include_str!("../../../../networks/corridor-demand.toml");
    assert!(text.contains(from), "{from}");
    Demand::parse(&text.replacen(from, to, 1), &traffic::corridor().unwrap())
}

#[test]
fn flows_are_the_stated_means() {
    let (network, demand) = corridor();
    let hours = DAY.get() / 3600.0;
    let mut counts = vec![0.0; network.links().len()];
    let seeds = 8;
    for seed in 0..seeds {
        for departure in departures(seed) {
            for link in departure.route.iter() {
                counts[link.index()] += 1.0;
            }
        }
    }
    // The noise of an entry has spread 0.08 and memory 1200 s, so 8 × 48600 s hold about
    // 8 × 48600 / (2 × 1200) = 162 independent values: 5 standard errors are 5 × 0.08 / √162 = 3 %;
    // random turns add less than 1 %.
    for (link, expected) in network.link_ids().zip(demand.expected_flows(&network)) {
        let found = counts[link.index()] / (hours * seeds as f64);
        let name = &network.link(link).name;
        assert!((found / expected.get() - 1.0).abs() < 0.04, "{name}: {found} {expected}");
    }
}

#[test]
fn without_noise_even_headways_hit_the_mean_to_a_vehicle() {
    let (network, mut demand) = corridor();
    demand.noise = None;
    let mut counts: HashMap<LinkId, f64> = HashMap::new();
    for departure in demand.departures(&network, 3, Seconds::new(48_000.0)) {
        *counts.entry(departure.route[0]).or_default() += 1.0;
    }
    for entry in &demand.entries {
        // Ten whole peaks, whose factor has mean 1: ∫λ = flow · 48000 s exactly, but that the rate
        // is taken at the middle of each minute; the count is within 1 of the integral.
        let expected = entry.flow.get() * 48_000.0 / 3600.0;
        assert!((counts[&entry.link] - expected).abs() < 1.0 + 1e-6 * expected);
    }
}

#[test]
fn poisson_headways_have_the_variance_of_their_mean() {
    let network = traffic::corridor().unwrap();
    let demand = Demand::uniform(&network, VehPerHour::new(360.0));
    let entry = demand.entries[0].link;
    let minutes = 20_000;
    let mut per_minute = vec![0.0_f64; minutes];
    for departure in demand.departures(&network, 5, Seconds::new(60.0 * minutes as f64)) {
        if departure.route[0] == entry {
            per_minute[(departure.time.get() / 60.0) as usize] += 1.0;
        }
    }
    let n = minutes as f64;
    let mean = per_minute.iter().sum::<f64>() / n;
    let variance = per_minute.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n;
    // 6 a minute. Standard errors over 20,000 minutes: mean √6/√n = 0.017; variance about
    // √(2·36 + 6)/√n = 0.062. Five of each.
    assert!((mean - 6.0).abs() < 0.09, "{mean}");
    assert!((variance - 6.0).abs() < 0.32, "{variance}");
}

#[test]
fn even_routes_keep_the_shares_to_a_vehicle() {
    let (network, mut demand) = corridor();
    demand.routes = Routes::Even;
    let [e1, e2, on_r1] = ["E1", "E2", "on_R1"].map(|name| network.link_named(name).unwrap());
    for (entry, share) in [(e1, 0.78), (on_r1, 0.8)] {
        let (mut all, mut taken) = (0.0, 0.0);
        for departure in demand.departures(&network, 1, DAY) {
            if departure.route[0] == entry {
                all += 1.0;
                taken += f64::from(u8::from(departure.route[1] == e2));
                // Error diffusion over two turns: never more than one vehicle off.
                assert!((taken - share * all).abs() <= 1.0, "{taken} of {all}");
            }
        }
        assert!(all > 1000.0);
    }
}

#[test]
fn peaks_recur_and_the_last_fifth_is_like_the_rest() {
    let departures = departures(2);
    let count = |from: f64, to: f64| {
        departures.iter().filter(|d| (from..to).contains(&d.time.get())).count() as f64
    };
    for peak in 0..10 {
        let start = f64::from(peak) * 4800.0;
        let crest = count(start + 1600.0, start + 3200.0);
        let trough = count(start, start + 800.0) + count(start + 4000.0, start + 4800.0);
        // Crest and trough thirds of sin⁴ differ by 0.76: × 0.9 = a factor of about 2.
        assert!(crest > 1.5 * trough, "peak {peak}: {crest} {trough}");
    }
    // Whole peaks: the last two against the mean of the others; the noise allows a few per cent.
    let (last, others) = (count(38_400.0, 48_000.0), count(0.0, 38_400.0) / 4.0);
    assert!((last / others - 1.0).abs() < 0.1, "{last} {others}");
}

#[test]
fn numbered_in_order_of_time_along_turns_of_the_network() {
    let (network, _) = corridor();
    let departures = departures(1);
    assert!(departures.len() > 30_000);
    for (index, departure) in departures.iter().enumerate() {
        assert_eq!(departure.vehicle.index(), index);
        assert!(departure.time < DAY);
        let route = &departure.route;
        assert!(route.windows(2).all(|p| network.turn_between(p[0], p[1]).is_some()));
        assert!(network.outgoing(route[route.len() - 1]).is_empty());
    }
    assert!(departures.windows(2).all(|pair| pair[0].time <= pair[1].time));
}

#[test]
fn the_same_seed_gives_the_same_list_and_a_longer_one_begins_alike() {
    let (network, demand) = corridor();
    let first = departures(4);
    assert_eq!(first, departures(4));
    // Another seed: about as many, at other times. Times have centiseconds, of which 30,000 vehicles use one in 160.
    let other = departures(5);
    assert!((other.len() as f64 / first.len() as f64 - 1.0).abs() < 0.1);
    let same = first.iter().zip(&other).filter(|(a, b)| a.time == b.time).count();
    assert!(same * 20 < first.len(), "{same} of {}", first.len());
    let half: Vec<Departure> = demand.departures(&network, 4, DAY / 2.0).collect();
    assert_eq!(half, first[..half.len()]);
    assert!(first[half.len()].time >= DAY / 2.0);
}

#[test]
fn classes_are_mixed_as_stated() {
    let departures = departures(1);
    let n = departures.len() as f64;
    for (class, share) in
        [(VehicleClass::Car, 0.8), (VehicleClass::Motorcycle, 0.14), (VehicleClass::Bus, 0.06)]
    {
        let found = departures.iter().filter(|d| d.class == class).count() as f64 / n;
        // Binomial: five standard errors.
        let error = (share * (1.0 - share) / n).sqrt();
        assert!((found - share).abs() < 5.0 * error, "{class:?} {found}");
    }
}

#[test]
fn one_blockage_a_slot_by_cars_that_go_on_from_its_lane() {
    let (network, demand) = corridor();
    let blockages = demand.blockages.as_ref().unwrap();
    let slot = 3600.0 / blockages.per_hour;
    let stopping: Vec<Departure> = departures(1).into_iter().filter(|d| d.stop.is_some()).collect();
    let slots = DAY.get() / slot;
    // One in each slot; the first car to pass after the moment may come a little into the next.
    assert!((stopping.len() as f64 - slots).abs() <= 1.0, "{} of {slots}", stopping.len());
    let mut places: HashMap<LinkId, usize> = HashMap::new();
    for (index, departure) in stopping.iter().enumerate() {
        let stop = departure.stop.unwrap();
        let begin = departure.time.get() / slot;
        assert!((index as f64 - 0.01..index as f64 + 1.2).contains(&begin), "{index} {begin}");
        let share = stop.duration / blockages.mean_duration;
        assert!((0.49..1.51).contains(&share), "{share}");
        assert_eq!(departure.class, VehicleClass::Car);
        let at = departure.route.iter().position(|&link| link == stop.link).unwrap();
        if let Some(&next) = departure.route.get(at + 1) {
            let turn = network.turn(network.turn_between(stop.link, next).unwrap());
            assert!(turn.lanes.iter().any(|pair| pair.from == stop.lane));
        }
        *places.entry(stop.link).or_default() += 1;
    }
    // The places take turns: no two differ by more than one.
    assert_eq!(places.len(), blockages.places.len());
    let (least, most) = (places.values().min().unwrap(), places.values().max().unwrap());
    assert!(most - least <= 1, "{places:?}");
}

#[test]
fn a_grid_is_fed_at_every_entry_and_left_at_exits() {
    let city = grid(GridPlan { rows: 3, columns: 3, ..GridPlan::default() }).unwrap();
    let demand = Demand::uniform(&city, VehPerHour::new(300.0));
    assert_eq!(demand.entries.len(), 12);
    let mut ended_at_exit = 0;
    let mut all = 0;
    for departure in demand.departures(&city, 9, Seconds::new(3600.0)) {
        let last = departure.route[departure.route.len() - 1];
        assert!(departure.route.len() <= 64);
        ended_at_exit += usize::from(city.outgoing(last).is_empty());
        all += 1;
    }
    // 12 entries × 300; five standard deviations of a Poisson count of 3600 are 300.
    assert!((3300..3900).contains(&all), "{all}");
    // A walk over 9 junctions that turns at random leaves at each step with probability 1/3 or
    // more on average: 64 links without an exit have a chance below 1e-6.
    assert_eq!(ended_at_exit, all);
    // What goes in comes out: the flow over exits is the flow over entries.
    let flows = demand.expected_flows(&city);
    let exits: f64 = city.exits().map(|link| flows[link.index()].get()).sum();
    assert!((exits - 3600.0).abs() < 0.01, "{exits}");
}

#[test]
fn targets_are_the_nine_links_with_the_largest_flow() {
    let (network, demand) = corridor();
    let flows = demand.expected_flows(&network);
    let mut order: Vec<LinkId> = network.link_ids().collect();
    order.sort_by(|a, b| flows[b.index()].get().total_cmp(&flows[a.index()].get()));
    let mut largest = order[..9].to_vec();
    let mut targets = network.targets();
    largest.sort();
    targets.sort();
    assert_eq!(largest, targets);
    // Clear of a tie: the tenth has at least 5 % less than the ninth.
    let (ninth, tenth) = (flows[order[8].index()], flows[order[9].index()]);
    assert!(tenth.get() < 0.95 * ninth.get(), "{ninth} {tenth}");
}

/// `a` leads to `b` and `c`; and, if wanted, `b` back to `a`.
fn fork(circle: bool) -> Network {
    let back = if circle { ", { from = \"b\", to = \"a\" }" } else { "" };
    traffic::parse_network(&format!(
        r#"
format = "fedtse-network/1"
link = [
  {{ name = "a", length = 100, junction = 10, lanes = 2, speed = 12.5, shape = [[0, 0], [100, 0]] }},
  {{ name = "b", length = 100, lanes = 2, speed = 12.5, shape = [[100, 0], [200, 0]] }},
  {{ name = "c", length = 100, lanes = 1, speed = 12.5, shape = [[100, 0], [100, 100]] }},
]
turn = [{{ from = "a", to = "b" }}, {{ from = "a", to = "c" }}{back}]
"#
    ))
    .unwrap()
}

fn parsed(network: &Network, text: &str) -> Result<Demand, DemandError> {
    // A file must say where vehicles enter, if only that they do nowhere.
    let entries = if text.contains("[[entry]]") { "" } else { "entry = []\n" };
    Demand::parse(&format!("format = \"fedtse-demand/1\"\n{entries}{text}"), network)
}

fn flows(demand: &Demand, network: &Network) -> Vec<f64> {
    demand.expected_flows(network).into_iter().map(VehPerHour::get).collect()
}

#[test]
fn expected_flows_follow_shares_and_circles() {
    let network = fork(false);
    let entry = "[[entry]]\nlink = \"a\"\nflow = 600.0\n";
    let plain = parsed(&network, entry).unwrap();
    assert_eq!(flows(&plain, &network), [600.0, 300.0, 300.0], "even shares unless stated");
    let turning = "[[turning]]\nfrom = \"a\"\nto = { b = 0.75, c = 0.25 }\n";
    let shared = parsed(&network, &format!("{entry}{turning}")).unwrap();
    assert_eq!(flows(&shared, &network), [600.0, 450.0, 150.0]);
    // What is not named of a link that is named gets nothing.
    let one = "[[turning]]\nfrom = \"a\"\nto = { c = 1.0 }\n";
    let one = parsed(&network, &format!("{entry}{one}")).unwrap();
    assert_eq!(flows(&one, &network), [600.0, 0.0, 600.0]);
    // Shares by hand miss one a little, and are made to sum to it.
    let thirds = "[[turning]]\nfrom = \"a\"\nto = { b = 0.333, c = 0.6665 }\n";
    let thirds = flows(&parsed(&network, &format!("{entry}{thirds}")).unwrap(), &network);
    assert!((thirds[1] + thirds[2] - 600.0).abs() < 1e-9, "{thirds:?}");

    // b leads back: half of those who leave a come again, a geometric series of 600·(1 + ½ + ¼ + …) = 1200, but for the
    // longest route of 64 links, which leaves out 2^-32 of it.
    let circle = fork(true);
    let around = flows(&parsed(&circle, entry).unwrap(), &circle);
    for (found, expected) in around.iter().zip([1200.0, 600.0, 600.0]) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{around:?}");
    }
    // Routes of three links end on b's second visit of a: 600 + 300, 300, 300.
    let short = parsed(&circle, &format!("longest_route = 3\n{entry}")).unwrap();
    assert_eq!(flows(&short, &circle), [900.0, 300.0, 300.0]);
    let routes: Vec<usize> =
        short.departures(&circle, 1, Seconds::new(3600.0)).map(|d| d.route.len()).collect();
    assert!(routes.iter().all(|&links| links == 2 || links == 3));
}

#[test]
fn a_network_without_entries_is_fed_everywhere() {
    let mut parts = fork(true).into_parts();
    parts.turns.push(traffic::Turn {
        from: LinkId(2),
        to: LinkId(0),
        lanes: vec![traffic::LanePair { from: 0, to: 0 }],
    });
    let network = Network::new(parts).unwrap();
    let demand = Demand::uniform(&network, VehPerHour::new(10.0));
    assert_eq!(demand.name(), "10 veh/h on each link");
    let links: Vec<LinkId> = demand.entries.iter().map(|entry| entry.link).collect();
    assert_eq!(links, [0, 1, 2].map(LinkId));
    // Nobody can leave: each trip ends after 12 links, and the three links carry 10 veh/h in the mean.
    let total: f64 = flows(&demand, &network).iter().sum();
    assert!((total - 30.0).abs() < 1e-9, "{total}");
    assert!(demand.departures(&network, 1, DAY).all(|departure| departure.route.len() == 12));
}

#[test]
fn entries_without_flow_and_spans_without_time_have_no_departures() {
    let network = fork(false);
    let none = parsed(&network, "[[entry]]\nlink = \"a\"\nflow = 0.0\n").unwrap();
    assert_eq!(none.departures(&network, 1, Seconds::new(f64::INFINITY)).count(), 0);
    let empty = parsed(&network, "").unwrap();
    assert_eq!((empty.entries.len(), empty.name()), (0, ""));
    assert_eq!(empty.departures(&network, 1, DAY).count(), 0);
    let some = Demand::uniform(&network, VehPerHour::new(3600.0));
    for until in [0.0, -5.0] {
        assert_eq!(some.departures(&network, 1, Seconds::new(until)).count(), 0);
    }
    // For ever is a stream: one vehicle a second.
    let hundred: Vec<Departure> =
        some.departures(&network, 1, Seconds::new(f64::INFINITY)).take(100).collect();
    let last = hundred[99].time.get();
    // Poisson: the hundredth comes after 100 ± 10 s; five deviations.
    assert!((50.0..150.0).contains(&last), "{last}");
}

#[test]
fn even_headways_are_equal_where_the_rate_is() {
    let network = fork(false);
    let demand = parsed(&network, "[[entry]]\nlink = \"a\"\nflow = 720.0\n").unwrap();
    let times: Vec<f64> =
        demand.departures(&network, 1, Seconds::new(3600.0)).map(|d| d.time.get()).collect();
    assert_eq!(times.len(), 720);
    assert!((0.0..5.0).contains(&times[0]), "{}", times[0]);
    for pair in times.windows(2) {
        // 5 s, cut to centiseconds.
        assert!((pair[1] - pair[0] - 5.0).abs() < 0.011, "{pair:?}");
    }
}

#[test]
fn fields_of_a_small_file_are_checked_each() {
    let network = fork(false);
    let refusal = |text: &str| parsed(&network, text).unwrap_err().to_string();
    for (text, expected) in [
        ("longest_route = 0", "line 3: longest_route: found 0, expected at least 1 link"),
        (
            "[[entry]]\nlink = \"x\"\nflow = 1.0",
            "line 3: entry.link: found \"x\", expected the name of a link of the network",
        ),
        (
            "[[entry]]\nlink = \"a\"\nflow = 1.0\n[[entry]]\nlink = \"a\"\nflow = 1.0",
            "line 6: entry.link: found \"a\", expected each link once",
        ),
        (
            "[[entry]]\nlink = \"a\"\nflow = inf",
            "line 4: entry.flow: found inf, expected 0 veh/h or more",
        ),
        (
            "[[turning]]\nfrom = \"x\"\nto = { b = 1.0 }",
            "line 4: turning.from: found \"x\", expected the name of a link of the network",
        ),
        (
            "[[turning]]\nfrom = \"a\"\nto = { b = 1.5, c = -0.5 }",
            "line 5: turning.to: found c = -0.5, expected 0 or more",
        ),
        (
            "[[turning]]\nfrom = \"a\"\nto = { b = nan }",
            "line 5: turning.to: found b = NaN, expected 0 or more",
        ),
        (
            "[[turning]]\nfrom = \"b\"\nto = { }",
            "line 5: turning.to: found shares that sum to 0.000, expected a sum of 1",
        ),
        (
            "[peaks]\nperiod = 0.0\nheight = 0.5",
            "line 4: peaks.period: found 0.0, expected more than 0 s",
        ),
        (
            "[noise]\nspread = 0.5\nmemory = inf",
            "line 5: noise.memory: found inf, expected more than 0 s",
        ),
        (
            "[classes]\ncar = 1.5\nbus = -0.5",
            "line 3: classes: found shares that sum to 1.000, expected 0 or more each, sum 1",
        ),
        (
            "[blockages]\nper_hour = 1.0\nmean_duration = 60.0\nplaces = []",
            "line 6: blockages.places: found no places, expected at least one",
        ),
        (
            "[blockages]\nper_hour = 1.0\nmean_duration = 0.0\nplaces = [{ link = \"a\", lane = 0, position = 50.0 }]",
            "line 5: blockages.mean_duration: found 0.0, expected more than 0 s",
        ),
        // Nobody parks in a junction.
        (
            "[blockages]\nper_hour = 1.0\nmean_duration = 9.0\nplaces = [{ link = \"a\", lane = 0, position = 10.0 }]",
            "line 6: blockages.places.position: found 10.0, expected more than 10 m (the junction) and at most 100 m",
        ),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
    let other = Demand::parse("format = \"fedtse-network/1\"\nentry = []", &network)
        .unwrap_err()
        .to_string();
    assert_eq!(other, "line 1: format: found \"fedtse-network/1\", expected \"fedtse-demand/1\"");
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (from, to, expected) in [
        ("demand/1", "demand/9", "line 4: format: found \"fedtse-demand/9\""),
        ("link = \"on_R1\"", "link = \"on_R9\"", "line 14: entry.link: found \"on_R9\""),
        ("link = \"on_R1\"", "link = \"E1\"", "expected each link once"),
        ("flow = 330.0", "flow = -1.0", "line 15: entry.flow: found -1.0"),
        ("flow = 330.0", "flow = nan", "entry.flow: found NaN"),
        ("off_R1 = 0.22", "off_R2 = 0.22", "found `off_R2`, expected links that `E1` leads to"),
        ("off_R1 = 0.22", "off_R1 = 0.32", "shares that sum to 1.1"),
        ("height = 0.9", "height = 3.0", "peaks.height: found 3.0, expected 0 to 8/3"),
        ("spread = 0.08", "spread = -0.1", "noise.spread"),
        ("car = 0.80", "car = 0.70", "classes: found shares that sum to 0.9"),
        ("lane = 2, position = 113.0", "lane = 5, position = 113.0", "a lane of `E3`, below 5"),
        ("position = 78.0", "position = 780.0", "at most 90 m"),
        ("per_hour = 4.5", "per_hour = 0.0", "blockages.per_hour"),
        ("headways = \"even\"", "headway = \"even\"", "unknown field `headway`"),
    ] {
        let error = edited(from, to).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
