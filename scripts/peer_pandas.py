#!/usr/bin/env python3
"""Link-time features by pandas and by NumPy, on the same dataset as `fedtse features`:

    python scripts/peer_pandas.py DATASET OUT.parquet [--tool pandas|numpy] [--check]

Totals of travel time and distance of all vehicles, per link and step and per cell and sub-step,
cut exactly at all borders; nothing of the fleets, turns, trips, loops and targets that fedtse makes
in the same pass. Prints one line of JSON with the seconds from the first byte read to the last
written. `--check` compares with the dataset's own `features/all.parquet`.

`pandas` is what one writes with groupby, shift, repeat over borders and merge; `numpy` is the same
by hand on sorted arrays with bincount.
"""

import argparse
import json
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

STEP, SUB_STEPS, CELLS, PATIENCE = 10.0, 2, 6, 5.0
SUB_STEP = STEP / SUB_STEPS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tool", choices=["pandas", "numpy"], default="pandas")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.dataset / "network.toml", "rb") as file:
        lengths = np.array([link["length"] for link in tomllib.load(file)["link"]])
    begin = time.perf_counter()
    rows = pd.read_parquet(
        arguments.dataset / "trajectories.parquet",
        columns=["time", "vehicle", "link", "position"],
    )
    count = len(rows)
    if arguments.tool == "pandas":
        totals = totals_by_pandas(rows, lengths)
    else:
        totals = totals_by_numpy(rows, lengths)
    totals.to_parquet(arguments.out)
    seconds = time.perf_counter() - begin
    result = {"tool": arguments.tool, "seconds": round(seconds, 6), "samples": count}
    if arguments.check:
        result["difference"] = difference(arguments.dataset, totals)
    print(json.dumps(result))


def totals_by_pandas(rows, lengths):
    rows = rows.sort_values(["vehicle", "time"], kind="stable")
    before = rows.groupby("vehicle", sort=False)[["time", "link", "position"]].shift()
    moves = pd.DataFrame(
        {
            "link0": before["link"],
            "link1": rows["link"],
            "t0": before["time"],
            "t1": rows["time"],
            "x0": before["position"].astype("float64"),
            "x1": rows["position"].astype("float64"),
        }
    ).dropna()
    moves["link0"] = moves["link0"].astype("int64")
    moves = moves[moves["t1"] - moves["t0"] <= PATIENCE]
    length = pd.Series(lengths)
    # Within a link.
    same = moves[moves["link0"] == moves["link1"]].rename(columns={"link1": "link"})
    same = same.assign(x1=same[["x0", "x1"]].max(axis=1))
    # Over a turn: at constant speed to the end of one link, then on the next.
    over = moves[moves["link0"] != moves["link1"]]
    end = over["link0"].map(length)
    left = (end - over["x0"]).clip(lower=0.0)
    share = (left / (left + over["x1"])).fillna(0.0)
    at_end = over["t0"] + (over["t1"] - over["t0"]) * share
    first = over.assign(link=over["link0"], t1=at_end, x1=end)
    second = over.assign(link=over["link1"], t0=at_end, x0=0.0)
    pieces = pd.concat([same, first, second])[["link", "t0", "t1", "x0", "x1"]]
    # Cells: one row for each that is touched.
    cell = pieces["link"].map(length / CELLS)
    pieces["cell"] = (pieces["x0"] / cell).astype("int64").clip(upper=CELLS - 1)
    last = (np.ceil(pieces["x1"] / cell).astype("int64") - 1).clip(upper=CELLS - 1)
    touched = (last - pieces["cell"]).clip(lower=0) + 1
    pieces = explode(pieces, touched)
    pieces["cell"] += pieces["number"]
    cell = pieces["link"].map(length / CELLS)
    from_border, to_border = pieces["number"] > 0, pieces["number"] + 1 < pieces["touched"]
    moved = pieces["x1"] - pieces["x0"]
    a = pieces["x0"].where(~from_border, pieces["cell"] * cell)
    b = pieces["x1"].where(~to_border, (pieces["cell"] + 1) * cell)
    duration = pieces["t1"] - pieces["t0"]
    t = pieces["t0"]
    pieces["t0"] = t.where(~from_border, t + duration * (a - pieces["x0"]) / moved)
    pieces["t1"] = pieces["t1"].where(~to_border, t + duration * (b - pieces["x0"]) / moved)
    pieces["x0"], pieces["x1"] = a, b
    # Sub-steps, likewise.
    pieces["sub"] = np.floor(pieces["t0"] / SUB_STEP).astype("int64")
    last = np.ceil(pieces["t1"] / SUB_STEP).astype("int64") - 1
    pieces = explode(pieces, (last - pieces["sub"]).clip(lower=0) + 1)
    pieces["sub"] += pieces["number"]
    from_border, to_border = pieces["number"] > 0, pieces["number"] + 1 < pieces["touched"]
    a = pieces["t0"].where(~from_border, pieces["sub"] * SUB_STEP)
    b = pieces["t1"].where(~to_border, (pieces["sub"] + 1) * SUB_STEP)
    share = ((b - a) / (pieces["t1"] - pieces["t0"])).where(pieces["touched"] > 1, 1.0)
    pieces["time"] = b - a
    pieces["distance"] = (pieces["x1"] - pieces["x0"]) * share
    boxes = pieces.groupby(["sub", "link", "cell"])[["time", "distance"]].sum().reset_index()
    boxes["step"] = boxes["sub"] // SUB_STEPS
    boxes["column"] = boxes["cell"] + CELLS * (boxes["sub"] % SUB_STEPS)
    wide = boxes.pivot(index=["step", "link"], columns="column", values=["time", "distance"])
    wide = wide.fillna(0.0)
    wide.columns = [f"{what}_c{at % CELLS}s{at // CELLS}" for what, at in wide.columns]
    sums = boxes.groupby(["step", "link"])[["time", "distance"]].sum()
    sums.columns = ["travel_time_s", "travel_distance_m"]
    return sums.join(wide).reset_index()


def explode(pieces, touched):
    """Repeats each row as often as it touches boxes, and numbers the repetitions."""
    rows = np.repeat(np.arange(len(pieces)), touched)
    pieces = pieces.assign(touched=touched).iloc[rows]
    counts = touched.to_numpy()
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return pieces.assign(number=np.arange(len(pieces)) - starts)


def totals_by_numpy(rows, lengths):
    order = np.argsort(rows["vehicle"].to_numpy(), kind="stable")
    vehicle = rows["vehicle"].to_numpy()[order]
    moment = rows["time"].to_numpy()[order]
    link = rows["link"].to_numpy()[order].astype(np.int64)
    position = rows["position"].to_numpy()[order].astype(np.float64)
    go_on = (vehicle[1:] == vehicle[:-1]) & (moment[1:] - moment[:-1] <= PATIENCE)
    same = np.flatnonzero(go_on & (link[1:] == link[:-1]))
    over = np.flatnonzero(go_on & (link[1:] != link[:-1]))
    end = lengths[link[over]]
    left = np.maximum(end - position[over], 0.0)
    whole = left + position[over + 1]
    share = np.divide(left, whole, out=np.zeros_like(left), where=whole > 0)
    at_end = moment[over] + (moment[over + 1] - moment[over]) * share
    zero = np.zeros(len(over))
    links = np.concatenate([link[same], link[over], link[over + 1]])
    t0 = np.concatenate([moment[same], moment[over], at_end])
    t1 = np.concatenate([moment[same + 1], at_end, moment[over + 1]])
    x0 = np.concatenate([position[same], position[over], zero])
    x1 = np.concatenate(
        [np.maximum(position[same], position[same + 1]), end, position[over + 1]]
    )
    cell = (lengths / CELLS)[links]
    first = np.minimum((x0 / cell).astype(np.int64), CELLS - 1)
    last = np.minimum(np.ceil(x1 / cell).astype(np.int64) - 1, CELLS - 1)
    # Only what crosses a border is repeated.
    across = last > first
    inside = ~across
    counts = (last - first + 1)[across]
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    again = np.repeat(np.flatnonzero(across), counts)
    is_last = number + 1 == np.repeat(counts, counts)
    cells = first[again] + number
    a = np.where(number > 0, cells * cell[again], x0[again])
    b = np.where(is_last, x1[again], (cells + 1) * cell[again])
    slope = (t1 - t0)[again] / (x1 - x0)[again]
    ta = np.where(number > 0, t0[again] + slope * (a - x0[again]), t0[again])
    tb = np.where(is_last, t1[again], t0[again] + slope * (b - x0[again]))
    links = np.concatenate([links[inside], links[again]])
    cells = np.concatenate([first[inside], cells])
    t0, t1 = np.concatenate([t0[inside], ta]), np.concatenate([t1[inside], tb])
    x0, x1 = np.concatenate([x0[inside], a]), np.concatenate([x1[inside], b])
    first = np.floor(t0 / SUB_STEP).astype(np.int64)
    last = np.ceil(t1 / SUB_STEP).astype(np.int64) - 1
    across = last > first
    inside = ~across
    counts = (last - first + 1)[across]
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    again = np.repeat(np.flatnonzero(across), counts)
    subs = first[again] + number
    ta = np.maximum(t0[again], subs * SUB_STEP)
    tb = np.minimum(t1[again], (subs + 1) * SUB_STEP)
    metres = (x1 - x0)[again] * (tb - ta) / (t1 - t0)[again]
    subs = np.concatenate([first[inside], subs])
    seconds = np.concatenate([(t1 - t0)[inside], tb - ta])
    metres = np.concatenate([(x1 - x0)[inside], metres])
    links = np.concatenate([links[inside], links[again]])
    cells = np.concatenate([cells[inside], cells[again]])
    steps = subs // SUB_STEPS
    low, high = steps.min(), steps.max()
    box = ((steps - low) * len(lengths) + links) * (SUB_STEPS * CELLS)
    box += (subs % SUB_STEPS) * CELLS + cells
    size = (high - low + 1) * len(lengths) * SUB_STEPS * CELLS
    seconds = np.bincount(box, seconds, size).reshape(-1, SUB_STEPS * CELLS)
    metres = np.bincount(box, metres, size).reshape(-1, SUB_STEPS * CELLS)
    totals = {
        "step": np.repeat(np.arange(low, high + 1), len(lengths)),
        "link": np.tile(np.arange(len(lengths)), high - low + 1),
        "travel_time_s": seconds.sum(axis=1),
        "travel_distance_m": metres.sum(axis=1),
    }
    for what, values in [("time", seconds), ("distance", metres)]:
        for at in range(SUB_STEPS * CELLS):
            totals[f"{what}_c{at % CELLS}s{at // CELLS}"] = values[:, at]
    return pd.DataFrame(totals)


def difference(dataset, totals):
    """The largest difference of a total: seconds or metres, over 1 or the total, what is larger."""
    ours = pd.read_parquet(dataset / "features" / "all.parquet").set_index(["step", "link"])
    columns = [name for name in totals.columns if name not in ("step", "link")]
    theirs = totals.set_index(["step", "link"]).reindex(ours.index)[columns].fillna(0.0)
    ours = ours[columns].astype("float64")
    return float(((ours - theirs).abs() / ours.clip(lower=1.0)).to_numpy().max())


if __name__ == "__main__":
    main()
