use std::path::Path;
use traffic::{Samples, Seconds};
use worlds::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let seed: u64 = a[2].parse().unwrap();
    let minutes: f64 = a[3].parse().unwrap();
    let dir = std::env::var("SCEN").unwrap_or("networks".into());
    let net = traffic::parse_network(&std::fs::read_to_string(format!("{dir}/corridor.toml")).unwrap()).unwrap();
    let demand = Demand::parse(&std::fs::read_to_string(format!("{dir}/corridor-demand.toml")).unwrap(), &net).unwrap();
    let until = Seconds::new(minutes * 60.0);
    let tools = SumoTools::find(None).unwrap();
    let options = SumoOptions { until, seed: seed as u32, ..Default::default() };
    let t = std::time::Instant::now();
    let work = format!("{}-sumo", a[1]);
    let run = simulate_sumo(&tools, &net, demand.departures(&net, seed, until), Path::new(&work), &options, |_| {}).unwrap();
    eprintln!("{:?} {:?}", t.elapsed(), run.statistics);
    let t = std::time::Instant::now();
    let mut s = run.samples(&net).unwrap();
    let mut w = sensing::DatasetWriter::create(Path::new(&a[1]), &net, Default::default(), Seconds::new(60.0)).unwrap();
    let mut out = Vec::new();
    while let Some(time) = s.next_moment(&mut out).unwrap() { w.moment(time, &out).unwrap(); }
    let loops: Vec<_> = run.loop_counts(&net).unwrap().map(|c| c.unwrap()).collect();
    w.finish(s.vehicles(), &loops).unwrap();
    let d = sensing::Dataset::open(Path::new(&a[1])).unwrap();
    let m = sensing::make_features(&d, sensing::FeaturePlan::paper(sensing::Fleets::nested(&[0.2,0.4,0.6,0.8], seed).unwrap()), Seconds::new(600.0), |_, _| {}).unwrap();
    eprintln!("{:?} in {:?}", m.report, t.elapsed());
    std::fs::remove_dir_all(work).unwrap();
}
