//! Times the paper's model (two sub-models, head, Adam; 17 nodes, 9 steps) for
//! `scripts/bench_train.py`, which sends commands on standard input:
//!
//! - `train BATCH COUNT`: that many training steps; prints the milliseconds of each;
//! - `infer BATCH COUNT`: that many estimates; prints the milliseconds of each;
//! - `memory`: prints the peak resident memory in MiB.
//!
//! - `cpu`: prints the processor seconds used so far.
//!
//! Arguments: `links=N`, the streets of a grid city (a multiple of 4) instead of the corridor of 17
//! links, to see the cost grow; `chunk=N`, samples that go through the layers together;
//! `model=messages`, message passing with weights shared by all links (the sizes of the estimator's
//! `link` model) instead of the paper's.

use std::io::{BufRead, Write};
use std::time::Instant;

use neural::{
    Activation, Adam, Chain, Decay, Draw, Fusion, Layer, Learner, Linear, MessagePassing,
    MessageShape, NodeEmbedding, Plan, Residual, Sparse, Squared, StgcnShape, head,
    scaled_laplacian, stgcn,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Turns of the paper's corridor: E1..E7 are 0..6, off_R1..4 are 7..10, on_R1..6 are 11..16.
#[rustfmt::skip]
const CORRIDOR: [(usize, usize); 19] = [
    (0, 1), (0, 7), (1, 2), (2, 3), (2, 8), (3, 4), (4, 5), (4, 9), (5, 6), (5, 10), (11, 1),
    (11, 7), (12, 2), (13, 2), (14, 4), (15, 5), (15, 9), (16, 6), (16, 10),
];

fn main() -> Result<()> {
    let argument = |name: &str| {
        let value = std::env::args().find_map(|a| a.strip_prefix(name).map(str::to_owned));
        value.map(|value| value.parse::<usize>()).transpose()
    };
    let nodes = argument("links=")?.unwrap_or(17);
    if nodes != 17 && (nodes == 0 || !nodes.is_multiple_of(4)) {
        return Err(format!("links={nodes}: expected 17 or a multiple of 4").into());
    }
    let chunk = argument("chunk=")?;
    // All work runs inside the pool, so that the calling thread is one of its threads.
    let messages = std::env::args().any(|argument| argument == "model=messages");
    rayon::ThreadPoolBuilder::new().build()?.install(|| serve(nodes, chunk, messages))
}

fn serve(nodes: usize, chunk: Option<usize>, messages: bool) -> Result<()> {
    let turns: Vec<_> = if nodes == 17 {
        CORRIDOR.map(|(from, to)| (from, to, 0.9)).to_vec()
    } else {
        grid_city(nodes)
    };
    let model = if messages { shared(nodes, &turns)? } else { paper(nodes, &turns)? };
    let plan = Plan::for_model(&model);
    let mut learner = Learner::new(model, 1, Plan { chunk: chunk.unwrap_or(plan.chunk), ..plan });
    let mut adam = Adam::new(learner.parameters().len(), Decay::InGradient(1e-3));
    let weights = vec![1.0 / nodes as f32; 2 * nodes];

    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut times = Vec::new();
        match words.as_slice() {
            [what, batch, count] => {
                let (batch, count): (usize, usize) = (batch.parse()?, count.parse()?);
                let some = |seed: u64, len: usize| {
                    let mut values = vec![0.0; len];
                    Draw::new(seed).fill(&mut values, 1.0);
                    values
                };
                let x = some(2, batch * 9 * nodes * 3);
                let mut y = some(3, batch * 2 * nodes);
                for _ in 0..count {
                    let start = Instant::now();
                    if *what == "train" {
                        learner.train(&x, &Squared::new(&y, &weights), None);
                        learner.step(&mut adam, 3e-4);
                    } else {
                        learner.infer(&x, &mut y);
                    }
                    times.push(format!("{:.5}", start.elapsed().as_secs_f64() * 1e3));
                }
            }
            ["cpu"] => times.push(format!("{:.3}", processor_seconds()?)),
            ["memory"] => times.push(format!("{:.1}", peak_memory()?)),
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        println!("{}", times.join(" "));
        std::io::stdout().flush()?;
    }
    Ok(())
}

type Turn = (usize, usize, f32);

/// The paper's: two STGCNs and a head.
fn paper(nodes: usize, turns: &[Turn]) -> Result<Box<dyn Layer>> {
    let laplacian = scaled_laplacian(&Sparse::new(nodes, turns)?, 2.0);
    let part = |channels| stgcn(&StgcnShape::paper(channels), &laplacian);
    let joint = Fusion::new(head(2 * 9, 272, 2 * nodes)).with("host", part(1)?);
    Ok(Box::new(joint.with("guest", part(2)?)))
}

/// Message passing: embeddings, two rounds, four numbers for each link, another round.
fn shared(nodes: usize, turns: &[Turn]) -> Result<Box<dyn Layer>> {
    let down: Vec<_> = turns.iter().map(|turn| (turn.0, turn.1)).collect();
    let up: Vec<_> = turns.iter().map(|turn| (turn.1, turn.0)).collect();
    let (up, down) = (Sparse::mean_over(nodes, &up)?, Sparse::mean_over(nodes, &down)?);
    let dense = |inputs| Linear::new(nodes, inputs, 64).then(Activation::Silu);
    let round = || {
        let shape = MessageShape { slices: 1, inputs: 64, outputs: 64 };
        Residual::new(nodes, 64, 64, MessagePassing::new(shape, &up, &down, Activation::Silu))
    };
    let chain = Chain::new()
        .then("embedding", NodeEmbedding::new(1, nodes, 27, 8))
        .then("hidden", dense(35))
        .then("round1", round())
        .then("round2", round())
        .then("crossing", Linear::new(nodes, 64, 4))
        .then("head", dense(4))
        .then("round3", round())
        .then("second", dense(64))
        .then("out", Linear::new(nodes, 64, 2));
    Ok(Box::new(chain))
}

/// Turns of a city whose streets form a grid (closed at its edges): each link leads to a junction
/// and from there straight on, left or right.
fn grid_city(links: usize) -> Vec<Turn> {
    let junctions = links / 4;
    let wide = (1..=junctions).rev().find(|w| w * w <= junctions && junctions.is_multiple_of(*w));
    let (wide, high) = (wide.unwrap_or(1), junctions / wide.unwrap_or(1));
    let mut turns = Vec::new();
    for link in 0..links {
        let (junction, direction) = (link / 4, link % 4);
        let (row, column) = (junction / wide, junction % wide);
        let next = match direction {
            0 => row * wide + (column + 1) % wide,
            1 => (row + 1) % high * wide + column,
            2 => row * wide + (column + wide - 1) % wide,
            _ => (row + high - 1) % high * wide + column,
        };
        // All but the way back.
        turns.extend([0, 1, 3].map(|turn| (link, next * 4 + (direction + turn) % 4, 0.9)));
    }
    turns
}

/// Processor time of this process, all threads together.
fn processor_seconds() -> Result<f64> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += text.split_whitespace().next().ok_or("empty schedstat")?.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 * 1e-9)
}

/// Peak resident memory of this process in MiB.
fn peak_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}
