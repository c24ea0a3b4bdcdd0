"""Checks that every dependency has a licence that we accept, and comes from the registry, and that vendored files are those
that the README beside them names.

Run by `make licences`. A crate whose licence is an expression is accepted if one of its
alternatives (OR) consists (AND) of accepted licences only.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

ACCEPTED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
}


def accepted(expression: str) -> bool:
    """Whether an SPDX expression (with OR, AND, WITH, parentheses) can be satisfied."""
    # Older crates write MIT/Apache-2.0.
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def peek():
        return tokens[position] if position < len(tokens) else None

    def either():
        nonlocal position
        value = both()
        while peek() == "OR":
            position += 1
            value = both() or value
        return value

    def both():
        nonlocal position
        value = one()
        while peek() == "AND":
            position += 1
            value = one() and value
        return value

    def one():
        nonlocal position
        token = peek()
        position += 1
        if token == "(":
            value = either()
            position += 1
            return value
        if peek() == "WITH":
            token = f"{token} WITH {tokens[position + 1]}"
            position += 2
        return token in ACCEPTED

    return bool(tokens) and either() and position == len(tokens)


def vendored() -> tuple[int, list[str]]:
    """How many files are vendored, and what is wrong with them: of each library a LICENSE, and files by SHA-256."""
    count, problems = 0, []
    for readme in sorted(pathlib.Path("crates").glob("*/assets/*/README.md")):
        folder = readme.parent
        if not (folder / "LICENSE").is_file():
            problems.append(f"{folder}: found no LICENSE, expected the library's")
        sums = dict(reversed(line) for line in re.findall(r"^([0-9a-f]{64})  (\S+)$", readme.read_text(), re.MULTILINE))
        for file in sorted(folder.iterdir()):
            if file.name in ("README.md", "LICENSE"):
                continue
            count += 1
            found = hashlib.sha256(file.read_bytes()).hexdigest()
            if found != sums.get(file.name):
                problems.append(f"{file}: found SHA-256 {found}, expected {sums.get(file.name)} of its README")
    return count, problems


def main() -> int:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    members = set(metadata["workspace_members"])
    files, problems = vendored()
    packages = [package for package in metadata["packages"] if package["id"] not in members]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not accepted(package["license"] or ""):
            problems.append(f"{name}: licence {package['license']!r} is not accepted")
        if not (package["source"] or "").startswith("registry+"):
            problems.append(f"{name}: comes from {package['source']!r}, expected the registry")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"licences: {len(packages)} dependencies, {files} vendored files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    # The checker checks itself first: a check that cannot fail is none.
    assert accepted("MIT OR GPL-3.0") and accepted("MIT/Apache-2.0")
    assert accepted("(MIT OR GPL-3.0) AND Unicode-3.0")
    assert not accepted("GPL-3.0") and not accepted("MIT AND GPL-3.0") and not accepted("")
    sys.exit(main())
