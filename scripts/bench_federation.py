#!/usr/bin/env python3
"""Measures training over the network beside the same training in one process:

    scripts/bench_federation.py [--data DIR] [--epochs 5] [--rounds 3] [--write]

A host and two guests on loopback, each a process with its own certificate, against `fedtse rehearse`
with the same configurations, taking turns. Prints wall-clock time and processor time of both, their
ratio, and the bytes on the network (TLS, HTTP/2 and greetings included) beside the embeddings and
gradients in them. Fails if the weights differ. Needs `cargo build --release`. Without --data it
simulates a day of its own. `make bench-federation` builds, runs it and writes its part of
docs/benchmarks.md.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import benchmark_page

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"
GUESTS = {"fleet-a": "fleet-20", "fleet-b": "fleet-40"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the part of docs/benchmarks.md")
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="fedtse-bench-") as folder:
        folder = Path(folder)
        program = arguments.fedtse
        data = arguments.data or simulate(program, folder / "data")
        configure(program, folder, data.resolve(), arguments.epochs)
        runs = [measure(program, folder) for _ in range(arguments.rounds)]
    table = markdown(runs)
    print(table)
    if arguments.write:
        page = (
            "## Over the network\n\nWritten by `make bench-federation` ([scripts/bench_federation.py](../scripts/bench_federation.py)): "
            f"a host and two guests on loopback against the same rounds in one process, {arguments.epochs} epochs, "
            f"median of {arguments.rounds} rounds; load average {load:.1f} before. The weights are the same, bit for bit.\n\n{table}"
        )
        benchmark_page.write("federation", page, {"load_before": load, "runs": runs})


def markdown(runs):
    def median(way, what):
        return statistics.median(run[way][what] for run in runs)

    memory, network = median("memory", "seconds"), median("network", "seconds")
    last = runs[-1]
    share = 100 * (last["bytes"] / last["numbers"] - 1)
    mark = lambda reached: "✓" if reached else "missed"  # noqa: E731
    return "\n".join([
        f"| {last['exchanges']} exchanges | in one process | over the network | ratio | target |",
        "|---|---|---|---|---|",
        f"| wall-clock time | {memory:.2f} s | {network:.2f} s | {network / memory:.2f}× | ≤ 1.3× {mark(network / memory <= 1.3)} |",
        f"| processor time | {median('memory', 'processor'):.2f} s | {median('network', 'processor'):.2f} s | | |",
        f"| bytes | {last['numbers']} (embeddings, gradients) | {last['bytes']} (TLS and all) | {share:+.2f} % | < 2 % {mark(share < 2)} |",
    ]) + "\n"


def run(program, *arguments):
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def simulate(program, folder):
    print("simulating …", file=sys.stderr)
    run(program, "simulate", "--out", folder)
    run(program, "features", folder, "--rates", "20,40")
    return folder


def configure(program, folder, data, epochs):
    """Certificates and configurations of all parties, in one folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    certs = folder / "certs"
    run(program, "certs", "init", "--out", certs)
    run(program, "certs", "host", "--authority", certs, "--name", "city", "--address", "localhost")
    accepted = "[guests]\n"
    for guest, fleet in GUESTS.items():
        made = json.loads(run(program, "certs", "guest", "--authority", certs, "--name", guest, "--json"))
        accepted += f'{guest} = ["{made[0]["fingerprint"]}"]\n'
        (folder / f"{guest}.toml").write_text(
            f'{identity(guest)}[host]\nname = "city"\naddress = "localhost:{port}"\n'
            f'[data]\nfolder = "{data}"\nfleet = "{fleet}"\n[model]\nfusion = "concatenate"\n[run]\nfolder = "run/{guest}"\n'
        )
    (folder / "guests.toml").write_text(accepted)
    guests = "".join(f"[guests.{guest}]\n" for guest in GUESTS)
    (folder / "city.toml").write_text(
        f'{identity("city")}[network]\nlisten = "127.0.0.1:{port}"\naccepted = "guests.toml"\n'
        f'[data]\nfolder = "{data}"\ntarget = "smooth"\n{guests}'
        f'[training]\nfusion = "concatenate"\nepochs = {epochs}\n[run]\nfolder = "run/city"\n'
    )


def identity(name):
    return (
        f'[identity]\ncertificate = "certs/{name}.pem"\nkey = "certs/{name}.key"\n'
        'authority = "certs/authority.pem"\n'
    )


def measure(program, folder):
    """One run of each way."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    guests = [argument for guest in GUESTS for argument in ("--guest", folder / f"{guest}.toml")]
    before = processor()
    memory = json.loads(run(program, "rehearse", "--host", folder / "city.toml", *guests, "--json"))
    between = processor()
    parties = {}
    for name in ("city", *GUESTS):
        command = [program, "host" if name == "city" else "guest", "--config", folder / f"{name}.toml", "--json"]
        parties[name] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    reports = {name: json.loads(party.communicate()[0]) for name, party in parties.items()}
    after = processor()
    for name, report in reports.items():
        if report["weights"] != memory["weights"][name]:
            sys.exit(f"{name}: other weights over the network than in one process")
    host = reports["city"]
    return {
        "memory": {"seconds": memory["seconds"], "processor": between - before},
        "network": {"seconds": host["seconds"], "processor": after - between},
        "exchanges": host["finished"]["rounds"],
        "bytes": host["bytes"]["sent"] + host["bytes"]["received"],
        "numbers": sum(map(numbers, (folder / "run").glob("*/ledger.jsonl"))),
    }


def processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def numbers(ledger):
    """Bytes of the embeddings or gradients that left a party."""
    total = 0
    for line in ledger.read_text().splitlines():
        shape = json.loads(line)["shape"]
        if shape:
            total += 4 * shape[0] * shape[1]
    return total


if __name__ == "__main__":
    main()
