"""Attention as a kernel: running sums, and their cost in time and memory.

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
from attnlab.claims.kernels import clip_to_floor, sample_normal
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.kernel import KernelState
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series
from attnlab.state import KeyValues, State

Points = list[tuple[float, float]]

# for linear-cost: the first length, and how many lengths, each sqrt(2) times the one before
LENGTHS = {"kernel": (2048, 7), "matrix": (256, 6), "fused": (512, 7)}
KERNELS = ("elu", "relu", "polynomial", "fourier", "favor")


@claim(
    "recurrence",
    topic="kernels",
    source="paper",
    statement="running sums S_i, Z_i give exactly the masked sum",
    why="""The masked output is sum_(j<=i) (phi(q_i).phi(k_j)) v_j over sum_(j<=i)
    phi(q_i).phi(k_j). Both are linear in phi(q_i), which can be factored out. The remaining sums,
    S_i = S_(i-1) + phi(k_i) v_i^T and Z_i = Z_(i-1) + phi(k_i), do not depend on the query. Nothing
    is approximated: a causal transformer with such a kernel is a recurrent network. For softmax
    there is no finite phi. The experiment compares attnlab's decoding, one token at a time, with
    its masked weight matrix, for every kernel.""",
    judge=exact("largest difference / largest |v| (and / the cancellation, if any)"),
    control="sums that stop one token short, S_(i-1) and Z_(i-1)",
    reference="Katharopoulos et al. 2020, Transformers are RNNs",
)
def recurrence(trial: Trial) -> Evidence:
    lengths, repeats = (2, 3, 7, 19, 33), trial.pick(2, 12)
    lines = []
    for name in KERNELS:
        points = [
            (float(N), max(_recurrence_error(trial, name, N, i) for i in range(repeats)))
            for N in lengths
        ]
        lines.append(Series(name, clip_to_floor(points)))
    worst = max(error for line in lines for _, error in line.points)
    return Evidence(
        Estimate(worst),
        Lines("tokens", "largest error", lines, x_log=True, y_log=True),
        details={"kernels": ", ".join(KERNELS), "instances": len(lengths) * repeats * len(KERNELS)},
    )


def _recurrence_error(trial: Trial, name: str, N: int, case: int) -> float:
    """Error of token-by-token decoding; where terms cancel, relative to their sizes."""
    generator = trial.generator(N, case)
    d, M = 3 + case % 3, 2 + case % 4
    q, k, v = (
        sample_normal(generator, 1, 2, N, d),
        sample_normal(generator, 1, 2, N, d),
        sample_normal(generator, 1, 2, N, M),
    )
    mechanism = MECHANISMS[name](head_dim=d, heads=2)
    mask = Mask(causal=True)
    expected = mechanism.weights(q, k, mask) @ v  # (1, 2, N, M)
    state = mechanism.absorb(k[:, :, :0], v[:, :, :0])
    outputs = []
    for i in range(N):
        step = slice(i, i + 1)
        next_state = mechanism.absorb(k[:, :, step], v[:, :, step], None, state)
        outputs.append(mechanism.read(q[:, :, step], state if trial.control else next_state, i))
        state = next_state
    error = (torch.cat(outputs, 2) - expected).abs() / mechanism.condition(q, k, mask)
    return float(error.max() / v.abs().max())


@claim(
    "linear-cost",
    topic="kernels",
    source="paper",
    statement="kernel attention costs O(N C M) (C features, M value size) and linear memory, "
    "exact attention O(N^2)",
    why="""Exact attention fills a matrix of N^2 weights. Kernel attention computes N C features
    (N C d products for random ones), adds N outer products of size C M and reads the sums N
    times: N C (d + 2 M) in all, with N C numbers in memory. But exact attention need not store its
    matrix. A fused kernel computes it in tiles, in linear memory, and so fast that on a CPU random
    features pay off only for sequences of thousands of tokens. "Quadratic memory" is true only of
    the plain definition; quadratic time is true of every exact method for long sequences.""",
    judge=Below(1.3, "exponent in N of kernel attention, the larger of time and memory"),
    control="exact attention with its N x N matrix",
    reference="Katharopoulos et al. 2020; Rabe & Staats 2021 for exact attention in linear memory",
    alone=True,
)
def linear_cost(trial: Trial) -> Evidence:
    methods = {"kernel": _kernel_call, "matrix": _matrix_call, "fused": _fused_call}
    lengths = {
        name: [round(trial.pick(1, 2) * first * 2 ** (i / 2)) for i in range(count)]
        for name, (first, count) in LENGTHS.items()
    }
    calls = {
        name: [make_call(*_sample_tokens(trial, N, 32, 32)) for N in lengths[name]]
        for name, make_call in methods.items()
    }
    seconds = costs.least_seconds(
        [call for method_calls in calls.values() for call in method_calls], rounds=5
    )
    times: dict[str, Points] = {}
    for name, method_calls in calls.items():
        times[name] = _to_points(lengths[name], [1000 * seconds.pop(0) for _ in method_calls])
    memory = {
        name: _to_points(
            lengths[name], [float(costs.peak_bytes_no_grad(call)) for call in method_calls]
        )
        for name, method_calls in calls.items()
    }
    judged = "matrix" if trial.control else "kernel"
    exponents = [log_log_slope(times[judged]), log_log_slope(memory[judged])]
    details = {
        f"{name}: exponent in N of time, of memory": f"{log_log_slope(times[name]).value:.2f}, "
        f"{log_log_slope(memory[name]).value:.2f}"
        for name in methods
    }
    details |= {
        f"N at which the kernel is faster than the {name}": f"{_crossover_length(times, name):,.0f}"
        for name in ("matrix", "fused")
    }
    lines = [Series(name, points) for name, points in times.items()]
    return Evidence(
        max(exponents, key=lambda estimate: estimate.ends[1]),
        Lines("tokens N", "milliseconds of CPU time", lines, x_log=True, y_log=True),
        details=details if trial.control else details | _other_exponents(trial),
    )


def _sample_tokens(trial: Trial, N: int, d: int, M: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = trial.generator(N)
    q, k, v = (torch.randn(1, 1, N, size, generator=generator) for size in (d, d, M))
    return q, k, v


def _kernel_call(
    q: Tensor, k: Tensor, v: Tensor, features: int = 64, causal: bool = True
) -> costs.Call:
    mechanism = Favor(head_dim=q.shape[-1], heads=1, features=features, orthogonal=False)
    return partial(mechanism, q, k, v, Mask(causal=causal))


def _matrix_call(q: Tensor, k: Tensor, v: Tensor) -> costs.Call:
    mechanism = Softmax(head_dim=q.shape[-1], heads=1)
    return lambda: mechanism.weights(q, k, Mask(causal=True)) @ v


def _fused_call(q: Tensor, k: Tensor, v: Tensor) -> costs.Call:
    mechanism = Softmax(head_dim=q.shape[-1], heads=1)
    return partial(mechanism, q, k, v, Mask(causal=True))


def _to_points(at: Sequence[int], values: Sequence[float]) -> Points:
    return [(float(x), y) for x, y in zip(at, values, strict=True)]


def _crossover_length(times: dict[str, Points], name: str) -> float:
    return costs.crossing(times["kernel"], times[name])


def _other_exponents(trial: Trial) -> dict[str, str]:
    """Exponents of the time in C, d and M, each with the other two small, so that it dominates."""
    N = 1024
    sizes = {
        "C": [(C, 32, 32) for C in (256, 512, 1024)],
        "d": [(64, d, 8) for d in (512, 1024, 2048)],
        "M": [(64, 8, M) for M in (512, 1024, 2048)],
    }
    exponents = {}
    for index, (letter, rows) in enumerate(sizes.items()):
        calls = [
            _kernel_call(*_sample_tokens(trial, N, d, M), features=C, causal=False)
            for C, d, M in rows
        ]
        seconds = costs.least_seconds(calls, rounds=2)
        slope = log_log_slope(_to_points([row[index] for row in rows], seconds))
        exponents[f"kernel: exponent in {letter} of time"] = f"{slope.value:.2f}"
    return exponents


@claim(
    "constant-state",
    topic="kernels",
    source="paper",
    statement="one decoding step of kernel attention costs the same at position 100 and 100,000",
    why="""The state is S (C x M) and Z (C), whatever the number of tokens that went into it, so a
    step adds one outer product and reads the sums once: O(C M). A softmax step compares its query
    with every key so far: O(N d) work, and a cache of N (d + M) numbers that grows by one row per
    token. The price: C M numbers cannot keep 100,000 keys separate.""",
    judge=Below(1.5, "CPU time of a step at 100,000 / that at 100"),
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
        states = [_state_after(trial, mechanism, N) for N in positions]
        steps_per_timing = 20 if name == kernel else 5
        rounds_here = rounds if name == kernel == judged else 8 if name == judged else 2
        steps[name] = _measure_steps(
            trial, mechanism, states, positions, rounds_here, steps_per_timing
        )
        sizes[name] = f"{_count_numbers(states[0]):,} and {_count_numbers(states[-1]):,}"
    lines = [
        Series(
            name, _to_points(positions, [1e6 * min(column) for column in zip(*rows, strict=True)])
        )
        for name, rows in steps.items()
    ]
    return Evidence(
        mean_interval([row[-1] / row[0] for row in steps[judged]]),
        Lines("position", "microseconds of CPU time per step", lines, x_log=True, y_log=True),
        details={
            f"{name}: numbers stored at 100, at 100,000": sizes_text
            for name, sizes_text in sizes.items()
        },
    )


@torch.no_grad()
def _state_after(trial: Trial, mechanism: Mechanism, N: int) -> State:
    _, k, v = _sample_tokens(trial, N, 32, 32)
    return mechanism.absorb(k, v)


@torch.no_grad()
def _measure_steps(
    trial: Trial,
    mechanism: Mechanism,
    states: list[State],
    positions: Sequence[int],
    rounds: int,
    steps_per_timing: int,
) -> list[list[float]]:
    """For each round, the time of a step at each position. Positions alternate, so that a slow
    moment of the machine affects all of them."""
    q, k, v = _sample_tokens(trial, 1, 32, 32)
    current = dict(zip(positions, states, strict=True))

    def step(position: int) -> None:
        current[position] = mechanism.absorb(k, v, None, current[position])
        mechanism.read(q, current[position], position)

    calls: list[Callable[[], None]] = [partial(step, position) for position in positions]
    with costs.one_thread():
        rows = [
            [costs.seconds(call, steps_per_timing) for call in calls] for _ in range(rounds + 1)
        ]
    return rows[1:]


def _count_numbers(state: State) -> int:
    """How many numbers a state stores."""
    if isinstance(state, KernelState):
        return state.sums.numel() + state.peak.numel()
    assert isinstance(state, KeyValues)
    k, v, _ = state.tensors_to_read()
    return k.numel() + v.numel()
