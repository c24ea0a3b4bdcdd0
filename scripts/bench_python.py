#!/usr/bin/env python3
"""What the boundary to Python costs: features of a table in memory beside the command line, taking turns.

    make bench-python
    .venv-python/bin/python scripts/bench_python.py [--rows 10000000] [--rounds 5] [--write]

Both make the features of four fleets and of all vehicles of the same positions. The command line reads them from a
dataset's Parquet file and writes Parquet files (`fedtse features`); Python has them in a frame of pandas and gets
arrays (`fedtse.features(frame)`). Processes' start-up is not counted for Python, and not for the command line:
what `fedtse --version` takes is subtracted. Fails if the ratio of medians is above 1.2.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet

import fedtse

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target" / "release" / "fedtse"
DOCS = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"(<!-- python benchmark:[^\n]*-->\n)(.*?)(<!-- end of python benchmark -->)", re.S)
MOST = 1.2
RATES = [20, 40, 60, 80]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedtse-bench-") as folder:
        return measure(Path(folder), arguments)


def measure(folder, arguments):
    data, network = folder / "corridor", fedtse.Network.corridor()
    # The corridor has some 7,500 positions a minute.
    fedtse.simulate(data, network=network, minutes=10 + arguments.rows / 7_000, seed=1)
    rows = pyarrow.parquet.read_table(data / "trajectories.parquet").slice(0, arguments.rows).to_pandas()
    names = pyarrow.parquet.read_table(data / "vehicles.parquet")["name"].to_numpy()
    link = pandas.Categorical.from_codes(rows["link"], network.links)
    numbered = pandas.DataFrame({
        "time": rows["time"], "vehicle": names[rows["vehicle"]].astype(np.int64), "link": link, "position": rows["position"],
    })
    named = numbered.assign(vehicle=pandas.Categorical.from_codes(rows["vehicle"], names))
    # The command line reads exactly these rows.
    short = folder / "short"
    fedtse.features(numbered, network=network, out=short, rates=RATES, gap=60)
    tables = {"whole numbers": numbered, "categories": named}

    def command(*words):
        begun = time.perf_counter()
        subprocess.run([arguments.program, *map(str, words)], check=True, capture_output=True)
        return time.perf_counter() - begun

    def python(table):
        begun = time.perf_counter()
        made = fedtse.features(table, network=network, rates=RATES, gap=60)
        seconds = time.perf_counter() - begun
        assert made.samples == len(table)
        return seconds

    times = {name: [] for name in ["command line", *tables]}
    for _ in range(arguments.rounds):
        rates = ",".join(map(str, RATES))
        times["command line"].append(command("features", short, "--rates", rates) - command("--version"))
        for name, table in tables.items():
            times[name].append(python(table))
    return told(times, len(rows), arguments)


def told(times, rows, arguments):
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["command line"]
    lines = ["| features of | median | least | of the command line |", "|---|---|---|---|"]
    for name, values in times.items():
        what = "`fedtse features`, from and to files" if name == "command line" else f"`fedtse.features(frame)`, vehicles as {name}"
        lines.append(f"| {what} | {medians[name]:.3f} s | {min(values):.3f} s | {medians[name] / base:.2f}× |")
    text = "\n".join(lines)
    print(text)
    worst = max(medians.values()) / base
    if arguments.write:
        page = DOCS.read_text(encoding="utf-8")
        found = (
            f"Features of {rows / 1e6:.1f} million positions, four fleets and all vehicles, {arguments.rounds} rounds taking turns "
            f"(`make bench-python`); at most {MOST}× was wanted:\n\n{text}\n"
        )
        DOCS.write_text(BLOCK.sub(lambda m: m.group(1) + "\n" + found + "\n" + m.group(3), page), encoding="utf-8")
    if worst > MOST:
        print(f"bench_python: found {worst:.2f}×, expected at most {MOST}×", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
