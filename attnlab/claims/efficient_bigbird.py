"""BigBird (a window, global blocks and random blocks): its attention graph and its memory.

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


def reachable(edges: Tensor, hops: int) -> Tensor:
    """(n, n): which nodes can be reached in at most `hops` steps along the edges."""
    step = (edges | torch.eye(len(edges), dtype=torch.bool)).float()
    result = step
    for _ in range(hops - 1):
        result = ((result @ step) > 0).float()
    return result > 0


@claim(
    "bigbird-linear",
    topic="efficient",
    source="paper",
    statement="window + global + random: edges grow linearly; without a causal mask any token "
    "reaches any other in two hops through a global token",
    why="""Each of n/L query blocks attends to W key blocks (window, global and random together), so
    there are n W L edges. The g global blocks, which attend to everything, add g L n. All of this
    is linear in n. A global token attends to all tokens and all attend to it, so i -> global -> j
    is a path of two hops for every pair: few edges, and still short paths. With a causal mask,
    global tokens stand first and cannot attend to later tokens. Information from the middle then
    reaches later tokens only through windows and random blocks, and two hops are not enough.""",
    judge=Below(
        0.05, "larger of |exponent of the edges in n - 1| and the fraction of pairs beyond two hops"
    ),
    control="no global blocks",
    reference=ZAHEER,
)
def bigbird_linear(trial: Trial) -> Evidence:
    lengths = [512 * 2**i for i in range(trial.pick(4, 5))]
    bigbird = _make_bigbird(trial, 0 if trial.control else 1)
    mechanisms = {"bigbird": bigbird, "bigbird without global blocks": _make_bigbird(trial, 0)}
    lines: dict[str, Points] = {
        name: [(float(n), float(mechanism.edges(n, False).sum())) for n in lengths]
        for name, mechanism in mechanisms.items()
    }
    lines["all pairs"] = [(float(n), float(n * n)) for n in lengths]
    slope = log_log_slope(lines["bigbird"])
    beyond = _fraction_beyond_two_hops(bigbird, 1024, causal=False)
    return Evidence(
        Estimate(max(abs(slope.value - 1), beyond)),
        Lines("tokens", "edges", [Series(*line) for line in lines.items()], True, True),
        details={
            "exponent of the edges in n": slope.value,
            "fraction of 1,024^2 pairs beyond two hops": beyond,
            "causal: fraction of earlier tokens beyond two hops": _fraction_beyond_two_hops(
                bigbird, 1024, causal=True
            ),
        },
    )


def _make_bigbird(
    trial: Trial, global_blocks: int, random_blocks: int = 3, block: int = 16
) -> BigBird:
    return BigBird(
        head_dim=8,
        heads=1,
        block=block,
        global_blocks=global_blocks,
        random_blocks=random_blocks,
        seed=trial.seed,
    )


def _fraction_beyond_two_hops(bigbird: BigBird, n: int, causal: bool) -> float:
    """The fraction of allowed pairs that two hops do not connect."""
    edges = bigbird.edges(n, causal)
    allowed = torch.ones_like(edges)
    if causal:
        edges, allowed = edges.tril(), allowed.tril()
    return float((allowed & ~reachable(edges, 2)).sum() / allowed.sum())


@claim(
    "bigbird-shared-random",
    topic="efficient",
    source="course",
    statement="all tokens attend to one random set",
    quoted=True,
    why="""In the paper each query block draws its own random key blocks, and this matters. With its
    own blocks the graph is a random graph of degree r, in which h hops reach about r^h blocks, so
    ln n / ln r hops reach all. With one set for all, every random edge leads to the same r blocks,
    and from there to the same ones again. After the first hop only windows reach further, by one
    block on either side per hop. One shared set is half of what global tokens are: all tokens
    attend to them, but global tokens also attend to all tokens.""",
    judge=Above(0.5, "fraction of pairs of query blocks with the same random blocks"),
    control="one set drawn for all",
    reference=ZAHEER,
)
def bigbird_shared_random(trial: Trial) -> Evidence:
    blocks, r = trial.pick(256, 1024), 3
    own = _make_bigbird(trial, 0, r, block=1).pattern.table(
        blocks, False
    )  # (Q, W): window, then random
    shared = own.clone()
    shared[:, -r:] = torch.randperm(blocks, generator=trial.generator())[:r]
    judged = shared if trial.control else own
    hops = [1, 2, 3, 4, 6, 8, 12]
    curves = {
        "its own random blocks": _fractions_reached(own, hops),
        "one set for all": _fractions_reached(shared, hops),
        "window alone": _fractions_reached(own[:, :-r], hops),
    }
    return Evidence(
        Estimate(_fraction_of_equal_rows(judged[:, -r:])),
        Lines("hops", f"fraction of {blocks} blocks reached", [Series(*x) for x in curves.items()]),
        details={
            f"fraction reached in 6 hops, {name}": dict(points)[6.0]
            for name, points in curves.items()
        },
    )


def _fraction_of_equal_rows(sets: Tensor) -> float:
    """The fraction of pairs of rows that contain the same blocks."""
    counts = sets.sort(-1).values.unique(dim=0, return_counts=True)[1].double()
    return float((counts * (counts - 1)).sum() / (len(sets) * (len(sets) - 1)))


def _fractions_reached(table: Tensor, hops: Sequence[int]) -> Points:
    """The mean fraction of all blocks that a block reaches, for each number of hops."""
    blocks = len(table)
    edges = torch.zeros(blocks, blocks + 1, dtype=torch.bool)  # the last column takes -1
    edges.scatter_(1, table % (blocks + 1), True)
    return [(float(h), float(reachable(edges[:, :-1], h).double().mean())) for h in hops]


@claim(
    "bigbird-longer",
    topic="efficient",
    source="paper",
    statement="block-sparse attention takes sequences several times longer in the same memory",
    why="""Exact attention with a stored matrix needs two n x n arrays (scores, weights).
    Block-sparse attention written with tensors copies W L keys and values for each block, about
    n W (2 d + L) numbers; a compiled kernel that reads the blocks in place needs about n d. So the
    factor is not constant: it is small for short sequences and grows with the length that fits with
    the matrix. Where it passes 3 depends on the implementation. The paper's factor of 8 was
    measured against such a matrix. Exact attention computed tile by tile (FlashAttention) stores
    neither matrix nor copies, and compared with it nothing is gained in memory (the control). Time
    is a different question.""",
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
    longest = trial.pick(5, 7)
    longer = [lengths[-1] * 2**i for i in range(1, longest)]  # never with the matrix
    memory: dict[str, Points] = {
        "matrix": _memory_by_length(trial, "matrix", lengths),
        "bigbird": _memory_by_length(trial, "bigbird", lengths + longer),
        "fused": _memory_by_length(trial, "fused", lengths),
    }
    sweep = []
    for n, size in memory["matrix"]:
        exact_tokens = _tokens_in_memory(memory["fused"], size) if trial.control else n
        sweep.append((n, Estimate(_tokens_in_memory(memory["bigbird"], size) / exact_tokens)))
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


def _memory_by_length(trial: Trial, method: str, lengths: Sequence[int]) -> Points:
    return [
        (float(n), float(costs.peak_bytes_no_grad(_make_call(trial, method, n)))) for n in lengths
    ]


def _make_call(trial: Trial, method: str, n: int) -> costs.Call:
    d = 64
    q, k, v = torch.randn(3, 1, 1, n, d, generator=trial.generator(n))
    softmax, bigbird = Softmax(head_dim=d, heads=1), BigBird(head_dim=d, heads=1)
    if method == "matrix":
        return lambda: softmax.weights(q, k, Mask()) @ v
    return lambda: (bigbird if method == "bigbird" else softmax)(q, k, v, Mask())


def _tokens_in_memory(memory: Points, memory_size: float) -> float:
    """The number of tokens that need this much memory, by interpolation (or extrapolation) between
    the measured points on logarithmic axes."""
    logs = [(math.log(n), math.log(measured)) for n, measured in memory]
    index = sum(measured < math.log(memory_size) for _, measured in logs)
    index = min(max(index, 1), len(logs) - 1)
    (n_a, a), (n_b, b) = logs[index - 1], logs[index]
    return math.exp(n_a + (math.log(memory_size) - a) * (n_b - n_a) / (b - a))
