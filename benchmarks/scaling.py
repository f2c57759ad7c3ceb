"""How cost grows with length: one forward and one forward with backward, exponents fitted.

    python benchmarks/scaling.py [--threads 1] [--most 16384] [--names softmax favor ...]

Each length is timed several times, all mechanisms in turn, and the best time counts: the machine is
shared, and noise only ever adds. The exponent is the slope of log time over log length from 1,024
tokens on, beside the slope of the two longest alone.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism, create_mechanism

HEADS, HEAD_DIM = 2, 32
# polynomial has head_dim^2 features, and 32^2 would need gigabytes: a smaller head for it alone
SMALL_HEAD = {"polynomial": 16}
DENSE = ("hard", "synthesizer_random")  # an N x N matrix per head: gigabytes beyond 4,096


def make(name: str, length: int) -> tuple[Mechanism, list[Tensor], Mask]:
    kind = MECHANISMS[name]
    D = SMALL_HEAD.get(name, HEAD_DIM)
    options: dict[str, Any] = {"features": 64} if name in ("favor", "fourier") else {}
    mechanism = create_mechanism(
        name,
        head_dim=D,
        heads=HEADS,
        max_length=length if kind.card.needs_length else None,
        **options,
    )
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(1, HEADS, length, D, generator=generator) for _ in "qkv"]
    return mechanism, [x.requires_grad_() for x in tensors], Mask(causal=kind.card.causal)


def seconds(name: str, length: int, backward: bool) -> float:
    mechanism, (q, k, v), mask = make(name, length)
    begin = time.perf_counter()
    with torch.set_grad_enabled(backward):
        out = mechanism(q, k, v, mask)
        if backward:
            out.sum().backward()
    return time.perf_counter() - begin


def slope(points: list[tuple[int, float]]) -> float:
    """Of log time over log length, least squares."""
    x = [math.log(length) for length, _ in points]
    y = [math.log(time) for _, time in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - mean_x) ** 2 for a in x)


def measure(
    names: list[str], lengths: list[int], repeats: int
) -> dict[tuple[str, bool, int], float]:
    best: dict[tuple[str, bool, int], float] = {}
    for _ in range(repeats):
        for length in lengths:
            for name in names:
                if name in DENSE and length > 4096:
                    continue
                for backward in (False, True):
                    key = (name, backward, length)
                    best[key] = min(best.get(key, math.inf), seconds(name, length, backward))
    return best


def report(best: dict[tuple[str, bool, int], float], names: list[str], lengths: list[int]) -> None:
    shown = "".join(f"{length:>10,}" for length in lengths)
    print(f"{'milliseconds at':32}{shown}{'exponent':>10}{'at the end':>12}")
    for backward in (False, True):
        for name in names:
            points = [(n, best[name, backward, n]) for n in lengths if (name, backward, n) in best]
            times = "".join(f"{1e3 * t:10.1f}" for _, t in points)
            gap = " " * 10 * (len(lengths) - len(points))
            label = f"{name}, {'forward+backward' if backward else 'forward'}"
            ends = slope(points[-2:])
            print(f"{label:39}"[:32] + f"{times}{gap}{slope(points):10.2f}{ends:12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="How cost grows with length.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most", type=int, default=16384, help="longest length")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--names", nargs="+", default=list(MECHANISMS), choices=list(MECHANISMS))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    lengths = [length for length in (1024, 2048, 4096, 8192, 16384) if length <= given.most]
    print(f"{HEADS} heads of {HEAD_DIM} (polynomial: 16), batch 1, float32, causal where possible,")
    print(
        f"favor and fourier with 64 features, {given.threads} thread(s), best of {given.repeats}\n"
    )
    best = measure(given.names, lengths, given.repeats)
    report(best, given.names, lengths)


if __name__ == "__main__":
    main()
