#!/usr/bin/env python3
"""Measures fedtse beside the usual tools, in one run, taking turns:

    make bench                                # all but the large one
    .venv-peers/bin/python scripts/bench.py [--rounds 5] [--only NAME] [--large]

Prints a table and writes docs/benchmarks.json and docs/benchmarks.md (not with --only). Needs the release build with examples, .venv-sumo and .venv-peers: `make bench` sees to
them. Times are those that each tool measures of itself, without starting up, except where it says
"process". `--large` adds the features of 100 million positions, which takes minutes and 1.5 GB of disk.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import benchmark_page

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target" / "release"
EXAMPLES = RELEASE / "examples"
SUMO = ROOT / ".venv-sumo" / "bin"
LARGE_ROWS = 100_000_000
MINUTES = {"features": 810, "simulation": 135, "fcd": 135}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[name for name, _ in BENCHMARKS])
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    check_tools()
    results = []
    with tempfile.TemporaryDirectory(prefix="fedtse-bench-") as folder:
        for name, benchmark in BENCHMARKS:
            if arguments.only in (None, name) and (name != "large" or arguments.large or arguments.only):
                print(f"{name} …", file=sys.stderr, flush=True)
                results.extend(benchmark(Path(folder), max(arguments.rounds, 1)))
    table = markdown(results)
    print(table)
    if not arguments.only:
        write(results, table, arguments)


def check_tools():
    needed = [
        (RELEASE / "fedtse", "cargo build --release"),
        (EXAMPLES / "features_speed", "cargo build --release --workspace --examples"),
        (SUMO / "sumo", "make sumo"),
    ]
    for path, command in needed:
        if not path.exists():
            sys.exit(f"bench: {path.relative_to(ROOT)}: not found; run `{command}`, or all at once: `make bench`")
    try:
        for package in ("pandas", "pyarrow", "leuvenmapmatching", "filterpy", "cvxpy"):
            metadata.version(package)
    except metadata.PackageNotFoundError as error:
        sys.exit(
            f"bench: Python package {error}: not found; run `make peers`, "
            "then this script by .venv-peers/bin/python, or all at once: `make bench`"
        )


# Each benchmark prepares its input, checks that both sides give the same, and then lets them take
# turns.


def features(folder, rounds):
    dataset = folder / "corridor"
    simulate("builtin", MINUTES["features"], dataset)
    own = [EXAMPLES / "features_speed", dataset]
    peer = [sys.executable, ROOT / "scripts/peer_pandas.py", dataset, folder / "totals.parquet", "--tool"]
    samples = run_json(own)["samples"]
    difference = max(run_json([*peer, tool, "--check"])["difference"] for tool in ("pandas", "numpy"))
    if not difference < 1e-6:
        sys.exit(f"bench: features: found totals that differ by {difference}, expected less than 1e-6")
    times = take_turns(rounds, {
        "fedtse": lambda: run_json(own)["seconds"],
        "pandas": lambda: run_json([*peer, "pandas"])["seconds"],
        "numpy": lambda: run_json([*peer, "numpy"])["seconds"],
    })
    what = f"link-time features of {samples / 1e6:.1f} million positions"
    note = f"read, cut, add up, write; totals agree to {difference:.0e}"
    return [
        compare(what, times, "fedtse", "pandas", "pandas", 20, note),
        compare(what, times, "fedtse", "numpy", "NumPy by hand", None, "the same job, tuned"),
    ]


def fcd(folder, rounds):
    kept = folder / "sumo-files"
    simulate("sumo", MINUTES["fcd"], folder / "for-fcd", "--keep", kept)
    run([*sumo_command(MINUTES["fcd"]), "--fcd-output", "positions.xml", "--fcd-output.attributes", "id,lane,pos,speed"], kept)
    path = kept / "positions.xml"
    own = [EXAMPLES / "read_fcd", folder / "for-fcd" / "network.toml", kept / "net.xml", path]
    peer = [sys.executable, ROOT / "scripts/peer_iterparse.py", path]
    ours, theirs = run_json(own), run_json([*peer, "--check", kept / "net.xml"])
    same = ours["rows"] == theirs["rows"] and ours["on_links"] == theirs["on_links"]
    # Speeds are stored as 32-bit numbers.
    if not same or abs(ours["speeds"] / theirs["speeds_on_links"] - 1) > 1e-6:
        sys.exit(f"bench: fcd: found {ours}, expected {theirs}")
    times = take_turns(rounds, {
        "fedtse": lambda: run_json(own)["seconds"],
        "iterparse": lambda: run_json(peer)["seconds"],
    })
    what = f"FCD XML reading, {ours['rows'] / 1e6:.1f} million rows, {path.stat().st_size / 1e6:.0f} MB"
    return [compare(what, times, "fedtse", "iterparse", "Python's iterparse", 10, "same rows, same sum of speeds")]


def matching(folder, rounds):
    # The same film as in fixtures/pneuma, made anew so that it fits the network as it is now.
    film = folder / "film"
    tracks, truth = folder / "20181024_d1_0830_0900.csv", folder / "truth.csv"
    run([RELEASE / "fedtse", "simulate", "--flow", 150, "--minutes", 14, "--seed", 7, "--out", film])
    run([RELEASE / "fedtse", "export", film, "--minutes", 2, "--out", tracks, "--truth", truth])
    grid = folder / "grid"
    run([EXAMPLES / "pneuma_fixture", grid, "grid", "60"])
    cases = [
        ("the corridor's film", [film / "network.toml", tracks, truth], 100),
        ("a grid of 64 junctions", [grid / "network.toml", grid / tracks.name, grid / "truth.csv"], None),
    ]
    results = []
    for name, files, target in cases:
        last = {}

        def measure(tool, command):
            last[tool] = run_json(command)
            return last[tool]["seconds"]

        times = take_turns(rounds, {
            "fedtse": lambda: measure("fedtse", [EXAMPLES / "match_pneuma", *files]),
            "leuven": lambda: measure("leuven", [sys.executable, ROOT / "scripts/peer_leuven.py", *files]),
        })
        ours, theirs = last["fedtse"], last["leuven"]
        note = (
            f"right link {ours['right_link']:.1%} against {theirs['right_link']:.1%}, "
            f"median error {ours['median_error']:.2f} m against {theirs['median_error']:.2f} m; one thread each"
        )
        what = f"map matching, {name}, {ours['places']:,} places"
        result = compare(what, times, "fedtse", "leuven", "LeuvenMapMatching", target, note)
        result["accuracy"] = {"ours": ours["right_link"], "peer": theirs["right_link"]}
        if target and ours["right_link"] < theirs["right_link"]:
            result["reached"] = False
        results.append(result)
    return results


def simulation(folder, rounds):
    minutes, turn = MINUTES["simulation"], [0]
    kept = folder / "sumo-alone"
    simulate("sumo", minutes, folder / "for-sumo-alone", "--keep", kept)

    def world(name):
        turn[0] += 1
        return simulate(name, minutes, folder / f"{name}-{turn[0]}")

    def alone(*options):
        begin = time.perf_counter()
        run([*sumo_command(minutes), *options], kept)
        return time.perf_counter() - begin

    positions = ["--fcd-output", "again.csv", "--fcd-output.attributes", "id,lane,pos,speed"]
    times = take_turns(rounds, {
        "builtin": lambda: world("builtin"),
        "sumo": lambda: world("sumo"),
        "alone": lambda: alone(*positions),
        "silent": alone,
    })
    what = f"{minutes} minutes of the corridor, simulated and stored"
    return [
        compare(what, times, "builtin", "sumo", "SUMO, by `fedtse simulate`", 1, "same network, departures and routes"),
        compare(what, times, "builtin", "alone", "SUMO alone, writing positions", 1, "process; nothing read or stored"),
        compare(what, times, "builtin", "silent", "SUMO alone, writing nothing", 1, "process"),
    ]


def filter_step(folder, rounds):
    scene = folder / "filter-scene.json"
    own = [EXAMPLES / "ukf_speed", "run", scene, 60]
    peer = [sys.executable, ROOT / "scripts/peer_filterpy.py", scene, "--steps", 60]
    run([EXAMPLES / "ukf_speed", "scene", scene])
    ours, theirs = run_json(own), run_json(peer)
    pairs = zip(ours["mean_densities"], theirs["mean_densities"])
    difference = max(abs(a - b) for a, b in pairs)
    # The same filter in two forms: rounding, which grows at the kinks of the model.
    if not difference < 1e-5:
        sys.exit(f"bench: filter: found mean densities that differ by {difference}, expected less than 1e-5")
    times = take_turns(rounds, {
        "fedtse": lambda: run_json(own)["seconds"],
        "filterpy": lambda: run_json(peer)["seconds"],
    })
    note = f"corridor, 41 states; mean densities of {ours['steps']} steps agree to {difference:.0e}; one thread each"
    return [compare("unscented filter, one step", times, "fedtse", "filterpy", "filterpy, NumPy model", 50, note)]


def queue(folder, rounds):
    scene = folder / "queue-scene.json"
    own = [EXAMPLES / "queue_speed", "run"]
    peer = [sys.executable, ROOT / "scripts/peer_cvxpy.py", scene]
    run([EXAMPLES / "queue_speed", "scene", scene])
    last = run_json(peer)
    # Both stop when the objective is right to a part in a million: curves differ by a bit more.
    if not last["difference"] < 0.05:
        sys.exit(f"bench: queue: found curves that differ by {last['difference']} vehicles, expected less than 0.05")
    times = take_turns(rounds, {
        "fedtse": lambda: run_json(own)["seconds"],
        "cvxpy": lambda: run_json(peer)["seconds"],
    })
    ours = statistics.median(times["fedtse"])
    note = (
        f"statement, solution, variances, profile; {last['programs']} programs agree to {last['difference']:.0e} vehicles; "
        f"the paper says up to 2 s: {2 / ours:,.0f} times as long"
    )
    return [compare("queue profile, one link and cycle", times, "fedtse", "cvxpy", "CVXPY + Clarabel", None, note)]


def ctm(_folder, rounds):
    runs = [run_json([EXAMPLES / "ctm_speed"])["grids"] for _ in range(rounds)]
    largest = [grids[-1] for grids in runs]
    per_link = [
        statistics.median(1e9 / (grids[i]["steps_per_s"] * grids[i]["links"]) for grids in runs)
        for i in range(len(runs[0]))
    ]
    sizes = ", ".join(f"{grid['links']:,}: {each:.0f} ns" for grid, each in zip(runs[0], per_link))
    rate = statistics.median(grid["steps_per_s"] for grid in largest)
    return [{
        "what": f"cell transmission model, a step of {largest[0]['links']:,} links",
        "ours_s": summary([1 / grid["steps_per_s"] for grid in largest]),
        "steps_per_s": rate,
        "ns_per_link": per_link,
        "target": "linear in links",
        "reached": max(per_link) < 2 * min(per_link),
        "note": f"{rate:,.0f} steps of 10 s a second, one thread; a link and step by links: {sizes}",
    }]


def informed_step(_folder, rounds):
    runs = [run_json([EXAMPLES / "pi_speed"]) for _ in range(rounds)]
    times = {kind: [t for one in runs for t in one[f"{kind}_s"]] for kind in ("labelled", "informed")}
    ratio = statistics.median(times["informed"]) / statistics.median(times["labelled"])
    return [{
        "what": "physics-informed training step, host and guest",
        "ours_s": summary(times["informed"]),
        "labelled_s": summary(times["labelled"]),
        "target": "at most 2× a step with labels",
        "reached": ratio <= 2,
        "note": f"corridor, 128 windows in segments of 4, CTM, loops, speeds and densities: {ratio:.2f} times a step with labels",
    }]


def large(folder, _rounds):
    small, dataset = folder / "corridor", folder / "large"
    if not small.exists():
        simulate("builtin", MINUTES["features"], small)
    print(run([EXAMPLES / "repeat_dataset", small, dataset, LARGE_ROWS]).strip(), file=sys.stderr)
    begin = time.perf_counter()
    with subprocess.Popen(
        [RELEASE / "fedtse", "features", dataset, "--json"], stdout=subprocess.PIPE, cwd=folder
    ) as process:
        made = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    if process.returncode != 0:
        sys.exit("bench: large: `fedtse features` failed")
    rows = made["features"]["report"]["samples"]
    peak = usage.ru_maxrss / 1024
    return [{
        "what": f"features of {rows / 1e6:.0f} million positions, 4 fleets",
        "ours_s": {"min": seconds, "median": seconds},
        "rows_per_s": rows / seconds,
        "peak_memory_mib": peak,
        "target": "less than 1024 MiB",
        "reached": peak < 1024,
        "note": f"peak memory {peak:.0f} MiB, {rows / seconds / 1e6:.1f} million positions a second; process",
    }]


BENCHMARKS = [
    ("features", features),
    ("fcd", fcd),
    ("matching", matching),
    ("simulation", simulation),
    ("filter", filter_step),
    ("queue", queue),
    ("ctm", ctm),
    ("pi", informed_step),
    ("large", large),
]


def simulate(world, minutes, out, *options):
    """Runs `fedtse simulate`; the seconds that it says it took."""
    command = [RELEASE / "fedtse", "simulate", "--world", world, "--minutes", minutes, "--seed", 1]
    return run_json([*command, "--sumo", SUMO, "--out", out, "--json", *options])["seconds"]


def sumo_command(minutes):
    """SUMO on the files that `fedtse simulate --keep` left, with the same options."""
    return [
        SUMO / "sumo", "--net-file", "net.xml", "--route-files", "trips.rou.xml", "--begin", 0,
        "--end", minutes * 60 + 1, "--step-length", 1, "--seed", 1, "--time-to-teleport", 300,
        "--no-step-log", "true", "--no-warnings", "true", "--xml-validation", "never",
    ]  # fmt: skip


def run(command, folder=None):
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder or ROOT)
    if done.returncode != 0:
        sys.exit(f"bench: {Path(command[0]).name} {' '.join(command[1:3])} … failed:\n{done.stderr[-2000:]}")
    return done.stdout


def run_json(command):
    return json.loads(run(command).strip().splitlines()[-1])


def take_turns(rounds, tools):
    times = {name: [] for name in tools}
    for _ in range(rounds):
        for name, measure in tools.items():
            # What was written before goes to disk now, not while the next one is measured.
            os.sync()
            times[name].append(measure())
    return times


def compare(what, times, own, peer, peer_name, target, note):
    ours, theirs = summary(times[own]), summary(times[peer])
    ratio = theirs["median"] / ours["median"]
    return {
        "what": what,
        "peer": peer_name,
        "ours_s": ours,
        "peer_s": theirs,
        "ratio": ratio,
        "ratio_of_min": theirs["min"] / ours["min"],
        "target": f"{target}×" if target else None,
        "reached": ratio >= target if target else None,
        "note": note,
    }


def summary(times):
    return {"min": min(times), "median": statistics.median(times), "all": times}


def markdown(results):
    lines = ["| what | against | ours | theirs | times faster | target |", "|---|---|---|---|---|---|"]
    for result in results:
        theirs, ratio = "–", "–"
        if "peer_s" in result:
            theirs, ratio = seconds(result["peer_s"]), f"**{factor(result['ratio'])}×**"
        target = result["target"] or "–"
        if result["reached"] is not None:
            target += " ✓" if result["reached"] else " missed"
        lines.append(
            f"| {result['what']}<br>{result['note']} | {result.get('peer', '–')} "
            f"| {seconds(result['ours_s'])} | {theirs} | {ratio} | {target} |"
        )
    return "\n".join(lines) + "\n"


def factor(ratio):
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def seconds(summary):
    def short(value):
        return f"{value:.3g} s" if value >= 0.1 else f"{value * 1000:.3g} ms"

    if summary["min"] == summary["median"]:
        return short(summary["median"])
    return f"{short(summary['median'])} (min {short(summary['min'])})"


def machine():
    model = "unknown"
    try:
        model = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)[1]
    except (OSError, TypeError):
        pass
    packages = ("pandas", "numpy", "pyarrow", "leuvenmapmatching", "filterpy", "cvxpy")
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "fedtse": run([RELEASE / "fedtse", "--version"]).split()[-1],
            "rustc": run(["rustc", "--version"]).split()[1],
            "python": platform.python_version(),
            "sumo": re.search(r"(\d+\.\d+\.\d+)", run([SUMO / "sumo", "--version"]))[1],
        } | {name: metadata.version(name) for name in packages},
    }


def write(results, table, arguments):
    about = machine()
    command = "make bench" if not arguments.large else "make bench BENCH=--large"
    document = {"command": command, "rounds": arguments.rounds, "machine": about, "results": results}
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    page = (
        f"## Simulation and sensing\n\nWritten by `{command}` ([scripts/bench.py](../scripts/bench.py)): both sides in one run, "
        f"taking turns, {arguments.rounds} rounds; medians, and the ratio of medians. The peers' scripts are `scripts/peer_*.py`.\n\n"
        f"Machine: {about['processor']}, {about['cores']} cores, {about['system']}. Versions: {versions}.\n\n{table}"
    )
    benchmark_page.write("sensing", page, document)


if __name__ == "__main__":
    main()
