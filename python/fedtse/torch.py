"""PyTorch modules as sub-models. Needs PyTorch; `fedtse` itself does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .errors import FedtseValueError


class TorchSubModel:
    """A module and its optimiser as a guest's sub-model.

    The module takes a batch of windows, `[sample, link, number]` or, with `by_step`, `[sample, step, link,
    channel]`, and gives `per_link` numbers for each link or `whole` for all, in any shape. With
    `follow_plan` the optimiser has the learning rate of the host's plan, otherwise its own.

    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(17 * 27, 17 * 4))  # doctest: +SKIP
    >>> guest = TorchSubModel(module, torch.optim.Adam(module.parameters()), per_link=4)  # doctest: +SKIP
    >>> fedtse.train("data/corridor", method="fedtse", rate=20, target="raw", guests=[guest])  # doctest: +SKIP
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        per_link: int | None = None,
        whole: int | None = None,
        by_step: bool = False,
        follow_plan: bool = True,
    ) -> None:
        self.module = module
        self.optimiser = optimiser
        self.per_link = per_link
        self.whole = whole
        self.by_step = by_step
        self.follow_plan = follow_plan
        self._z: torch.Tensor | None = None

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Outputs of a batch, in training."""
        self.module.train()
        # The thread that trains has its own switch for gradients.
        with torch.enable_grad():
            self._z = self.module(self._tensor(x))
        return self._z.detach().cpu().numpy()

    def backward(self, grad_z: np.ndarray) -> None:
        """One step of the optimiser, from the gradient of the last outputs."""
        if self._z is None:
            raise FedtseValueError("backward: found no outputs, expected a call of forward before")
        z, self._z = self._z, None
        self.optimiser.zero_grad(set_to_none=True)
        z.backward(self._tensor(grad_z).reshape(z.shape).to(z.dtype))
        self.optimiser.step()

    def infer(self, x: np.ndarray) -> np.ndarray:
        """Outputs of a batch, with nothing left to chance."""
        self.module.eval()
        with torch.no_grad():
            return self.module(self._tensor(x)).cpu().numpy()

    def set_learning_rate(self, rate: float) -> None:
        """The plan's learning rate, before each update."""
        if self.follow_plan:
            for group in self.optimiser.param_groups:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """Weights, the optimiser's state, and that of the random numbers."""
        return {
            "module": _plain(dict(self.module.state_dict())),
            "optimiser": _plain(self.optimiser.state_dict()),
            "random": torch.get_rng_state().numpy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to such a state."""
        self.module.load_state_dict(_tensors(state["module"]))
        self.optimiser.load_state_dict(_tensors(state["optimiser"]))
        torch.set_rng_state(torch.from_numpy(np.array(state["random"], dtype=np.uint8)))
        self._z = None

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        parameter = next(self.module.parameters(), None)
        device = "cpu" if parameter is None else parameter.device
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def _plain(value: Any) -> Any:
    """Tensors as arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    return value


def _tensors(value: Any) -> Any:
    """Arrays as tensors."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value))
    if isinstance(value, dict):
        return {key: _tensors(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_tensors(one) for one in value)
    return value
