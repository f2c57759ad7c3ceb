"""Attention as a kernel: the running sums, and what they cost.

S_i = sum of phi(k_j) v_j^T and Z_i = sum of phi(k_j) over j <= i; output i is
phi(q_i) S_i / (phi(q_i).Z_i).
Letters: N tokens, C features, d head size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from attnlab.bench import _measure_costs as costs
from attnlab.claims._claim import (
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    log_log_slope,
    mean_interval,
)
from attnlab.claims.judges import Below, exact
from attnlab.claims.kernels import normal, shown
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.kernel import KernelState
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series
from attnlab.state import KeyValues, State

Points = list[tuple[float, float]]

# of linear-cost: the shortest, and how many that are longer by a factor of sqrt(2) each
LENGTHS = {"kernel": (2048, 7), "matrix": (256, 6), "fused": (512, 7)}
KERNELS = ("elu", "relu", "polynomial", "fourier", "favor")


@claim(
    "recurrence",
    topic="kernels",
    source="paper",
    statement="running sums S_i, Z_i give exactly the masked sum",
    why="""The masked output is sum_(j<=i) (phi(q_i).phi(k_j)) v_j over sum_(j<=i)
    phi(q_i).phi(k_j). Both are linear in phi(q_i), which can be taken out of the sum: what is
    left, S_i = S_(i-1) + phi(k_i) v_i^T and Z_i = Z_(i-1) + phi(k_i), does not depend on the
    query. So nothing is approximated; a causal transformer with such a kernel is a recurrent
    network. For softmax no finite phi does it. Here attnlab's own decoding, one token at a time,
    is compared with its masked weight matrix, for every kernel it has.""",
    judge=exact("largest difference over the largest |v| (and the cancellation, if any)"),
    control="sums that stop one token short, S_(i-1) and Z_(i-1)",
    reference="Katharopoulos et al. 2020, Transformers are RNNs",
)
def recurrence(trial: Trial) -> Evidence:
    lengths, repeats = (2, 3, 7, 19, 33), trial.pick(2, 12)
    lines = []
    for name in KERNELS:
        points = [
            (float(N), max(_step_error(trial, name, N, i) for i in range(repeats))) for N in lengths
        ]
        lines.append(Series(name, shown(points)))
    worst = max(error for line in lines for _, error in line.points)
    return Evidence(
        Estimate(worst),
        Lines("tokens", "largest error", lines, x_log=True, y_log=True),
        details={"kernels": ", ".join(KERNELS), "instances": len(lengths) * repeats * len(KERNELS)},
    )


def _step_error(trial: Trial, name: str, N: int, place: int) -> float:
    """Token by token against the masked matrix; where terms cancel, relative to their sizes."""
    random = trial.random(N, place)
    d, M = 3 + place % 3, 2 + place % 4
    q, k, v = normal(random, 1, 2, N, d), normal(random, 1, 2, N, d), normal(random, 1, 2, N, M)
    mechanism = MECHANISMS[name](head_dim=d, heads=2)
    mask = Mask(causal=True)
    true = mechanism.weights(q, k, mask) @ v  # (1, 2, N, M)
    state = mechanism.absorb(k[:, :, :0], v[:, :, :0])
    found = []
    for i in range(N):
        here = slice(i, i + 1)
        grown = mechanism.absorb(k[:, :, here], v[:, :, here], None, state)
        found.append(mechanism.read(q[:, :, here], state if trial.control else grown, i))
        state = grown
    error = (torch.cat(found, 2) - true).abs() / mechanism.condition(q, k, mask)
    return float(error.max() / v.abs().max())


@claim(
    "linear-cost",
    topic="kernels",
    source="paper",
    statement="kernel attention costs O(N C M) (C features, M value size) and linear memory, "
    "exact attention O(N^2)",
    why="""Exact attention fills a matrix of N^2 weights. Kernel attention makes N C features
    (N C d products for random ones), adds N outer products of size C M and reads the sums N
    times: N C (d + 2 M) in all, with N C numbers in memory. But exact attention need not keep its
    matrix: a fused kernel goes through it in tiles, in linear memory, and fast enough that random
    features pay on a CPU only for sequences of thousands of tokens. "Quadratic memory" is true of
    the definition alone, quadratic time of every exact way, in the long run.""",
    judge=Below(1.3, "exponent in N of kernel attention, the larger of time and memory"),
    control="exact attention by its N x N matrix",
    reference="Katharopoulos et al. 2020; Rabe & Staats 2021 for exact attention in linear memory",
    alone=True,
)
def linear_cost(trial: Trial) -> Evidence:
    ways = {"kernel": _kernel, "matrix": _matrix, "fused": _fused}
    lengths = {
        name: [round(trial.pick(1, 2) * first * 2 ** (i / 2)) for i in range(count)]
        for name, (first, count) in LENGTHS.items()
    }
    calls = {
        name: [way(*_tokens(trial, N, 32, 32)) for N in lengths[name]] for name, way in ways.items()
    }
    least = costs.least_seconds([call for row in calls.values() for call in row], rounds=5)
    times: dict[str, Points] = {}
    for name, row in calls.items():
        times[name] = _points(lengths[name], [1000 * least.pop(0) for _ in row])
    memory = {
        name: _points(lengths[name], [float(costs.peak_bytes_no_grad(call)) for call in row])
        for name, row in calls.items()
    }
    chosen = "matrix" if trial.control else "kernel"
    both = [log_log_slope(times[chosen]), log_log_slope(memory[chosen])]
    details = {
        f"{name}: exponent in N of time, of memory": f"{log_log_slope(times[name]).value:.2f}, "
        f"{log_log_slope(memory[name]).value:.2f}"
        for name in ways
    }
    details |= {
        f"N at which the kernel is faster than the {name}": f"{_crossover(times, name):,.0f}"
        for name in ("matrix", "fused")
    }
    lines = [Series(name, points) for name, points in times.items()]
    return Evidence(
        max(both, key=lambda each: each.ends[1]),
        Lines("tokens N", "milliseconds of CPU time", lines, x_log=True, y_log=True),
        details=details if trial.control else details | _other_exponents(trial),
    )


def _tokens(trial: Trial, N: int, d: int, M: int) -> tuple[Tensor, Tensor, Tensor]:
    random = trial.random(N)
    q, k, v = (torch.randn(1, 1, N, size, generator=random) for size in (d, d, M))
    return q, k, v


def _kernel(q: Tensor, k: Tensor, v: Tensor, features: int = 64, causal: bool = True) -> costs.Call:
    mechanism = Favor(head_dim=q.shape[-1], heads=1, features=features, orthogonal=False)
    return partial(mechanism, q, k, v, Mask(causal=causal))


def _matrix(q: Tensor, k: Tensor, v: Tensor) -> costs.Call:
    mechanism = Softmax(head_dim=q.shape[-1], heads=1)
    return lambda: mechanism.weights(q, k, Mask(causal=True)) @ v


def _fused(q: Tensor, k: Tensor, v: Tensor) -> costs.Call:
    mechanism = Softmax(head_dim=q.shape[-1], heads=1)
    return partial(mechanism, q, k, v, Mask(causal=True))


def _points(at: Sequence[int], values: Sequence[float]) -> Points:
    return [(float(x), y) for x, y in zip(at, values, strict=True)]


def _crossover(times: dict[str, Points], name: str) -> float:
    return costs.crossing(times["kernel"], times[name])


def _other_exponents(trial: Trial) -> dict[str, str]:
    """Of the time in C, d and M, the other two small, so that its own term leads."""
    N = 1024
    sizes = {
        "C": [(C, 32, 32) for C in (256, 512, 1024)],
        "d": [(64, d, 8) for d in (512, 1024, 2048)],
        "M": [(64, 8, M) for M in (512, 1024, 2048)],
    }
    found = {}
    for place, (letter, rows) in enumerate(sizes.items()):
        calls = [_kernel(*_tokens(trial, N, d, M), features=C, causal=False) for C, d, M in rows]
        least = costs.least_seconds(calls, rounds=2)
        slope = log_log_slope(_points([row[place] for row in rows], least))
        found[f"kernel: exponent in {letter} of time"] = f"{slope.value:.2f}"
    return found


@claim(
    "constant-state",
    topic="kernels",
    source="paper",
    statement="one decoding step of kernel attention costs the same at position 100 and 100,000",
    why="""The state is S (C x M) and Z (C), whatever the number of tokens that went into it, so a
    step adds one outer product and reads the sums once: O(C M). A softmax step compares its query
    with every key so far: O(N d) work, and a cache of N (d + M) numbers that grows by one row per
    token. What the kernel pays for it: C M numbers cannot hold 100,000 keys apart.""",
    judge=Below(1.5, "CPU time of a step at 100,000 over that at 100"),
    control="softmax with its cache of keys and values",
    reference="Katharopoulos et al. 2020, Transformers are RNNs",
    alone=True,
)
def constant_state(trial: Trial) -> Evidence:
    positions, rounds = (100, 1000, 10_000, 100_000), trial.pick(20, 60)
    mechanisms: dict[str, Mechanism] = {
        "kernel (favor, 64 features)": Favor(head_dim=32, heads=1, features=64),
        "softmax": Softmax(head_dim=32, heads=1),
    }
    kernel, softmax = mechanisms
    judged = softmax if trial.control else kernel
    steps, sizes = {}, {}
    for name, mechanism in mechanisms.items():
        states = [_after(trial, mechanism, N) for N in positions]
        times = 20 if name == kernel else 5
        turns = rounds if name == kernel == judged else 8 if name == judged else 2
        steps[name] = _step_times(trial, mechanism, states, positions, turns, times)
        sizes[name] = f"{_numbers(states[0]):,} and {_numbers(states[-1]):,}"
    lines = [
        Series(name, _points(positions, [1e6 * min(column) for column in zip(*rows, strict=True)]))
        for name, rows in steps.items()
    ]
    return Evidence(
        mean_interval([row[-1] / row[0] for row in steps[judged]]),
        Lines("position", "microseconds of CPU time per step", lines, x_log=True, y_log=True),
        details={f"{name}: numbers kept at 100, at 100,000": each for name, each in sizes.items()},
    )


@torch.no_grad()
def _after(trial: Trial, mechanism: Mechanism, N: int) -> State:
    _, k, v = _tokens(trial, N, 32, 32)
    return mechanism.absorb(k, v)


@torch.no_grad()
def _step_times(
    trial: Trial,
    mechanism: Mechanism,
    states: list[State],
    positions: Sequence[int],
    rounds: int,
    times: int,
) -> list[list[float]]:
    """For each round the time of a step at each position, one after the other: what slows the
    machine for a while slows all of them."""
    q, k, v = _tokens(trial, 1, 32, 32)
    now = dict(zip(positions, states, strict=True))

    def step(position: int) -> None:
        now[position] = mechanism.absorb(k, v, None, now[position])
        mechanism.read(q, now[position], position)

    calls: list[Callable[[], None]] = [partial(step, position) for position in positions]
    with costs.one_thread():
        rows = [[costs.seconds(call, times) for call in calls] for _ in range(rounds + 1)]
    return rows[1:]


def _numbers(state: State) -> int:
    """That a state keeps."""
    if isinstance(state, KernelState):
        return state.sums.numel() + state.peak.numel()
    assert isinstance(state, KeyValues)
    k, v, _ = state.tensors_to_read()
    return k.numel() + v.numel()
