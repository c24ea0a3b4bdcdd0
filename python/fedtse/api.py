"""What the command line does, as functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from . import _fedtse
from ._fedtse import Network
from ._frames import columns
from ._progress import Progress, shown
from .errors import FedtseValueError
from .sub_models import SubModel
from .tables import Estimates, Features, FleetFeatures

Folder = str | os.PathLike[str]
Shown = bool | Progress | None


def simulate(
    out: Folder,
    *,
    network: Network | Folder | None = None,
    world: Literal["builtin", "sumo"] = "builtin",
    demand: Folder | None = None,
    flow: float | None = None,
    minutes: float | None = None,
    warm_up: float | None = None,
    step: float | None = None,
    seed: int | None = None,
    sumo: Folder | None = None,
    keep: Folder | None = None,
    progress: Shown = None,
) -> dict[str, Any]:
    """Simulates traffic and stores it as a dataset in a new folder.

    Without a network and demand it is the corridor of the paper; `flow` is the same veh/h at every entry.
    Returns the dataset's manifest and what the world says of itself.

    >>> import fedtse, tempfile
    >>> made = fedtse.simulate(tempfile.mkdtemp() + "/city", network=fedtse.Network.grid(), flow=200, minutes=15)
    >>> made["dataset"]["vehicles"] > 0
    True
    """
    given, file = (network, None) if isinstance(network, Network) else (None, network)
    request: _fedtse.SimulateOptions = {
        "out": out, "network": file, "world": world, "demand": demand, "flow": flow, "minutes": minutes,
        "warm_up": warm_up, "step": step, "seed": seed, "sumo": sumo, "keep": keep,
    }
    with shown(progress) as call:
        return _fedtse.simulate(request, given, call)


def features(
    data: Any,
    *,
    network: Network | Folder | None = None,
    out: Folder | None = None,
    rates: Sequence[float] | None = None,
    guests: Sequence[float] | None = None,
    providers: Sequence[int] | None = None,
    concentrate: Literal["entry", "hour", "class"] | None = None,
    strength: float | None = None,
    seed: int | None = None,
    step: float | None = None,
    cells: int | None = None,
    sub_steps: int | None = None,
    patience: float | None = None,
    start: float | None = None,
    replace: bool = False,
    gap: float = 10.0,
    epoch: str | None = None,
    progress: Shown = None,
) -> Features | dict[str, Any]:
    """Turns trajectories into link-time features, per fleet.

    `data` is the folder of a dataset, whose features are stored there and summed up in what is returned. Or
    it is a table (pandas, Polars, pyarrow, anything with Arrow's stream interface, a dictionary of arrays)
    with the columns `time` (s), `vehicle`, `link` (name) and `position` (m), of which the numbers are used
    where they lie; the features come back as arrays. With `out`, a table becomes a dataset there first,
    to train on. A silence of more than `gap` seconds ends a recording. Fleets are added to those that a dataset has;
    with `replace` they are deleted first.

    >>> import fedtse, numpy as np
    >>> seconds = np.arange(0.0, 41.0)
    >>> table = {"time": seconds, "vehicle": ["a"] * 41, "link": ["E1"] * 41, "position": 2.0 * seconds}
    >>> made = fedtse.features(table, network=fedtse.Network.corridor(), rates=[50])
    >>> made.fleets["all"].travel_distance_m[:, 0]
    array([20., 20., 20., 20.])
    """
    request: _fedtse.FeatureOptions = {
        "rates": rates, "guests": guests, "providers": providers, "concentrate": concentrate, "strength": strength,
        "seed": seed, "step": step, "cells": cells, "sub_steps": sub_steps, "patience": patience, "start": start,
        "replace": replace,
    }
    with shown(progress) as call:
        if isinstance(data, (str, os.PathLike)):
            if network is not None or out is not None:
                raise FedtseValueError("network, out: found with a folder, expected with a table only")
            return _fedtse.features(Path(data), request, call)
        if network is None:
            raise FedtseValueError("network: found none, expected the one whose links the table names")
        roads = network if isinstance(network, Network) else Network.load(Path(network))
        table = columns(data)
        if out is not None:
            _fedtse.store_frame(roads, table, Path(out), gap, epoch, call)
            return _fedtse.features(Path(out), request, call)
        made = _fedtse.frame_features(roads, table, request, gap, call)
    fleets = {name: FleetFeatures(**fleet) for name, fleet in made.pop("fleets").items()}
    return Features(fleets=fleets, **made)


def train(
    data: Folder,
    *,
    method: str | Sequence[str] = "oracle",
    rate: float | Sequence[float] | None = None,
    fleets: Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    arch: Literal["link", "paper"] | None = None,
    sub_model: Literal["link", "stgcn", "mlp", "linear"] | None = None,
    embedding_size: int | None = None,
    party_dropout: float | None = None,
    guests: int | Sequence[SubModel | None] | None = None,
    host: SubModel | None = None,
    absent: Literal["wait", "skip", "stop"] = "wait",
    fusion: Literal["concatenate", "sum"] | None = None,
    privacy: str | None = None,
    scheme: Literal["rlwe", "ipfe"] | None = None,
    q: int | None = None,
    host_updates: Literal["each", "once"] | None = None,
    frozen: bool = False,
    proximal: float | None = None,
    compression: Literal["none", "f16", "q8"] | None = None,
    segment: int | None = None,
    no_physics: bool = False,
    learn_physics: bool = False,
    traffic_model: Literal["ctm", "store-and-forward", "metanet", "regions"] | None = None,
    seed: int | Sequence[int] | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    host_learning_rate: float | None = None,
    batch: int | None = None,
    weight_decay: float | None = None,
    flow_weight: float | None = None,
    window: int | None = None,
    checkpoint_s: float | None = None,
    metrics: Folder | None = None,
    out: Folder | None = None,
    part: Literal["validation", "test"] | None = None,
    progress: Shown = None,
) -> list[dict[str, Any]]:
    """Fits estimators on a dataset's features and scores them: one row for each method, rate and target, with mean and
    standard deviation over the seeds where there are several.

    Methods, options and their defaults are those of `fedtse train --help`. With `out` the model is kept
    there, and a run that was interrupted goes on.

    Of the federated methods, `guests` is their number, or a list with the sub-model of each: a `SubModel` of
    yours, or None for the built-in one. What happens without a guest whose sub-model raises an exception is
    `absent`: the run ends (`wait`, `stop`), or goes on without it (`skip`; `left` of the row says who and why).
    After the run your sub-models have their best weights. `host` is a sub-model of the host's own in the place of its
    built-in part; its x is `[sample, number]`, or `[sample, step, link, channel]` with `arch="paper"`.

    >>> fedtse.train("data/corridor", method="fedtse", rate=20, target="raw", out="model")  # doctest: +SKIP
    """
    own = [] if guests is None or isinstance(guests, int) else list(guests)
    number = guests if isinstance(guests, int) else len(own) or None
    request: _fedtse.TrainArguments = {
        "data": data, "method": method, "rate": rate, "fleets": fleets, "target": target, "arch": arch, "seed": seed,
        "epochs": epochs, "learning_rate": learning_rate, "metrics": metrics, "out": out, "part": part,
        "guest": {"sub_model": sub_model, "embedding_size": embedding_size, "party_dropout": party_dropout},
        "federation": {
            "guests": number, "fusion": fusion, "q": q, "host_updates": host_updates, "frozen": frozen,
            "proximal": proximal, "compression": compression, "checkpoint_s": checkpoint_s,
            "privacy": {"privacy": privacy, "scheme": scheme},
        },
        "recipe": {
            "batch": batch, "host_learning_rate": host_learning_rate, "weight_decay": weight_decay,
            "flow_weight": flow_weight, "window": window,
        },
        "physics": {
            "segment": segment, "no_physics": no_physics, "learn_physics": learn_physics, "traffic_model": traffic_model,
        },
    }
    with shown(progress) as call:
        return _fedtse.train(request, host, own, absent, call)


def estimate(
    data: Folder,
    *,
    model: Folder | None = None,
    party: Sequence[Folder] = (),
    interval: Literal[50, 80, 90, 95] | None = None,
    sub_models: Mapping[str, SubModel] | None = None,
    progress: Shown = None,
) -> Estimates:
    """Estimates density and flow of all links of a dataset with a trained model, or with trained parties.

    Parties are the folders `model` that they keep when their training has finished. Of those that were trained with
    a sub-model of their own, `sub_models` has it by the party's name; it gets the best weights, which the party has kept.

    >>> fedtse.estimate("data/corridor", model="model").density.mean(axis=0)  # doctest: +SKIP
    """
    request: _fedtse.EstimateRequest = {
        "data": data, "model": model, "party": [*party], "interval": interval,
    }
    with shown(progress) as call:
        made = _fedtse.estimate(request, dict(sub_models or {}), call)
    steps, links = made.pop("steps"), made.pop("links")
    tables = {name: values.reshape(len(steps), len(links)) for name, values in made.items()}
    return Estimates(steps, links, tables.pop("density"), tables.pop("flow"), tables)


def reproduce(what: str, *, progress: Shown = None, **options: Any) -> dict[str, Any]:
    """Makes a table or figure of the paper, our numbers beside the paper's; goes on where it stopped.

    Options are those of `fedtse reproduce --help`, as keywords. What comes back has the text for people under `text`.

    >>> fedtse.reproduce("table2", quick=True, out="results", data="data")["text"]  # doctest: +SKIP
    """
    with shown(progress) as call:
        text, numbers = _fedtse.reproduce({"what": what, **options}, call)
    return {**numbers, "text": text} if isinstance(numbers, dict) else {"rows": numbers, "text": text}


def audit(
    ledger: Folder,
    party: str,
    *,
    head: str | None = None,
    authority: Folder | None = None,
    heads: Folder | None = None,
) -> dict[str, Any]:
    """Verifies what a party has recorded of everything that left it, and sums it up; with the certificate of the authority also
    against the heads that peers have countersigned, beside the ledger and in a peer's file `heads`.

    >>> fedtse.audit("model/guest/ledger.jsonl", "guest")["messages"]  # doctest: +SKIP
    """
    return _fedtse.audit(
        {"ledger": ledger, "party": party, "head": head, "authority": authority, "heads": heads}
    )
