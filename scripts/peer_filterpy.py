#!/usr/bin/env python3
"""filterpy's unscented Kalman filter on the scene of `ukf_speed scene FILE`, for scripts/bench.py.

    .venv-peers/bin/python scripts/peer_filterpy.py FILE [--steps 60]

The model is the same cell transmission model, vectorised over links in NumPy; state, sigma points,
noise and measurements are the same. filterpy has no gaps in measurements: each step's measurement
vector holds what there is, with its own R. Prints one line of JSON.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter

KM_PER_MIN = 0.06
EMPTY = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path)
    parser.add_argument("--steps", type=int, default=0, help="only the first so many")
    arguments = parser.parse_args()
    scene = json.loads(arguments.scene.read_text())
    steps = scene["steps"][: arguments.steps or None]
    model = Model(scene)
    links, size = model.links, model.size
    noise = scene["noise"]
    lanes = model.lanes[model.entries]

    def spread(density, demand):
        return np.concatenate([np.full(links, density), demand * lanes, np.full(links, noise["flow"])])

    points = MerweScaledSigmaPoints(size, scene["alpha"], scene["beta"], scene["kappa"])
    ukf = UnscentedKalmanFilter(size, 1, 1.0, model.observe, model.advance, points)
    ukf.x = np.concatenate([np.full(links, scene["start"]), model.usual, np.zeros(links)])
    ukf.P = np.diag(spread(noise["first_density"], noise["first_demand"]) ** 2)
    ukf.Q = np.diag(spread(noise["density"], noise["demand"]) ** 2)
    most = np.concatenate([model.jam, np.full(len(lanes), np.inf), model.capacity])

    seconds, error, mean, failed = 0.0, 0.0, np.zeros(links), 0
    for step in steps:
        model.green = np.array(step["green"]).reshape(model.sub_steps, -1)
        flows = np.array([np.nan if v is None else v for v in step["flows"]])
        speeds = np.array([np.nan if v is None else v for v in step["speeds"]])
        model.flows, model.speeds = np.flatnonzero(~np.isnan(flows)), np.flatnonzero(~np.isnan(speeds))
        z = np.concatenate([flows[model.flows], speeds[model.speeds]])
        variances = [scene["flow_variance"]] * len(model.flows) + [scene["speed_variance"]] * len(model.speeds)
        begin = time.perf_counter()
        ukf.predict()
        ukf.x = np.clip(ukf.x, 0.0, most)
        # Points anew from the prediction with its noise, as our filter has them.
        ukf.sigmas_f = points.sigma_points(ukf.x, ukf.P)
        ukf._dim_z = len(z)
        ukf.update(z, R=np.diag(variances))
        ukf.x = np.clip(ukf.x, 0.0, most)
        seconds += time.perf_counter() - begin
        failed += int(np.linalg.eigvalsh(ukf.P)[0] <= 0.0)
        error += float(np.sum((ukf.x[:links] - np.array(step["densities"])) ** 2))
        mean += ukf.x[:links] / len(steps)
    print(json.dumps({
        "seconds": seconds / len(steps),
        "rmse": (error / (len(steps) * links)) ** 0.5,
        "mean_densities": mean.tolist(),
        "steps": len(steps),
        "not_positive_definite": failed,
    }))


class Model:
    """The cell transmission model, one cell per link, and what is measured of it."""

    def __init__(self, scene):
        array = lambda name: np.array(scene[name], dtype=float)
        self.links, self.sub_steps = scene["links"], scene["sub_steps"]
        self.length, self.lanes = array("length_km"), array("lanes")
        self.free, self.wave = array("free_km_min"), array("wave_km_min")
        self.jam, self.capacity, self.ratios = array("jam"), array("capacity"), array("ratios")
        turns = np.array(scene["turns"])
        self.origin, self.destination = turns[:, 0], turns[:, 1]
        self.entries = np.array(scene["entries"])
        self.usual, self.lasting = scene["usual_per_lane"] * self.lanes[self.entries], scene["lasting"]
        self.delta = scene["step_min"] / self.sub_steps
        self.gain = self.delta / (self.length * self.lanes)
        self.size = 2 * self.links + len(self.entries)
        # Sums over turns as matrix products: quicker than np.add.at for this size.
        self.into = np.zeros((self.links, len(turns)))
        self.into[self.destination, np.arange(len(turns))] = 1.0
        self.out_of = np.zeros((self.links, len(turns)))
        self.out_of[self.origin, np.arange(len(turns))] = 1.0
        self.flows = self.speeds = np.array([], dtype=int)
        self.green = None

    def advance(self, x, _dt):
        links, turns = self.links, len(self.origin)
        density = np.clip(x[:links], 0.0, self.jam)
        demand = np.zeros(links)
        demand[self.entries] = np.maximum(x[links : links + len(self.entries)], 0.0)
        waiting, flow = np.zeros(links), np.zeros(links)
        capacity = self.lanes * self.capacity
        for green in self.green:
            leaving = self.lanes * self.free * density
            room = self.lanes * np.minimum(self.wave * (self.jam - density), self.capacity)
            entry_demand = demand + waiting / self.delta
            sending = self.ratios[:turns] * np.minimum(green[:turns] * capacity[self.origin], leaving[self.origin])
            asked = entry_demand + self.into @ sending
            share = np.where(asked > room, room / np.where(asked > 0.0, asked, 1.0), 1.0)
            passing = sending * share[self.destination]
            entry = entry_demand * share
            inflow = entry + self.into @ passing
            outflow = self.out_of @ passing + self.ratios[turns:] * np.minimum(green[turns:] * capacity, leaving)
            flow += 0.5 * (inflow + outflow) / (self.lanes * self.sub_steps)
            density = np.clip(density + self.gain * (inflow - outflow), 0.0, self.jam)
            waiting = np.maximum(waiting + self.delta * (demand - entry), 0.0)
        wandering = self.usual + self.lasting * (x[links : links + len(self.entries)] - self.usual)
        return np.concatenate([density, wandering, flow])

    def observe(self, x):
        flow = x[-self.links :]
        density = np.maximum(x[self.speeds], EMPTY)
        return np.concatenate([flow[self.flows], np.maximum(flow[self.speeds], 0.0) / density / KM_PER_MIN])


if __name__ == "__main__":
    sys.exit(main())
