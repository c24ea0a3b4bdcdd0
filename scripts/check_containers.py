"""Checks compose.yaml and Containerfile as far as a machine without containers can.

Run by `make containers`, after `cargo build --release`. The commands of all services must be ones that fedtse takes; the files
that are copied must be there; the compiler must be new enough. Where `docker compose` or PyYAML is installed, the
file as a whole is read by it too. Run by root, it also starts the container's command in a root folder with nothing but the
program and its shared libraries, read-only, as a user without rights: what the image promises to need.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
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
        subprocess.run(["docker", "compose", "-f", ROOT / "compose.yaml", "config", "--quiet"], check=True, env=os.environ | {"DATABASE_PASSWORD": "any"})
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


# Whoever it is: not root, and owner of /data alone.
NOBODY = 65534
SMALL = ["--minutes", "40", "--epochs", "1"]


def bare_root(root: Path):
    """As the image is, without its shell and tools; what a container gets from outside are /proc, /dev and its hosts."""
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", FEDTSE], check=True, capture_output=True, text=True).stdout)
    for source, inside in [(str(FEDTSE), "/usr/local/bin/fedtse"), *((library, library) for library in libraries)]:
        place = root / inside.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    for folder in ("proc", "dev", "tmp", "data", "etc"):
        (root / folder).mkdir(exist_ok=True)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    for folder in ("tmp", "data"):
        os.chown(root / folder, NOBODY, NOBODY)
    root.chmod(0o755)


def runs_bare() -> bool:
    """Whether `fedtse up` shows its map from such a root, and ends well; false if this machine does not let us try."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bare_root(root)
        mounts = (
            'mount --bind "$0" "$0" && for place in tmp data; do mount --bind "$0/$place" "$0/$place"; done'
            ' && for place in proc dev; do mount --rbind "/$place" "$0/$place"; done && mount -o remount,bind,ro "$0"'
        )
        tried = subprocess.run(["unshare", "--mount", "sh", "-c", mounts, root], capture_output=True)
        if tried.returncode:
            return False
        command = ["up", "--folder", "/data/federation", "--http", "127.0.0.1:0", *SMALL, "--json"]
        inside = f'{mounts} && exec chroot --userspec={NOBODY}:{NOBODY} "$0" /usr/local/bin/fedtse "$@"'
        with subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", inside, root, *command], stdout=subprocess.PIPE, text=True, env={"HOME": "/data"}
        ) as process:
            try:
                told = process.stdout.readline()
                if not told:
                    sys.exit("containers: `fedtse up` has ended in a root folder of its own")
                with urllib.request.urlopen(json.loads(told)["url"]) as page:
                    assert b'id="map"' in page.read(), "the map is served"
            finally:
                # Whatever failed: Popen waits for it at the end.
                process.send_signal(signal.SIGINT)
            assert process.wait() == 0, "fedtse up ends well when it is interrupted"
    return True


def main() -> int:
    found = list(problems())
    for problem in found:
        print(problem, file=sys.stderr)
    bare = "ran" if os.geteuid() == 0 and runs_bare() else "was not tried"
    readers = ", ".join(read_whole()) or "nobody"
    print(f"containers: {len(found)} problems; compose.yaml read by {readers}; its command {bare} in a bare root folder")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
