"""Runs the commands of docs/tutorials/*.md and checks what they print; with --write, puts it there.

Of each tutorial all blocks marked `sh` are run in one shell, in an empty folder, with the release build on the
PATH and the checkout as $FEDTSE. A block marked `text` after one is what that one prints, compared as
scripts/check_readme.py compares. A command that fails, fails the check. Blocks marked otherwise are not run.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check_readme import differs

ROOT = Path(__file__).resolve().parent.parent
# A block of commands, and what it prints, if that is shown.
BLOCK = re.compile(r"^```sh\n(?P<run>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.S | re.M)
# Between the outputs of two blocks.
BORDER = "--- next block ---"
# The port in the text, replaced by a free one.
PORT = "7443"
PATIENCE_S = 600


def run(text: str) -> list[str]:
    """What each block prints."""
    port = str(free_port())
    blocks = [match["run"].replace(PORT, port) for match in BLOCK.finditer(text)]
    script = "set -e -o pipefail\n" + f"\necho '{BORDER}'\n".join(blocks)
    path = f"{ROOT / 'target/release'}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=os.environ | {"PATH": path, "FEDTSE": str(ROOT), "SUMO_HOME": str(ROOT / ".venv-sumo")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, told = shell.communicate(timeout=PATIENCE_S)
        finally:
            # Parties that run in the background end with their tutorial, however that went.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    if shell.returncode != 0:
        raise RuntimeError(f"exit code {shell.returncode}\n{printed[-2000:]}\n{told[-2000:]}")
    return printed.split(BORDER + "\n")


def free_port() -> int:
    """A port below those that systems give to outgoing connections: nobody takes it before the tutorial does."""
    for port in random.sample(range(10_000, 32_000), 1000):
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def compared(text: str, printed: list[str]) -> list[str]:
    """Where a document shows something else than is printed."""
    problems = []
    for match, found in zip(BLOCK.finditer(text), printed):
        if match["shown"] is None:
            continue
        expected, lines = match["shown"].splitlines(), found.splitlines()
        problems += [f"shown    {a}\nprinted  {b}" for a, b in zip(expected, lines) if differs(a, b)]
        if len(expected) != len(lines):
            problems.append(f"shown: {len(expected)} lines, printed: {len(lines)}\n{found}")
    return problems


def written(text: str, printed: list[str]) -> str:
    """The document with what is printed now, where it shows anything."""
    outputs = iter(printed)

    def replaced(match: re.Match) -> str:
        found = next(outputs)
        if match["shown"] is None:
            return match[0]
        return match[0].replace("```text\n" + match["shown"], "```text\n" + found)

    return BLOCK.sub(replaced, text)


def main() -> int:
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    documents = [Path(name) for name in names] or sorted((ROOT / "docs/tutorials").glob("*.md"))
    failed = 0
    for document in documents:
        text, begun = document.read_text(encoding="utf-8"), time.monotonic()
        try:
            printed = run(text)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{document}: {error}", file=sys.stderr)
            failed += 1
            continue
        if "--write" in sys.argv:
            document.write_text(written(text, printed), encoding="utf-8")
        problems = [] if "--write" in sys.argv else compared(text, printed)
        for problem in problems:
            print(f"{document}:\n{problem}", file=sys.stderr)
        failed += bool(problems)
        seconds = time.monotonic() - begun
        print(f"tutorials: {document.name}, {len(printed)} blocks run in {seconds:.0f} s, {len(problems)} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    # A check that cannot fail is none.
    example = "```sh\necho 1\n```\n\n```text\n1\n```\n"
    assert not compared(example, ["1\n"]) and compared(example, ["one\n"]) and compared(example, ["1\n2\n"])
    assert written(example, ["2\n"]) == example.replace("```text\n1", "```text\n2")
    sys.exit(main())
