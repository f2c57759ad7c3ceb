"""Kernel and recurrent attention compared with exact attention and with other algorithms.

    python benchmarks/kernels.py [--threads 1 2] [--repeats 3] [--json FILE] [--only causal ...]
    attnlab bench show FILE --into docs/reference/measurements.md --mark kernels

8 heads of size 64, 64 features, batch 1, float32. Everything takes turns in one run, and the median
CPU time of all threads counts, so a busy machine changes the ratios little. Short calls repeat to
fill 60 ms. "Scan" is attention that starts from the logs of features, with stabilizer, exponentials
and normalizer; "favor" is the whole mechanism with its feature map. The peak is that of a 1,024 x
1,024 matrix product, timed in the same turns. Memory is what a new process needs beyond its
libraries. A decoding step runs in one thread, and only its CPU time counts, because the other
threads spin for milliseconds after earlier work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import references
import torch
from kernels_recurrent import packing, recurrent, recurrent_decode
from kernels_report import kernels_section, print_figures
from kernels_turns import (
    HEAD_DIM,
    HEADS,
    Call,
    KernelBenchmark,
    create_attend,
    create_backward,
    create_forward,
    exact,
    normal,
)
from torch import Tensor

from attnlab import Mechanism, create_mechanism
from attnlab._safe_files import write_text
from attnlab.bench._machine_info import describe_machine, library_versions
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.kernel import Features
from attnlab.report import Report, to_json

FEATURES = 64
SIZES = {"heads": HEADS, "head_dim": HEAD_DIM, "features": FEATURES, "clock": "CPU time"}
PEAK_SIZE = 1024


def scan(query_log: Tensor, key_log: Tensor, v: Tensor) -> Tensor:
    return compiled.causal(Features(None, query_log), Features(None, key_log), v)


def favor(features: int = FEATURES, fast: bool = True) -> Mechanism:
    mechanism = create_mechanism("favor", head_dim=HEAD_DIM, heads=HEADS, features=features)
    mechanism.use_compiled = fast
    return mechanism


def plain_scan(query_log: Tensor, key_log: Tensor, v: Tensor) -> Tensor:
    """The PyTorch version, which runs without a C compiler."""
    mechanism: Any = favor(fast=False)
    return mechanism._scan(Features(None, query_log), Features(None, key_log), v)


def peak() -> Call:
    a, b, out = (normal(n, PEAK_SIZE, PEAK_SIZE) for n in range(3))
    return lambda: torch.mm(a, b, out=out)


def scan_flops(length: int, features: int = FEATURES) -> float:
    """Two multiplications and two additions for each feature, value and token, with denominator."""
    return 4.0 * HEADS * length * features * (HEAD_DIM + 1)


def causal(run: KernelBenchmark, repeats: int) -> None:
    targets = {512: (1.0, 1.0), 2048: (15.0, 10.0), 8192: (60.0, 40.0)}
    for length, (least, least_both) in targets.items():
        q, k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
        logs = (0.7 * q, 0.7 * k)
        phis = (logs[0].exp(), logs[1].exp())
        turns = repeats * (4 if length < 8192 else 1)
        calls: dict[str, Call] = {
            "matrix product": peak(),
            "exact": create_forward(exact, q, k, v),
            "scan": create_forward(scan, *logs, v),
            "favor": create_forward(create_attend(favor()), q, k, v),
            "scan in torch": create_forward(plain_scan, *logs, v),
            "recurrence (fast-transformers)": create_forward(references.recurrence, *phis, v),
            "chunks (flash-linear-attention)": create_forward(references.chunks, *phis, v),
        }
        if length == 2048:
            calls["cumsum (performer-pytorch)"] = create_forward(references.cumulated, *phis, v)
        medians = run.turns("forward", length, calls, turns)
        run.figure(f"causal {length:,} forward: x exact", medians["exact"] / medians["scan"], least)
        least = 30.0 if length == 8192 else 1.0
        run.figure("  with the feature map: x exact", medians["exact"] / medians["favor"], least)
        if length == 8192:
            speed = scan_flops(length) / medians["scan"]
            best = 2.0 * PEAK_SIZE**3 / medians["matrix product"]
            run.figure("  share of the matmul peak", speed / best, 0.6)
        calls = {
            "exact": create_backward(exact, q, k, v),
            "scan": create_backward(scan, *logs, v),
            "favor": create_backward(create_attend(favor()), q, k, v),
            "scan in torch": create_backward(plain_scan, *logs, v),
            "recurrence (fast-transformers)": create_backward(references.recurrence, *phis, v),
            "chunks (flash-linear-attention)": create_backward(references.chunks, *phis, v),
        }
        medians = run.turns("with back", length, calls, turns)
        ratio = medians["exact"] / medians["scan"]
        run.figure(f"causal {length:,} forward+backward: x exact", ratio, least_both)
        run.figure("  with the feature map: x exact", medians["exact"] / medians["favor"], 1)


def not_causal(run: KernelBenchmark, repeats: int) -> None:
    """Not causal: sums over all keys that queries read, compared with two matrix products."""
    length = 8192
    query, key, v = (0.7 * normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
    states = normal(5, 1, HEADS, FEATURES, HEAD_DIM)

    def attention(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        return compiled.read(Features(None, query), *compiled.sums(Features(None, key), v))

    calls: dict[str, Call] = {
        "two matrix products": create_forward(
            lambda q, k, v: (q @ states, k.mT @ v)[0], query, key, v
        ),
        "sums and reading": create_forward(attention, query, key, v),
        "favor": create_forward(create_attend(favor(), False), query, key, v),
        "favor in torch": create_forward(create_attend(favor(fast=False), False), query, key, v),
    }
    medians = run.turns("whole", length, calls, 4 * repeats)
    ratio = medians["two matrix products"] / medians["sums and reading"]
    run.figure("not causal 8,192: share of two matrix products", ratio, 0.8)


def features(run: KernelBenchmark, repeats: int) -> None:
    length = 8192
    v = normal(3, 1, HEADS, length, HEAD_DIM)
    for part, timed in (("forward", create_forward), ("with back", create_backward)):
        calls = {
            str(count): timed(scan, *(normal(n, 1, HEADS, length, count) for n in range(2)), v)
            for count in (64, 256)
        }
        medians = run.turns(f"feat. {part[:3]}", length, calls, repeats)
        ratio = medians["256"] / medians["64"]
        run.figure(f"256 features, {part}: x the time of 64", ratio, 4.5, at_least=False)


def sparse(run: KernelBenchmark, repeats: int) -> None:
    length = 8192
    q, k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
    for part, timed in (("forward", create_forward), ("with back", create_backward)):
        calls = {"exact": timed(exact, q, k, v)}
        for name in ("bigbird", "window"):
            mechanism = create_mechanism(name, head_dim=HEAD_DIM, heads=HEADS)
            calls[name] = timed(create_attend(mechanism), q, k, v)
        medians = run.turns(part, length, calls, repeats)
        for name in ("bigbird", "window"):
            run.figure(f"{name} 8,192, {part}: x exact", medians["exact"] / medians[name], 6)


def decode(run: KernelBenchmark, repeats: int) -> None:
    """One token: 200 steps per turn, after texts of three lengths; the kernel gets features."""
    steps, mechanism = 200, favor()
    token = [normal(n, 1, HEADS, 1, HEAD_DIM) for n in range(3)]
    calls: dict[str, Call] = {}
    for length in (128, 2048, 8192):
        k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(2))
        state = mechanism.absorb(k, v)
        calls[f"kernel after {length:,}"] = partial(kernel_steps, token, state, steps)
        calls[f"whole step after {length:,}"] = partial(whole_steps, mechanism, token, state, steps)
    medians = run.turns("decode", steps, calls, 2 * repeats, time.thread_time)
    kernel = [medians[f"kernel after {length:,}"] / steps * 1e3 for length in (128, 2048, 8192)]
    run.figure("decoding step: microseconds of the kernel", kernel[-1], 60, at_least=False)
    run.figure("  after 8,192 tokens: x after 128", kernel[-1] / kernel[0], 1.2, at_least=False)
    step = medians["whole step after 8,192"] / steps * 1e3
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


def memory(run: KernelBenchmark, repeats: int) -> None:
    """Forward and backward of 8,192 tokens with inputs, each in a separate process."""
    del repeats
    megabytes = {}
    for name in ("exact", "scan", "favor"):
        command = [sys.executable, __file__, "--child", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes[name] = float(done.stdout)
        print(f"  memory      8,192  {name:34} {megabytes[name]:10.0f} MB")
    run.figure("memory: x exact", megabytes["scan"] / megabytes["exact"], 1.2, at_least=False)
    ratio = megabytes["favor"] / megabytes["exact"]
    run.figure("  with the feature map", ratio, 2.0, at_least=False)


def measure_memory_in_child(name: str) -> None:
    call = {"exact": exact, "scan": scan, "favor": create_attend(favor())}[name]
    small = [normal(n, 1, HEADS, 64, HEAD_DIM) for n in range(3)]
    create_backward(call, *small)()  # loads libraries and buffers
    before = peak_megabytes()
    inputs = [torch.randn(1, HEADS, 8192, HEAD_DIM).requires_grad_() for _ in range(3)]
    call(*inputs).backward(torch.ones(1, HEADS, 8192, HEAD_DIM))
    print(peak_megabytes() - before)


def peak_megabytes() -> float:
    """Peak memory of this process in MB. (`ru_maxrss` would inherit its parent's.)"""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


PARTS: dict[str, Callable[[KernelBenchmark, int], None]] = {
    "causal": causal,
    "whole": not_causal,
    "features": features,
    "sparse": sparse,
    "decode": decode,
    "recurrent": recurrent,
    "recurrent-decode": recurrent_decode,
    "packing": packing,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the speed of the compiled mechanisms.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.json and not arguments.json.parent.is_dir():
        parser.error(f"{arguments.json}: there is no folder {arguments.json.parent}; make it first")
    if arguments.child:
        torch.set_num_threads(1)
        measure_memory_in_child(arguments.child)
        return
    print(f"kernels: {compiled.status().reason}")
    start = time.perf_counter()
    run = KernelBenchmark()
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print(f"{threads} thread(s)")
        for name in arguments.only:
            PARTS[name](run, arguments.repeats)
    print_figures(run.figures)
    if arguments.json:
        seconds, settings = time.perf_counter() - start, {"threads": arguments.threads, **SIZES}
        section = kernels_section(run.figures, run.timings, settings)
        machine = describe_machine(max(arguments.threads))
        report = Report("bench", section.title, [section], machine, library_versions(), seconds)
        write_text(arguments.json, to_json(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
