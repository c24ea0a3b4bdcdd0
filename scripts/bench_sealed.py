#!/usr/bin/env python3
"""Measures secure products beside the usual tools, in one run:

    scripts/bench_sealed.py [--rounds 3] [--rows 1000] [--write] [--check-noise]

The product of a host's matrix of 1000 × 2304 with a guest's vector: ours by lattices, ours by functional
encryption, TenSEAL (CKKS) and Paillier (phe; a few rows, multiplied). Processor time of one thread, all
parties together; the median of the rounds, which take turns. `--check-noise` compares our discrete Gaussian
noise with opendp's. Needs `cargo build --release -p sealed --examples` and the Python of .venv-sealed:
`make bench-sealed` sees to both and writes the part of docs/benchmarks.md.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import benchmark_page

ROOT = Path(__file__).resolve().parent.parent
OURS = ROOT / "target" / "release" / "examples" / "sealed_speed"
PEER = ROOT / "scripts" / "peer_sealed.py"
BLOCKS, WIDTH = 128, 18
# Values per block where the vector is used once: fewest bytes up and down together.
DENSE = 128
TARGETS = {"TenSEAL": 400, "phe, 2048 bit": 5000, "phe, 3072 bit": None, "our IPFE": 30}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="write the part of docs/benchmarks.md")
    parser.add_argument("--check-noise", action="store_true", help="only compare the noise with opendp's")
    arguments = parser.parse_args()
    if not OURS.exists():
        sys.exit("bench: sealed_speed: not found; run `cargo build --release -p sealed --examples`")
    if arguments.check_noise:
        check_noise()
        return
    load = os.getloadavg()[0]
    runs = [measure(arguments.rows) for _ in range(max(arguments.rounds, 1))]
    large = {rows: run_json([OURS, "rlwe", rows, BLOCKS, WIDTH, 5]) for rows in (2400, 10000)}
    page = markdown(runs, large, arguments.rows)
    print(page)
    if arguments.write:
        packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("tenseal", "phe", "gmpy2"))
        head = (
            "## Secure products\n\nWritten by `make bench-sealed` ([scripts/bench_sealed.py](../scripts/bench_sealed.py), "
            f"which says what is measured); {packages}; load average {load:.1f} before.\n\n"
        )
        benchmark_page.write("sealed", head + page, {"load_before": load, "runs": runs, "larger": large})


def measure(rows):
    shape = [rows, BLOCKS, WIDTH]
    peer = [sys.executable, PEER]
    return {
        "ours": run_json([OURS, "rlwe", *shape, 20]),
        "ours, dense": run_json([OURS, "rlwe", rows, BLOCKS * WIDTH // DENSE, DENSE, 20]),
        "our IPFE": run_json([OURS, "ipfe", *shape, 1]),
        "TenSEAL": run_json([*peer, "tenseal", rows, BLOCKS * WIDTH]),
        "phe, 2048 bit": run_json([*peer, "phe-2048", rows, BLOCKS * WIDTH]),
        "phe, 3072 bit": run_json([*peer, "phe-3072", rows, BLOCKS * WIDTH]),
    }


def seconds(run):
    """Encryption counts, keys and tables do not."""
    return run["seconds"] if "seconds" in run else (run["exchange_ms"] + run["upload_ms"]) / 1e3


def markdown(runs, large, rows):
    before = statistics.median(run["ours"]["exchange_ms"] / 1e3 for run in runs)
    first, dense = runs[0]["ours"], runs[0]["ours, dense"]
    # Like with like: the others encrypt the vector, too.
    own = [seconds(run["ours, dense"]) for run in runs]
    lines = [
        f"| {rows} products of {BLOCKS * WIDTH} values | processor time | times ours, with the upload | target | largest error | bytes up / down / back |",
        "|---|---|---|---|---|---|",
        f"| ours (lattices), vector uploaded before | {short(before)} | | | {first['error']:.1e} "
        f"| 0 / {first['down']:,} / {first['back']:,} |",
        f"| ours, with the upload, {BLOCKS * WIDTH // DENSE} blocks of {DENSE} values | {short(statistics.median(own))} | | | {dense['error']:.1e} "
        f"| {dense['up']:,} / {dense['down']:,} / {dense['back']:,} |",
    ]
    for name, target in TARGETS.items():
        run = runs[0][name]
        times = [seconds(run[name]) for run in runs]
        ratio = statistics.median(times) / statistics.median(own)
        least = min(times) / max(own)
        verdict = "–" if target is None else f"{target:,}× {'✓' if ratio >= target else 'missed'}"
        note = f", {run['sample']} rows, multiplied" if "sample" in run else ""
        lines.append(
            f"| {name}{note} | {short(statistics.median(times))} | **{ratio:,.0f}×** (at least {least:,.0f}×) | {verdict} "
            f"| {run['error']:.1e} | {run['up']:,} / {run['down']:,} / {run.get('back', 0):,} |"
        )
    gradient = statistics.median(run["ours"]["gradient_ms"] / 1e3 for run in runs)
    lines.append(
        f"\nThe upload for any later batch, once: {first['up'] // BLOCKS:,} bytes and "
        f"{short(first['upload_ms'] / BLOCKS / 1e3)} per block. 8192 products of two values for the guest alone: {short(gradient)}, {first['gradient']:,} bytes in all. "
        + " ".join(
            f"{count:,} rows: {short(run['exchange_ms'] / 1e3)}, {run['down']:,} bytes down, {run['back']:,} back."
            for count, run in large.items()
        )
        + " TenSEAL's bytes up include its Galois keys; it masks and floods nothing."
        " Our IPFE works on a grid of 2^11 levels to either side, ours by lattices on one of 2^14: its table of logarithms reaches no further, hence its larger error."
    )
    return "\n".join(lines) + "\n"


def check_noise():
    for thousandth in (500, 2700, 16000):
        ours = run_json([OURS, "noise", thousandth])["counts"]
        theirs = run_json([sys.executable, PEER, "opendp", thousandth, 1])["counts"]
        statistic, freedom = 0.0, -1
        a = b = 0
        for value in sorted({*map(int, ours), *map(int, theirs)}):
            a += ours.get(str(value), 0)
            b += theirs.get(str(value), 0)
            if a + b >= 40:
                statistic += (a - b) ** 2 / (a + b)
                freedom += 1
                a = b = 0
        # Equal numbers of draws: χ² with mean f and variance 2f if both follow one distribution.
        most = freedom + 5 * math.sqrt(2 * freedom)
        verdict = "same" if statistic < most else "DIFFERENT"
        print(f"sigma {thousandth / 1000}: chi-square {statistic:.1f}, {freedom} degrees of freedom: {verdict}")
        if statistic >= most:
            sys.exit(f"bench: noise: found chi-square {statistic:.1f}, expected less than {most:.1f}")


def short(value):
    return f"{value:.3g} s" if value >= 0.1 else f"{value * 1000:.3g} ms"


def run_json(command):
    command = [str(part) for part in command]
    environment = os.environ | {"RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command[:3])} … failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
