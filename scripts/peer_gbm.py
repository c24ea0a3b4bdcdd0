#!/usr/bin/env python3
"""Gradient boosting on a dataset's features: how hard the estimation problem is.

A peer, not part of fedtse: scikit-learn's HistGradientBoostingRegressor with its default settings,
one model per target link and quantity, on windows of 9 steps.

  TSE-n    host only: loop counts
  Oracle   host and fleet in one place: loop counts, travel time and distance on all links

Usage:
  fedtse simulate --world sumo --minutes 810 --out DIR
  fedtse features DIR
  python scripts/peer_gbm.py DIR [DIR ...] --part validation

Targets are density (veh/km/lane) and flow (veh/min/lane), Edie, one step or (--target smooth) their
trailing mean over 60 s, on the target links. Windows are split 70/10/20 in time; models are fitted on
the first part alone. Look at the test part once, after all choices were made on the validation part.

`fedtse reproduce` runs this script for its rows of gradient boosting.
"""

import argparse
import json
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import sklearn
from sklearn.ensemble import HistGradientBoostingRegressor

WINDOW = 9


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="+", type=Path, help="folders with features")
    parser.add_argument("--part", choices=["validation", "test"], default="validation")
    parser.add_argument("--rates", default="20,40,60,80", help="fleets, in per cent")
    parser.add_argument("--without-tse-n", action="store_true", help="the fleets alone")
    parser.add_argument("--target", choices=["raw", "smooth"], default="raw")
    parser.add_argument(
        "--samples", type=int, help="windows before the test part: 7 in 8 train; all unless given"
    )
    parser.add_argument(
        "--cells", type=int, default=0, metavar="STEPS",
        help="for the Oracle, also the fleet's totals in each cell of the link, of so many last steps",
    )
    parser.add_argument("--quantity", choices=["density", "flow", "both"], default="both")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    rates = [int(rate) for rate in options.rates.split(",") if rate]
    quantities = ["density", "flow"] if options.quantity == "both" else [options.quantity]
    cases = [] if options.without_tse_n else [("TSE-n", None)]
    cases += [("Oracle", rate) for rate in rates]
    for folder in options.dataset:
        data = Dataset(folder, options.target, options.samples, options.cells)
        if not options.json:
            print(f"{folder}: {options.part} part, {len(data.part(options.part))} windows")
        for quantity in quantities:
            for method, rate in cases:
                rmse, mae = data.score(quantity, rate, options.part)
                report(options, folder, quantity, method, rate, rmse, mae)


def report(options, folder, quantity, method, rate, rmse, mae):
    if options.json:
        row = dict(dataset=str(folder), part=options.part, target=options.target)
        row |= dict(quantity=quantity, method=method, rate=rate, rmse=rmse, mae=mae)
        print(json.dumps(row | dict(peer=f"scikit-learn {sklearn.__version__}")), flush=True)
    else:
        name = method if rate is None else f"{method} {rate} %"
        print(f"  {quantity:8} {name:12} RMSE {rmse:6.2f}  MAE {mae:6.2f}", flush=True)


class Dataset:
    """The features of a folder as arrays over steps."""

    def __init__(self, folder, target, samples, cells=0):
        self.folder = folder
        self.cell_steps = cells
        self.target = target
        self.samples = samples
        network = tomllib.loads((folder / "network.toml").read_text())
        links = network["link"]
        names = [link["name"] for link in links]
        self.targets = [names.index(name) for name in network.get("targets", names)]
        self.steps, _ = self.totals("all")
        counts = pq.read_table(folder / "features" / "loops.parquet")
        self.loops = np.array(counts["count"], dtype=float).reshape(len(self.steps), -1)
        # A window must not cross a gap between recordings.
        last = np.arange(WINDOW - 1, len(self.steps))
        self.windows = last[self.steps[last] - self.steps[last - WINDOW + 1] == WINDOW - 1]

    def totals(self, name):
        """Steps, and travel time and distance by step and link."""
        columns = ["step", "link", "travel_time_s", "travel_distance_m"]
        table = pq.read_table(self.folder / "features" / f"{name}.parquet", columns=columns)
        steps = np.unique(np.array(table["step"]))
        both = [np.array(table[column]).reshape(len(steps), -1) for column in columns[2:]]
        return steps, np.stack(both, axis=2)

    def part(self, part):
        count = len(self.windows)
        if self.samples is not None and part != "test":
            before = self.windows[: count * 8 // 10]
            most = len(before)
            if not 8 <= self.samples <= most:
                raise SystemExit(f"--samples: found {self.samples}, expected 8 to {most}")
            kept = before[most - self.samples :]
            border = self.samples - self.samples // 8
            return kept[:border] if part == "train" else kept[border:]
        bounds = {"train": (0, 7), "validation": (7, 8), "test": (8, 10)}[part]
        return self.windows[count * bounds[0] // 10 : count * bounds[1] // 10]

    def inputs(self, rate, windows):
        series = [self.loops]
        if rate is not None:
            steps, fleet = self.totals(f"fleet-{rate}")
            assert np.array_equal(steps, self.steps), f"fleet-{rate} has other steps"
            series.append(fleet.reshape(len(steps), -1))
        series = np.concatenate(series, axis=1)
        return np.concatenate([series[windows - lag] for lag in range(WINDOW)], axis=1)

    def cells(self, rate, windows, link):
        """Totals of the link's cells and sub-steps, step by step back from the window's last."""
        path = self.folder / "features" / f"fleet-{rate}.parquet"
        names = [name for name in pq.read_schema(path).names if "_c" in name and "s" in name.split("_c")[1]]
        table = pq.read_table(path, columns=names)
        columns = [np.array(table[name]).reshape(len(self.steps), -1)[:, link] for name in names]
        own = np.stack(columns, axis=1)
        return np.concatenate([own[windows - lag] for lag in range(self.cell_steps)], axis=1)

    def truth(self, quantity):
        column = quantity if self.target == "raw" else f"{quantity}_smooth"
        table = pq.read_table(self.folder / "features" / "targets.parquet", columns=[column])
        return np.array(table[column]).reshape(len(self.steps), -1)

    def score(self, quantity, rate, part):
        """RMSE and MAE over all target links."""
        train, test = self.part("train"), self.part(part)
        x_train, x_test = self.inputs(rate, train), self.inputs(rate, test)
        truth = self.truth(quantity)
        errors = []
        for link in self.targets:
            x, x_new = x_train, x_test
            if rate is not None and self.cell_steps:
                x = np.concatenate([x, self.cells(rate, train, link)], axis=1)
                x_new = np.concatenate([x_new, self.cells(rate, test, link)], axis=1)
            model = HistGradientBoostingRegressor(random_state=0)
            model.fit(x, truth[train, link])
            errors.append(model.predict(x_new) - truth[test, link])
        errors = np.array(errors)
        return float(np.sqrt(np.mean(errors**2))), float(np.mean(np.abs(errors)))


if __name__ == "__main__":
    main()
