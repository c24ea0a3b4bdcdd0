#!/usr/bin/env python3
"""Writes a city that nobody built, as OpenStreetMap data:

    scripts/make_osm.py FOLDER [LINKS]

Makes FOLDER/city.osm with about LINKS links (100,000 if absent), and the same as city.osm.gz, city.osm.bz2 and, where the
package `osmium` (`pip install osmium`) is installed, city.osm.pbf. As in a real extract most of the file is no road: buildings,
footways, trees. Streets bend, avenues have lanes and signals, some streets are one-way, some turns are forbidden. The same each
time. Used for the figures in docs/formats.md; for a measurement, not for an estimate.
"""

import bz2
import gzip
import math
import pathlib
import random
import shutil
import sys

BLOCK = 110.0  # m between junctions
LAT, LON = 48.0, 11.0
# One street out of so many is one-way.
ONE_WAY = 4
BUILDINGS = 12  # of each block
CORNERS = 6  # of each building


def main():
    folder = pathlib.Path(sys.argv[1])
    links = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    folder.mkdir(parents=True, exist_ok=True)
    # A grid of n × n junctions has 2 n (n - 1) roads; of both directions but where they are one-way.
    size = max(2, round((links / (2 * (2 - 1 / ONE_WAY))) ** 0.5 + 0.5))
    text = folder / "city.osm"
    with text.open("w") as out:
        write(out, size)
    for name, form in [("city.osm.gz", gzip), ("city.osm.bz2", bz2)]:
        with text.open("rb") as read, form.open(folder / name, "wb") as out:
            shutil.copyfileobj(read, out)
    pbf = folder / "city.osm.pbf"
    try:
        import osmium
    except ImportError:
        print("no city.osm.pbf: the package osmium is not installed")
        return
    pbf.unlink(missing_ok=True)
    writer = osmium.SimpleWriter(str(pbf))
    for thing in osmium.FileProcessor(str(text)):
        writer.add(thing)
    writer.close()


def write(out, size):
    draw = random.Random(1)
    count = 0

    def node(north, east, tags=""):
        nonlocal count
        count += 1
        lat = LAT + north / 111_195.0
        lon = LON + east / (111_195.0 * math.cos(math.radians(LAT)))
        inner = f">{tags}</node>\n" if tags else "/>\n"
        out.write(f'<node id="{count}" version="1" lat="{lat:.7f}" lon="{lon:.7f}"{inner}')
        return count

    ways = []

    def way(nodes, **tags):
        ways.append((nodes, tags))
        return 1_000_000_000 + len(ways)

    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6" generator="make_osm.py">\n')
    signal = '<tag k="highway" v="traffic_signals"/>'
    corner = {}
    for row in range(size):
        for column in range(size):
            avenue = row % 8 == 0 and column % 8 == 0
            north, east = (x * BLOCK + draw.uniform(-15, 15) for x in (row, column))
            corner[row, column] = node(north, east, signal if avenue else "")
    # Nodes first, as in every extract; so ways are kept until all nodes are written.
    for along in ("row", "column"):
        for line in range(size):
            kind = "primary" if line % 8 == 0 else "residential"
            for at in range(size - 1):
                ends = [(line, at), (line, at + 1)] if along == "row" else [(at, line), (at + 1, line)]
                (r0, c0), (r1, c1) = ends
                bend = [
                    node(
                        BLOCK * (r0 + (r1 - r0) * share) + draw.uniform(-8, 8),
                        BLOCK * (c0 + (c1 - c0) * share) + draw.uniform(-8, 8),
                    )
                    for share in (0.25, 0.5, 0.75)
                ]
                tags = {"highway": kind, "name": f"{along} {line}"}
                if kind == "primary":
                    tags |= {"lanes": "4", "maxspeed": "50"}
                elif (line + at // 20) % ONE_WAY == 0:
                    tags["oneway"] = "yes"
                way([corner[ends[0]], *bend, corner[ends[1]]], **tags)
    roads = len(ways)
    for row in range(size - 1):
        for column in range(size - 1):
            path = [node(BLOCK * (row + x), BLOCK * (column + 0.5)) for x in (0.1, 0.5, 0.9)]
            way(path, highway="footway", surface="asphalt")
            node(BLOCK * (row + 0.3), BLOCK * (column + 0.3), '<tag k="natural" v="tree"/>')
            for house in range(BUILDINGS):
                north, east = (BLOCK * (x + draw.uniform(0.1, 0.9)) for x in (row, column))
                walls = [
                    node(north + 8 * math.sin(a), east + 8 * math.cos(a))
                    for a in (2 * math.pi * k / CORNERS for k in range(CORNERS))
                ]
                way([*walls, walls[0]], building="yes", **{"addr:housenumber": str(house)})
    for number, (nodes, tags) in enumerate(ways, start=1):
        out.write(f'<way id="{1_000_000_000 + number}" version="1">')
        out.writelines(f'<nd ref="{one}"/>' for one in nodes)
        out.writelines(f'<tag k="{key}" v="{value}"/>' for key, value in tags.items())
        out.write("</way>\n")
    half = roads // 2
    for number in range(0, half, 10):
        line, at = divmod(number, size - 1)
        if at + 1 < size - 1 and line < size - 1:
            # From a row into the column that crosses at its end.
            other = half + (at + 1) * (size - 1) + line
            out.write(
                f'<relation id="{number + 1}" version="1">'
                f'<member type="way" ref="{1_000_000_001 + number}" role="from"/>'
                f'<member type="node" ref="{corner[line, at + 1]}" role="via"/>'
                f'<member type="way" ref="{1_000_000_001 + other}" role="to"/>'
                '<tag k="type" v="restriction"/><tag k="restriction" v="no_left_turn"/></relation>\n'
            )
    out.write("</osm>\n")


main()
