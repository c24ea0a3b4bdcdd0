"""Checks that no source file is past the length at which it should be divided.

Run by `make lengths`. Tests may be longer: a list of cases does not get clearer in pieces.
Generated files are as long as they are.
"""

import subprocess
import sys

MOST_LINES = 440


def main() -> int:
    files = subprocess.run(
        ["git", "ls-files", "*.rs", "*.py"], check=True, capture_output=True, text=True
    ).stdout.split()
    problems = 0
    for name in files:
        if name.endswith(("tests.rs", "/generated.rs")) or "/tests/" in name:
            continue
        try:
            with open(name, encoding="utf-8") as file:
                lines = sum(1 for _ in file)
        except FileNotFoundError:
            continue
        if lines > MOST_LINES:
            print(f"{name}: {lines} lines, expected at most {MOST_LINES}", file=sys.stderr)
            problems += 1
    print(f"lengths: {len(files)} files, {problems} too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
