#!/usr/bin/env python3
"""Writes the street layout of a small invented town as OpenStreetMap data, for `fedtse reproduce worlds`.

Nobody surveyed it: it is a layout of this project's own, so no licence of map data applies to it. It has what real
towns have: a main road with signals, a one-way pair of streets, a roundabout, a ring of residential streets with
dead ends, a bridge as the only way to another quarter, turn restrictions, and ways that a car may not use.

    python3 scripts/make_town.py > crates/experiments/assets/worlds/town.osm
"""

import math

LAT, LON = 47.0, 8.0
METRES_PER_DEGREE = 111_320.0

# Junctions by name, in metres east and north.
nodes: dict[str, tuple[float, float]] = {}
signals: set[str] = set()
ways: list[tuple[list[str], dict[str, str]]] = []
restrictions: list[tuple[int, str, int, str]] = []


def node(name: str, x: float, y: float) -> str:
    nodes[name] = (x, y)
    return name


def way(names: list[str], **tags: str) -> int:
    ways.append((names, tags))
    return len(ways)


def main_road() -> None:
    """From west to east through the centre, two lanes each way there."""
    places = [-1400, -1000, -640, -400, -180, 0, 200, 420, 640, 1000, 1400]
    for at, x in enumerate(places):
        node(f"m{at}", x, 30.0 * math.sin(x / 500.0))
    signals.update(["m3", "m5", "m7"])
    way(["m0", "m1", "m2"], highway="primary", name="West Road", maxspeed="70", lanes="2")
    way([f"m{at}" for at in range(2, 9)], highway="primary", name="Main Street", maxspeed="50", lanes="4")
    way(["m8", "m9", "m10"], highway="primary", name="East Road", maxspeed="70", lanes="2")


def high_street() -> None:
    """From south to north, across the main road at its middle; a roundabout in the south."""
    for at, y in enumerate([-1100, -700, -480, -220]):
        node(f"s{at}", 15.0 * at, y)
    for at, y in enumerate([230, 460, 700, 1100]):
        node(f"n{at}", 10.0 * at, y)
    signals.add("n1")
    way(["s0", "s1"], highway="secondary", name="South Road", maxspeed="60")
    ring = []
    for at in range(8):
        angle = math.pi * (1.5 + at / 4.0)
        ring.append(node(f"r{at}", 15.0 + 22.0 * math.cos(angle), -678.0 + 22.0 * math.sin(angle)))
    # The ring's southern end is where South Road ends.
    way(["s1", "r0"], highway="secondary", name="South Road", maxspeed="50")
    way([*ring, "r0"], highway="secondary", junction="roundabout", lanes="1", maxspeed="30")
    way(["r4", "s2", "s3", "m5"], highway="secondary", name="High Street", maxspeed="50")
    way(["m5", "n0", "n1", "n2"], highway="secondary", name="High Street", maxspeed="50", lanes="2")
    way(["n2", "n3"], highway="secondary", name="North Road", maxspeed="60")
    node("rw", -420, -690)
    node("re", 440, -670)
    way(["r6", "rw"], highway="tertiary", name="Mill Lane", maxspeed="50")
    way(["r2", "re"], highway="tertiary", name="Brick Lane", maxspeed="50")


def one_way_pair() -> None:
    """Two streets beside the main road, each for one direction."""
    for at, x in enumerate([-400, -180, 10, 210, 420]):
        node(f"o{at}", x, 240.0 if at != 2 else 235.0)
        node(f"u{at}", x + 5.0, -225.0 if at != 2 else -222.0)
    nodes["o2"] = nodes["n0"]
    nodes["u2"] = nodes["s3"]
    north = ["o0", "o1", "n0", "o3", "o4"]
    south = ["u0", "u1", "s3", "u3", "u4"]
    way(north[::-1], highway="tertiary", oneway="yes", name="Church Street", maxspeed="40", lanes="1")
    way(south, highway="tertiary", oneway="yes", name="Market Street", maxspeed="40", lanes="1")
    for at, junction in [(0, "m3"), (1, "m4"), (3, "m6"), (4, "m7")]:
        way([f"u{at}", junction], highway="residential", name=f"Gate {at}")
        way([junction, f"o{at}"], highway="residential", name=f"Gate {at}")
    for name in ["o2", "u2"]:
        del nodes[name]


def quarters() -> None:
    """Residential blocks in the north-west and south-east, and a quarter behind a bridge."""
    for column in range(4):
        for row in range(3):
            node(f"a{column}{row}", -620.0 + 170.0 * column + 12.0 * row, 420.0 + 130.0 * row)
            node(f"b{column}{row}", 180.0 + 160.0 * column, -440.0 - 110.0 * row + 8.0 * column)
    for quarter in "ab":
        for row in range(3):
            way([f"{quarter}{c}{row}" for c in range(4)], highway="residential", name=f"Row {quarter}{row}", maxspeed="30")
        for column in range(4):
            way([f"{quarter}{column}{r}" for r in range(3)], highway="residential", name=f"Lane {quarter}{column}", maxspeed="30")
    way(["o0", "a10"], highway="tertiary", name="Hill Street", maxspeed="50")
    way(["a30", "n1"], highway="tertiary", name="Park Street", maxspeed="50")
    way(["a00", "m2"], highway="tertiary", name="Castle Street", maxspeed="50")
    way(["a32", "n2"], highway="residential", name="School Street", maxspeed="30")
    way(["u4", "b10"], highway="tertiary", name="Station Street", maxspeed="50")
    way(["b30", "m8"], highway="tertiary", name="Factory Street", maxspeed="50")
    way(["re", "b02"], highway="residential", name="Brick Lane", maxspeed="30")
    way(["rw", "u0"], highway="tertiary", name="Mill Lane", maxspeed="50")
    for at, (start, x, y) in enumerate([("a02", -760, 700), ("a22", -250, 830), ("b32", 800, -700), ("rw", -560, -760)]):
        way([start, node(f"d{at}", x, y)], highway="residential", name=f"Close {at}", maxspeed="30")
    # Over the bridge: the only way.
    for at, (x, y) in enumerate([(700, 330), (900, 380), (1080, 360), (1080, 560), (900, 580)]):
        node(f"c{at}", x, y)
    way(["o4", "c0"], highway="tertiary", name="Bridge Street", bridge="yes", layer="1", maxspeed="50")
    way(["c0", "c1"], highway="tertiary", name="Bridge Street", maxspeed="50")
    way(["c1", "c2", "c3", "c4", "c1"], highway="residential", name="Island", maxspeed="30")
    way(["c3", node("d9", 1240, 600)], highway="residential", name="Pier", maxspeed="30")
    way(["n0", node("p0", 120, 350), "n1"], highway="footway", name="Steps")
    way(["c2", node("p1", 1200, 300)], highway="residential", access="private")


def bans() -> None:
    """From Castle Street nobody may turn into West Road."""
    by_name = {}
    for number, (_, tags) in enumerate(ways, start=1):
        by_name.setdefault(tags.get("name", ""), number)
    restrictions.append((by_name["Castle Street"], "m2", by_name["West Road"], "no_right_turn"))


def main() -> None:
    for part in [main_road, high_street, one_way_pair, quarters, bans]:
        part()
    numbers = {name: number for number, name in enumerate(nodes, start=1)}
    print('<?xml version="1.0" encoding="UTF-8"?>')
    print('<osm version="0.6" generator="scripts/make_town.py">')
    for name, (x, y) in nodes.items():
        lat = LAT + y / METRES_PER_DEGREE
        lon = LON + x / (METRES_PER_DEGREE * math.cos(math.radians(LAT)))
        place = f'  <node id="{numbers[name]}" lat="{lat:.7f}" lon="{lon:.7f}"'
        if name in signals:
            print(f'{place}><tag k="highway" v="traffic_signals"/></node>')
        else:
            print(f"{place}/>")
    for number, (names, tags) in enumerate(ways, start=1):
        print(f'  <way id="{number}">')
        for name in names:
            print(f'    <nd ref="{numbers[name]}"/>')
        for key, value in tags.items():
            print(f'    <tag k="{key}" v="{value}"/>')
        print("  </way>")
    for number, (start, via, end, kind) in enumerate(restrictions, start=1):
        print(f'  <relation id="{number}">')
        print(f'    <member type="way" ref="{start}" role="from"/>')
        print(f'    <member type="node" ref="{numbers[via]}" role="via"/>')
        print(f'    <member type="way" ref="{end}" role="to"/>')
        print(f'    <tag k="type" v="restriction"/><tag k="restriction" v="{kind}"/>')
        print("  </relation>")
    print("</osm>")


main()
