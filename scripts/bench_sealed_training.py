#!/usr/bin/env python3
"""What protection costs: FedTSE-PI trained clear, sealed and sealed+noise, in one run.

    scripts/bench_sealed_training.py [--data DIR] [--rate 20] [--epochs 4,40] [--rounds 3]

Each mode as `fedtse train` has it: `clear` with the usual head, the sealed ones with the narrow head that is theirs;
and `clear` with that narrow head, for what sealing itself costs.
Each is trained for few and for many epochs, the modes in turn, and the fastest of the rounds counts: the whole of the
longer run, and an epoch by the difference, without reading data and drawing noise. Without --data, 250 minutes of the
built-in corridor. Needs `cargo build --release`; `make bench-sealed-training` sees to it.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"
MODES = {
    "clear": ["--privacy", "clear"],
    "clear, narrow head": ["--privacy", "clear", "--head-units", "4"],
    "sealed": ["--privacy", "sealed"],
    "sealed+noise": ["--privacy", "sealed+noise"],
}
TARGET = 3.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--epochs", default="4,40")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    arguments = parser.parse_args()
    few, many = (int(epochs) for epochs in arguments.epochs.split(","))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        data = arguments.data or simulated(arguments, scratch / "data")
        seconds, scores = {}, {}
        for number in range(arguments.rounds):
            for mode in MODES:
                for epochs in (few, many):
                    took, score = train(arguments, data, mode, epochs, scratch / f"noise-{number}-{epochs}")
                    key = (mode, epochs)
                    seconds[key] = min(took, seconds.get(key, took))
                    scores[mode] = score
    print(f"| mode | {many} epochs, s | times clear | an epoch, s | times clear | density / flow |")
    print("|---|---|---|---|---|---|")
    epoch = {mode: (seconds[mode, many] - seconds[mode, few]) / (many - few) for mode in MODES}
    for mode in MODES:
        whole = seconds[mode, many]
        of_whole, of_epoch = whole / seconds["clear", many], epoch[mode] / epoch["clear"]
        errors = f"{scores[mode]['density']['rmse']:.2f} / {scores[mode]['flow']['rmse']:.2f}"
        print(f"| `{mode}` | {whole:.1f} | {of_whole:.2f} | {epoch[mode]:.2f} | {of_epoch:.2f} | {errors} |")
    print(f"\ntarget: sealed+noise at most {TARGET:g} times clear")


def simulated(arguments, data):
    rate = f"{arguments.rate:g}"
    for command in (["simulate", "--minutes", "250", "--out", data], ["features", data, "--rates", rate]):
        run(arguments, command)
    return data


def train(arguments, data, mode, epochs, noise):
    """Wall-clock seconds and the score."""
    command = ["--json", "train", "--data", data, "--method", "fedtse-pi", "--target", "raw", *MODES[mode]]
    command += ["--rate", f"{arguments.rate:g}", "--epochs", epochs, "--noise-folder", noise]
    began = time.monotonic()
    output = run(arguments, command)
    return time.monotonic() - began, json.loads(output)[0]["score"]


def run(arguments, command):
    command = [str(part) for part in [arguments.fedtse, *command]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
