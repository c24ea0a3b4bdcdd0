use std::path::Path;
use traffic::{Samples, Seconds};
use worlds::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let seed: u64 = a[2].parse().unwrap();
    let minutes: f64 = a[3].parse().unwrap();
    let net = traffic::parse_network(&std::fs::read_to_string("networks/corridor.toml").unwrap()).unwrap();
    let demand = Demand::parse(&std::fs::read_to_string("networks/corridor-demand.toml").unwrap(), &net).unwrap();
    let until = Seconds::new(minutes * 60.0);
    let tools = SumoTools::find(None).unwrap();
    let fcd = match a.get(4).map(|s| s.as_str()) { Some("xml") => FcdFormat::Xml, Some("gz") => FcdFormat::CsvGz, _ => FcdFormat::Csv };
    let options = SumoOptions { until, seed: seed as u32, fcd, ..Default::default() };
    let t = std::time::Instant::now();
    let run = simulate_sumo(&tools, &net, demand.departures(&net, seed, until), Path::new(&a[1]), &options, |_| {}).unwrap();
    eprintln!("{:?} {:?}", t.elapsed(), run.statistics);
    let t = std::time::Instant::now();
    let mut s = run.samples(&net).unwrap();
    let (mut out, mut n, mut m) = (Vec::new(), 0usize, 0);
    while let Some(_) = s.next_moment(&mut out).unwrap() { n += out.len(); m += 1; }
    eprintln!("{n} samples {m} moments {:?} in {:?}", s.skipped(), t.elapsed());
    let loops: u32 = run.loop_counts(&net).unwrap().map(|c| c.unwrap().count).sum();
    eprintln!("loops {loops}");
}
