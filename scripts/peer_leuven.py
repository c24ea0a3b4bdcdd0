#!/usr/bin/env python3
"""Map matching by LeuvenMapMatching, on the same network, tracks and truth as
`cargo run --release -p sensing --example match_pneuma`:

    python scripts/peer_leuven.py NETWORK.toml TRACKS.csv TRUTH.csv [--interval 1] [--tracks 50]

Tracks are thinned to the same moments. Prints one line of JSON with the seconds spent matching
(without reading files and without measuring accuracy).

It is given what it can use: metres in the plane instead of degrees (cheaper distances), every link
as a directed edge, a spatial index of the edges, a restart where it stops early, and the parameters
that gave the best accuracy in `--tune` on the built-in world's corridor. States without a place
(`--unobserved`) take twice the time and did not change one link there, so they are off.
"""

import argparse
import itertools
import json
import logging
import math
import time
import tomllib

from leuvenmapmatching.map.inmem import InMemMap
from leuvenmapmatching.matcher.distance import DistanceMatcher

EARTH_RADIUS = 6_371_008.8


def main():
    arguments = parse_arguments()
    logging.getLogger("be.kuleuven.cs.dtai.mapmatching").setLevel(logging.ERROR)
    with open(arguments.network, "rb") as file:
        network = tomllib.load(file)
    links = {link["name"]: link for link in network["link"]}
    origin = network["origin"]
    tracks = read_tracks(arguments.tracks_file, origin, arguments.interval, arguments.tracks)
    truth = read_truth(arguments.truth, arguments.interval, {name for name, _, _ in tracks})
    road_map, edges = build_map(network["link"])
    if arguments.tune:
        grid = itertools.product([0.5, 1, 2, 4], [0.5, 1, 2, 4, 8], [True, False], [5])
        for noise, distance_noise, unobserved, width in grid:
            settings = {
                "noise": noise,
                "distance_noise": distance_noise,
                "unobserved": unobserved,
                "width": width,
            }
            result = run(road_map, edges, links, tracks, truth, **settings)
            print(json.dumps(settings | result), flush=True)
        return
    result = run(
        road_map,
        edges,
        links,
        tracks,
        truth,
        noise=arguments.noise,
        distance_noise=arguments.distance_noise,
        unobserved=arguments.unobserved,
        width=arguments.width,
    )
    print(json.dumps({"tool": "leuven"} | result))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("tracks_file")
    parser.add_argument("truth")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between places")
    parser.add_argument("--tracks", type=int, default=None, help="use only the first so many tracks")
    parser.add_argument("--noise", type=float, default=4.0, help="of places, m")
    parser.add_argument("--distance-noise", type=float, default=0.5, help="of distances, m")
    parser.add_argument("--width", type=int, default=5, help="of the lattice")
    parser.add_argument("--unobserved", action="store_true", help="allow states without a place")
    parser.add_argument("--tune", action="store_true", help="try many parameters and print all")
    return parser.parse_args()


def run(road_map, edges, links, tracks, truth, noise, distance_noise, unobserved, width):
    begin = time.perf_counter()
    found = []
    for name, times, places in tracks:
        at = 0
        # It stops at the first place that it cannot match: start again behind that.
        while at < len(places):
            matcher = DistanceMatcher(
                road_map,
                max_dist=35,
                max_dist_init=35,
                obs_noise=noise,
                dist_noise=distance_noise,
                non_emitting_states=unobserved,
                max_lattice_width=width,
            )
            matcher.match(places[at:])
            best = [matching for matching in matcher.lattice_best or [] if matching.obs_ne == 0]
            found.extend((name, times[at + m.obs], m.edge_m) for m in best)
            at += max((m.obs for m in best), default=0) + 1
    seconds = time.perf_counter() - begin
    return {"seconds": round(seconds, 6), "tracks": len(tracks)} | accuracy(edges, links, truth, found)


def build_map(links):
    """A node for every point of a shape, points at one place being one node."""
    numbers, graph, edges = {}, {}, {}

    def node(point):
        key = (round(point[0], 2), round(point[1], 2))
        if key not in numbers:
            numbers[key] = len(numbers)
            graph[numbers[key]] = ((point[1], point[0]), [])
        return numbers[key]

    for link in links:
        begin = 0.0
        for a, b in itertools.pairwise(link["shape"]):
            if node(b) not in graph[node(a)][1]:
                graph[node(a)][1].append(node(b))
            edges[node(a), node(b)] = (link["name"], begin, math.dist(a, b))
            begin += math.dist(a, b)
    # Without an index of edges it finds no start in the middle of a link.
    road_map = InMemMap("network", use_latlon=False, use_rtree=True, index_edges=True, graph=graph)
    return road_map, edges


def read_tracks(path, origin, interval, limit):
    metres_per_degree = math.radians(EARTH_RADIUS)
    scale = metres_per_degree * math.cos(math.radians(origin["lat"]))
    tracks = []
    with open(path) as file:
        next(file)
        for line in itertools.islice(file, limit):
            fields = [field.strip() for field in line.rstrip("; \n").split(";")]
            times, places = [], []
            for group in range(4, len(fields), 6):
                moment = float(fields[group + 5])
                if is_multiple(moment, interval):
                    y = (float(fields[group]) - origin["lat"]) * metres_per_degree
                    x = (float(fields[group + 1]) - origin["lon"]) * scale
                    times.append(moment)
                    places.append((y, x))
            tracks.append((fields[0], times, places))
    return tracks


def read_truth(path, interval, names):
    truth = {}
    with open(path) as file:
        next(file)
        for line in file:
            vehicle, moment, link, position = line.strip().split(",")
            if vehicle in names and is_multiple(float(moment), interval):
                truth[vehicle, round(1000 * float(moment))] = (link, float(position))
    return truth


def is_multiple(moment, interval):
    steps = moment / interval
    return abs(steps - round(steps)) * interval < 1e-3


def accuracy(edges, links, truth, found):
    drawn = {
        name: sum(math.dist(a, b) for a, b in itertools.pairwise(link["shape"]))
        for name, link in links.items()
    }

    def point(link, share):
        left = share * drawn[link]
        for a, b in itertools.pairwise(links[link]["shape"]):
            length = math.dist(a, b)
            if left <= length and length > 0:
                return [a[i] + (b[i] - a[i]) * left / length for i in (0, 1)]
            left -= length
        return links[link]["shape"][-1]

    right, errors, seen = 0, [], set()
    for name, moment, segment in found:
        key = (name, round(1000 * moment))
        if key not in truth or key in seen:
            continue
        seen.add(key)
        link, begin, length = edges[segment.l1, segment.l2]
        real_link, position = truth[key]
        right += link == real_link
        here = point(link, (begin + segment.ti * length) / drawn[link])
        real = point(real_link, position / links[real_link]["length"])
        errors.append(math.dist(here, real))
    errors.sort()

    def quantile(share):
        return round(errors[max(math.ceil(share * len(errors)), 1) - 1], 3) if errors else None

    return {
        "points": len(truth),
        "matched": len(errors),
        "right_link": round(right / len(truth), 6),
        "median_error": quantile(0.5),
        "error_95": quantile(0.95),
    }


if __name__ == "__main__":
    main()
