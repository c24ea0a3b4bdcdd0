"""Counts lines of production and test code, public items and files, per crate.

    python3 scripts/count_lines.py            # a table
    python3 scripts/count_lines.py --json     # the same numbers for a program
    python3 scripts/count_lines.py --code     # without blank lines and lines that are only a comment

Test code is what only `cargo test` compiles: files under a crate's `tests/` folder, files named `tests.rs`,
`test_*.rs` or `*_tests.rs`, modules declared under `#[cfg(test)]` (inline or in a file of their own, with the
modules below them), and other items under `#[cfg(test)]`. Examples and benches count as neither.
Generated files (`generated.rs`) are left out. Public items are `pub fn|struct|enum|trait|const|static|type` in production
code; `pub(crate)` and narrower are not public. `pub mod` and `pub use` lead to items and define none: they have a column of
their own (exports), where a `pub use` of several names counts once.
"""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

PUBLIC = re.compile(
    r"^\s*pub\s+(?:(?:const|async|unsafe|extern(?:\s+\"[^\"]*\")?)\s+)*"
    r"(?:fn|struct|enum|trait|const|static|type|union|macro)\b"
)
EXPORT = re.compile(r"^\s*pub\s+(?:mod|use)\b")
CFG_TEST = re.compile(r"^\s*#\[cfg\((?:test|all\(test,.*\))\)\]\s*(?P<rest>.*)$")
FILE_MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;")
TEST_FILE = re.compile(r"^(?:tests|test_\w+|\w+_tests)\.rs$")


@dataclass
class Count:
    """The totals of one crate."""

    production: int = 0
    test: int = 0
    public: int = 0
    exports: int = 0
    files: int = 0
    test_files: int = 0


def end_of_item(lines: list[str], start: int) -> int:
    """The index after the item that starts at `start`; rustfmt closes it at the indentation where it began."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    for index in range(start, len(lines)):
        line = lines[index]
        at_indent = len(line) - len(line.lstrip()) == indent
        if index == start and line.rstrip().endswith((";", "}", ",")):
            return index + 1
        if index > start and at_indent and line.strip().startswith(("}", ")", "]")):
            return index + 1
    return len(lines)


def test_ranges(lines: list[str]) -> tuple[list[tuple[int, int]], list[str]]:
    """Ranges of lines under `#[cfg(test)]`, and the names of test modules with files of their own."""
    ranges: list[tuple[int, int]] = []
    modules: list[str] = []
    index = 0
    while index < len(lines):
        found = CFG_TEST.match(lines[index])
        if not found:
            index += 1
            continue
        item = index if found["rest"] else index + 1
        while item < len(lines) and lines[item].lstrip().startswith(("#[", "//")) and item != index:
            item += 1
        if item >= len(lines):
            break
        module = FILE_MODULE.match(lines[item])
        if module:
            modules.append(module["name"])
        end = end_of_item(lines, item)
        ranges.append((index, end))
        index = end
    return ranges, modules


def module_files(parent: Path, name: str) -> list[Path]:
    """The file of a module declared in `parent`, and all files below it."""
    folder = parent.parent if parent.name in ("lib.rs", "main.rs", "mod.rs") else parent.with_suffix("")
    return [folder / f"{name}.rs", *sorted((folder / name).rglob("*.rs"))]


def counted(line: str, code_only: bool) -> bool:
    text = line.strip()
    return not code_only or (bool(text) and not text.startswith("//"))


def count_crate(root: Path, files: list[Path], code_only: bool) -> Count:
    """Counts the Rust files of the crate at `root`."""
    lines_of = {path: path.read_text(encoding="utf-8").splitlines() for path in files}
    ranges_of: dict[Path, list[tuple[int, int]]] = {}
    test_files: set[Path] = set()
    for path, lines in lines_of.items():
        parts = path.relative_to(root).parts
        if "tests" in parts[:-1] or TEST_FILE.match(path.name):
            test_files.add(path)
        ranges_of[path], modules = test_ranges(lines)
        for name in modules:
            test_files.update(module_files(path, name))
    total = Count()
    for path, lines in lines_of.items():
        parts = path.relative_to(root).parts
        if {"examples", "benches"} & set(parts[:-1]) or path.name == "generated.rs":
            continue
        total.files += 1
        whole = path in test_files
        total.test_files += whole
        in_test = {index for start, end in ranges_of[path] for index in range(start, end)}
        for index, line in enumerate(lines):
            if whole or index in in_test:
                total.test += counted(line, code_only)
            else:
                total.production += counted(line, code_only)
                total.public += bool(PUBLIC.match(line))
                total.exports += bool(EXPORT.match(line))
    return total


def crates(top: Path) -> dict[str, Path]:
    """Folders of the workspace's packages, by name."""
    names = {}
    for manifest in [*sorted((top / "crates").glob("*/Cargo.toml")), *sorted(top.glob("*/Cargo.toml"))]:
        if manifest.parent.name != "fuzz":
            names[manifest.parent.name] = manifest.parent
    return names


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--code", action="store_true", help="leave out blank lines and comment lines")
    options.add_argument("crates", nargs="*", help="crates to count; all if none is named")
    given = options.parse_args()
    top = Path(__file__).resolve().parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"],
        check=True, capture_output=True, text=True, cwd=top,
    ).stdout.split("\n")
    present = sorted({top / name for name in listed if name and (top / name).is_file()})
    folders = crates(top)
    unknown = set(given.crates) - set(folders)
    if unknown:
        print(f"crates: found {', '.join(sorted(unknown))}, expected of {', '.join(folders)}", file=sys.stderr)
        return 2
    counts = {
        name: count_crate(root, [path for path in present if path.is_relative_to(root)], given.code)
        for name, root in folders.items()
        if not given.crates or name in given.crates
    }
    total = Count()
    for count in counts.values():
        for field, value in asdict(count).items():
            setattr(total, field, getattr(total, field) + value)
    counts["total"] = total
    if given.json:
        print(json.dumps({name: asdict(count) for name, count in counts.items()}, indent=1))
        return 0
    print(f"{'crate':<12} {'production':>10} {'test':>8} {'ratio':>6} {'public':>7} {'exports':>7} {'files':>6}")
    for name, count in counts.items():
        ratio = count.test / count.production if count.production else 0.0
        print(f"{name:<12} {count.production:>10,} {count.test:>8,} {ratio:>6.2f} {count.public:>7,} {count.exports:>7,} {count.files:>6,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
