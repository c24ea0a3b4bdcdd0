"""Checks that README.md shows what `fedtse demo` prints; with --write, puts it there.

Words must be the same. Numbers may differ a little: they come from a simulation whose last bits
depend on the machine's mathematical library, and small differences grow with traffic. Lines with
run times are compared by their words only.
"""

import re
import subprocess
import sys
from pathlib import Path

README = Path("README.md")
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


def main() -> int:
    shown = subprocess.run(
        ["target/release/fedtse", "demo"], check=True, capture_output=True, text=True
    ).stdout
    text = README.read_text(encoding="utf-8")
    match = BLOCK.search(text)
    if not match:
        print("README.md: no block for the demo's output", file=sys.stderr)
        return 1
    if "--write" in sys.argv:
        README.write_text(text[: match.start(2)] + shown + text[match.end(2) :], encoding="utf-8")
        return 0
    expected, found = match.group(2).splitlines(), shown.splitlines()
    problems = [
        f"README.md shows   {a}\nthe demo prints   {b}"
        for a, b in zip(expected, found)
        if differs(a, b)
    ]
    if len(expected) != len(found):
        problems.append(f"README.md shows {len(expected)} lines, the demo prints {len(found)}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"readme: {len(expected)} lines of the demo compared, {len(problems)} differ")
    return 1 if problems else 0


if __name__ == "__main__":
    # A check that cannot fail is none.
    assert differs("E1 5", "E2 5 6") and differs("mean 30.0", "mean 60.0")
    assert not differs("mean 30.0", "mean 30.4") and not differs("simulated in 3 s", "simulated in 9 s")
    sys.exit(main())
