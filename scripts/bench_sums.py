#!/usr/bin/env python3
"""Measures mode `aggregate` beside `clear`, over the network, in one run:

    scripts/bench_sums.py [--guests 2,4,8,16] [--epochs 10] [--rounds 1] [--rate 40] [--write]

For each number of guests, who divide one fleet among them, a host and its guests train on loopback, each a process with its own
certificate: embeddings in exchanges in the clear, then masked sums and training by the host alone. Takes turns, prints wall-clock
time from the start of the processes to their end, bytes on the network (TLS and all), their ratios, and the errors of both. The
targets are those of the project's criterion: at most 1.3 times the time and 2.2 times the bytes. Needs `cargo build --release`.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import benchmark_page

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"
MODES = {"clear": "concatenate", "aggregate": "sum"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guests", default="2,4,8,16")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--minutes", type=float, default=250)
    parser.add_argument("--write", action="store_true", help="write the part of docs/benchmarks.md")
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    rows = []
    with tempfile.TemporaryDirectory(prefix="fedtse-bench-") as folder:
        for guests in map(int, arguments.guests.split(",")):
            data = simulate(arguments, Path(folder), guests)
            runs = [measure(arguments, Path(folder), data, guests) for _ in range(arguments.rounds)]
            rows.append({"guests": guests, "runs": runs})
            print(line(rows[-1]), flush=True)
    table = "\n".join([HEADER, *map(line, rows)]) + "\n"
    print("\n" + table)
    if arguments.write:
        page = (
            "## Sums over guests\n\nWritten by [scripts/bench_sums.py](../scripts/bench_sums.py): mode `aggregate` beside `clear`, "
            f"a host and its guests as processes on loopback, {arguments.rate:g} % of the vehicles divided among the guests, {arguments.epochs} epochs, "
            f"median of {arguments.rounds}; load average {load:.1f} before.\n\n{table}"
        )
        benchmark_page.write("sums", page, {"load_before": load, "rows": rows})


HEADER = (
    "| guests | clear: s | aggregate: s | ratio, target ≤ 1.3 | clear: kB | aggregate: kB | ratio, target ≤ 2.2 | density, flow RMSE: clear | aggregate |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def line(row):
    def median(mode, what):
        return statistics.median(run[mode][what] for run in row["runs"])

    cells = [str(row["guests"])]
    for what, scale, most in (("seconds", 1, 1.3), ("bytes", 1e-3, 2.2)):
        clear, aggregate = median("clear", what), median("aggregate", what)
        ratio = aggregate / clear
        cells += [f"{clear * scale:.1f}", f"{aggregate * scale:.1f}", f"{ratio:.2f} {'✓' if ratio <= most else 'missed'}"]
    for mode in MODES:
        score = row["runs"][-1][mode]["score"]
        cells.append(f"{score['density']['rmse']:.2f}, {score['flow']['rmse']:.2f}")
    return "| " + " | ".join(cells) + " |"


def run(program, *arguments):
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def simulate(arguments, folder, guests):
    data = folder / "data"
    if not data.exists():
        print("simulating …", file=sys.stderr)
        run(arguments.fedtse, "simulate", "--out", data, "--minutes", arguments.minutes)
    share = arguments.rate / guests
    run(arguments.fedtse, "features", data, "--replace", "--guests", ",".join([f"{share:g}"] * guests))
    return data.resolve()


def identity(folder, name):
    return (
        f'[identity]\ncertificate = "{folder}/certs/{name}.pem"\nkey = "{folder}/certs/{name}.key"\n'
        f'authority = "{folder}/certs/authority.pem"\n'
    )


def measure(arguments, folder, data, guests):
    names = [f"fleet-{number:02}" for number in range(1, guests + 1)]
    certs = folder / "certs"
    shutil.rmtree(certs, ignore_errors=True)
    run(arguments.fedtse, "certs", "init", "--out", certs)
    run(arguments.fedtse, "certs", "host", "--authority", certs, "--name", "city", "--address", "localhost")
    accepted = "[guests]\n"
    for name in names:
        made = json.loads(run(arguments.fedtse, "certs", "guest", "--authority", certs, "--name", name, "--json"))
        accepted += f'{name} = ["{made[0]["fingerprint"]}"]\n'
    (folder / "guests.toml").write_text(accepted)
    measured = {}
    for mode, fusion in MODES.items():
        shutil.rmtree(folder / "run", ignore_errors=True)
        shutil.rmtree(data / "sums", ignore_errors=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        sections = "".join(f"[guests.{name}]\n" for name in names)
        (folder / "city.toml").write_text(
            f'{identity(folder, "city")}[network]\nlisten = "127.0.0.1:{port}"\naccepted = "guests.toml"\n'
            f'[data]\nfolder = "{data}"\ntarget = "raw"\n{sections}'
            f'[training]\nfusion = "{fusion}"\nepochs = {arguments.epochs}\n[run]\nfolder = "run/city"\n'
        )
        for number, name in enumerate(names, 1):
            (folder / f"{name}.toml").write_text(
                f'{identity(folder, name)}[host]\nname = "city"\naddress = "localhost:{port}"\n'
                f'[data]\nfolder = "{data}"\nfleet = "guest-{number}"\n[model]\nfusion = "{fusion}"\n'
                f'[run]\nfolder = "run/{name}"\n'
            )
        began = time.monotonic()
        parties = []
        for name in ["city", *names]:
            role = "host" if name == "city" else "guest"
            command = [arguments.fedtse, role, "--config", folder / f"{name}.toml", "--json"]
            parties.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        answers = [party.communicate() for party in parties]
        seconds = time.monotonic() - began
        for name, party, answer in zip(["city", *names], parties, answers):
            if party.returncode:
                sys.exit(f"{name}: {answer[1][-2000:]}")
        report = json.loads(answers[0][0])
        total = report["bytes"]["sent"] + report["bytes"]["received"]
        measured[mode] = {"seconds": seconds, "bytes": total, "score": report["score"]}
    return measured


if __name__ == "__main__":
    main()
