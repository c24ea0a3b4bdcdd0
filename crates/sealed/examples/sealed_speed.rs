//! Times secure products; see scripts/bench_sealed.py.
use sealed::fixed_point::*;
use sealed::product::*;
use sealed::random::*;
use sealed::rlwe::*;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}
fn main() {
    let m = 1000;
    let b = 128;
    let w = 18;
    let grid = Grid::new(0.0, 1.0, 1 << 14).unwrap();
    let ag = Agreement { width: w, grid, most_rows: 20000, most_blocks: 1000 };
    let mut r = Randomness::from_seed_for_tests(1);
    let mut g = RlweGuest::new(ag, &KeySeed::from_os().unwrap()).unwrap();
    let mut h = RlweHost::new(ag, &g.opening()).unwrap();
    let mut uni = || (r.bits() >> 11) as f64 / (1u64 << 53) as f64;
    let mut u = vec![];
    let blocks: Vec<_> = (0..b).map(BlockId).collect();
    let t = cpu();
    let ups: Vec<_> = blocks
        .iter()
        .map(|&id| {
            let l: Vec<i32> = (0..w).map(|_| grid.level(uni()).unwrap()).collect();
            u.extend(l.iter().map(|&l| grid.value(l)));
            g.upload(id, &l).unwrap()
        })
        .collect();
    println!("upload {} ms, {} B", cpu() - t, ups[0].len());
    let t = cpu();
    for x in &ups {
        h.store(x).unwrap();
    }
    println!("store {}", cpu() - t);
    let n = w * b as usize;
    let a: Vec<f64> = (0..m * n).map(|_| uni() * 2.0 - 1.0).collect();
    for _ in 0..5 {
        let t0 = cpu();
        let q = h.ask(&Matrix { rows: m, blocks: &blocks, values: &a }).unwrap();
        let t1 = cpu();
        let ans = g.answer(&q).unwrap();
        let t2 = cpu();
        let y = h.open(&ans).unwrap();
        let t3 = cpu();
        let mut worst = 0.0f64;
        for (i, y) in y.iter().enumerate() {
            let e: f64 = (0..n).map(|j| a[i * n + j] * u[j]).sum();
            worst = worst.max((e - y).abs());
        }
        println!(
            "ask {:.1} answer {:.1} open {:.2} total {:.1} ms; {} B down {} B back; worst {worst:e}",
            t1 - t0,
            t2 - t1,
            t3 - t2,
            t3 - t0,
            q.len(),
            ans.len()
        );
    }
    let k = 9;
    let d: Vec<f64> = (0..b as usize * k * w).map(|_| uni() * 2.0 - 1.0).collect();
    let c: Vec<f64> = (0..b as usize * k).map(|_| uni() * 10.0).collect();
    let t0 = cpu();
    let q = h
        .grant(&BlockProducts { rows: k, blocks: &blocks, coefficients: &d, offsets: &c })
        .unwrap();
    let t1 = cpu();
    let y = g.take(&q).unwrap();
    let t2 = cpu();
    let mut worst = 0.0f64;
    for (i, y) in y.iter().enumerate() {
        let bb = i / k;
        let e: f64 = (0..w).map(|j| d[i * w + j] * u[bb * w + j]).sum::<f64>() + c[i];
        worst = worst.max((e - y).abs());
    }
    println!("grant {:.1} take {:.1} {} B worst {worst:e}", t1 - t0, t2 - t1, q.len());
}
