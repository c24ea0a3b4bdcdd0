//! Serves made-up traffic on a network of any size, to measure the page and the API: nothing in it is an estimate.
//!
//! ```sh
//! cargo run --release -p server --example load -- --links 20000
//! cargo run --release -p server --example load -- --network city/network.toml --every-s 1 --history /tmp/past --past 360
//! cargo run --release -p server --example load -- --links 20000 --history /tmp/past --past 8640 --measure day
//! ```
//!
//! The last one stores a day and tells how long questions about it take, and how much memory all of it took.
//! Prints `{"url": …}`. Densities are waves that wander over the network: on each step about one link out of ten changes
//! its colour. With `--history` each step is stored; `--past` steps are stored before the first.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use server::{
    AlarmsSection, Estimate, EstimateFeed, History, HttpServer, Participation, ReadersSection,
    SeriesInfo, Target, history,
};
use traffic::{
    GridPlan, LinkState, Network, Step, VehPerKmLane, VehPerMinLane, grid, network_hash,
    parse_network,
};

const STEP_S: f64 = 10.0;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let of = |name: &str| -> Option<&str> {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).map(String::as_str)
    };
    let number = |name: &str, default: f64| -> Outcome<f64> {
        Ok(of(name).map(str::parse).transpose()?.unwrap_or(default))
    };
    let network = match of("--network") {
        Some(file) => parse_network(&std::fs::read_to_string(file)?)?,
        None => grid_of(number("--links", 20_000.0)? as usize)?,
    };
    let info = Arc::new(SeriesInfo {
        network_hash: network_hash(&network),
        network: Arc::new(network),
        step_s: STEP_S,
        target: Target::Smooth,
        guests: vec!["fleet-1".into(), "fleet-2".into()],
        interval: None,
    });
    let alarms = AlarmsSection {
        rules: of("--alarm").map(str::to_owned).into_iter().collect(),
        webhook: None,
    };
    let feed = Arc::new(EstimateFeed::with_alarms(&alarms, &info)?);
    let stored = of("--history").map(|name| history::open(name, Path::new(""), &info));
    let stored: Option<Arc<dyn History>> = stored.transpose()?;
    // The newest step ends now.
    let first = (unix_s()? / STEP_S) as i64;
    let past = number("--past", 0.0)? as i64;
    if let Some(history) = &stored {
        for step in first - past..first {
            history.store(&estimate(&info, step))?;
        }
    }
    if let (Some(history), Some(_)) = (&stored, of("--measure")) {
        return measure(&**history, &info, Step(first - past), Step(first - 1));
    }
    let readers = ReadersSection {
        connections: 2000,
        per_address: 2000,
        requests_per_s: 1e5,
        tiles: of("--tiles").map(str::to_owned),
        ..ReadersSection::default()
    };
    let of_site = stored.clone().map(|history| (history, None));
    let site = readers.site(Path::new(""), &info, &feed, of_site, true)?;
    let address = of("--http").unwrap_or("127.0.0.1:0").parse()?;
    let http = HttpServer::start(address, readers.connection_limit()?, site)?;
    let links = info.network.links().len();
    println!("{{\"url\": \"http://{}/\", \"links\": {links}}}", http.address());
    let every = Duration::from_secs_f64(number("--every-s", 1.0)?);
    let begin = Instant::now();
    for number in 0.. {
        let estimate = estimate(&info, first + number);
        if let Some(history) = &stored {
            history.store(&estimate)?;
        }
        feed.publish(&info, &estimate, Some(Instant::now()), stored.is_some());
        let next = every * (number as u32 + 1);
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// How long questions about the stored steps take.
fn measure(history: &dyn History, info: &SeriesInfo, from: Step, to: Step) -> Outcome<()> {
    let timed = |what: &str, ask: &dyn Fn() -> Outcome<usize>| -> Outcome<()> {
        let begin = Instant::now();
        let found = ask()?;
        println!("{what}: {found} found in {:.0} ms", 1000.0 * begin.elapsed().as_secs_f64());
        Ok(())
    };
    let links = info.network.links().len();
    let route: Vec<usize> = (0..20).map(|at| at * links / 20).collect();
    timed("one link over all steps", &|| Ok(history.link_series(links / 2, from, to)?.len()))?;
    timed("twenty links over the last 360 steps", &|| {
        Ok(history.route_series(&route, Step(to.0 - 359), to)?.len())
    })?;
    timed("one step of all links", &|| Ok(history.get(to)?.map_or(0, |one| one.states.len())))?;
    timed("all links over the last 60 steps", &|| {
        let mut count = 0;
        history.for_each(Step(to.0 - 59), to, &mut |estimate| {
            count += estimate.states.len();
            true
        })?;
        Ok(count)
    })?;
    timed("which steps are stored, in ranges", &|| Ok(history.ranges()?.len()))?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "{links} links, {} steps; most memory: {}",
        to.0 - from.0 + 1,
        most.trim_start_matches("VmHWM:").trim()
    );
    Ok(())
}

/// A square grid with about so many links.
fn grid_of(links: usize) -> Outcome<Network> {
    // Four links for each junction.
    let side = ((links as f64 / 4.0).sqrt().round() as usize).max(1);
    Ok(grid(GridPlan { rows: side, columns: side, ..GridPlan::default() })?)
}

fn estimate(info: &SeriesInfo, step: i64) -> Estimate {
    let time = step as f64 / 60.0;
    let state = |(number, link): (usize, &traffic::Link)| {
        let place = link.shape.first().copied().unwrap_or(traffic::Point { x: 0.0, y: 0.0 });
        let (x, y) = (place.x / 900.0, place.y / 900.0);
        let wave = (x + time).sin() + (y - 0.7 * time).cos() + (0.3 * x * y.sin() + time).sin();
        let own = ((number as f64 * 12.9898).sin() * 43_758.547).fract().abs();
        let density = (18.0 + 14.0 * wave + 25.0 * own * own).max(0.0);
        // Greenshields, with a jam at 130 vehicles.
        let speed = link.speed.get() * 3.6 * (1.0 - density / 130.0).max(0.05);
        LinkState {
            density: VehPerKmLane::new(density),
            flow: VehPerMinLane::new(density * speed / 60.0),
        }
    };
    let participants = [("fleet-1", Participation::In), ("fleet-2", Participation::In)];
    let participants: BTreeMap<String, Participation> =
        participants.map(|(guest, how)| (guest.to_owned(), how)).into();
    Estimate {
        step: Step(step),
        made_s: unix_s().unwrap_or_default(),
        latency_s: 0.0,
        participants,
        states: info.network.links().iter().enumerate().map(state).collect(),
        intervals: None,
    }
}

fn unix_s() -> Outcome<f64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64())
}
