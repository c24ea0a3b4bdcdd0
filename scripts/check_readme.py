"""Checks that README.md and docs/demo.md show what `fedtse demo` prints; with --write, puts it there.

Words must be the same. Numbers may differ a little: they come from a simulation whose last bits
depend on the machine's mathematical library, and small differences grow with traffic. Lines with
run times are compared by their words only.
"""

import re
import subprocess
import sys
from pathlib import Path

# Each document, and the options of the demo that it shows.
DOCUMENTS = {Path("README.md"): [], Path("docs/demo.md"): ["--ledger"]}
BLOCK = re.compile(r"(<!-- demo output:[^\n]*-->\n```text\n)(.*?)(```)", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# A run time, as in "made in 0.5 s".
RUN_TIME = re.compile(r"\bin \d+(?:\.\d+)? s\b")
# One unit always passes: small counts and speeds.
ABSOLUTE = 1.0
# A fifth: the largest of 4,800 values moves more than a mean.
RELATIVE = 0.20


def differs(expected: str, found: str) -> bool:
    """Whether two lines differ by more than the tolerances."""
    if NUMBER.sub("#", expected).split() != NUMBER.sub("#", found).split():
        return True
    if RUN_TIME.search(expected):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(found))
    return any(
        abs(float(a) - float(b)) > max(ABSOLUTE, RELATIVE * abs(float(a)))
        for a, b in pairs
    )


def check(document: Path, options: list[str], write: bool) -> list[str]:
    """Runs the demo and compares its output with a document; what differs."""
    shown = subprocess.run(
        ["target/release/fedtse", "demo", *options], check=True, capture_output=True, text=True
    ).stdout
    text = document.read_text(encoding="utf-8")
    match = BLOCK.search(text)
    if not match:
        return [f"{document}: no block for the demo's output"]
    if write:
        document.write_text(text[: match.start(2)] + shown + text[match.end(2) :], encoding="utf-8")
        return []
    expected, found = match.group(2).splitlines(), shown.splitlines()
    problems = [
        f"{document} shows   {a}\nthe demo prints   {b}"
        for a, b in zip(expected, found)
        if differs(a, b)
    ]
    if len(expected) != len(found):
        problems.append(f"{document} shows {len(expected)} lines, the demo prints {len(found)}")
    print(f"{document}: {len(expected)} lines of the demo compared, {len(problems)} differ")
    return problems


def main() -> int:
    write = "--write" in sys.argv
    problems = [
        problem for document, options in DOCUMENTS.items() for problem in check(document, options, write)
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    # A check that cannot fail is none.
    assert differs("E1 5", "E2 5 6") and differs("mean 30.0", "mean 60.0")
    assert not differs("mean 30.0", "mean 30.4") and not differs("simulated in 3 s", "simulated in 9 s")
    sys.exit(main())
