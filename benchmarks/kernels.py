"""Kernel attention against exact attention, against the machine, and against others' algorithms.

    python benchmarks/kernels.py [--threads 1 2] [--repeats 3] [--json FILE] [--only causal ...]
    attnlab bench show FILE --into docs/benchmarks.md --mark kernels

8 heads, head 64, 64 features, batch 1, float32. All that is compared takes turns in one run; CPU
time (of all threads) and the median of the turns count, so a busy machine changes the ratios
little. Short calls are made often enough in a turn to fill 60 ms. "Scan" is attention from the logs
of features on, with stabilizer, exponentials and normalizer; "favor" is the whole mechanism,
feature map too. The peak is that of a 1,024 x 1,024 matrix product, timed in the same turns. Memory
is what a fresh process needs beyond its libraries. A decoding step runs in one thread, whose own
CPU time counts: the others spin for milliseconds after whatever they shared in before.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import references
import torch
from kernels_report import Figure, Timing, kernels_section, print_figures
from torch import Tensor
from torch.nn import functional as F

from attnlab import Mask, Mechanism, create_mechanism
from attnlab._safe_files import write_text
from attnlab.bench._machine_info import describe_machine, library_versions
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.kernel import Features
from attnlab.report import Report, to_json

HEADS, HEAD_DIM, FEATURES = 8, 64, 64
SIZES = {"heads": HEADS, "head_dim": HEAD_DIM, "features": FEATURES, "clock": "CPU time"}
PEAK_SIZE = 1024
TURN = 0.06  # seconds; the clock of a process learns of its other threads at ticks of some ms only
Call = Callable[[], Any]


class Run:
    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.timings: list[Timing] = []

    def turns(
        self,
        part: str,
        length: int,
        calls: dict[str, Call],
        repeats: int,
        clock: Callable[[], float] = time.process_time,
    ) -> dict[str, float]:
        """CPU milliseconds of each call, medians of turns; the first turn is a warm-up and tells
        how often a call is made in the others."""
        cpu: dict[str, list[float]] = {name: [] for name in calls}
        wall: dict[str, list[float]] = {name: [] for name in calls}
        often = dict.fromkeys(calls, 1)
        gc.collect()
        gc.disable()
        for turn in range(repeats + 1):
            for name, call in calls.items():
                before = clock(), time.perf_counter()
                for _ in range(often[name]):
                    call()
                now = clock(), time.perf_counter()
                if turn:
                    cpu[name].append(1e3 * (now[0] - before[0]) / often[name])
                    wall[name].append(1e3 * (now[1] - before[1]) / often[name])
                else:
                    often[name] = max(1, round(TURN / (now[1] - before[1])))
        gc.enable()
        found = {name: statistics.median(times) for name, times in cpu.items()}
        for name, each in found.items():
            walls = statistics.median(wall[name])
            threads = torch.get_num_threads()
            self.timings.append(Timing(threads, part, name, length, each, walls))
            print(f"  {part:10} {length:6,}  {name:34} {each:10.3f} ms CPU {walls:10.3f} ms wall")
        return found

    def figure(self, what: str, value: float, target: float, at_least: bool = True) -> None:
        self.figures.append(Figure(torch.get_num_threads(), what, value, target, at_least))


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def backwards(call: Callable[..., Tensor], *inputs: Tensor) -> Call:
    """One forward and one backward, from inputs of its own."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    grad = normal(9, *inputs[-1].shape)

    def run() -> None:
        for x in leaves:
            x.grad = None
        call(*leaves).backward(grad)

    return run


def forwards(call: Callable[..., Tensor], *inputs: Tensor) -> Call:
    def run() -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    return run


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def scan(query_log: Tensor, key_log: Tensor, v: Tensor) -> Tensor:
    return compiled.causal(Features(None, query_log), Features(None, key_log), v)


def favor(features: int = FEATURES, fast: bool = True) -> Mechanism:
    mechanism = create_mechanism("favor", head_dim=HEAD_DIM, heads=HEADS, features=features)
    mechanism.use_compiled = fast
    return mechanism


def attends(mechanism: Mechanism, causal: bool = True) -> Callable[..., Tensor]:
    return lambda q, k, v: mechanism(q, k, v, Mask(causal))


def plain_scan(query_log: Tensor, key_log: Tensor, v: Tensor) -> Tensor:
    """The torch path: what runs where there is no compiler."""
    mechanism: Any = favor(fast=False)
    return mechanism._scan(Features(None, query_log), Features(None, key_log), v)


def peak() -> Call:
    a, b, out = (normal(n, PEAK_SIZE, PEAK_SIZE) for n in range(3))
    return lambda: torch.mm(a, b, out=out)


def scan_flops(length: int, features: int = FEATURES) -> float:
    """Two multiplications and two additions for each feature, value and token, denominator too."""
    return 4.0 * HEADS * length * features * (HEAD_DIM + 1)


def causal(run: Run, repeats: int) -> None:
    targets = {512: (1.0, 1.0), 2048: (15.0, 10.0), 8192: (60.0, 40.0)}
    for length, (least, least_both) in targets.items():
        q, k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
        logs = (0.7 * q, 0.7 * k)
        phis = (logs[0].exp(), logs[1].exp())
        turns = repeats * (4 if length < 8192 else 1)
        calls: dict[str, Call] = {
            "matrix product": peak(),
            "exact": forwards(exact, q, k, v),
            "scan": forwards(scan, *logs, v),
            "favor": forwards(attends(favor()), q, k, v),
            "scan in torch": forwards(plain_scan, *logs, v),
            "recurrence (fast-transformers)": forwards(references.recurrence, *phis, v),
            "chunks (flash-linear-attention)": forwards(references.chunks, *phis, v),
        }
        if length == 2048:
            calls["cumsum (performer-pytorch)"] = forwards(references.cumulated, *phis, v)
        found = run.turns("forward", length, calls, turns)
        run.figure(f"causal {length:,} forward: x exact", found["exact"] / found["scan"], least)
        run.figure("  with the feature map: x exact", found["exact"] / found["favor"], 1)
        if length == 8192:
            speed = scan_flops(length) / found["scan"]
            best = 2.0 * PEAK_SIZE**3 / found["matrix product"]
            run.figure("  share of the matmul peak", speed / best, 0.6)
        calls = {
            "exact": backwards(exact, q, k, v),
            "scan": backwards(scan, *logs, v),
            "favor": backwards(attends(favor()), q, k, v),
            "scan in torch": backwards(plain_scan, *logs, v),
            "recurrence (fast-transformers)": backwards(references.recurrence, *phis, v),
            "chunks (flash-linear-attention)": backwards(references.chunks, *phis, v),
        }
        found = run.turns("with back", length, calls, turns)
        ratio = found["exact"] / found["scan"]
        run.figure(f"causal {length:,} forward+backward: x exact", ratio, least_both)
        run.figure("  with the feature map: x exact", found["exact"] / found["favor"], 1)


def whole(run: Run, repeats: int) -> None:
    """Not causal: the sums over all keys, and queries that read them, against two products."""
    length = 8192
    query, key, v = (0.7 * normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
    states = normal(5, 1, HEADS, FEATURES, HEAD_DIM)

    def attention(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        return compiled.read(Features(None, query), *compiled.sums(Features(None, key), v))

    calls: dict[str, Call] = {
        "two matrix products": forwards(lambda q, k, v: (q @ states, k.mT @ v)[0], query, key, v),
        "sums and reading": forwards(attention, query, key, v),
        "favor": forwards(attends(favor(), False), query, key, v),
        "favor in torch": forwards(attends(favor(fast=False), False), query, key, v),
    }
    found = run.turns("whole", length, calls, 4 * repeats)
    ratio = found["two matrix products"] / found["sums and reading"]
    run.figure("not causal 8,192: share of two matrix products", ratio, 0.8)


def features(run: Run, repeats: int) -> None:
    length = 8192
    v = normal(3, 1, HEADS, length, HEAD_DIM)
    for part, timed in (("forward", forwards), ("with back", backwards)):
        calls = {
            str(count): timed(scan, *(normal(n, 1, HEADS, length, count) for n in range(2)), v)
            for count in (64, 256)
        }
        found = run.turns(f"feat. {part[:3]}", length, calls, repeats)
        ratio = found["256"] / found["64"]
        run.figure(f"256 features, {part}: x the time of 64", ratio, 4.5, at_least=False)


def sparse(run: Run, repeats: int) -> None:
    length = 8192
    q, k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
    for part, timed in (("forward", forwards), ("with back", backwards)):
        calls = {"exact": timed(exact, q, k, v)}
        for name in ("bigbird", "window"):
            mechanism = create_mechanism(name, head_dim=HEAD_DIM, heads=HEADS)
            calls[name] = timed(attends(mechanism), q, k, v)
        found = run.turns(part, length, calls, repeats)
        for name in ("bigbird", "window"):
            run.figure(f"{name} 8,192, {part}: x exact", found["exact"] / found[name], 6)


def decode(run: Run, repeats: int) -> None:
    """One token: 200 steps a turn, with features at hand, after texts of three lengths."""
    steps, mechanism = 200, favor()
    token = [normal(n, 1, HEADS, 1, HEAD_DIM) for n in range(3)]
    calls: dict[str, Call] = {}
    for length in (128, 2048, 8192):
        k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(2))
        state = mechanism.absorb(k, v)
        calls[f"kernel after {length:,}"] = partial(kernel_steps, token, state, steps)
        calls[f"whole step after {length:,}"] = partial(whole_steps, mechanism, token, state, steps)
    found = run.turns("decode", steps, calls, 2 * repeats, time.thread_time)
    kernel = [found[f"kernel after {length:,}"] / steps * 1e3 for length in (128, 2048, 8192)]
    run.figure("decoding step: microseconds of the kernel", kernel[-1], 60, at_least=False)
    run.figure("  after 8,192 tokens: x after 128", kernel[-1] / kernel[0], 1.2, at_least=False)
    step = found["whole step after 8,192"] / steps * 1e3
    run.figure("  features and checks too: microseconds", step, 1000, at_least=False)


def kernel_steps(token: Sequence[Tensor], state: Any, steps: int) -> None:
    query, key = (Features(None, x) for x in token[:2])
    with torch.no_grad():
        for _ in range(steps):
            compiled.absorb_in_place(key, token[2], state.sums, state.peak)
            compiled.read(query, state.sums, state.peak)


def whole_steps(mechanism: Mechanism, token: Sequence[Tensor], state: Any, steps: int) -> None:
    q, k, v = token
    with torch.no_grad():
        state = state.overwritable()
        for _ in range(steps):
            state = mechanism.absorb(k, v, None, state)
            mechanism.read(q, state, 0)


def memory(run: Run, repeats: int) -> None:
    """Forward and backward of 8,192 tokens, inputs included, each in a process of its own."""
    del repeats
    found = {}
    for name in ("exact", "scan", "favor"):
        command = [sys.executable, __file__, "--child", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[name] = float(done.stdout)
        print(f"  memory      8,192  {name:34} {found[name]:10.0f} MB")
    run.figure("memory: x exact", found["scan"] / found["exact"], 1.2, at_least=False)
    run.figure("  with the feature map", found["favor"] / found["exact"], 2.0, at_least=False)


def child(name: str) -> None:
    call = {"exact": exact, "scan": scan, "favor": attends(favor())}[name]
    small = [normal(n, 1, HEADS, 64, HEAD_DIM) for n in range(3)]
    backwards(call, *small)()  # libraries and buffers that any use brings with it
    before = highest()
    inputs = [torch.randn(1, HEADS, 8192, HEAD_DIM).requires_grad_() for _ in range(3)]
    call(*inputs).backward(torch.ones(1, HEADS, 8192, HEAD_DIM))
    print(highest() - before)


def highest() -> float:
    """The most memory that this process has held, MB. (`ru_maxrss` inherits its parent's.)"""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


PARTS: dict[str, Callable[[Run, int], None]] = {
    "causal": causal,
    "whole": whole,
    "features": features,
    "sparse": sparse,
    "decode": decode,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Kernel attention at the speed of the machine.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.json and not given.json.parent.is_dir():
        parser.error(f"{given.json}: there is no folder {given.json.parent}; make it first")
    if given.child:
        torch.set_num_threads(1)
        child(given.child)
        return
    print(f"kernels: {compiled.status().reason}")
    begin = time.perf_counter()
    run = Run()
    for threads in given.threads:
        torch.set_num_threads(threads)
        print(f"{threads} thread(s)")
        for name in given.only:
            PARTS[name](run, given.repeats)
    print_figures(run.figures)
    if given.json:
        seconds, settings = time.perf_counter() - begin, {"threads": given.threads, **SIZES}
        section = kernels_section(run.figures, run.timings, settings)
        where = describe_machine(max(given.threads))
        report = Report("bench", section.title, [section], where, library_versions(), seconds)
        write_text(given.json, to_json(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
