"""The studio under load: many readers and slow clients while a run trains.

    python benchmarks/studio.py [--readers 500] [--slow-clients 50] [--seconds 60]

Each reader follows the run through a stream of events, as a page does, and now and then asks for
something on another connection. A slow client sends one byte of its headers per second. At the end,
every reader must have received exactly the rows of metrics.jsonl. Prints the times of the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN = "live"
REQUESTS = ("/api/runs", f"/api/run?run={RUN}", f"/api/metrics?run={RUN}", "/api/info")
TRAINING = ("--width", "64", "--layers", "2", "--heads", "2", "--context", "64")
WARMUP_SECONDS = 3.0


@dataclass
class Measurements:
    answers: list[float] = field(default_factory=list)
    """Seconds from the first byte sent, with the connection, to the last one received."""
    failures: list[str] = field(default_factory=list)
    slow_ended: int = 0


class Studio:
    """The address and cookie of a running studio."""

    def __init__(self, address: str) -> None:
        match = re.fullmatch(r"http://127\.0\.0\.1:([0-9]+)/\?token=(.+)", address)
        assert match is not None, address
        self.port, self.token, self.cookie = int(match[1]), match[2], ""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)

    def head(self, path: str, close: bool = True) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Cookie: {self.cookie}"]
        return "\r\n".join([*lines, *(["Connection: close"] if close else []), "", ""]).encode()

    async def get(self, path: str) -> tuple[int, bytes]:
        reader, writer = await self.connect()
        try:
            writer.write(self.head(path))
            content = await reader.read()
        finally:
            writer.close()
        head, _, body = content.partition(b"\r\n\r\n")
        if b"set-cookie: " in head:
            self.cookie = head.split(b"set-cookie: ")[1].split(b";")[0].decode()
        return int(head.split()[1]), body


async def follow(studio: Studio, received: list[dict[str, Any]], measured: Measurements) -> None:
    """Collects the rows of the run, as a page does, until it is cancelled."""
    reader, writer = await studio.connect()
    try:
        writer.write(studio.head(f"/api/events?run={RUN}:0", close=False))
        event = ""
        while line := await reader.readline():
            text = line.decode().strip()
            if text.startswith("HTTP/1.1") and " 200 " not in text:
                measured.failures.append(f"stream: {text}")
            elif text.startswith("event: "):
                event = text.removeprefix("event: ")
            elif text.startswith("data: ") and event == "metrics":
                data = json.loads(text.removeprefix("data: "))
                if data["after"] != len(received) or data["again"]:
                    measured.failures.append(f"stream: rows after {data['after']} came again")
                received += data["rows"]
        measured.failures.append("stream: ended early")
    finally:
        writer.close()


async def ask(studio: Studio, pause: float, seed: int, measured: Measurements) -> None:
    """Asks for something after pauses of random length, until it is cancelled."""
    source = random.Random(seed)
    while True:
        await asyncio.sleep(source.uniform(0, 2 * pause))
        path, start = source.choice(REQUESTS), time.perf_counter()
        try:
            status, _ = await studio.get(path)
            measured.answers.append(time.perf_counter() - start)
            if status != 200:
                measured.failures.append(f"{path}: status {status}")
        except OSError as error:
            measured.failures.append(f"{path}: {type(error).__name__}")


async def send_slowly(studio: Studio, measured: Measurements) -> None:
    """Sends a byte of its headers per second, and connects again when the studio ends that."""
    while True:
        reader, writer = await studio.connect()
        answer = asyncio.create_task(reader.read())
        try:
            for byte in studio.head("/api/runs"):
                writer.write(bytes([byte]))
                await asyncio.sleep(1)
                if answer.done():
                    measured.slow_ended += 1
                    break
        finally:
            answer.cancel()
            writer.close()


@contextmanager
def started(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    full_command = [sys.executable, "-m", "attnlab", *command]
    process = subprocess.Popen(full_command, text=True, env=environment, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def measure(studio: Studio, metrics: Path, options: argparse.Namespace) -> Measurements:
    measured = Measurements()
    await studio.get(f"/?token={studio.token}")
    while not metrics.exists():
        await asyncio.sleep(0.1)
    received: list[list[dict[str, Any]]] = [[] for _ in range(options.readers)]
    tasks = [asyncio.create_task(follow(studio, rows, measured)) for rows in received]
    tasks += [
        asyncio.create_task(send_slowly(studio, measured)) for _ in range(options.slow_clients)
    ]
    await asyncio.sleep(WARMUP_SECONDS)
    tasks += [
        asyncio.create_task(ask(studio, options.pause, seed, measured))
        for seed in range(options.readers)
    ]
    await asyncio.sleep(options.seconds)
    for task in tasks[options.readers :]:
        task.cancel()
    options.trainer.terminate()
    await asyncio.to_thread(options.trainer.wait)
    expected = [json.loads(line) for line in metrics.read_text().splitlines()]
    deadline = time.monotonic() + 30
    while any(len(rows) < len(expected) for rows in received) and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    incomplete = sum(rows != expected for rows in received)
    print(
        f"rows: {len(expected)} written; readers with other rows: {incomplete} of {len(received)}"
    )
    return measured


def print_measurements(measured: Measurements, seconds: float) -> None:
    times = sorted(1000 * each for each in measured.answers)
    quantiles = {"median": 0.5, "90%": 0.9, "99%": 0.99}
    text = ", ".join(f"{name} {times[int(q * len(times))]:.0f}" for name, q in quantiles.items())
    print(f"answers: {len(times)} in {seconds:.0f} s; milliseconds: {text}, most {times[-1]:.0f}")
    print(f"slow clients that the studio ended: {measured.slow_ended}")
    print(f"failures: {len(measured.failures)} {sorted(set(measured.failures))[:5] or ''}".rstrip())
    load = os.getloadavg()[0]
    print(f"load of the machine: {load:.1f} on {os.cpu_count()} cores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--slow-clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=10, help="mean seconds between requests")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with tempfile.TemporaryDirectory() as folder:
        runs, text = Path(folder) / "runs", Path(folder) / "text.txt"
        runs.mkdir()
        text.write_text("to be or not to be, that is the question. " * 500)
        train = ("language", "train", str(text), "--out", str(runs / RUN), "--steps", "1000000")
        studio_command = ("studio", "--runs", str(runs), "--port", "0", "--no-browser")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with (
            started(*train, *TRAINING, **quiet) as options.trainer,
            started(*studio_command, stdout=subprocess.PIPE) as server,
        ):
            assert server.stdout is not None
            studio = Studio(server.stdout.readline().split()[2])
            measured = asyncio.run(measure(studio, runs / RUN / "metrics.jsonl", options))
            print_measurements(measured, options.seconds)


if __name__ == "__main__":
    main()
