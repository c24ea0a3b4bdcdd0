"""The extension module: see `fedtse` for what it is for."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, type_check_only

import numpy as np
from numpy.typing import NDArray

__version__: str

_Path = str | os.PathLike[str]
_Progress = Callable[[str, int, int | None], object] | None

class Network:
    """A road network: links from stop line to stop line, turns, signals, loops.

    >>> fedtse.Network.corridor()
    <Network "Panepistimiou corridor": 17 links, 7 signals>
    """

    @staticmethod
    def corridor() -> Network: ...
    @staticmethod
    def grid(
        rows: int = 5, columns: int = 5, block_m: float = 150.0, lanes: int = 2, loop_every: int = 5
    ) -> Network: ...
    @staticmethod
    def load(path: _Path) -> Network: ...
    @staticmethod
    def parse(text: str) -> Network: ...
    def save(self, path: _Path) -> None: ...
    def to_toml(self) -> str: ...
    def index(self, link: str) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def links(self) -> list[str]: ...
    @property
    def length_m(self) -> NDArray[np.float64]: ...
    @property
    def speed_m_s(self) -> NDArray[np.float64]: ...
    @property
    def lanes(self) -> NDArray[np.int64]: ...
    @property
    def shapes(self) -> list[NDArray[np.float64]]: ...
    @property
    def turns(self) -> NDArray[np.int64]: ...
    @property
    def loops(self) -> list[dict[str, Any]]: ...
    @property
    def targets(self) -> list[str]: ...
    @property
    def origin(self) -> tuple[float, float] | None: ...
    def __len__(self) -> int: ...

class BuiltIn:
    """A built-in sub-model as an object, with the first weights that a federation of the same seed gives it.

    >>> fedtse.BuiltIn("stgcn", fedtse.Network.corridor(), seed=1).parameters.shape  # doctest: +SKIP
    """

    def __init__(
        self,
        kind: str,
        network: Network,
        *,
        channels: int | None = None,
        per_link: int | None = None,
        whole: int | None = None,
        seed: int = 1,
        name: str = "guest",
    ) -> None: ...
    @property
    def by_step(self) -> bool: ...
    @property
    def per_link(self) -> int | None: ...
    @property
    def whole(self) -> int | None: ...
    @property
    def parameters(self) -> NDArray[np.float32]: ...
    def forward(self, x: NDArray[Any]) -> NDArray[np.float32]: ...
    def backward(self, grad_z: NDArray[Any]) -> None: ...
    def infer(self, x: NDArray[Any]) -> NDArray[np.float32]: ...
    def set_learning_rate(self, rate: float) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, given: dict[str, Any]) -> None: ...

# Requests: the fields of Rust's structs. What is missing or None has the default of the command line.

@type_check_only
class SimulateOptions(TypedDict, total=False):
    world: str | None
    network: _Path | None
    demand: _Path | None
    flow: float | None
    sumocfg: _Path | None
    loops: Sequence[str] | None
    targets: Sequence[str] | None
    minutes: float | None
    warm_up: float | None
    step: float | None
    seed: int | None
    out: _Path
    sumo: _Path | None
    keep: _Path | None

@type_check_only
class FeatureOptions(TypedDict, total=False):
    rates: Sequence[float] | None
    guests: Sequence[float] | None
    providers: Sequence[int] | None
    concentrate: str | None
    strength: float | None
    seed: int | None
    step: float | None
    cells: int | None
    sub_steps: int | None
    patience: float | None
    start: float | None
    replace: bool | None

@type_check_only
class GuestOptions(TypedDict, total=False):
    sub_model: str | None
    embedding_size: int | None
    party_dropout: float | None
    head_units: int | None

@type_check_only
class PrivacyOptions(TypedDict, total=False):
    privacy: str | None
    scheme: str | None
    epsilon: float | None
    delta: float | None
    unit: str | None
    noise_folder: _Path | None
    most_products: float | None
    policy: _Path | None
    commitments: bool | None

@type_check_only
class FederationOptions(TypedDict, total=False):
    guests: int | None
    fusion: str | None
    q: int | None
    host_updates: str | None
    frozen: bool | None
    proximal: float | None
    compression: str | None
    checkpoint_s: float | None
    privacy: PrivacyOptions | None

@type_check_only
class PhysicsOptions(TypedDict, total=False):
    segment: int | None
    traffic_model: str | None
    learn_physics: bool | None
    no_physics: bool | None
    label_share: float | None

@type_check_only
class RecipeOptions(TypedDict, total=False):
    batch: int | None
    host_learning_rate: float | None
    weight_decay: float | None
    flow_weight: float | None
    window: int | None

@type_check_only
class TrainArguments(TypedDict, total=False):
    data: _Path
    method: str | Sequence[str] | None
    rate: float | Sequence[float] | None
    fleets: Sequence[str] | None
    target: str | Sequence[str] | None
    arch: str | None
    guest: GuestOptions | None
    federation: FederationOptions | None
    physics: PhysicsOptions | None
    seed: int | Sequence[int] | None
    epochs: int | None
    learning_rate: float | None
    recipe: RecipeOptions | None
    metrics: _Path | None
    out: _Path | None
    part: str | None

@type_check_only
class EstimateRequest(TypedDict, total=False):
    model: _Path | None
    party: Sequence[_Path] | None
    data: _Path
    interval: int | None

@type_check_only
class ReproduceArguments(TypedDict, total=False):
    what: str
    out: _Path | None
    data: _Path | None
    world: str | None
    minutes: float | None
    pneuma: _Path | None
    network: _Path | None
    seeds: int | Sequence[int] | None
    training_seeds: int | Sequence[int] | None
    rates: int | Sequence[int] | None
    sizes: int | Sequence[int] | None
    guests: int | Sequence[int] | None
    target: str | Sequence[str] | None
    epochs: int | None
    worlds: str | Sequence[str] | None
    datasets_only: bool | None
    only: str | Sequence[str] | None
    arch: str | None
    jobs: int | None
    quick: bool | None
    report: bool | None
    accept_other_programs: bool | None
    publish: _Path | None

@type_check_only
class LedgerArguments(TypedDict, total=False):
    ledger: _Path
    party: str
    head: str | None
    authority: _Path | None
    heads: _Path | None
    show: _Path | None
    fleet: str | None
    policy: _Path | None
    rows: int
    csv: _Path | None
    noise: _Path | None

def simulate(request: SimulateOptions, network: Network | None, progress: _Progress) -> dict[str, Any]: ...
def features(folder: _Path, request: FeatureOptions, progress: _Progress) -> dict[str, Any]: ...
def frame_features(
    network: Network, columns: dict[str, Any], request: FeatureOptions, gap_s: float, progress: _Progress
) -> dict[str, Any]: ...
def store_frame(
    network: Network, columns: dict[str, Any], out: _Path, gap_s: float, epoch: str | None, progress: _Progress
) -> int: ...
def train(
    request: TrainArguments,
    host: object | None,
    guests: Sequence[object | None],
    absent: str,
    progress: _Progress,
) -> list[dict[str, Any]]: ...
def guest(config: _Path, sub_model: object | None, progress: _Progress) -> dict[str, Any]: ...
def host(config: _Path, sub_model: object | None, progress: _Progress) -> dict[str, Any]: ...
def estimate(request: EstimateRequest, sub_models: dict[str, Any], progress: _Progress) -> dict[str, Any]: ...
def live_host(config: _Path, sub_model: object | None, progress: _Progress) -> dict[str, Any]: ...
def live_guest(config: _Path, sub_model: object | None, progress: _Progress) -> dict[str, Any]: ...
def reproduce(request: ReproduceArguments, progress: _Progress) -> tuple[str, Any]: ...
def audit(request: LedgerArguments) -> dict[str, Any]: ...
def main(words: Sequence[str]) -> bool: ...
