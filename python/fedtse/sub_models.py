"""Sub-models that parties bring along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from . import _fedtse
from ._progress import Progress, shown


@runtime_checkable
class SubModel(Protocol):
    """What a guest may bring along: any object with these methods.

    Batches are 32-bit floats: `[sample, link, number]`, the numbers of a link's window step by step; with an
    attribute `by_step = True` `[sample, step, link, channel]`. How many numbers it gives is its attribute
    `per_link` (for each link) or `whole` (for all); the architecture's own number without either.

    Optional: `infer(x)`, outputs with nothing left to chance (else `forward` is called); and
    `set_learning_rate(rate)`, which is told the plan's rate before each update.
    """

    def forward(self, x: np.ndarray) -> Any:
        """Outputs of a batch, in training."""

    def backward(self, grad_z: np.ndarray) -> None:
        """One update of its weights, from the gradient of the last outputs, `[sample, number]`."""

    def state_dict(self) -> Any:
        """All that changes in training: dictionaries, lists, numbers, texts and NumPy arrays."""

    def load_state_dict(self, state: Any) -> None:
        """Goes back to such a state."""


class Host:
    """The host of a federation over the network, as `fedtse host` is.

    A sub-model of its own takes the place of the host's built-in part; its x is `[sample, number]`, or
    `[sample, step, link, channel]` with `arch = "paper"`.

    >>> fedtse.Host("city/config.toml", sub_model=MyModel()).run()  # doctest: +SKIP
    """

    def __init__(self, config: str | os.PathLike[str], sub_model: SubModel | None = None) -> None:
        self.config = Path(config)
        self.sub_model = sub_model

    def run(self, progress: bool | Progress | None = None) -> dict[str, Any]:
        """Waits for the guests and trains with them; a run that was interrupted goes on from its checkpoints.

        On Ctrl-C the host says goodbye, and `KeyboardInterrupt` is raised.
        """
        with shown(progress) as call:
            return _fedtse.host(self.config, self.sub_model, call)

    def live(self, progress: bool | Progress | None = None) -> dict[str, Any]:
        """Estimates each step, as `fedtse live host` does; the configuration is of that kind. The sub-model gets the
        best weights, which the host kept at the end of its training. Ends with its records, or on Ctrl-C.
        """
        with shown(progress) as call:
            return _fedtse.live_host(self.config, self.sub_model, call)


class Guest:
    """A party that takes part in a federation over the network, as `fedtse guest` does.

    >>> fedtse.Guest("fleet-a/config.toml", sub_model=MyModel()).run()  # doctest: +SKIP
    """

    def __init__(self, config: str | os.PathLike[str], sub_model: SubModel | None = None) -> None:
        self.config = Path(config)
        self.sub_model = sub_model

    def run(self, progress: bool | Progress | None = None) -> dict[str, Any]:
        """Dials the host and stays to the end; a run that was interrupted goes on from its checkpoints.

        On Ctrl-C the guest says goodbye, and `KeyboardInterrupt` is raised.
        """
        with shown(progress) as call:
            return _fedtse.guest(self.config, self.sub_model, call)

    def live(self, progress: bool | Progress | None = None) -> dict[str, Any]:
        """Embeds each step, as `fedtse live guest` does; the configuration is of that kind. The sub-model gets the
        best weights, which the guest kept at the end of its training. Ends with its records, or on Ctrl-C.
        """
        with shown(progress) as call:
            return _fedtse.live_guest(self.config, self.sub_model, call)
