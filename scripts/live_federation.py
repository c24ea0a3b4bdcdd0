#!/usr/bin/env python3
"""Runs a host and K guests live, as processes on this machine, from a recorded dataset:

    scripts/live_federation.py [--data DIR] [--guests 8] [--minutes 30] [--speed-up 10] [--faults]

Makes certificates and configurations, trains the parties for some epochs over loopback, then replays
the end of the recording, to each guest its fleet and to the host its loops, and reads the host's
estimates as server-sent events. Prints the steps missed, how long after the end of its step each
estimate came (p50, p99), and the processor time of all parties. Compares each estimate that all guests
took part in with `fedtse estimate` on the same recording, and fails if one differs or a step is missed.

--faults: halfway, one guest is frozen (SIGSTOP) and another killed (SIGKILL); later both come back.
Fails if estimates do not go on meanwhile, flagged, or are not complete again at the end.

Needs `cargo build --release`. Without --data it simulates some hours of its own.
"""

import argparse
import csv
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="dataset with features of guest-1 … guest-K")
    parser.add_argument("--guests", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=30, help="of recorded time")
    parser.add_argument("--speed-up", type=float, default=10)
    parser.add_argument("--deadline", type=float, default=0.4, help="seconds on the wall")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--hours", type=float, default=2, help="to simulate without --data")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedtse-live-") as folder:
        world = World(Path(folder), arguments)
        world.train()
        report = world.live()
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            print(f"{name:<28} {value}")
    sys.exit(1 if report["problems"] else 0)


class World:
    def __init__(self, folder, arguments):
        self.folder, self.arguments, self.program = folder, arguments, arguments.fedtse
        self.names = [f"fleet-{number}" for number in range(1, arguments.guests + 1)]
        self.data = arguments.data.resolve() if arguments.data else self.simulate()
        self.ports = [free_port() for _ in range(2)]
        self.certify()

    def run(self, *arguments):
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def simulate(self):
        print("simulating …", file=sys.stderr)
        data = self.folder / "data"
        minutes = round(60 * self.arguments.hours)
        self.run("simulate", "--minutes", minutes, "--warm-up", 5, "--out", data)
        share = 80 / self.arguments.guests
        self.run("features", data, "--guests", ",".join([f"{share}"] * self.arguments.guests))
        return data

    def certify(self):
        certs = self.folder / "certs"
        self.run("certs", "init", "--out", certs)
        self.run("certs", "host", "--authority", certs, "--name", "city", "--address", "localhost")
        accepted = "[guests]\n"
        for name in self.names:
            made = self.run("certs", "guest", "--authority", certs, "--name", name, "--json")
            accepted += f'{name} = ["{json.loads(made)[0]["fingerprint"]}"]\n'
        (self.folder / "guests.toml").write_text(accepted)

    def write(self, name, *parts):
        identity = (
            f'[identity]\ncertificate = "certs/{name}.pem"\nkey = "certs/{name}.key"\n'
            'authority = "certs/authority.pem"\n'
        )
        run = f'[run]\nfolder = "run/{name}"\n'
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join([identity, run, *parts]))
        return path

    def listen_section(self):
        return f'[network]\nlisten = "127.0.0.1:{self.ports[0]}"\naccepted = "guests.toml"\n'

    def host(self):
        return f'[host]\nname = "city"\naddress = "localhost:{self.ports[0]}"\n'

    def train(self):
        """Trains all parties, each in a process of its own."""
        print("training …", file=sys.stderr)
        data = f'folder = "{self.data}"\n'
        guests = "".join(f"[guests.{name}]\n" for name in self.names)
        training = f"[training]\nfusion = "concatenate"\nepochs = {self.arguments.epochs}\nparty-dropout = 0.1\n"
        configs = {
            "city": self.write("city", self.listen_section(), f'[data]\n{data}target = "smooth"\n', guests, training)
        }
        for number, name in enumerate(self.names, 1):
            configs[name] = self.write(name, self.host(), f'[data]\n{data}fleet = "guest-{number}"\n', '[model]\nfusion = "concatenate"\n')
        parties = []
        for name, config in configs.items():
            role = "host" if name == "city" else "guest"
            log = open(self.folder / f"{name}.log", "w")
            command = [self.program, role, "--config", config, "--json"]
            parties.append((name, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)))
        for name, party in parties:
            if party.wait():
                sys.exit(f"{name}: {(self.folder / f'{name}.log').read_text()[-2000:]}")

    def live(self):
        """Replays the end of the recording to all parties."""
        arguments = self.arguments
        manifest = json.loads((self.data / "features" / "manifest.json").read_text())
        step_s = manifest["step_s"]
        end = (manifest["held"][-1]["last"] + 1) * step_s
        # Windows need nine steps before the first estimate.
        start = end - 60 * arguments.minutes - 9 * step_s
        print(f"live, {arguments.minutes} minutes at {arguments.speed_up} × …", file=sys.stderr)
        patience = "[patience]\nresend_s = 1\nheartbeat_s = 1\nsilence_s = 3\nlimit_s = 120\n"
        model = lambda name: f'[model]\nfolder = "run/{name}/model"\n'
        records = '[records]\nsource = "stdin"\nbad-lines = "stop"\n'
        publish = f'[publish]\nhttp = "127.0.0.1:{self.ports[1]}"\n'
        live = f"[live]\ndeadline_s = {arguments.deadline}\n"
        before = os.times()
        at = time.time() + 3
        self.replay = ["--from", start, "--at", at, "--speed-up", arguments.speed_up]
        config = self.write("city", self.listen_section(), model("city"), records, publish, live, patience)
        self.parties = {"city": self.start("city", "host", config, ["--loops"])}
        self.configs = {}
        for name in self.names:
            self.configs[name] = self.write(name, self.host(), model(name), records, patience)
            self.start_guest(name)
        events = Events(f"http://127.0.0.1:{self.ports[1]}/v1/estimates/stream")
        faults = self.faults(events, at) if arguments.faults else None
        out, _ = self.parties["city"].communicate()
        if self.parties["city"].returncode:
            sys.exit((self.folder / "city.log").read_text()[-3000:])
        host = json.loads(out)
        for name in self.names:
            self.parties[name].wait(30)
        events.thread.join(5)
        after = os.times()
        processor = sum(after[2:4]) - sum(before[2:4])
        return self.report(host, events, step_s, start, at, faults, processor)

    def start_guest(self, name):
        number = self.names.index(name) + 1
        fleet = ["--fleet", f"guest-{number}"]
        self.parties[name] = self.start(name, "guest", self.configs[name], fleet)

    def start(self, name, role, config, what):
        log = open(self.folder / f"{name}.log", "a")
        feed = [self.program, "replay", "--data", self.data, *what, *self.replay]
        feed = subprocess.Popen(list(map(str, feed)), stdout=subprocess.PIPE, stderr=log)
        command = [self.program, "live", role, "--config", config, "--json"]
        party = subprocess.Popen(command, stdin=feed.stdout, stdout=subprocess.PIPE, stderr=log, text=True)
        feed.stdout.close()
        return party

    def faults(self, events, at):
        """Freezes one guest and kills another, halfway; both come back a while later."""
        frozen, killed = self.names[0], self.names[-1]
        wall = 60 * self.arguments.minutes / self.arguments.speed_up
        sleep_until(at + wall / 3)
        self.parties[frozen].send_signal(signal.SIGSTOP)
        self.parties[killed].kill()
        self.parties[killed].wait()
        stopped = events.last
        sleep_until(at + wall / 2)
        back = events.last
        self.parties[frozen].send_signal(signal.SIGCONT)
        self.start_guest(killed)
        return {"frozen": frozen, "killed": killed, "from": stopped, "to": back}

    def report(self, host, events, step_s, start, at, faults, processor):
        problems = []
        estimates = events.estimates
        steps = [estimate["step"] for _, estimate in estimates]
        first = round(start / step_s) + 8
        expected = round(self.arguments.minutes * 60 / step_s)
        missed = sorted(set(range(first, first + expected)) - set(steps))
        if missed or host["missed"]:
            problems.append(f"missed steps: {missed[:5]} ({len(missed)}), {host['missed']} by the host's count")
        # When the step ended on the wall, by the replays' clock.
        ended = lambda step: at + ((step + 1) * step_s - start) / self.arguments.speed_up
        latencies = [arrived - ended(estimate["step"]) for arrived, estimate in estimates]
        compared, differing = self.compare(estimates)
        if differing:
            problems.append(f"{differing} of {compared} complete estimates differ from `fedtse estimate`")
        whole = sum(estimate["complete"] for _, estimate in estimates)
        if faults:
            during = [e for _, e in estimates if faults["from"] + 1 < e["step"] <= faults["to"]]
            for role in ("frozen", "killed"):
                flagged = sum(e["participants"][faults[role]] != "in" for e in during)
                if not during or flagged < len(during):
                    problems.append(f"{role} guest: flagged in {flagged} of {len(during)} estimates")
            if not all(estimate["complete"] for _, estimate in estimates[-10:-1]):
                problems.append("not complete again at the end")
        elif whole < len(estimates):
            problems.append(f"{len(estimates) - whole} estimates without all guests")
        wall = 60 * self.arguments.minutes / self.arguments.speed_up
        return {
            "guests": len(self.names),
            "steps estimated": len(set(steps)),
            "steps missed": len(missed),
            "with all guests": whole,
            "latency p50, s": round(statistics.median(latencies), 3),
            "latency p99, s": round(sorted(latencies)[int(0.99 * (len(latencies) - 1))], 3),
            "of which patience, s": manifest_patience(self.data) / self.arguments.speed_up,
            "equal to fedtse estimate": f"{compared - differing} of {compared}",
            "processor of parties, s": f"{processor:.1f} in {wall:.0f} s",
            "load of the machine": round(os.getloadavg()[0], 1),
            "guests' embeddings": {name: guest["taken"] for name, guest in host["guests"].items()},
            "faults": faults,
            "problems": problems,
        }

    def compare(self, estimates):
        """Compares complete estimates with those of the same models on the recording itself."""
        parties = [part for name in ("city", *self.names) for part in ("--party", self.folder / f"run/{name}/model")]
        out = self.folder / "estimates.csv"
        self.run("estimate", *parties, "--data", self.data, "--out", out)
        offline = {}
        with open(out, newline="") as file:
            for row in csv.DictReader(file):
                numbers = (row["density_veh_km_lane"], row["flow_veh_min_lane"])
                offline.setdefault(int(row["step"]), {})[row["link"]] = numbers
        compared = differing = 0
        for _, estimate in estimates:
            if not estimate["complete"]:
                continue
            compared += 1
            found = {l["link"]: (f"{l['density']:.4f}", f"{l['flow']:.4f}") for l in estimate["links"]}
            differing += found != offline[estimate["step"]]
        return compared, differing


class Events:
    """Reads server-sent events, with the moment at which each came."""

    def __init__(self, url):
        self.url, self.estimates, self.last = url, [], None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for _ in range(100):
            try:
                stream = urllib.request.urlopen(self.url)
                break
            except OSError:
                time.sleep(0.1)
        try:
            for line in stream:
                if line.startswith(b"data: "):
                    estimate = json.loads(line[6:])
                    self.estimates.append((time.time(), estimate))
                    self.last = estimate["step"]
        except OSError:
            pass  # the host has ended


def manifest_patience(data):
    return json.loads((data / "features" / "manifest.json").read_text())["patience_s"]


def sleep_until(moment):
    time.sleep(max(0, moment - time.time()))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main()
