"""Parties that bring their own sub-models: over the network, with the others in processes of their own."""

import contextlib
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
from models import Failing, Linear, Loops

import fedtse

PATIENCE = "[patience]\nresend_s = 0.3\nheartbeat_s = 0.2\nsilence_s = 20\nlimit_s = 300\n"
# Seconds, longer than any machine takes.
PATIENT = 600


def command(*words):
    done = subprocess.run([sys.executable, "-m", "fedtse", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_port():
    """A port below those that systems give to outgoing connections: nobody takes it before the host does."""
    for port in random.sample(range(10_000, 32_000), 1000):
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def identity(name):
    return (
        f'[identity]\ncertificate = "certs/{name}.pem"\nkey = "certs/{name}.key"\n'
        'authority = "certs/authority.pem"\n'
    )


class World:
    """The folders of a city and a fleet, with certificates and configurations."""

    def __init__(self, folder, data, absent):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        command("certs", "init", "--out", folder / "authority")
        parties = [("host", "city", ["--address", "localhost"]), ("guest", "fleet-a", []), ("guest", "fleet-b", [])]
        for role, name, more in parties:
            certs = folder / name / "certs"
            command("certs", role, "--authority", folder / "authority", "--name", name, "--out", certs, *more)
            (certs / "authority.pem").write_bytes((folder / "authority" / "authority.pem").read_bytes())
        accepted = "[guests]\n"
        for name in ("fleet-a", "fleet-b"):
            shown = json.loads(command("--json", "certs", "show", folder / name / "certs" / f"{name}.pem"))
            accepted += f'{name} = ["{shown[0]["fingerprint"]}"]\n'
        (folder / "city" / "guests.toml").write_text(accepted)
        port = free_port()
        (folder / "city" / "config.toml").write_text(
            f'{identity("city")}{PATIENCE}'
            f'[network]\nlisten = "127.0.0.1:{port}"\naccepted = "guests.toml"\n'
            f'[data]\nfolder = "{data}"\ntarget = "raw"\n'
            "[guests.fleet-a]\nnumbers = { per-link = 2 }\nstarts-as-state = false\n[guests.fleet-b]\n"
            f'[training]\nfusion = "concatenate"\nepochs = 2\ncheckpoint-rounds = 2\nabsent = "{absent}"\n[run]\nfolder = "run"\n'
        )
        for name, fleet in (("fleet-a", "fleet-60-1of2"), ("fleet-b", "fleet-60-2of2")):
            (folder / name / "config.toml").write_text(
                f'{identity(name)}{PATIENCE}[host]\nname = "city"\naddress = "localhost:{port}"\n'
                f'[data]\nfolder = "{data}"\nfleet = "{fleet}"\n[model]\nfusion = "concatenate"\n[run]\nfolder = "run"\n'
            )
        self.config = folder / "fleet-a" / "config.toml"

    def go_live(self):
        """Configurations of the trained parties, and the port of each one's records."""
        ports = {name: free_port() for name in ("city", "fleet-a", "fleet-b", "map", "metrics")}
        for name in ("city", "fleet-a", "fleet-b"):
            text = (self.folder / name / "config.toml").read_text()
            kept = [part for part in re.split(r"^(?=\[)", text, flags=re.M) if re.match(r"\[(identity|network|host)\]", part)]
            if name == "city":
                kept.append(f'[live]\ndeadline_s = 300\n[publish]\nhttp = "127.0.0.1:{ports["map"]}"\n')
                kept.append(f'[observe]\nhttp = "127.0.0.1:{ports["metrics"]}"\n')
            (self.folder / name / "live.toml").write_text(
                f'{"".join(kept)}{PATIENCE}[model]\nfolder = "run/model"\n[run]\nfolder = "run"\n'
                f'[records]\nsource = "tcp:127.0.0.1:{ports[name]}"\n'
            )
        return ports

    def start(self, role, name, live=False):
        """A party in a process of its own."""
        config = self.folder / name / ("live.toml" if live else "config.toml")
        role = ["live", role] if live else [role]
        words = [sys.executable, "-m", "fedtse", "--json", *role, "--config", str(config)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def world(tmp_path, corridor, request):
    return World(tmp_path, corridor, request.param)


@pytest.mark.parametrize("world", ["wait"], indirect=True)
def test_a_guest_joins_is_broken_off_and_goes_on(world, corridor):
    host, other = world.start("host", "city"), world.start("guest", "fleet-b")

    class Stops(Linear):
        def backward(self, grad_z):
            super().backward(grad_z)
            if len(self.gradients) == 4:
                raise KeyboardInterrupt

    with pytest.raises(fedtse.FedtseError, match="guest `fleet-a` has stopped: model: KeyboardInterrupt"):
        fedtse.Guest(world.config, sub_model=Stops()).run(progress=False)
    own = Linear()
    ended = fedtse.Guest(world.config, sub_model=own).run(progress=False)
    told, logs = host.communicate(timeout=PATIENT)
    other.communicate(timeout=PATIENT)
    assert (host.returncode, other.returncode) == (0, 0), logs
    assert ended["finished"] == json.loads(told)["finished"]
    # The host names who has left, and why as far as it may know.
    assert re.search(r"left: .*its model failed.*guest=fleet-a", logs)
    # The weights are those of a run of the same parties that nothing disturbs.
    whole = World(world.folder / "again", corridor, "wait")
    host, other = whole.start("host", "city"), whole.start("guest", "fleet-b")
    undisturbed = Linear()
    again = fedtse.Guest(whole.config, sub_model=undisturbed).run(progress=False)
    told_again, _ = host.communicate(timeout=PATIENT)
    other.communicate(timeout=PATIENT)
    assert np.array_equal(own.weights, undisturbed.weights)
    assert ended["weights"] == again["weights"] and json.loads(told)["weights"] == json.loads(told_again)["weights"]
    report = fedtse.audit(world.folder / "fleet-a" / "run" / "ledger.jsonl", "fleet-a")
    assert report["torn"] == 0 and report["messages"] > 0


@pytest.mark.parametrize("world", ["wait"], indirect=True)
def test_guests_of_their_own_make_estimates_live(world, corridor):
    host, other = world.start("host", "city"), world.start("guest", "fleet-b")
    fedtse.Guest(world.config, sub_model=Linear()).run(progress=False)
    for party in (host, other):
        party.communicate(timeout=PATIENT)
    parties = [world.folder / name / "run" / "model" for name in ("city", "fleet-a", "fleet-b")]
    expected = fedtse.estimate(corridor, party=parties, sub_models={"fleet-a": Linear()}, progress=False)

    ports = world.go_live()
    host, other = (world.start(role, name, live=True) for role, name in (("host", "city"), ("guest", "fleet-b")))
    enough, ended = threading.Event(), []

    def progress(what, done, total):
        if enough.is_set():
            raise InterruptedError

    def live():
        with pytest.raises(InterruptedError):
            fedtse.Guest(world.folder / "fleet-a" / "live.toml", sub_model=Linear()).live(progress=progress)
        ended.append(True)

    guest = threading.Thread(target=live)
    guest.start()

    def asked(port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENT) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def until(holds):
        while not holds():
            assert host.poll() is None and other.poll() is None and guest.is_alive(), "a party has ended"
            time.sleep(0.05)

    def lines(*what):
        return command("replay", "--data", corridor, "--speed-up", 0, "--from", 1200, "--to", 1500, *what).splitlines()

    records = {
        "city": (2, lines("--loops")),
        "fleet-a": (0, lines("--fleet", "fleet-60-1of2")),
        "fleet-b": (0, lines("--fleet", "fleet-60-2of2")),
    }
    until(lambda: all(
        f'fedtse_live_waited_for{{party="{name}"}} 1' in asked(ports["metrics"], "/metrics") for name in ("fleet-a", "fleet-b")
    ))
    streams = {}

    def connected(name):
        with contextlib.suppress(OSError):
            streams[name] = socket.create_connection(("127.0.0.1", ports[name]))
        return name in streams

    # Guests first, so that a step of the host's finds their windows; then all of them step by step.
    for name in ("fleet-a", "fleet-b", "city"):
        until(lambda: connected(name))
        column, told = records[name]
        streams[name].sendall((told[0] + "\n").encode())
        records[name] = (column, told[1:])
    for end in range(1210, 1501, 10):
        for name in ("fleet-a", "fleet-b", "city"):
            column, told = records[name]
            now = [line for line in told if float(line.split(",")[column]) <= end]
            records[name] = (column, told[len(now):])
            streams[name].sendall("".join(line + "\n" for line in now).encode())
    # The last step but one has ended for everybody.
    until(lambda: '"step":148' in asked(ports["map"], "/v1/estimates").replace(" ", ""))
    latest = json.loads(asked(ports["map"], "/v1/estimates"))
    assert latest["participants"] == {"fleet-a": "in", "fleet-b": "in"} and latest["complete"]
    at = list(expected.steps).index(latest["step"])
    # NumPy may add in another order for one sample than for many.
    assert np.allclose([link["density"] for link in latest["links"]], expected.density[at], rtol=1e-4, atol=1e-3)
    enough.set()
    guest.join()
    assert ended
    for party in (other, host):
        party.terminate()
        party.communicate(timeout=PATIENT)
        assert party.returncode == 0


@pytest.mark.parametrize("world", ["skip", "stop"], indirect=True)
def test_both_sides_name_a_guest_that_fails_and_the_policy_follows(world, request):
    host, other = world.start("host", "city"), world.start("guest", "fleet-b")
    with pytest.raises(fedtse.FedtseError) as failed:
        fedtse.Guest(world.config, sub_model=Failing()).run(progress=False)
    assert "guest `fleet-a` has stopped: model: ZeroDivisionError" in str(failed.value)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    told, logs = host.communicate(timeout=PATIENT)
    other.communicate(timeout=PATIENT)
    assert re.search(r"left: .*its model failed.*guest=fleet-a", logs)
    if "skip" in request.node.name:
        assert host.returncode == 0 and json.loads(told)["finished"]["epochs"] == 2
    else:
        assert host.returncode == 1 and "guest `fleet-a` has been away" in logs


@pytest.mark.parametrize("world", ["wait"], indirect=True)
def test_a_host_brings_one_is_broken_off_and_goes_on(world, corridor):
    class Stops(Loops):
        def backward(self, grad_z):
            super().backward(grad_z)
            if self.updates == 4:
                raise ZeroDivisionError("the city's own mistake")

    def guests(of):
        return [of.start("guest", name) for name in ("fleet-a", "fleet-b")]

    def built_in(of):
        config = of.folder / "city" / "config.toml"
        config.write_text(config.read_text().replace("numbers = { per-link = 2 }\nstarts-as-state = false\n", ""))
        return config

    config, parties = built_in(world), guests(world)
    with pytest.raises(fedtse.FedtseError, match="the city's own mistake") as failed:
        fedtse.Host(config, sub_model=Stops()).run(progress=False)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    for guest in parties:
        _, logs = guest.communicate(timeout=PATIENT)
        # Its last word may be lost like any other; then the guest gives up by itself.
        assert guest.returncode == 1 and ("the host has stopped" in logs or "no word from the host" in logs), logs
    own, parties = Loops(), guests(world)
    ended = fedtse.Host(config, sub_model=own).run(progress=False)
    told = [json.loads(guest.communicate(timeout=PATIENT)[0]) for guest in parties]
    assert all(guest["finished"] == ended["finished"] for guest in told)
    assert ended["score"]["density"]["rmse"] > 0 and own.updates > 0
    # The weights are those of a run of the same parties that nothing disturbs.
    whole = World(world.folder / "again", corridor, "wait")
    undisturbed, config, parties = Loops(), built_in(whole), guests(whole)
    again = fedtse.Host(config, sub_model=undisturbed).run(progress=False)
    told_again = [json.loads(guest.communicate(timeout=PATIENT)[0]) for guest in parties]
    assert np.array_equal(own.weights, undisturbed.weights) and own.updates == undisturbed.updates
    assert (ended["weights"], ended["score"]) == (again["weights"], again["score"])
    assert [guest["weights"] for guest in told] == [guest["weights"] for guest in told_again]
