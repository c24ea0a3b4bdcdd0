#!/usr/bin/env python3
"""Bytes and time of an exchange of sealed training, by the size of the network, beside training in the clear.

    scripts/bench_sealed_size.py [--links 17,164,494,2000] [--modes clear,sealed+noise] [--epochs 2] [--fedtse FILE]

The built-in corridor (17 links) and grids that SUMO's netgenerate makes (164, 494 and 2000 links), an hour of random trips,
a fleet of 20 %, one guest, default settings. Bytes are those of the ledgers: what leaves guest and host in a training
exchange, in the mean over exchanges; time is from the first message of an exchange to the last, by the host's ledger, the
least of all exchanges. Needs `cargo build --release` and SUMO (`make sumo`); `make bench-sealed-size` sees to it.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMO = ROOT / ".venv-sumo"
# Columns and rows of junctions, and seconds between two trips.
GRIDS = {164: (6, 8, 1.5), 494: (8, 17, 0.8), 2000: (15, 35, 0.4)}
CONFIGURATION = """<configuration>
  <input><net-file value="net.net.xml"/><route-files value="routes.rou.xml"/></input>
  <time><begin value="0"/><end value="3600"/></time>
</configuration>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", default="17,164,494,2000")
    parser.add_argument("--modes", default="clear,sealed+noise")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--data", type=Path, help="where datasets are made, or are from an earlier run")
    parser.add_argument("--fedtse", type=Path, default=ROOT / "target" / "release" / "fedtse")
    arguments = parser.parse_args()
    print("| links | mode | exchanges | to the guest, MB | to the host, MB | time, s | memory, GB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for links in map(int, arguments.links.split(",")):
            data = (arguments.data or scratch) / str(links) / "data"
            if not data.exists():
                simulate(arguments, links, data)
            for mode in arguments.modes.split(","):
                row(arguments, links, mode, data, scratch / f"{links}-{mode}")


def simulate(arguments, links, data):
    """An hour of traffic, and a fleet of 20 %."""
    data.parent.mkdir(parents=True, exist_ok=True)
    if links == 17:
        run(arguments, "simulate", "--minutes", "60", "--out", data)
    else:
        x, y, period = GRIDS[links]
        net, trips = data.parent / "net.net.xml", data.parent / "trips.xml"
        tool(SUMO / "bin" / "netgenerate", "--grid", f"--grid.x-number={x}", f"--grid.y-number={y}",
             "--grid.length=200", "--seed=3", "-o", net)
        random_trips = next(SUMO.glob("lib/python3*/site-packages/sumo/tools/randomTrips.py"))
        tool(SUMO / "bin" / "python", random_trips, "-n", net, "-o", trips, "-r", data.parent / "routes.rou.xml",
             "-e", "3600", "-p", str(period), "--seed", "5")
        scenario = data.parent / "grid.sumocfg"
        scenario.write_text(CONFIGURATION)
        run(arguments, "simulate", "--sumocfg", scenario, "--loops", "10%", "--out", data)
    run(arguments, "features", data, "--rates", "20")


def row(arguments, links, mode, data, out):
    words = ["train", "--data", data, "--method", "fedtse-pi", "--target", "raw", "--rate", "20", "--privacy", mode]
    words += ["--epochs", arguments.epochs, "--noise-folder", out / "noise", "--out", out / "model"]
    out.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    run(arguments, *words)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    host, guests = None, []
    for ledger in sorted((out / "model").rglob("ledger.jsonl")):
        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        if ledger.parent.name == "host":
            host = lines
        else:
            guests += lines
    learned = {line["round"] for line in host if line["kind"] in ("gradient", "masked-gradient")}
    down = sum(line["bytes"] for line in host if line.get("round") in learned)
    up = sum(line["bytes"] for line in guests if line.get("round") in learned)
    took = []
    for number in learned:
        times = [line["time_ms"] for line in host if line.get("round") == number]
        took.append((max(times) - min(times)) / 1000)
    each = [total / len(learned) / 1e6 for total in (down, up)]
    shown = f"{memory / 1e6:.1f}" if memory > before else f"at most {memory / 1e6:.1f}"
    print(f"| {links} | `{mode}` | {len(learned)} | {each[0]:.2f} | {each[1]:.2f} | {min(took):.2f} | {shown} |", flush=True)


def run(arguments, *words):
    tool(arguments.fedtse, *words)


def tool(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


if __name__ == "__main__":
    main()
