//! Times secure products, for scripts/bench_sealed.py:
//!
//!     sealed_speed rlwe|ipfe ROWS BLOCKS WIDTH ROUNDS
//!     sealed_speed noise SIGMA/1000
//!
//! Prints one line of JSON: milliseconds of processor time, both parties together, per exchange;
//! bytes; and the largest difference from f64. `noise`: counts of 200 000 draws.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::noise::DiscreteGaussian;
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Answerer, BlockId, Coefficients, Grid, Guest, Host, MagnitudeBound, Matrix,
    Randomness,
};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, numbers @ ..] = arguments.as_slice() else { return Err("expected a kind".into()) };
    let numbers = numbers.iter().map(|x| x.parse()).collect::<Result<Vec<usize>, _>>()?;
    if let ("noise", [sigma]) = (kind.as_str(), &numbers[..]) {
        println!("{}", noise(*sigma as f64 / 1000.0)?);
        return Ok(());
    }
    let [rows, blocks, width, rounds] = numbers[..] else {
        return Err("expected ROWS BLOCKS WIDTH ROUNDS".into());
    };
    let result = match kind.as_str() {
        "rlwe" => rlwe(rows, blocks, width, rounds)?,
        "ipfe" => ipfe(rows, blocks * width, rounds)?,
        other => return Err(format!("found kind {other}, expected rlwe or ipfe").into()),
    };
    println!("{result}");
    Ok(())
}

fn rlwe(rows: usize, blocks: usize, width: usize, rounds: usize) -> Outcome<serde_json::Value> {
    let grid = Grid::new(0.0, 1.0, MOST_LEVELS)?;
    let agreement = Agreement { width, grid, most_rows: 1 << 16, most_blocks: blocks };
    let mut random = Randomness::insecure_from_seed(1);
    let mut guest = RlweGuest::new(agreement, &KeySeed::from_os()?)?;
    let mut host = RlweHost::new(agreement, &guest.public_key())?;
    let ids: Vec<BlockId> = (0..blocks as u64).map(BlockId).collect();
    let (mut values, mut up) = (Vec::new(), 0);
    let begin = processor_ms()?;
    for &block in &ids {
        let raw: Vec<f64> = (0..width).map(|_| uniform(&mut random)).collect();
        values.extend(&raw);
        let upload = guest.upload(block, &grid.levels_of(&raw)?)?;
        up += upload.len();
        host.store(&upload)?;
    }
    let upload_ms = processor_ms()? - begin;
    let matrix: Vec<f64> = (0..rows * values.len()).map(|_| normal(&mut random)).collect();
    let (mut down, mut back, mut worst) = (0, 0, 0.0f64);
    let (begin, wall) = (processor_ms()?, Instant::now());
    for round in 0..rounds {
        let question = host.ask(&Matrix { rows, blocks: &ids, values: &matrix })?;
        let answer = guest.answer(&question)?;
        let products = host.open(&answer)?;
        if round == 0 {
            (down, back) = (question.len(), answer.len());
            worst = difference(&matrix, &values, &products);
        }
    }
    let exchange_ms = (processor_ms()? - begin) / rounds as f64;
    let wall_ms = wall.elapsed().as_secs_f64() * 1e3 / rounds as f64;
    // 8192 products of two values each, as for the gradients of embeddings of 68 numbers in 120 steps.
    let coefficients: Vec<f64> = (0..2 * 8192).map(|_| normal(&mut random)).collect();
    let part = Coefficients { terms: 2, values: &coefficients };
    let levels = vec![1000; coefficients.len()];
    let scale = MagnitudeBound::of(&agreement, &part)?
        .and(MagnitudeBound::of_offsets(&[0.0; 8192])?)
        .scale()?;
    let begin = processor_ms()?;
    let mut gradient_bytes = 0;
    for _ in 0..rounds {
        let (request, kept) = host.encrypt_coefficients(&part, scale, true)?;
        let reply = guest.multiply_masked(&request, &levels, None)?;
        let shares = [host.accept_masked(&kept, &reply)?];
        let gradient = host.mask_gradient(&[0.0; 8192], scale, &shares)?;
        gradient_bytes = request.len() + reply.len() + gradient.len();
        guest.unmask(&gradient)?;
    }
    let gradient_ms = (processor_ms()? - begin) / rounds as f64;
    Ok(json!({
        "upload_ms": upload_ms, "exchange_ms": exchange_ms, "gradient_ms": gradient_ms, "exchange_wall_ms": wall_ms, "error": worst,
        "up": up, "down": down, "back": back, "gradient": gradient_bytes,
    }))
}

fn ipfe(rows: usize, values: usize, rounds: usize) -> Outcome<serde_json::Value> {
    let grid = Grid::new(0.0, 1.0, 1 << 11)?;
    let agreement = Agreement { width: values, grid, most_rows: 1 << 16, most_blocks: 1 };
    let mut random = Randomness::insecure_from_seed(1);
    let begin = processor_ms()?;
    let table = Arc::new(LogarithmTable::new(20)?);
    let table_ms = processor_ms()? - begin;
    let begin = processor_ms()?;
    let mut authority = Authority::new(agreement)?;
    let key = authority.public_key();
    let mut guest = IpfeGuest::new(agreement, &key)?;
    let mut host = IpfeHost::new(agreement, &key, table)?;
    let setup_ms = processor_ms()? - begin;
    let raw: Vec<f64> = (0..values).map(|_| uniform(&mut random)).collect();
    let begin = processor_ms()?;
    let upload = guest.upload(BlockId(0), &grid.levels_of(&raw)?)?;
    let block = host.store(&upload)?;
    let upload_ms = processor_ms()? - begin;
    let matrix: Vec<f64> = (0..rows * values).map(|_| normal(&mut random)).collect();
    let (mut down, mut back, mut worst) = (0, 0, 0.0f64);
    let begin = processor_ms()?;
    for _ in 0..rounds {
        let question = host.ask(&Matrix { rows, blocks: &[block], values: &matrix })?;
        let answer = authority.answer(&question)?;
        let products = host.open(&answer)?;
        (down, back) = (question.len(), answer.len());
        worst = difference(&matrix, &raw, &products);
    }
    let exchange_ms = (processor_ms()? - begin) / rounds as f64;
    Ok(json!({
        "table_ms": table_ms, "setup_ms": setup_ms, "upload_ms": upload_ms,
        "exchange_ms": exchange_ms, "error": worst, "up": upload.len(), "down": down, "back": back,
    }))
}

fn noise(sigma: f64) -> Outcome<serde_json::Value> {
    let noise = DiscreteGaussian::new(sigma)?;
    let mut random = Randomness::from_os()?;
    let mut counts = BTreeMap::new();
    for _ in 0..200_000 {
        *counts.entry(noise.draw(&mut random).to_string()).or_insert(0) += 1;
    }
    Ok(json!({ "counts": counts }))
}

fn difference(matrix: &[f64], values: &[f64], products: &[f64]) -> f64 {
    let rows = matrix.chunks_exact(values.len()).zip(products);
    rows.map(|(row, found)| {
        let product: f64 = row.iter().zip(values).map(|(a, u)| a * u).sum();
        (product - found).abs()
    })
    .fold(0.0, f64::max)
}

fn uniform(random: &mut Randomness) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(random: &mut Randomness) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// Processor time of all threads so far, as Linux counts it.
fn processor_ms() -> Outcome<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let line = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += line.split(' ').next().unwrap_or_default().parse::<f64>()?;
    }
    Ok(nanoseconds / 1e6)
}
