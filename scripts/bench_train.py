"""Training and estimating with the paper's model: ours against PyTorch, in one run.

    make bench-train
    .venv-torch/bin/python scripts/bench_train.py [--quick] [--only step|growth|curves]

1. A training step (batch 128, two sub-models with 1 and 2 channels, head, Adam with weight decay;
   17 nodes, 9 steps, f32) and estimates of 128 and of 1 sample; two threads each, one for a single
   estimate. Rounds of PyTorch eager, torch.compile and ours take turns, so that all see the same
   machine.
2. How our cost and memory grow with the batch and with the links of a grid city. Counted in
   processor time, which other jobs disturb less than the clock.
3. Learning curves from the same weights and batches (train_curves.py).

Prints all and writes the training part of docs/benchmarks.md and .json (not with --only or --quick).
"""

import argparse
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time

import torch

import benchmark_page
import stgcn_torch as reference
import train_curves

THREADS = 2
ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/examples/train_step"
# (case, against, at least)
TARGETS = [("train 128", "eager", 4.5), ("train 128", "compiled", 3.0), ("infer 1", "eager", 15.0)]
NAMES = {
    "train 128": "training step, batch 128",
    "infer 128": "estimates, batch 128",
    "infer 1": "one estimate",
    "eager": "PyTorch eager",
    "compiled": "`torch.compile`",
}
# Costs per sample and link may differ by this factor within a table and still count as linear.
LINEAR = 1.3
LINKS = [17, 100, 500, 2000, 5000]
BATCHES = [1, 8, 32, 128, 512]


class Ours:
    def __init__(self, threads, *arguments):
        if not PROGRAM.exists():
            sys.exit(f"{PROGRAM} not found: cargo build --release -p neural --examples")
        self.process = subprocess.Popen(
            [PROGRAM, *arguments],
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


def step(rounds):
    """Milliseconds of each variant, by case; ratios; peak memory of both processes."""
    variants = {"eager": Torch(False), "compiled": Torch(True), "ours": Ours(THREADS)}
    cases = [("train 128", 8), ("infer 128", 8), ("infer 1", 50)]
    for what, count in cases:
        for variant in variants.values():
            variant.run(what, max(3, count // 4))  # warm-up, compilation
    times = {what: {name: [] for name in variants} for what, _ in cases}
    for _ in range(rounds):
        for what, count in cases:
            for name, variant in variants.items():
                times[what][name] += variant.run(what, count)
    rows = []
    for what, by_name in times.items():
        row = {"case": what, "ms": {}}
        for name, values in by_name.items():
            row["ms"][name] = {"min": min(values), "median": statistics.median(values)}
        own = row["ms"]["ours"]
        for peer in ["eager", "compiled"]:
            row[peer] = {which: row["ms"][peer][which] / own[which] for which in ["min", "median"]}
            least = next((least for case, name, least in TARGETS if (case, name) == (what, peer)), None)
            row[peer] |= {"target": least, "reached": least and min(row[peer].values()) >= least}
        rows.append(row)
    memory = {
        "ours_mib": variants["ours"].ask("memory")[0],
        "pytorch_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    variants["ours"].close()
    return {"rounds": rounds, "rows": rows, "memory": memory}


def step_markdown(result):
    lines = ["| what | against | ours, ms | theirs, ms | times faster | target |", "|---|---|---|---|---|---|"]
    for row in result["rows"]:
        own = row["ms"]["ours"]
        for peer in ["eager", "compiled"]:
            ratio, theirs = row[peer], row["ms"][peer]
            target = f"{ratio['target']}× {'✓' if ratio['reached'] else 'missed'}" if ratio["target"] else "–"
            lines.append(
                f"| {NAMES[row['case']]} | {NAMES[peer]} | {own['median']:.3g} (min {own['min']:.3g}) "
                f"| {theirs['median']:.3g} (min {theirs['min']:.3g}) "
                f"| **{ratio['median']:.2f}×** (min {ratio['min']:.2f}×) | {target} |"
            )
    memory = result["memory"]
    lines += [
        "",
        f"Medians, minima, and their ratios; a target counts as reached if both ratios reach it. Peak memory: ours "
        f"{memory['ours_mib']:.0f} MiB, PyTorch's process {memory['pytorch_mib']:.0f} MiB.",
    ]
    return "\n".join(lines) + "\n"


def cost(model, links, batch, steps, repeats):
    """Processor time of a training step for each sample and link, the clock's, and memory."""
    ours = Ours(THREADS, f"links={links}", f"model={model}")
    ours.run(f"train {batch}", 2)
    processor, clock = [], []
    for _ in range(repeats):
        before = ours.ask("cpu")[0]
        clock += ours.run(f"train {batch}", steps)
        processor.append((ours.ask("cpu")[0] - before) / steps)
    memory = ours.ask("memory")[0]
    ours.close()
    each = batch * links
    return {
        "model": model,
        "links": links,
        "batch": batch,
        "step_ms": min(clock),
        "processor_us": min(processor) * 1e6 / each,
        "clock_us": min(clock) * 1e3 / each,
        "mib": memory,
    }


def growth(quick):
    repeats = 2 if quick else 4
    by_links, by_batch = [], []
    for model in ["paper", "messages"]:
        for links in LINKS:
            batch = 128 if links == 17 else 16
            by_links.append(cost(model, links, batch, max(1, 20_000 // (links * batch)), repeats))
    for batch in BATCHES:
        by_batch.append(cost("paper", 17, batch, max(2, 1024 // batch), repeats))

    def factor(rows):
        costs = [row["processor_us"] for row in rows]
        return max(costs) / min(costs)

    large = {
        model: factor([row for row in by_links if row["model"] == model and row["links"] >= 500])
        for model in ["paper", "messages"]
    }
    return {
        "by_links": by_links,
        "by_batch": by_batch,
        "factor_500_to_5000": large,
        "factor_batch_32_to_512": factor([row for row in by_batch if row["batch"] >= 32]),
    }


def growth_markdown(result):
    names = {"paper": "the paper's", "messages": "message passing"}
    lines = [
        "| model | links | batch | step, ms | processor µs per sample and link | peak memory, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["by_links"] + result["by_batch"]:
        lines.append(
            f"| {names[row['model']]} | {row['links']:,} | {row['batch']} | {milliseconds(row['step_ms'])} "
            f"| {row['processor_us']:.2f} | {row['mib']:.0f} |"
        )
    worst = max(*result["factor_500_to_5000"].values(), result["factor_batch_32_to_512"])
    of = result["factor_500_to_5000"]
    lines += [
        "",
        f"Costs per sample and link differ by a factor of {of['paper']:.2f} (the paper's model) and {of['messages']:.2f} "
        f"(message passing) from 500 to 5,000 links, and of {result['factor_batch_32_to_512']:.2f} from batch 32 to 512. "
        f"Linear, that is less than {LINEAR}: **{'yes ✓' if worst < LINEAR else 'missed'}**.",
    ]
    return "\n".join(lines) + "\n"


def milliseconds(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def processor():
    try:
        return re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1]
    except (OSError, TypeError):
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no files")
    parser.add_argument("--only", choices=["step", "growth", "curves"])
    arguments = parser.parse_args()
    quick = arguments.quick
    load = os.getloadavg()[0]
    document = {
        "command": "make bench-train",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": load,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }
    page = (
        "## Training\n\nWritten by `make bench-train` ([scripts/bench_train.py](../scripts/bench_train.py), which says "
        f"what is measured); {document['processor']}, {document['cores']} cores, torch {torch.__version__}, load average "
        f"{load:.1f} before.\n"
    )
    parts = {
        "step": (lambda: step(3 if quick else 10), step_markdown, ""),
        "growth": (lambda: growth(quick), growth_markdown, "\n### How the cost grows\n"),
        "curves": (
            lambda: train_curves.compare(*((3, 4) if quick else (5, 12))),
            train_curves.markdown,
            "\n### Learning curves from the same weights and batches\n",
        ),
    }
    for name, (measure, markdown, title) in parts.items():
        if arguments.only in (None, name):
            print(f"{name} …", file=sys.stderr, flush=True)
            document[name] = measure()
            page += f"{title}\n{markdown(document[name])}"
    print(page)
    if not quick and not arguments.only:
        benchmark_page.write("training", page, document)


if __name__ == "__main__":
    main()
