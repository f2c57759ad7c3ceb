"""BigBird: a window, some global blocks, some random ones; its graph and its memory.

Letters: n tokens, L block size, W key blocks that a query block looks at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.bench import _measure_costs as costs
from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, log_log_slope
from attnlab.claims.judges import Above, Below, OnlyWhen
from attnlab.mask import Mask
from attnlab.mechanisms._compiled import status
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

ZAHEER = "Zaheer et al. 2020, Big Bird: transformers for longer sequences, arXiv 2007.14062"

Points = list[tuple[float, float]]


def reached(edges: Tensor, hops: int) -> Tensor:
    """(n, n): who can be reached in at most so many steps along the edges."""
    step = (edges | torch.eye(len(edges), dtype=torch.bool)).float()
    found = step
    for _ in range(hops - 1):
        found = ((found @ step) > 0).float()
    return found > 0


@claim(
    "bigbird-linear",
    topic="efficient",
    source="paper",
    statement="window + global + random: edges grow linearly; without a causal mask any token "
    "reaches any other in two hops through a global token",
    why="""Each of n/L query blocks looks at W blocks, one for each kind together, so the edges are
    n W L, and the g global blocks that look at everything add g L n: all linear in n. A global
    token is seen by all and sees all, so i -> global -> j is a path of two hops for every pair.
    Both at once is the point: few edges and still a short way. With a causal mask global tokens,
    which stand first, see nobody later: news of the middle reaches later tokens only through
    windows and random blocks, and two hops are not enough.""",
    judge=Below(
        0.05, "larger of |exponent of the edges in n - 1| and the share of pairs beyond two hops"
    ),
    control="no global blocks",
    reference=ZAHEER,
)
def bigbird_linear(trial: Trial) -> Evidence:
    lengths = [512 * 2**i for i in range(trial.pick(4, 5))]
    bird = _bird(trial, 0 if trial.control else 1)
    ways = {"bigbird": bird, "bigbird without global blocks": _bird(trial, 0)}
    lines: dict[str, Points] = {
        name: [(float(n), float(each.edges(n, False).sum())) for n in lengths]
        for name, each in ways.items()
    }
    lines["all pairs"] = [(float(n), float(n * n)) for n in lengths]
    slope = log_log_slope(lines["bigbird"])
    beyond = _beyond(bird, 1024, causal=False)
    return Evidence(
        Estimate(max(abs(slope.value - 1), beyond)),
        Lines("tokens", "edges", [Series(*each) for each in lines.items()], True, True),
        details={
            "exponent of the edges in n": slope.value,
            "share of 1,024^2 pairs beyond two hops": beyond,
            "causal: share of earlier tokens beyond two hops": _beyond(bird, 1024, causal=True),
        },
    )


def _bird(trial: Trial, global_blocks: int, random_blocks: int = 3, block: int = 16) -> BigBird:
    return BigBird(
        head_dim=8,
        heads=1,
        block=block,
        global_blocks=global_blocks,
        random_blocks=random_blocks,
        seed=trial.seed,
    )


def _beyond(bird: BigBird, n: int, causal: bool) -> float:
    """The share of pairs, of those that may be, that two hops do not join."""
    edges = bird.edges(n, causal)
    may = torch.ones_like(edges)
    if causal:
        edges, may = edges.tril(), may.tril()
    return float((may & ~reached(edges, 2)).sum() / may.sum())


@claim(
    "bigbird-shared-random",
    topic="efficient",
    source="course",
    statement="all tokens attend to one random set",
    quoted=True,
    why="""In the paper each query block draws its own random key blocks. The difference is not a
    detail: with own draws the graph is a random graph of degree r, in which h hops reach about
    r^h blocks, so ln n / ln r hops reach all. With one set for everybody all roads lead to the
    same r blocks, and from there to the same ones again: after the first hop only windows carry
    on, one block further on either side with every hop. One set that all look at is half of what
    global tokens are; these look back at all.""",
    judge=Above(0.5, "share of pairs of query blocks with the same random blocks"),
    control="one set drawn for all",
    reference=ZAHEER,
)
def bigbird_shared_random(trial: Trial) -> Evidence:
    blocks, r = trial.pick(256, 1024), 3
    own = _bird(trial, 0, r, block=1).pattern.table(blocks, False)  # (Q, W): window, then random
    shared = own.clone()
    shared[:, -r:] = torch.randperm(blocks, generator=trial.random())[:r]
    alike = {name: _alike(table[:, -r:]) for name, table in (("own", own), ("shared", shared))}
    hops = [1, 2, 3, 4, 6, 8, 12]
    mixed = {
        "its own random blocks": _mixing(own, hops),
        "one set for all": _mixing(shared, hops),
        "window alone": _mixing(own[:, :-r], hops),
    }
    return Evidence(
        Estimate(alike["shared" if trial.control else "own"]),
        Lines("hops", f"share of {blocks} blocks reached", [Series(*x) for x in mixed.items()]),
        details={
            f"share reached in 6 hops, {name}": dict(points)[6.0] for name, points in mixed.items()
        },
    )


def _alike(sets: Tensor) -> float:
    """The share of pairs of rows that name the same blocks."""
    counts = sets.sort(-1).values.unique(dim=0, return_counts=True)[1].double()
    return float((counts * (counts - 1)).sum() / (len(sets) * (len(sets) - 1)))


def _mixing(table: Tensor, hops: Sequence[int]) -> Points:
    """What share of all blocks a block reaches, on the mean."""
    blocks = len(table)
    edges = torch.zeros(blocks, blocks + 1, dtype=torch.bool)  # the last column takes -1
    edges.scatter_(1, table % (blocks + 1), True)
    return [(float(h), float(reached(edges[:, :-1], h).double().mean())) for h in hops]


@claim(
    "bigbird-longer",
    topic="efficient",
    source="paper",
    statement="block-sparse attention takes sequences several times longer in the same memory",
    why="""Attention by its matrix holds two n x n arrays (scores, weights); block-sparse attention
    written with tensors holds copies of W L keys and values for each block, about n W (2 d + L)
    numbers, and a kernel that reads the blocks where they lie about n d. So the factor is no
    constant: it grows with the length that the matrix can take, and is small for short sequences;
    where it passes 3 depends on how it is written. The paper's 8 was measured against such a
    matrix. Exact attention computed tile by tile (FlashAttention) holds no matrix and no
    copies: against it nothing is gained in memory (the control); time is another matter.""",
    judge=OnlyWhen(
        Above(3.0, "tokens of bigbird over tokens of exact attention, in the same memory"),
        "the number of tokens that fit with the matrix",
    ),
    control="exact attention without the matrix (fused)",
    reference=f"{ZAHEER}; Dao et al. 2022, FlashAttention, arXiv 2205.14135",
    alone=True,
)
def bigbird_longer(trial: Trial) -> Evidence:
    lengths = [128 * 2**i for i in range(trial.pick(6, 7))]
    more = trial.pick(5, 7)
    long = [lengths[-1] * 2**i for i in range(1, more)]  # never with the matrix
    memory: dict[str, Points] = {
        "matrix": _memory(trial, "matrix", lengths),
        "bigbird": _memory(trial, "bigbird", lengths + long),
        "fused": _memory(trial, "fused", lengths),
    }
    sweep = []
    for n, size in memory["matrix"]:
        exact = _fits(memory["fused"], size) if trial.control else n
        sweep.append((n, Estimate(_fits(memory["bigbird"], size) / exact)))
    lines = [Series(name, [(n, size / 1e6) for n, size in row]) for name, row in memory.items()]
    details: dict[str, float | int | str] = {
        f"factor at n = {n:.0f}": round(figure.value, 2) for n, figure in sweep
    }
    details |= {
        f"exponent of memory, {name}": log_log_slope(row).value for name, row in memory.items()
    }
    details["bigbird is computed"] = "by a kernel in C" if status().active else "with copies"
    return Evidence(
        sweep[-1][1],
        Lines("tokens", "megabytes, one head", lines, x_log=True, y_log=True),
        sweep,
        details,
    )


def _memory(trial: Trial, way: str, lengths: Sequence[int]) -> Points:
    return [(float(n), float(costs.peak_bytes_no_grad(_call(trial, way, n)))) for n in lengths]


def _call(trial: Trial, way: str, n: int) -> costs.Call:
    d = 64
    q, k, v = torch.randn(3, 1, 1, n, d, generator=trial.random(n))
    softmax, bird = Softmax(head_dim=d, heads=1), BigBird(head_dim=d, heads=1)
    if way == "matrix":
        return lambda: softmax.weights(q, k, Mask()) @ v
    return lambda: (bird if way == "bigbird" else softmax)(q, k, v, Mask())


def _fits(memory: Points, size: float) -> float:
    """The number of tokens that take so much memory: along the line between, or through, points
    that were measured, on logarithmic axes."""
    logs = [(math.log(n), math.log(each)) for n, each in memory]
    place = sum(each < math.log(size) for _, each in logs)
    place = min(max(place, 1), len(logs) - 1)
    (n_a, a), (n_b, b) = logs[place - 1], logs[place]
    return math.exp(n_a + (math.log(size) - a) * (n_b - n_a) / (b - a))
