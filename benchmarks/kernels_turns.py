"""How benchmarks/kernels.py measures: calls take turns, and medians of CPU time count."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from kernels_report import Figure, Timing
from torch import Tensor
from torch.nn import functional as F

from attnlab import Mask, Mechanism

HEADS, HEAD_DIM = 8, 64
TURN = 0.06  # seconds; the CPU clock of a process counts other threads only every few ms
Call = Callable[[], Any]


class KernelBenchmark:
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
        """Median CPU milliseconds of each call over several turns. The first turn is a warm-up, and
        determines how often the others repeat a call."""
        cpu: dict[str, list[float]] = {name: [] for name in calls}
        wall: dict[str, list[float]] = {name: [] for name in calls}
        counts = dict.fromkeys(calls, 1)
        gc.collect()
        gc.disable()
        for turn in range(repeats + 1):
            for name, call in calls.items():
                before = clock(), time.perf_counter()
                for _ in range(counts[name]):
                    call()
                now = clock(), time.perf_counter()
                if turn:
                    cpu[name].append(1e3 * (now[0] - before[0]) / counts[name])
                    wall[name].append(1e3 * (now[1] - before[1]) / counts[name])
                else:
                    counts[name] = max(1, round(TURN / (now[1] - before[1])))
        gc.enable()
        medians = {name: statistics.median(times) for name, times in cpu.items()}
        for name, milliseconds in medians.items():
            walls = statistics.median(wall[name])
            threads = torch.get_num_threads()
            self.timings.append(Timing(threads, part, name, length, milliseconds, walls))
            label = f"  {part:10} {length:6,}  {name:34}"
            print(f"{label} {milliseconds:10.3f} ms CPU {walls:10.3f} ms wall")
        return medians

    def figure(self, what: str, value: float, target: float, at_least: bool = True) -> None:
        self.figures.append(Figure(torch.get_num_threads(), what, value, target, at_least))


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def create_backward(call: Callable[..., Tensor], *inputs: Tensor) -> Call:
    """One forward and one backward pass, on copies of the inputs."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    grad = normal(9, *inputs[-1].shape)

    def run() -> None:
        for x in leaves:
            x.grad = None
        call(*leaves).backward(grad)

    return run


def create_forward(call: Callable[..., Tensor], *inputs: Tensor) -> Call:
    def run() -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    return run


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def create_attend(mechanism: Mechanism, causal: bool = True) -> Callable[..., Tensor]:
    return lambda q, k, v: mechanism(q, k, v, Mask(causal))
