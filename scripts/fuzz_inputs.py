#!/usr/bin/env python3
"""Damages the seeds of a fuzz target, the same way each time:

    scripts/fuzz_inputs.py TARGET COUNT FOLDER

Writes COUNT inputs into FOLDER. What a fuzzer tries next depends on what it saw before, and that on
hash seeds, addresses and threads; these inputs depend on the seeds in fuzz/seeds alone.
"""

import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LENGTH = 16384
EDGES = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"]


def words():
    """The values of fuzz/values.dict, and bytes at the edges of binary numbers."""
    lines = (ROOT / "fuzz/values.dict").read_text().splitlines()
    return [line.strip('"').encode() for line in lines if line.startswith('"')] + EDGES


class Damage:
    def __init__(self, seeds, name):
        self.seeds = seeds
        self.words = words()
        self.random = random.Random(name)

    # Of all draws, Python keeps only these the same from version to version.
    def below(self, count):
        return int(self.random.random() * count)

    def span(self, data, longest):
        start = self.below(len(data) + 1)
        return start, min(len(data), start + 1 + self.below(longest))

    def input(self):
        data = self.seeds[self.below(len(self.seeds))]
        for _ in range(1 + self.below(4)):
            data = self.step(data)
        return data[:MAX_LENGTH]

    def step(self, data):
        start, end = self.span(data, 8)
        kind = self.below(8)
        if kind == 0 and start < len(data):
            return data[:start] + bytes([data[start] ^ 1 << self.below(8)]) + data[start + 1 :]
        if kind == 1:
            return data[:start] + bytes([self.below(256)]) + data[start + 1 :]
        if kind == 2:
            return data[:start] + bytes([self.below(256)]) * (1 + self.below(128)) + data[start:]
        if kind == 3:
            return data[:start] + data[end:]
        if kind == 4:
            return data[:start] + self.words[self.below(len(self.words))] + data[start:]
        if kind == 5:
            word = self.words[self.below(len(self.words))]
            return data[:start] + word + data[start + len(word) :]
        if kind == 6:
            start, end = self.span(data, 64)
            to = self.below(len(data) + 1)
            return data[:to] + data[start:end] + data[to:]
        other = self.seeds[self.below(len(self.seeds))]
        return data[:start] + other[self.below(len(other) + 1) :]


def main():
    target, count, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    paths = sorted((ROOT / "fuzz/seeds" / target).iterdir())
    if not paths:
        sys.exit(f"fuzz/seeds/{target}: found no seeds, expected one or more")
    seeds = [path.read_bytes() for path in paths]
    damage = Damage(seeds, target)
    for number in range(count):
        (folder / f"{number:06}").write_bytes(damage.input())


main()
