"""Train on a text larger than memory: time, memory and speed.

    python benchmarks/corpora.py make large.txt --gb 3
    python benchmarks/corpora.py measure large.txt
    python benchmarks/corpora.py knowledge --people 10000 30000 100000

`make` writes text whose lines are distinct: passages of docstrings with other words in random
places, some of them made up. `measure` trains with an empty cache, then with a full one, then in
turn on this text and on a small part of it, and prints a table as JSON. `knowledge` runs `knowledge
learn` and `knowledge pretrain` on worlds of these sizes, with a small model and few epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.language._text_sources import documentation_text

SYLLABLES = [first + vowel for first in "bcdfghjklmnp" for vowel in "aeiou"]
BLOCK = 2**20  # words that are made together
PASSAGE = 200  # words that are copied together
OTHER, MADE_UP = 0.15, 0.02  # fractions of words that are replaced
LABELED = 0.02  # fraction of the people in the world that questions are asked about
SMALL_MODEL = "--width 32 --layers 1 --heads 2"
SMALL_BYTES = 20 * 10**6
MODEL = "--width 128 --layers 2 --heads 4 --context 256 --batch-tokens 8192"


def make(path: Path, size: int) -> None:
    """Write about `size` bytes of text."""
    random = np.random.default_rng(0)
    texts = documentation_text(min(60_000_000, size))
    source = b"\n".join(text.encode() for text in texts).split(b" ")
    words, ids = np.unique(np.array(source, dtype=object), return_inverse=True)
    numbers = random.integers(0, len(SYLLABLES), (10**6, 3)).tolist()
    made_up = ["".join(SYLLABLES[n] for n in three).encode() for three in numbers]
    words = np.concatenate([words, np.array(made_up, dtype=object)])
    path.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with path.open("wb") as file:
        while done < size:
            starts = random.integers(0, len(ids) - PASSAGE, min(BLOCK, size // 8) // PASSAGE)
            block = ids[starts[:, None] + np.arange(PASSAGE)].ravel()
            chance = random.random(len(block))
            others = chance < OTHER
            block[others] = ids[random.integers(0, len(ids), int(others.sum()))]
            new = chance > 1 - MADE_UP
            block[new] = random.integers(len(words) - len(made_up), len(words), int(new.sum()))
            done += file.write(b" ".join(words[block].tolist()) + b"\n")


@dataclass
class Memory:
    """Peaks in MB of a process and all that it started."""

    anonymous: float = 0
    total: float = 0
    """With pages of files, which are counted for each process that maps them."""

    def sample(self, process: int) -> None:
        anonymous, total = 0.0, 0.0
        for each in _descendants(process):
            try:
                lines = Path(f"/proc/{each}/status").read_text().splitlines()
            except OSError:
                continue  # it has ended
            facts = dict(line.split(":", 1) for line in lines if line.startswith(("Rss", "VmRSS")))
            anonymous += int(facts.get("RssAnon", "0").split()[0]) / 1024
            total += int(facts.get("VmRSS", "0").split()[0]) / 1024
        self.anonymous, self.total = max(self.anonymous, anonymous), max(self.total, total)


def _descendants(process: int) -> Iterator[int]:
    yield process
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _descendants(int(child))


@dataclass
class Trial:
    """One training run."""

    memory: Memory = field(default_factory=Memory)
    first_step: float = 0
    """Seconds from the start of the command until the first step was done."""
    speed: float = 0
    """Median tokens per second of a step."""
    seconds: float = 0


def run(command: str, folder: Path) -> Trial:
    """Run an attnlab command that writes `folder/run` in a process of its own, and measure it."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    trial, begin = Trial(), time.perf_counter()
    words = [sys.executable, "-m", "attnlab", *command.split(), "--out", str(out)]
    process = subprocess.Popen(words, env=environment)
    metrics = out / "metrics.jsonl"
    while process.poll() is None:
        trial.memory.sample(process.pid)
        if not trial.first_step and metrics.exists() and metrics.stat().st_size:
            trial.first_step = time.perf_counter() - begin
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    trial.seconds = time.perf_counter() - begin
    return trial


def train(text: Path, folder: Path, options: str) -> Trial:
    trial = run(f"language train {text} --tokenizer bpe {options}", folder)
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    pairs = pairwise(json.loads(line) for line in lines[5:])  # the first steps warm up
    trial.speed = statistics.median(
        (b["tokens"] - a["tokens"]) / (b["seconds"] - a["seconds"]) for a, b in pairs
    )
    return trial


def measure_knowledge(counts: list[int], folder: Path) -> list[dict[str, Any]]:
    results = []
    for count in counts:
        shutil.rmtree(folder, ignore_errors=True)
        world = folder / "world"
        make_world(WorldConfig(people=count, labeled=LABELED)).write(world)
        learn = f"--pairs {world}/train.tsv --reader-epochs 0.2 --remember-epochs 0.5"
        for name, options in (("learn", learn), ("pretrain", "--epochs 0.2")):
            command = f"knowledge {name} --corpus {world}/corpus.txt {options} {SMALL_MODEL}"
            trial = run(command, folder)
            memory = {name: round(value) for name, value in vars(trial.memory).items()}
            results.append(
                {
                    "command": name,
                    "documents": count,
                    "seconds": round(trial.seconds, 1),
                    "milliseconds_per_document": round(1000 * trial.seconds / count, 2),
                    "memory_mb": memory,
                }
            )
            print(json.dumps(results[-1]), file=sys.stderr)
    shutil.rmtree(folder)
    return results


def measure(text: Path, folder: Path, options: str, repeats: int) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cold, warm = train(text, folder, options), train(text, folder, options)
    size = text.stat().st_size
    small = folder / "small.txt"
    with text.open("rb") as file:
        small.write_bytes(file.read(SMALL_BYTES).rpartition(b"\n")[0])
    speeds: dict[str, list[float]] = {"large": [], "small": []}
    for _ in range(repeats):  # in turn, because other programs disturb for a while
        for name, path in (("small", small), ("large", text)):
            speeds[name].append(train(path, folder, options).speed)
    large_speed, small_speed = (statistics.median(speeds[name]) for name in ("large", "small"))
    result = {
        "text_mb": round(size / 1e6),
        "cold_first_step_seconds": round(cold.first_step, 1),
        "prepared_mb_per_second": round(size / 1e6 / (cold.first_step - warm.first_step), 2),
        "warm_first_step_seconds": round(warm.first_step, 1),
        "cold_memory_mb": {name: round(value) for name, value in vars(cold.memory).items()},
        "warm_memory_mb": {name: round(value) for name, value in vars(warm.memory).items()},
        "cache_mb": round(sum(f.stat().st_size for f in folder.rglob("*.ids")) / 1e6),
        "tokens_per_second": {"large": round(large_speed), "small": round(small_speed)},
        "speed_ratio": round(large_speed / small_speed, 3),
        "load_average": os.getloadavg()[0],
    }
    shutil.rmtree(folder)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("path", type=Path)
    making.add_argument("--gb", type=float, default=3.0)
    measuring = commands.add_parser("measure")
    measuring.add_argument("path", type=Path)
    measuring.add_argument("--folder", type=Path, default=Path("/tmp/corpora/measure"))
    help_text = "options of attnlab language train"
    measuring.add_argument("--training", default=f"--steps 100 {MODEL}", help=help_text)
    measuring.add_argument("--repeats", type=int, default=3)
    learning = commands.add_parser("knowledge")
    learning.add_argument("--people", type=int, nargs="+", required=True)
    learning.add_argument("--folder", type=Path, default=Path("/tmp/corpora/knowledge"))
    options = parser.parse_args()
    if options.command == "make":
        make(options.path, round(options.gb * 1e9))
    elif options.command == "knowledge":
        print(json.dumps(measure_knowledge(options.people, options.folder), indent=2))
    else:
        result = measure(options.path, options.folder, options.training, options.repeats)
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
