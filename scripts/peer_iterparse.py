#!/usr/bin/env python3
"""Reading SUMO's FCD output by Python's own XML parser; the counterpart of
`cargo run --release -p sensing --example read_fcd`:

    python scripts/peer_iterparse.py FCD.xml [--check NET.xml]

Counts vehicle rows and adds up their speeds. Prints one line of JSON with the seconds. `--check`
also counts, untimed, the rows that are not on the stubs behind exits and on the way there, which are
on no link.
"""

import argparse
import json
import time
from xml.etree.ElementTree import iterparse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fcd")
    parser.add_argument("--check", metavar="NET.xml")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    rows, speeds = 0, 0.0
    for _, element in iterparse(arguments.fcd):
        if element.tag == "vehicle":
            rows += 1
            speeds += float(element.get("speed"))
        elif element.tag == "timestep":
            # Without this the whole file would stay in memory.
            element.clear()
    seconds = time.perf_counter() - begin
    result = {"tool": "iterparse", "seconds": round(seconds, 6), "rows": rows, "speeds": round(speeds, 3)}
    if arguments.check:
        result |= on_links(arguments.fcd, arguments.check)
    print(json.dumps(result))


def on_links(path, net):
    connections = (element for _, element in iterparse(net) if element.tag == "connection")
    ways_out = {element.get("via") for element in connections if element.get("to").endswith(".outside")}
    rows, speeds = 0, 0.0
    for _, element in iterparse(path):
        if element.tag == "vehicle":
            lane = element.get("lane")
            if ".outside_" not in lane and lane not in ways_out:
                rows += 1
                speeds += float(element.get("speed"))
        elif element.tag == "timestep":
            element.clear()
    return {"on_links": rows, "speeds_on_links": round(speeds, 3)}


if __name__ == "__main__":
    main()
