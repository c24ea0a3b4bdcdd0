"""The paper's two sub-models and head in PyTorch: the reference for goldens and benchmarks.

Written the way PyTorch users write it: channels first, Conv2d over (time, node), einsum over the
graph. `Parameters` maps its weights to the flat layout of the Rust crate `neural` and back.
"""

import numpy as np
import torch
from torch import nn

TIME, NODES, EMBEDDING = 9, 17, 9

# Links of the paper's corridor: E1..E7 are 0..6, off_R1..4 are 7..10, on_R1..6 are 11..16.
CORRIDOR = [
    (0, 1), (0, 7), (1, 2), (2, 3), (2, 8), (3, 4), (4, 5), (4, 9), (5, 6), (5, 10), (11, 1),
    (11, 7), (12, 2), (13, 2), (14, 4), (15, 5), (15, 9), (16, 6), (16, 10),
]  # fmt: skip


def scaled_laplacian(nodes, edges, weight=float(np.exp(-0.1)), largest_eigenvalue=1.0):
    """D − W over the degrees' roots where both are positive; then 2L/λ − I."""
    w = np.zeros((nodes, nodes))
    for a, b in edges:
        w[a, b] = weight
    degree = w.sum(axis=1)
    both = np.outer(degree, degree)
    laplacian = (np.diag(degree) - w) / np.where(both > 0, np.sqrt(both), 1.0)
    return 2 * laplacian / largest_eigenvalue - np.eye(nodes)


class TemporalConv(nn.Module):
    def __init__(self, kernel, inputs, outputs, activation):
        super().__init__()
        self.kernel, self.outputs, self.activation = kernel, outputs, activation
        width = 2 * outputs if activation == "glu" else outputs
        self.conv = nn.Conv2d(inputs, width, (kernel, 1))
        self.align = nn.Conv2d(inputs, outputs, 1) if inputs > outputs else None
        self.widen = outputs - inputs

    def forward(self, x):
        residual = x[:, :, self.kernel - 1 :]
        if self.align is not None:
            residual = self.align(residual)
        elif self.widen:
            residual = nn.functional.pad(residual, (0, 0, 0, 0, 0, self.widen))
        y = self.conv(x)
        if self.activation == "glu":
            return (y[:, : self.outputs] + residual) * torch.sigmoid(y[:, self.outputs :])
        return {"relu": torch.relu, "sigmoid": torch.sigmoid}[self.activation](y + residual)


class ChebConv(nn.Module):
    def __init__(self, orders, inputs, outputs, laplacian, residual=True):
        super().__init__()
        polynomials = [np.eye(len(laplacian)), laplacian]
        while len(polynomials) < orders:
            polynomials.append(2 * laplacian @ polynomials[-1] - polynomials[-2])
        stacked = torch.tensor(np.stack(polynomials[:orders]), dtype=torch.float32)
        self.register_buffer("polynomials", stacked)
        self.theta = nn.Parameter(torch.randn(inputs, orders, outputs) * 0.1)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.residual = residual

    def forward(self, x):
        spread = torch.einsum("knm,bitm->bitkn", self.polynomials, x)
        y = torch.einsum("iko,bitkn->botn", self.theta, spread) + self.bias[:, None, None]
        return torch.relu(y + x if self.residual else y)


class NodeNorm(nn.Module):
    """Layer norm over (nodes, channels)."""

    def __init__(self, nodes, channels):
        super().__init__()
        self.norm = nn.LayerNorm([nodes, channels])

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Stgcn(nn.Module):
    def __init__(self, channels, laplacian, time=TIME, blocks=((16, 64), (16, 64)), embedding=EMBEDDING):
        super().__init__()
        self.nodes = len(laplacian)
        layers, inputs = [], channels
        for inner, outer in blocks:
            layers += [
                TemporalConv(3, inputs, inner, "glu"),
                ChebConv(3, inner, inner, laplacian),
                nn.Conv2d(inner, inner, 1),
                TemporalConv(3, inner, outer, "relu"),
                NodeNorm(self.nodes, outer),
            ]
            time, inputs = time - 4, outer
        layers += [
            TemporalConv(time, inputs, inputs, "glu"),
            NodeNorm(self.nodes, inputs),
            TemporalConv(1, inputs, inputs, "sigmoid"),
            nn.Conv2d(inputs, 2, 1),
        ]
        self.layers = nn.Sequential(*layers)
        self.embed = nn.Linear(2 * self.nodes, embedding)

    def forward(self, x):
        return torch.relu(self.embed(self.layers(x).flatten(1)))


class Joint(nn.Module):
    """Two sub-models and the head. Inputs as PyTorch has them: [sample, channel, time, node]."""

    def __init__(self, host, guest, hidden=272, outputs=34):
        super().__init__()
        self.host, self.guest = host, guest
        fused = host.embed.out_features + guest.embed.out_features
        self.head = nn.Sequential(nn.Linear(fused, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, x_host, x_guest):
        return self.head(torch.cat([self.host(x_host), self.guest(x_guest)], dim=1))


def paper(laplacian=None):
    """The joint model with the paper's sizes, over its corridor."""
    laplacian = scaled_laplacian(NODES, CORRIDOR) if laplacian is None else laplacian
    return Joint(Stgcn(1, laplacian), Stgcn(2, laplacian))


def in_our_order(module, nodes=None):
    """Yields (name, tensor, to_ours) for each parameter in the order of the Rust layout.

    `to_ours` permutes a torch tensor of that parameter's shape into the Rust shape.
    """

    def same(t):
        return t

    if isinstance(module, TemporalConv):
        yield "weight", module.conv.weight, lambda t: t[:, :, :, 0].permute(2, 1, 0)
        yield "bias", module.conv.bias, same
        if module.align is not None:
            yield "align.weight", module.align.weight, lambda t: t[:, :, 0, 0].T
            yield "align.bias", module.align.bias, same
    elif isinstance(module, ChebConv):
        yield "weight", module.theta, same
        yield "bias", module.bias, same
    elif isinstance(module, NodeNorm):
        yield "scale", module.norm.weight, lambda t: t.flatten()
        yield "shift", module.norm.bias, lambda t: t.flatten()
    elif isinstance(module, nn.LayerNorm):
        yield "scale", module.weight, same
        yield "shift", module.bias, same
    elif isinstance(module, nn.Conv2d):
        yield "weight", module.weight, lambda t: t[:, :, 0, 0].T
        yield "bias", module.bias, same
    elif isinstance(module, nn.Linear):
        if nodes is None:
            yield "weight", module.weight, lambda t: t.T
        else:
            # Torch flattens [channel, node], we flatten [node, channel].
            def regroup(t):
                return t.reshape(t.shape[0], -1, nodes).permute(2, 1, 0).reshape(-1, t.shape[0])

            yield "weight", module.weight, regroup
        yield "bias", module.bias, same
    elif isinstance(module, Stgcn):
        blocks = (len(module.layers) - 4) // 5
        names = [f"block{b + 1}.{n}" for b in range(blocks) for n in ["gate", "graph", "mix", "conv", "norm"]]
        names += ["output.gate", "output.norm", "output.conv", "output.node"]
        for name, layer in zip(names, module.layers):
            for inner, tensor, to_ours in in_our_order(layer):
                yield f"{name}.{inner}", tensor, to_ours
        for inner, tensor, to_ours in in_our_order(module.embed, module.nodes):
            yield f"output.embed.{inner}", tensor, to_ours
    elif isinstance(module, Joint):
        for name, part in [("host", module.host), ("guest", module.guest)]:
            for inner, tensor, to_ours in in_our_order(part):
                yield f"{name}.{inner}", tensor, to_ours
        for name, layer in [("hidden", module.head[0]), ("out", module.head[2])]:
            for inner, tensor, to_ours in in_our_order(layer):
                yield f"head.{name}.{inner}", tensor, to_ours
    else:
        raise TypeError(type(module))


def load_flat(module, flat):
    """Sets all parameters from a flat vector in the Rust layout."""
    at = 0
    with torch.no_grad():
        for _, tensor, to_ours in in_our_order(module):
            # The permutation, applied to places, says where each of our values goes.
            places = to_ours(torch.arange(tensor.numel()).reshape(tensor.shape)).reshape(-1)
            values = torch.empty(tensor.numel(), dtype=tensor.dtype)
            values[places] = torch.as_tensor(flat[at : at + tensor.numel()], dtype=tensor.dtype)
            tensor.copy_(values.reshape(tensor.shape))
            at += tensor.numel()
    assert at == len(flat), f"{at} parameters, {len(flat)} values"


def flat_gradient(module):
    """All gradients as a flat vector in the Rust layout."""
    return torch.cat([to_ours(t.grad).reshape(-1) for _, t, to_ours in in_our_order(module)])


def flat_parameters(module):
    """All parameters as a flat vector in the Rust layout."""
    return torch.cat([to_ours(t.detach()).reshape(-1) for _, t, to_ours in in_our_order(module)])
