"""Training step and estimate of the paper's model: ours against PyTorch, in one run.

    cargo build --release -p neural --example train_step
    .venv-torch/bin/python scripts/bench_train.py [--quick] [--sizes] [--json FILE]

Batch 128, two sub-models (1 and 2 channels), head, Adam with weight decay; 17 nodes, 9 steps, f32,
two threads each. Rounds of PyTorch eager, torch.compile and ours alternate, so that all see the
same machine. `--sizes` adds how our cost grows with batch and nodes.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch

import stgcn_torch as reference

THREADS = 2
ROOT = pathlib.Path(__file__).resolve().parent.parent
# (name, against, at least)
TARGETS = [
    ("train 128", "eager", 4.5),
    ("train 128", "compiled", 3.0),
    ("infer 1", "eager", 15.0),
    ("infer 1", "compiled", 8.0),
]


class Ours:
    def __init__(self, threads, *arguments):
        program = ROOT / "target/release/examples/train_step"
        if not program.exists():
            sys.exit(f"{program} not found: cargo build --release -p neural --example train_step")
        self.process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"RAYON_NUM_THREADS": str(threads)},
        )

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def run(self, what, count):
        return self.ask(f"{what} {count}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Torch:
    def __init__(self, compiled):
        torch.manual_seed(1)
        self.model = reference.paper()
        self.call = torch.compile(self.model) if compiled else self.model
        # One fused kernel: the fastest that PyTorch offers.
        self.adam = torch.optim.Adam(self.model.parameters(), lr=3e-4, weight_decay=1e-3, fused=True)

    def run(self, what, count):
        what, batch = what.split()
        batch = int(batch)
        host, guest = torch.randn(batch, 1, 9, 17), torch.randn(batch, 2, 9, 17)
        target = torch.randn(batch, 34)
        # One estimate is too small to divide: one thread is faster, for PyTorch too.
        torch.set_num_threads(1 if batch == 1 else THREADS)
        times = []
        for _ in range(count):
            start = time.perf_counter()
            if what == "train":
                self.adam.zero_grad(set_to_none=True)
                loss = ((self.call(host, guest) - target) ** 2).mean()
                loss.backward()
                self.adam.step()
                loss.item()
            else:
                with torch.inference_mode():
                    self.call(host, guest)
            times.append((time.perf_counter() - start) * 1e3)
        return times


def measure(variants, cases, rounds):
    for what, count in cases:
        for name, variant in variants.items():
            variant.run(what, max(3, count // 4))  # warm-up, compilation
    results = {what: {name: [] for name in variants} for what, _ in cases}
    for _ in range(rounds):
        for what, count in cases:
            for name, variant in variants.items():
                results[what][name] += variant.run(what, count)
    return results


def growth():
    """Our cost per sample and node, and memory, as batch and nodes grow."""
    rows = []
    for batch in [8, 32, 128, 512]:
        ours = Ours(THREADS)
        times = ours.run(f"train {batch}", 12)[2:]
        rows.append({"nodes": 17, "batch": batch, "ms": min(times), "MiB": ours.ask("memory")[0]})
        ours.close()
    for nodes in [50, 500, 5000]:
        ours = Ours(THREADS, f"links={nodes}")
        times = ours.run("train 8", 4)[1:]
        rows.append({"nodes": nodes, "batch": 8, "ms": min(times), "MiB": ours.ask("memory")[0]})
        ours.close()
    print(f"\n{'nodes':>6} {'batch':>6} {'ms':>10} {'us/sample/node':>15} {'MiB':>8}")
    for row in rows:
        each = row["ms"] * 1e3 / row["batch"] / row["nodes"]
        print(f"{row['nodes']:>6} {row['batch']:>6} {row['ms']:>10.2f} {each:>15.3f} {row['MiB']:>8.1f}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--sizes", action="store_true", help="also batch and node counts")
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {THREADS} threads, load average {os.getloadavg()[0]:.1f}")
    variants = {"eager": Torch(False), "compiled": Torch(True), "ours": Ours(THREADS)}
    cases = [("train 128", 8), ("infer 128", 8), ("infer 1", 50)]
    results = measure(variants, cases, 3 if arguments.quick else 10)
    print(f"\n{'min / median ms':<16} {'eager':>17} {'compiled':>17} {'ours':>17}  ratios of the medians")
    summary = {}
    for what, times in results.items():
        low = {name: min(values) for name, values in times.items()}
        mid = {name: statistics.median(values) for name, values in times.items()}
        summary[what] = {"min": low, "median": mid}
        cells = " ".join(f"{low[n]:>8.3f}/{mid[n]:>8.3f}" for n in variants)
        ratios = ", ".join(f"{mid[n] / mid['ours']:.2f}x {n}" for n in ["eager", "compiled"])
        print(f"{what:<16} {cells}  {ratios}")
    for what, peer, least in TARGETS:
        by_min = summary[what]["min"][peer] / summary[what]["min"]["ours"]
        by_median = summary[what]["median"][peer] / summary[what]["median"]["ours"]
        verdict = "reached" if min(by_min, by_median) >= least else "MISSED"
        print(f"{what} against {peer}: {by_min:.2f}x (min), {by_median:.2f}x (median), target {least}x: {verdict}")
    if arguments.sizes:
        summary["growth"] = growth()
    print(f"load average at the end {os.getloadavg()[0]:.1f} ({THREADS} are ours)")
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
