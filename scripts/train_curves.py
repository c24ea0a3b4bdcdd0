"""Learning curves of the paper's model: ours against PyTorch, from the same weights and batches.

    cargo build --release -p neural --example train_curve
    .venv-torch/bin/python scripts/train_curves.py [--seeds 5] [--epochs 12]

Each seed draws first weights and the order of the samples; the data are the same for all. Both
sides then train in f32, with the same Adam, and the question is whether they differ less than two
seeds do. Run by `make bench-train`, which puts the result into docs/benchmarks.md.
"""

import argparse
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

import stgcn_torch as reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/examples/train_curve"
TRAIN, VALIDATION, BATCH, RATE, DECAY = 1024, 512, 128, 1e-3, 1e-3
TURN_WEIGHT = 0.904837418  # exp(−0.1), as the reference has it


def data(count, generator):
    """Waves that run down the corridor: the loops see some links, the fleet a noisy share of all.

    Windows [sample, time, node] of a state; targets are its density and flow after the window.
    """
    time, nodes = reference.TIME, reference.NODES
    phase = torch.rand(count, 1, 1, generator=generator) * 6.28
    speed = 0.3 + 0.4 * torch.rand(count, 1, 1, generator=generator)
    height = 0.3 + 0.7 * torch.rand(count, 1, 1, generator=generator)
    steps = torch.arange(time + 1).reshape(1, -1, 1)
    places = torch.arange(nodes).reshape(1, 1, -1)
    density = height * torch.sin(phase + speed * steps - 0.5 * places)
    flow = density * (1.2 - density.abs())
    noise = lambda: 0.3 * torch.randn(count, time, nodes, generator=generator)  # noqa: E731
    host = (flow[:, :time] * (places % 3 == 0)).unsqueeze(-1)
    guest = torch.stack([density[:, :time] + noise(), flow[:, :time] + noise()], dim=-1)
    x = torch.cat([host.flatten(1), guest.flatten(1)], dim=1)
    return x, torch.cat([density[:, time], flow[:, time]], dim=1)


def theirs(model, x, y, x_validation, y_validation, order):
    def estimate(x):
        size = reference.TIME * reference.NODES
        host = x[:, :size].reshape(-1, reference.TIME, reference.NODES, 1).permute(0, 3, 1, 2)
        guest = x[:, size:].reshape(-1, reference.TIME, reference.NODES, 2).permute(0, 3, 1, 2)
        return model(host, guest)

    adam = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY)
    curve = []
    for epoch in order:
        losses = []
        for batch in epoch.split(BATCH):
            adam.zero_grad()
            loss = ((estimate(x[batch]) - y[batch]) ** 2).mean()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        with torch.inference_mode():
            validation = ((estimate(x_validation) - y_validation) ** 2).mean().item()
        curve.append((statistics.mean(losses), validation))
    return curve


def ours(tensors):
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        save_file({name: tensor.float().contiguous() for name, tensor in tensors.items()}, file.name)
        done = subprocess.run([PROGRAM, file.name], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{PROGRAM.name} failed:\n{done.stderr}")
    return [tuple(float(word) for word in line.split()) for line in done.stdout.splitlines()]


def compare(seeds, epochs):
    """Validation losses by epoch and seed, of both sides, and what follows from them."""
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} not found: cargo build --release -p neural --example train_curve")
    torch.set_num_threads(1)  # less to wait for when others use the machine too
    x, y = data(TRAIN, torch.Generator().manual_seed(1))
    x_validation, y_validation = data(VALIDATION, torch.Generator().manual_seed(2))
    turns = torch.tensor([[a, b, TURN_WEIGHT] for a, b in reference.CORRIDOR])
    curves = {"theirs": [], "ours": []}
    for seed in range(1, seeds + 1):
        torch.manual_seed(seed)
        model = reference.paper()
        order = torch.stack([torch.randperm(TRAIN) for _ in range(epochs)])
        given = {"x": x, "y": y, "x_validation": x_validation, "y_validation": y_validation, "order": order}
        start = {"parameters": reference.flat_parameters(model), "turns": turns}
        curves["ours"].append(ours(given | start))
        curves["theirs"].append(theirs(model, **given))
        print(f"curves: seed {seed} of {seeds}", file=sys.stderr, flush=True)
    rows = []
    for epoch in range(epochs):
        row = {"epoch": epoch + 1}
        for number, what in enumerate(["training", "validation"]):
            a = [curve[epoch][number] for curve in curves["theirs"]]
            b = [curve[epoch][number] for curve in curves["ours"]]
            row[what] = {
                "theirs": statistics.mean(a),
                "ours": statistics.mean(b),
                "spread": statistics.stdev(a),
                "difference": math.sqrt(statistics.mean((a - b) ** 2 for a, b in zip(a, b))),
                "largest": max(abs(a - b) for a, b in zip(a, b)),
            }
        rows.append(row)
    kinds = ["training", "validation"]
    within = all(row[what]["difference"] < row[what]["spread"] for row in rows for what in kinds)
    return {"seeds": seeds, "rows": rows, "curves": curves, "within_spread": within}


def markdown(result):
    lines = [
        f"Mean over {result['seeds']} seeds; *spread*: standard deviation between seeds (PyTorch's); *apart*: root mean "
        "square of the differences between the two sides for the same seed, and in brackets the largest of them.",
        "",
        "| epoch | training: PyTorch | ours | spread | apart | validation: PyTorch | ours | spread | apart |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        cells = [
            f"{part['theirs']:.5f} | {part['ours']:.5f} | {part['spread']:.1e} | "
            f"{part['difference']:.1e} ({part['largest']:.1e})"
            for part in (row["training"], row["validation"])
        ]
        lines.append(f"| {row['epoch']} | {' | '.join(cells)} |")
    verdict = "yes ✓" if result["within_spread"] else "no, missed"
    lines += ["", f"Same seed apart by less than the spread in every epoch: **{verdict}**."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    if arguments.seeds < 2 or arguments.epochs < 1:
        parser.error("expected at least 2 seeds and 1 epoch")
    print(markdown(compare(arguments.seeds, arguments.epochs)))


if __name__ == "__main__":
    main()
