"""Checks compose.yaml and Containerfile as far as a machine without containers can.

Run by `make containers`, after `cargo build --release`. The commands of all services must be ones that fedtse takes; the files
that are copied must be there; the compiler must be new enough. Where `docker compose` or PyYAML is installed, the
file as a whole is read by it too.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEDTSE = ROOT / "target" / "release" / "fedtse"


def problems():
    compose = (ROOT / "compose.yaml").read_text()
    containers = (ROOT / "Containerfile").read_text()
    commands = [json.loads(found) for found in re.findall(r"^\s*command: (\[.*\])$", compose, re.M)]
    commands += [json.loads(found) for found in re.findall(r"^CMD (\[.*\])$", containers, re.M)]
    if len(commands) < 3:
        yield f"found {len(commands)} commands, expected those of two services and of the container"
    for command in commands:
        # Arguments are read from left to right: an unknown one is refused before the help is printed.
        done = subprocess.run([FEDTSE, *command, "--help"], capture_output=True, text=True)
        if done.returncode:
            yield f"{' '.join(command)}: {done.stderr.strip().splitlines()[0]}"
    needed = re.search(r'^rust-version = "(\d+)\.(\d+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    found = re.search(r"^FROM docker.io/library/rust:(\d+)\.(\d+)-", containers, re.M)
    if not found or tuple(map(int, found.groups())) < tuple(map(int, needed.groups())):
        yield f"Containerfile: found {found and found.group()}, expected Rust {'.'.join(needed.groups())} or newer"
    for name in re.findall(r"^\s*dockerfile: (\S+)$", compose, re.M):
        if not (ROOT / name).exists():
            yield f"compose.yaml: dockerfile: {name} is not there"


def read_whole():
    """Who has read compose.yaml as a whole; exits if it cannot be read."""
    readers = []
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        subprocess.run(["docker", "compose", "-f", ROOT / "compose.yaml", "config", "--quiet"], check=True)
        readers.append("docker compose")
    try:
        import yaml
    except ImportError:
        sys.exit("compose.yaml: found no PyYAML to read it with, expected the environment of scripts/python.txt")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        for other in service.get("depends_on", []):
            assert other in services, f"{name}: depends on {other}, which is not there"
    return [*readers, "PyYAML"]


def main() -> int:
    found = list(problems())
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"containers: {len(found)} problems; compose.yaml read by {', '.join(read_whole()) or 'nobody'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
