#!/usr/bin/env python3
"""Accuracy of FedTSE-PI against the ε of the noise, and what sealing costs:

    scripts/privacy_curve.py --data DIR --out DIR [--rates 20,40,60,80] [--epsilons 1,2,4,8,inf]
                             [--mode sealed+noise] [--epochs N] [--head-units 4] [--cost]

For each rate and ε it runs `fedtse train --method fedtse-pi`, and writes curve.json, curve.md and curve.svg
into --out. Rows that are there are not run again. Each ε has noise of its own, kept in --out: a study of what noise
costs; a guest releases its data once. ε = inf is the same mode without noise. With `--mode noisy-clear` estimates are
those of `sealed+noise` to the error of the grid, and it takes far less time. --cost compares wall-clock time of clear
and sealed+noise training instead. Needs `cargo build --release`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rates", default="20,40,60,80")
    parser.add_argument("--epsilons", default="1,2,4,8,inf")
    parser.add_argument("--mode", default="sealed+noise", choices=["sealed+noise", "noisy-clear"])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--head-units", type=int, default=4)
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    parser.add_argument("--cost", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rates = [float(rate) for rate in arguments.rates.split(",")]
    if arguments.cost:
        print(cost(arguments, rates[0]))
        return
    kept = arguments.out / "curve.json"
    rows = json.loads(kept.read_text()) if kept.exists() else []
    about = {"mode": arguments.mode, "epochs": arguments.epochs, "head_units": arguments.head_units}
    if any({name: row[name] for name in about} != about for row in rows):
        sys.exit(f"{kept}: found rows of another mode, epochs or head, expected {about}")
    done = {(row["rate"], row["epsilon"]) for row in rows}
    for rate in rates:
        for epsilon in arguments.epsilons.split(","):
            if (rate, epsilon) in done:
                continue
            score, seconds = train(arguments, rate, epsilon)
            density, flow = score["density"]["rmse"], score["flow"]["rmse"]
            rows.append({**about, "rate": rate, "epsilon": epsilon, "density": density, "flow": flow, "seconds": seconds})
            kept.write_text(json.dumps(rows, indent=1) + "\n")
            print(f"{rate:g} % ε = {epsilon}: density {density:.2f}, flow {flow:.2f}, {seconds:.0f} s", flush=True)
    epsilons = arguments.epsilons.split(",")
    (arguments.out / "curve.md").write_text(table(rows, rates, epsilons))
    (arguments.out / "curve.svg").write_text(figure(rows, rates, epsilons))


def train(arguments, rate, epsilon, mode=None, epochs=None):
    mode = mode or arguments.mode
    if epsilon == "inf":
        mode = {"sealed+noise": "sealed", "noisy-clear": "clear"}.get(mode, mode)
    command = [arguments.fedtse, "--json", "train", "--data", arguments.data, "--method", "fedtse-pi", "--rate", f"{rate:g}"]
    command += ["--target", "raw", "--privacy", mode, "--epochs", str(epochs or arguments.epochs)]
    command += ["--head-units", str(arguments.head_units)]
    if epsilon != "inf":
        folder = arguments.out / f"noise-{rate:g}-{epsilon}"
        command += ["--epsilon", epsilon, "--noise-folder", folder]
    began = time.monotonic()
    output = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return json.loads(output.stdout)[0]["score"], time.monotonic() - began


def cost(arguments, rate):
    """Seconds of an epoch: what ten of them take longer than two, so that reading data does not count."""
    def epoch(mode):
        few, many = (train(arguments, rate, "8", mode, epochs)[1] for epochs in (2, 10))
        return (many - few) / 8
    clear, sealed = epoch("clear"), epoch("sealed+noise")
    return f"an epoch: clear {clear:.2f} s, sealed+noise {sealed:.2f} s, {sealed / clear:.1f} times (target 3)"


def table(rows, rates, epsilons):
    found = {(row["rate"], row["epsilon"]): row for row in rows}
    lines = ["| ε | " + " | ".join(f"{rate:g} %" for rate in rates) + " |", "|---" * (len(rates) + 1) + "|"]
    for epsilon in epsilons:
        cells = (found.get((rate, epsilon)) for rate in rates)
        cells = (f"{cell['density']:.2f} / {cell['flow']:.2f}" if cell else "–" for cell in cells)
        lines.append(f"| {'∞' if epsilon == 'inf' else epsilon} | " + " | ".join(cells) + " |")
    head = "RMSE of density (veh/km/lane) / flow (veh/min/lane) on the test part, raw targets, FedTSE-PI"
    about = rows[0] if rows else {}
    return f"{head}, mode `{about.get('mode')}`, {about.get('epochs')} epochs, {about.get('head_units')} units in the head.\n\n" + "\n".join(lines) + "\n"


def figure(rows, rates, epsilons):
    colours = ["#1b6ca8", "#c8553d", "#3d8f5f", "#8a5fb0"]
    most = max((row["density"] for row in rows), default=1.0) * 1.1
    x = {epsilon: 60 + 440 * place / max(len(epsilons) - 1, 1) for place, epsilon in enumerate(epsilons)}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 320" font-family="sans-serif" font-size="12">']
    parts.append('<text x="60" y="18">density RMSE, veh/km/lane, against ε</text>')
    parts.append('<path d="M60 30V280H510" fill="none" stroke="#888"/>')
    for value in range(0, int(most) + 1, 5):
        parts.append(f'<text x="52" y="{284 - 250 * value / most:.1f}" text-anchor="end">{value}</text>')
    for epsilon, place in x.items():
        parts.append(f'<text x="{place:.0f}" y="298" text-anchor="middle">{"∞" if epsilon == "inf" else epsilon}</text>')
    for rate, colour in zip(rates, colours):
        line = [(x[row["epsilon"]], 280 - 250 * row["density"] / most) for row in rows if row["rate"] == rate and row["epsilon"] in x]
        line.sort()
        points = " ".join(f"{px:.1f},{py:.1f}" for px, py in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if line:
            parts.append(f'<text x="{line[-1][0] + 8:.0f}" y="{line[-1][1] + 4:.1f}" fill="{colour}">{rate:g} %</text>')
    return "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    main()
