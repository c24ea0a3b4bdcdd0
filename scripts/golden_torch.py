"""Writes crates/neural/tests/golden/*.safetensors: PyTorch's numbers for our layers and models.

    make torch
    .venv-torch/bin/python scripts/golden_torch.py

Everything is in the shapes and order of the Rust crate. Weights and inputs of the paper's model
would fill the repository: both sides draw them from a counter (`draw`), and of its gradients the
file holds, for each tensor, the Euclidean norm and up to 64 evenly spaced values.
"""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import stgcn_torch as reference

OUT = pathlib.Path(__file__).resolve().parent.parent / "crates/neural/tests/golden"


def draw(seed, count, low, high):
    """`neural::Draw::new(seed)`, its first `count` uniform numbers."""
    golden = np.uint64(0x9E3779B97F4A7C15)

    def mix(v):
        v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return v ^ (v >> np.uint64(31))

    with np.errstate(over="ignore"):
        state = np.full(count, golden)
        for counter in (np.full(count, np.uint64(seed)), np.arange(1, count + 1, dtype=np.uint64)):
            rotated = (state << np.uint64(17)) | (state >> np.uint64(47))
            state = mix(state ^ (counter + golden)) + rotated
    unit = (state >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    low, high = np.float32(low), np.float32(high)
    return torch.from_numpy(low + (high - low) * unit)


def channels_last(x):
    """[sample, channel, time, node] to [sample, time, node, channel]."""
    return x.permute(0, 2, 3, 1)


def layer_case(tensors, name, module, x, to_ours=channels_last):
    """Parameters, input, output and all gradients of one layer, at random places."""
    for _, parameter, _ in reference.in_our_order(module):
        nn.init.uniform_(parameter, -1, 1)
    x.requires_grad_()
    y = module(x)
    dy = torch.empty_like(y).uniform_(-1, 1)
    y.backward(dy)
    for key, value in {"x": x, "y": y, "dy": dy, "dx": x.grad}.items():
        tensors[f"{name}.{key}"] = to_ours(value.detach()).contiguous()
    tensors[f"{name}.parameters"] = reference.flat_parameters(module)
    tensors[f"{name}.gradient"] = reference.flat_gradient(module)


def layers():
    tensors = {}

    def image(channels, time, nodes):
        return torch.empty(2, channels, time, nodes).uniform_(-1, 1)

    def rows(*shape):
        return torch.empty(*shape).uniform_(-1, 1)

    for name, (kernel, inputs, outputs, activation) in {
        "glu-widen": (3, 2, 5, "glu"),
        "glu-narrow": (3, 6, 4, "glu"),
        "relu-widen": (3, 4, 6, "relu"),
        "sigmoid-same": (1, 5, 5, "sigmoid"),
    }.items():
        layer_case(tensors, name, reference.TemporalConv(kernel, inputs, outputs, activation), image(inputs, 5, 3))
    laplacian = reference.scaled_laplacian(reference.NODES, reference.CORRIDOR)
    tensors["laplacian"] = torch.tensor(laplacian, dtype=torch.float32)
    layer_case(tensors, "chebyshev", reference.ChebConv(3, 4, 4, laplacian), image(4, 2, 17))
    layer_case(tensors, "node-norm", reference.NodeNorm(3, 5), image(5, 4, 3))
    layer_case(tensors, "channel-norm", nn.LayerNorm(6), rows(2, 3, 6), to_ours=lambda t: t)
    layer_case(tensors, "linear", nn.Linear(7, 9), rows(4, 7), to_ours=lambda t: t)

    for name, function in {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "silu": nn.functional.silu,
        "gelu": lambda x: nn.functional.gelu(x, approximate="tanh"),
    }.items():
        x = torch.linspace(-6, 6, 50).requires_grad_()
        y = function(x)
        y.backward(torch.ones_like(y))
        tensors |= {f"{name}.x": x.detach(), f"{name}.y": y.detach(), f"{name}.dx": x.grad}

    # Five steps of each optimiser along given gradients.
    start, gradients = rows(12), rows(5, 12)
    tensors |= {"optimiser.start": start, "optimiser.gradients": gradients}
    for name, make in {
        "adam": lambda p: torch.optim.Adam([p], lr=0.01),
        "adam-decay": lambda p: torch.optim.Adam([p], lr=0.01, weight_decay=0.1),
        "adamw": lambda p: torch.optim.AdamW([p], lr=0.01, weight_decay=0.1),
        "sgd": lambda p: torch.optim.SGD([p], lr=0.01, momentum=0.9, weight_decay=0.1),
    }.items():
        parameter = nn.Parameter(start.clone())
        optimiser = make(parameter)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimiser.step()
        tensors[f"optimiser.{name}"] = parameter.detach()

    # Learning rates.
    parameter = nn.Parameter(torch.zeros(1))
    for name, make in {
        "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
        "one-cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 3e-3, total_steps=20),
    }.items():
        optimiser = torch.optim.SGD([parameter], lr=0.1)
        schedule = make(optimiser)
        rates = []
        for _ in range(20):
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            if len(rates) < 20:
                schedule.step()
        tensors[f"schedule.{name}"] = torch.tensor(rates)

    # Losses: mean over samples, weights by output.
    y, target, weights = rows(3, 4) * 3, rows(3, 4), torch.tensor([0.5, 1.0, 2.0, 0.25])
    tensors |= {"loss.y": y.clone(), "loss.target": target, "loss.weights": weights}
    for name, function in {
        "squared": lambda e: e**2,
        "huber": lambda e: 2 * nn.functional.huber_loss(e, torch.zeros_like(e), reduction="none", delta=0.7),
    }.items():
        y = y.detach().requires_grad_()
        loss = (function(y - target) * weights).sum(dim=1).mean()
        loss.backward()
        tensors |= {f"loss.{name}": loss.detach().reshape(1), f"loss.{name}.gradient": y.grad}
    return tensors


def model(name, joint, samples, weights):
    """One training batch of a whole model, in f64 so that only our rounding counts, then Adam."""
    tensors = {}
    count = len(reference.flat_parameters(joint))
    flat = draw(1, count, -0.2, 0.2)
    at = 0
    for parameter_name, parameter, _ in reference.in_our_order(joint):
        if parameter_name.endswith("scale"):
            flat[at : at + parameter.numel()] += 1.0
        at += parameter.numel()
    joint = joint.double()
    reference.load_flat(joint, flat)
    nodes, time = joint.host.nodes, 9
    x = draw(2, samples * time * nodes * 3, -1, 1).double().reshape(samples, -1)
    host = x[:, : time * nodes].reshape(samples, time, nodes, 1).permute(0, 3, 1, 2)
    guest = x[:, time * nodes :].reshape(samples, time, nodes, 2).permute(0, 3, 1, 2)
    target = draw(3, samples * len(weights), -1, 1).double().reshape(samples, -1)
    weights = torch.tensor(weights, dtype=torch.float64)
    optimiser = torch.optim.Adam(joint.parameters(), lr=3e-4, weight_decay=1e-3)
    losses = []
    for step in range(10):
        optimiser.zero_grad()
        y = joint(host, guest)
        loss = ((y - target) ** 2 * weights).sum(dim=1).mean()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            tensors["output"] = y.detach().float()
            for parameter_name, parameter, to_ours in reference.in_our_order(joint):
                gradient = to_ours(parameter.grad).reshape(-1)
                some = min(64, len(gradient))
                places = [i * (len(gradient) - 1) // max(some - 1, 1) for i in range(some)]
                tensors[f"gradient.{parameter_name}"] = gradient[places].float()
                tensors[f"norm.{parameter_name}"] = gradient.norm().float().reshape(1)
        optimiser.step()
    tensors["losses"] = torch.tensor(losses)
    tensors["laplacian"] = joint.host.layers[1].polynomials[1].float()
    save_file(tensors, OUT / f"{name}.safetensors")


def main():
    torch.manual_seed(2023)
    OUT.mkdir(parents=True, exist_ok=True)
    save_file(layers(), OUT / "layers.safetensors")
    model("paper", reference.paper(), 20, [1 / 17] * 17 + [0.5 / 17] * 17)
    for file in sorted(OUT.iterdir()):
        print(f"{file.name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
