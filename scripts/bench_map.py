#!/usr/bin/env python3
"""Measures the map's API while a federation runs live behind it, all on this machine:

    scripts/bench_map.py [--seconds 30] [--rate 1000] [--streams 200] [--write]

Starts `fedtse up` (a host and two guests as processes, replaying ten times as fast: an estimate a second), then, one after
the other: nothing; --rate requests a second of /v1/estimates and --streams readers of the event stream; the same beside
readers that send half a request, or open a stream and never read. A request counts from the moment at which it was due, not from
when it was sent, so that a server that stalls is not spared. Prints latencies of requests and of estimates, and the steps that any stream has missed.
Fails if a request fails or a step is missed. Needs `cargo build --release`; --write puts the table into docs/benchmarks.md.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import benchmark_page

FEDTSE = Path(__file__).resolve().parent.parent / "target" / "release" / "fedtse"
WORKERS = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="of each part")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=150)
    parser.add_argument("--fedtse", type=Path, default=FEDTSE)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    up = [arguments.fedtse, "up", "--json", "--http", "127.0.0.1:0", "--speed-up", "10"]
    up += ["--requests-per-s", "100000", "--connections", "2000"]
    with subprocess.Popen(list(map(str, up)), stdout=subprocess.PIPE, text=True) as town:
        try:
            report = json.loads(town.stdout.readline())
            address = urlsplit(report["url"])
            parts = asyncio.run(measure(address.hostname, address.port, arguments))
        finally:
            town.send_signal(signal.SIGINT)
    for part in parts:
        print(json.dumps(part))
    table = markdown(parts, arguments)
    print(table)
    if arguments.write:
        page = (
            "## The map\n\nWritten by `make bench-map` ([scripts/bench_map.py](../scripts/bench_map.py), which says what is measured): "
            f"host, two guests and all readers on one machine with two cores; load average {load:.1f} before.\n\n{table}"
        )
        benchmark_page.write("map", page, {"load_before": load, "parts": parts})
    if any(part["failed"] or part["missed"] for part in parts):
        sys.exit("a request failed or a step was missed")


async def measure(host, port, arguments):
    while (await get(host, port, "/v1/estimates"))[0] != 200:
        await asyncio.sleep(0.2)
    quiet = await part("quiet", host, port, arguments, 0, 1, 0)
    loaded = await part("load", host, port, arguments, arguments.rate, arguments.streams, 0)
    hostile = await part("load, and hostile readers", host, port, arguments, arguments.rate, arguments.streams, arguments.hostile)
    return [quiet, loaded, hostile]


async def part(name, host, port, arguments, rate, streams, hostile):
    """Some seconds of load."""
    nuisances = [asyncio.create_task(nuisance(host, port, number, arguments.seconds)) for number in range(hostile)]
    readers = [asyncio.create_task(listen(host, port, arguments.seconds)) for _ in range(streams)]
    await asyncio.sleep(1)
    latencies, failed = await requests(host, port, rate, arguments.seconds - 2) if rate else ([], 0)
    heard = await asyncio.gather(*readers)
    for task in nuisances:
        task.cancel()
    await asyncio.gather(*nuisances, return_exceptions=True)
    # A stream begins with the latest estimate, and then has every step to its end.
    missed = sum(heard_steps[-1] - heard_steps[0] + 1 - len(heard_steps) for heard_steps, _ in heard)
    estimates = {step: latency for _, found in heard for step, latency in found.items()}
    return {
        "part": name,
        "requests": len(latencies),
        "failed": failed,
        "p50_ms": quantile(latencies, 0.5, 1000),
        "p99_ms": quantile(latencies, 0.99, 1000),
        "most_ms": quantile(latencies, 1.0, 1000),
        "streams": streams,
        "events": sum(len(steps) for steps, _ in heard),
        "missed": missed,
        "hostile": hostile,
        "estimates": len(estimates),
        "estimate_p50_s": quantile(list(estimates.values()), 0.5, 1),
        "estimate_p99_s": quantile(list(estimates.values()), 0.99, 1),
    }


async def requests(host, port, rate, seconds):
    """Requests at a steady rate; each waits for no other."""
    due, latencies, failed = asyncio.Queue(), [], 0

    async def worker():
        nonlocal failed
        connection = None
        while (moment := await due.get()) is not None:
            for attempt in (1, 2):
                try:
                    if connection is None:
                        connection = await asyncio.open_connection(host, port)
                    status = await ask(*connection, "/v1/estimates")
                    failed += status != 200
                    break
                except (OSError, asyncio.IncompleteReadError):
                    # The server ends connections of a certain age between requests: once more, on a new one.
                    connection = None
                    failed += attempt == 2
            latencies.append(time.perf_counter() - moment)

    workers = [asyncio.create_task(worker()) for _ in range(WORKERS)]
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        moment = begin + number / rate
        if moment > time.perf_counter():
            await asyncio.sleep(moment - time.perf_counter())
        due.put_nowait(moment)
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return latencies, failed


async def ask(reader, writer, path):
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    await reader.readexactly(length)
    return int(head.split(b" ")[1])


async def get(host, port, path):
    reader, writer = await asyncio.open_connection(host, port)
    status = await ask(reader, writer, path)
    writer.close()
    return status, None


async def listen(host, port, seconds):
    """The steps that a stream tells, and the latency of each estimate."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    writer.write(b"GET /v1/estimates/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until, steps, latencies = time.perf_counter() + seconds, [], {}
    while (left := until - time.perf_counter()) > 0:
        try:
            line = await asyncio.wait_for(reader.readline(), left)
        except asyncio.TimeoutError:
            break
        if not line:
            sys.exit("a stream has ended before its time")
        if line.startswith(b"data: "):
            # All streams are one: the first to hear a step reads it whole.
            estimate = json.loads(line[6:])
            steps.append(estimate["step"])
            latencies[estimate["step"]] = estimate["latency_s"]
    writer.close()
    return steps, latencies


async def nuisance(host, port, number, seconds):
    """Half a request, byte by byte, or a stream that nobody reads; again and again."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        try:
            _, writer = await asyncio.open_connection(host, port)
            if number % 2:
                writer.write(b"GET /v1/estimates/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(seconds)
            for byte in b"GET /v1/estimates HTTP/1.1\r\nHost: " + 100 * b"x":
                if writer.is_closing():
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(0.5)
        except OSError:
            await asyncio.sleep(0.1)


def quantile(values, share, scale):
    ordered = sorted(values)
    return round(scale * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None


def markdown(parts, arguments):
    mark = lambda reached: "✓" if reached else "missed"  # noqa: E731
    lines = [
        "| | requests/s | p50 / p99 / most of a request | streams | events, missed steps | hostile readers | end of a step to its estimate, p50 / p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in parts:
        asked = f"{arguments.rate} | {part['p50_ms']:.1f} / {part['p99_ms']:.1f} / {part['most_ms']:.0f} ms" if part["requests"] else "– | –"
        lines.append(
            f"| {part['part']} | {asked} | {part['streams']} | {part['events']}, {part['missed']} | {part['hostile']} "
            f"| {1000 * part['estimate_p50_s']:.0f} / {1000 * part['estimate_p99_s']:.0f} ms |"
        )
    loaded = [part for part in parts if part["requests"]]
    p99, missed = max(part["p99_ms"] for part in loaded), sum(part["missed"] for part in parts)
    lines += ["", f"Targets: p99 of a request under 50 ms {mark(p99 < 50)}; no missed step {mark(not missed)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
