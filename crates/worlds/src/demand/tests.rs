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
    for entry in demand.entries() {
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
    let entry = demand.entries()[0].link;
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
    assert_ne!(first, departures(5));
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
    assert_eq!(demand.entries().len(), 12);
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
