#!/usr/bin/env python3
"""Trains the paper's STGCN in PyTorch as a guest of the Rust host, beside the built-in one:

    make test-torch
    .venv-torch/bin/python scripts/torch_guest.py [DATASET] [--seeds 1,2,3] [--rate 20] [--epochs N] [--json FILE]

Needs the wheel and PyTorch. Without a dataset (with features) the built-in world makes a small one. Fails
unless gradients at the boundary are equal to 1e-5 of the largest, and errors are within the spread over seeds.
`--write` puts the numbers of a file that `--json` wrote into docs/python.md.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs" / "python.md"
BLOCK = re.compile(r"(<!-- torch guest:[^\n]*-->\n)(.*?)(<!-- end of torch guest -->)", re.S)
# Of the largest: 32-bit sums of some hundred terms, in another order.
CLOSE = 1e-5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--name", default="a small corridor of the built-in world")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    if arguments.write:
        return write(json.loads(arguments.write.read_text()))
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with tempfile.TemporaryDirectory(prefix="fedtse-torch-") as folder:
        data = arguments.data or small(Path(folder) / "corridor", arguments.rate)
        result = measure(data, seeds, arguments)
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return judge(result)


def small(folder, rate):
    import fedtse

    fedtse.simulate(folder, minutes=200, seed=1, progress=False)
    fedtse.features(folder, rates=[rate], progress=False)
    return folder


class Noted:
    """A sub-model whose first exchange is kept."""

    by_step, whole = True, 9

    def __init__(self, model):
        self.model, self.first = model, None

    def forward(self, x):
        self.z = self.model.forward(x)
        return self.z

    def backward(self, grad_z):
        if self.first is None:
            self.first = (self.z.copy(), grad_z.copy())
        self.model.backward(grad_z)

    def __getattr__(self, name):
        return getattr(self.model, name)


def torch_stgcn(flat, device):
    """The paper's sub-model with these first weights, moved as the paper's recipe says."""
    import torch
    from stgcn_torch import CORRIDOR, NODES, Stgcn, load_flat, scaled_laplacian

    from fedtse.torch import TorchSubModel

    class ByStep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stgcn = Stgcn(2, scaled_laplacian(NODES, CORRIDOR))
            load_flat(self.stgcn, flat)

        def forward(self, x):
            # [sample, step, link, channel] as PyTorch has it.
            return self.stgcn(x.permute(0, 3, 1, 2))

    module = ByStep().to(device)
    # Decay in the gradient, as the paper's; the learning rate is the plan's.
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-4, weight_decay=1e-3)
    return TorchSubModel(module, optimiser, whole=9, by_step=True)


def measure(data, seeds, arguments):
    import torch

    import fedtse

    device = "cuda" if torch.cuda.is_available() else "cpu"
    # Convolutions in 32 bits: an accelerator's own choice has 10 bits of mantissa.
    torch.backends.cudnn.allow_tf32 = False
    common = dict(method="fedtse", arch="paper", rate=arguments.rate, target="raw", progress=False)
    network = fedtse.Network.corridor()
    first = lambda seed: fedtse.BuiltIn("stgcn", network, seed=seed)
    # The same first weights on both sides: the same batch must give the same embeddings and gradients.
    both = [Noted(first(seeds[0])), Noted(torch_stgcn(first(seeds[0]).parameters, device))]
    for noted in both:
        fedtse.train(data, guests=[noted], seed=seeds[0], epochs=1, **common)
    (z, gradient), (torch_z, torch_gradient) = (noted.first for noted in both)
    runs = []
    for seed in seeds:
        for kind in ("Rust", "PyTorch"):
            guests = None if kind == "Rust" else [torch_stgcn(first(seed).parameters, device)]
            begun = time.perf_counter()
            (row,) = fedtse.train(data, guests=guests, seed=seed, epochs=arguments.epochs, **common)
            runs.append({
                "kind": kind, "seed": seed, "seconds": time.perf_counter() - begun,
                "density": row["score"]["density"]["rmse"], "flow": row["score"]["flow"]["rmse"],
                "best_epoch": row["best_epoch"], "rounds": row["rounds"],
            })
            print(runs[-1], file=sys.stderr, flush=True)
    return {
        "data": arguments.name, "rate": arguments.rate, "torch": torch.__version__, "device": device,
        "samples": len(z), "numbers": int(z.size),
        "embedding_difference": float(abs(z - torch_z).max() / abs(z).max()),
        "gradient_difference": float(abs(gradient - torch_gradient).max() / abs(gradient).max()),
        "runs": runs,
    }


def means(result, what):
    """Mean and range over seeds, of each side."""
    of = {kind: [run[what] for run in result["runs"] if run["kind"] == kind] for kind in ("Rust", "PyTorch")}
    return {kind: (sum(values) / len(values), max(values) - min(values)) for kind, values in of.items()}


def judge(result):
    problems = []
    for what in ("embedding_difference", "gradient_difference"):
        if not result[what] < CLOSE:
            problems.append(f"{what}: found {result[what]:.1e} of the largest, expected less than {CLOSE:.0e}")
    for what in ("density", "flow"):
        of = means(result, what)
        apart, spread = abs(of["Rust"][0] - of["PyTorch"][0]), max(of["Rust"][1], of["PyTorch"][1])
        if not apart <= spread:
            problems.append(f"{what}: found means {apart:.3f} apart, expected at most the spread of {spread:.3f}")
    for problem in problems:
        print(f"torch_guest: {problem}", file=sys.stderr)
    print(f"torch_guest: {len(result['runs'])} runs, {len(problems)} problems")
    return 1 if problems else 0


def write(result):
    rows = ""
    for kind in ("Rust", "PyTorch"):
        cells = [f"{mean:.2f} (±{spread / 2:.2f})" for mean, spread in (means(result, w)[kind] for w in ("density", "flow"))]
        each = "; ".join(f"{run['density']:.2f} / {run['flow']:.2f}" for run in result["runs"] if run["kind"] == kind)
        rows += f"| STGCN in {kind} | {cells[0]} | {cells[1]} | {each} |\n"
    seeds = len(result["runs"]) // 2
    text = (
        f"On {result['data']}, a fleet of {result['rate']:g} %, `--arch paper`, single steps, test part, {seeds} seeds "
        f"(PyTorch {result['torch']} on {result['device']}; both sides begin with the same first weights of each seed):\n\n"
        "| guest | density RMSE | flow RMSE | each seed |\n|---|---|---|---|\n"
        f"{rows}\n"
        f"In brackets half the range over seeds. Of the first exchange ({result['samples']} samples, {result['numbers']} numbers) "
        f"embeddings differ by {result['embedding_difference']:.1e} and gradients at the boundary by "
        f"{result['gradient_difference']:.1e} of the largest.\n"
    )
    page = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(BLOCK.sub(lambda match: match.group(1) + "\n" + text + "\n" + match.group(3), page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
