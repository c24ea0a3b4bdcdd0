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

Targets are density (veh/km/lane) and flow (veh/min/lane), Edie, one step, on the target links.
Windows are split 70/10/20 in time; models are fitted on the first part alone. Look at the test part
once, after all choices were made on the validation part.
"""

import argparse
import json
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingRegressor

WINDOW = 9


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="+", type=Path, help="folders with features")
    parser.add_argument("--part", choices=["validation", "test"], default="validation")
    parser.add_argument("--rates", default="20,40,60,80", help="fleets, in per cent")
    parser.add_argument("--quantity", choices=["density", "flow", "both"], default="both")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    rates = [int(rate) for rate in options.rates.split(",") if rate]
    quantities = ["density", "flow"] if options.quantity == "both" else [options.quantity]
    for folder in options.dataset:
        data = Dataset(folder)
        if not options.json:
            print(f"{folder}: {options.part} part, {len(data.part(options.part))} windows")
        for quantity in quantities:
            for method, rate in [("TSE-n", None)] + [("Oracle", rate) for rate in rates]:
                rmse, mae = data.score(quantity, rate, options.part)
                report(options, folder, quantity, method, rate, rmse, mae)


def report(options, folder, quantity, method, rate, rmse, mae):
    if options.json:
        row = dict(dataset=str(folder), part=options.part, quantity=quantity, method=method)
        print(json.dumps(row | dict(rate=rate, rmse=rmse, mae=mae)), flush=True)
    else:
        name = method if rate is None else f"{method} {rate} %"
        print(f"  {quantity:8} {name:12} RMSE {rmse:6.2f}  MAE {mae:6.2f}", flush=True)


class Dataset:
    """The features of a folder as arrays over steps."""

    def __init__(self, folder):
        self.folder = folder
        network = tomllib.loads((folder / "network.toml").read_text())
        links = network["link"]
        names = [link["name"] for link in links]
        self.targets = [names.index(name) for name in network.get("targets", names)]
        self.lane_metres = np.array([link["length"] * link["lanes"] for link in links])
        manifest = json.loads((folder / "features" / "manifest.json").read_text())
        self.step_seconds = manifest["step_s"]
        self.steps, self.all = self.totals("all")
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

    def truth(self, quantity):
        box = self.lane_metres * self.step_seconds
        if quantity == "density":
            return self.all[:, :, 0] / box * 1000
        return self.all[:, :, 1] / box * 60

    def score(self, quantity, rate, part):
        """RMSE and MAE over all target links."""
        train, test = self.part("train"), self.part(part)
        x_train, x_test = self.inputs(rate, train), self.inputs(rate, test)
        truth = self.truth(quantity)
        errors = []
        for link in self.targets:
            model = HistGradientBoostingRegressor(random_state=0)
            model.fit(x_train, truth[train, link])
            errors.append(model.predict(x_test) - truth[test, link])
        errors = np.array(errors)
        return float(np.sqrt(np.mean(errors**2))), float(np.mean(np.abs(errors)))


if __name__ == "__main__":
    main()
