//! How far the traffic model errs one step on, with the truth in, link by link: for looking into a network, never for
//! choosing what is trained with.
//!
//! ```sh
//! cargo run --release -p estimator --example physics_residuals -- data/town fleet-20 [ctm|store-and-forward|metanet|regions]
//! ```
//!
//! For density one step on: the model, keeping the last density, and what is stated; for flow: the model and what is
//! stated. RMSE over the training part.

use std::error::Error;

use estimator::loss::{PhysicsPlan, TrafficModelKind, calibrated_physics};
use estimator::{Study, TargetKind};
use physics::Inputs;
use traffic::Seconds;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected the folder of a dataset")?;
    let fleet = arguments.next().unwrap_or_else(|| "fleet-20".into());
    let model = match arguments.next().as_deref() {
        None | Some("ctm") => TrafficModelKind::Ctm,
        Some("store-and-forward") => TrafficModelKind::StoreAndForward,
        Some("metanet") => TrafficModelKind::Metanet,
        Some("regions") => TrafficModelKind::Regions,
        Some(other) => return Err(format!("traffic model: found {other}").into()),
    };
    let study = Study::open(std::path::Path::new(&folder), &fleet)?;
    let (network, span) = (study.network(), study.train_span());
    let plan = PhysicsPlan { model, learning_rate: None };
    let physics = calibrated_physics(study.loops(), study.fleets(), &span, plan)?;
    let model = &*physics.model;
    let links = network.links().len();
    let (mut memory, mut inputs) = (model.memory(), Inputs::free(model));
    inputs.demand.clone_from(&physics.demand);
    let mut state = vec![0.0; model.state_len()];
    let (mut next, mut densities, mut flows) = (state.clone(), vec![0.0; links], vec![0.0; links]);
    // Squares of: model's density, persistence, model's flow; sums of the first and third; density, flow.
    let mut sums = vec![[0.0; 7]; links];
    let mut count = 0.0;
    let states = |step| -> (Vec<f64>, Vec<f64>) {
        let of = |link| study.target(TargetKind::Raw, step, link);
        network.link_ids().map(of).map(|s| (s.density.get(), s.flow.get())).unzip()
    };
    let steps: Vec<_> = study.steps().filter(|step| span.contains(step)).collect();
    for pair in steps.windows(2).filter(|pair| pair[0].0 + 1 == pair[1].0) {
        let ((k, q), (later, _)) = (states(pair[0]), states(pair[1]));
        count += 1.0;
        for half in [0.5, 0.0] {
            let begin = study.step().get() * (pair[0].0 as f64 + half);
            inputs.signals_from(&physics.signals, model, Seconds::new(begin))?;
            model.lift(&k, &q, &mut state)?;
            model.step(&state, &inputs, &mut memory, &mut next, &mut flows)?;
            if half > 0.0 {
                model.densities(&next, &mut densities)?;
            }
        }
        for (n, sums) in sums.iter_mut().enumerate() {
            let (density, flow) = (later[n] - densities[n], q[n] - flows[n]);
            let kept = later[n] - k[n];
            let own = [density * density, kept * kept, flow * flow, density, flow, k[n], q[n]];
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    }
    println!(
        "link length lanes limit free signal entry demand/min | k q | density: rmse bias kept stated | flow: rmse bias stated"
    );
    let root = |x: f64| (x / count).sqrt();
    let stated = |weight: f64| 1.0 / weight.sqrt();
    let mut order: Vec<usize> = (0..links).collect();
    order.sort_by(|&a, &b| sums[b][0].total_cmp(&sums[a][0]));
    let mut all = [0.0; 3];
    for &n in &order {
        let (link, s) = (&network.links()[n], &sums[n]);
        let signalled = network.outgoing(traffic::LinkId(n as u32)).iter().any(|&turn| {
            let turn = network.turn(turn);
            network.signal_of(traffic::Movement { from: turn.from, to: Some(turn.to) }).is_some()
        });
        let entry = network.incoming(traffic::LinkId(n as u32)).is_empty();
        println!(
            "{:12} {:5.0} {} {:4.1} {:4.1} {} {} {:5.1} | {:5.1} {:4.1} | {:5.1} {:5.1} {:5.1} {:5.1} | {:4.1} {:4.1} {:4.1}",
            link.name,
            link.length.get(),
            link.lanes,
            link.speed.get(),
            model.parameters().get(n).copied().unwrap_or(0.0),
            u8::from(signalled),
            u8::from(entry),
            physics.demand[n],
            s[5] / count,
            s[6] / count,
            root(s[0]),
            s[3] / count,
            root(s[1]),
            stated(physics.weights.density[n]),
            root(s[2]),
            s[4] / count,
            stated(physics.weights.flow[n]),
        );
        if !entry {
            all.iter_mut().zip(&s[..3]).for_each(|(sum, own)| *sum += own);
        }
    }
    let inner =
        order.iter().filter(|&&n| !network.incoming(traffic::LinkId(n as u32)).is_empty()).count()
            as f64;
    let [k, kept, q] = all.map(|sum| root(sum / inner));
    println!("{folder}: all but entries: density {k:.1}, kept {kept:.1}; flow {q:.1}");
    Ok(())
}
