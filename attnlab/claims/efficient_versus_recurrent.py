"""The cost of long sequences: attention compared with a recurrent layer.

Letters: n tokens, d width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnlab.bench import _measure_costs as costs
from attnlab.claims._claim import Evidence, Lines, Trial, claim, log_log_slope, mean_interval
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Below, Between
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

VASWANI = "Vaswani et al. 2017, Attention is all you need, table 1, arXiv 1706.03762"

Points = list[tuple[float, float]]
Layer = Callable[[Tensor], Tensor]
"""(n, d) -> (n, d)."""


def attention(x: Tensor) -> Tensor:
    """Attention between all tokens, without projections."""
    y = x[None, None]
    return (Softmax(head_dim=x.shape[1], heads=1).weights(y, y, Mask()) @ y)[0, 0]


def attention_layer(x: Tensor) -> Tensor:
    """Attention with the projections of q, k, v and of the output."""
    d = x.shape[1]
    q, k, v = x.new_ones(3, d, d)
    return attention(x @ q + x @ k + x @ v) @ q


def recurrent(x: Tensor) -> Tensor:
    """h_t = tanh(W x_t + U h_(t-1)), one token after the other."""
    W, U = x.new_ones(2, x.shape[1], x.shape[1]) / x.shape[1]
    state, states = torch.zeros_like(x[:1]), []
    for token in x.split(1):
        state = torch.tanh(token @ W + state @ U)
        states.append(state)
    return torch.cat(states)


@claim(
    "sequence-cost",
    topic="efficient",
    source="paper",
    statement="attention costs O(n^2 d) against a recurrent layer's O(n d^2): cheaper only while "
    "n < d; steps in sequence 1 against n",
    why="""q k^T and the weights times v need n^2 d multiplications each; W x_t and U h_(t-1) need
    d^2 each for every one of n tokens. n^2 d < n d^2 exactly when n < d. But this comparison leaves
    out the projections of q, k, v and the output, 4 n d^2. With them, an attention layer has more
    operations than a plain recurrent one at every n (the control). Operations are also not time:
    the recurrent layer computes n small products one after another, each waiting for the last, so
    attention is faster far beyond n = d.""",
    judge=Between(0.5, 2.0, "n / d at which attention has as many operations"),
    control="the whole layer, with its projections",
    reference=VASWANI,
    alone=True,
)
def sequence_cost(trial: Trial) -> Evidence:
    layer = attention_layer if trial.control else attention
    ratios = [
        _crossover_length(layer, d) / d for d in trial.pick((8, 16, 32), (8, 16, 32, 64, 128))
    ]
    times = _times_by_length(trial)
    details: dict[str, float | str] = {}
    if not trial.control:
        details = {
            f"exponent of time in n, {name}": log_log_slope(points).value
            for name, points in times.items()
        }
        details["n / d at which attention takes as much time, d = 64"] = (
            costs.crossing(times["attention"], times["recurrent"]) / 64
        )
        details |= _operation_exponents()
    return Evidence(
        mean_interval(ratios),
        Lines(
            "tokens, d = 64", "milliseconds of CPU time",
            [Series(*each) for each in times.items()], True, True,
        ),
        details=details,
    )  # fmt: skip


def count_operations(layer: Layer, n: int, d: int) -> int:
    """Multiplications and additions, as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        layer(torch.zeros(n, d))
    return counter.get_total_flops()


def _crossover_length(layer: Layer, d: int) -> int:
    """The smallest n at which this layer has as many operations as the recurrent one."""
    low, high = 0, 4 * d
    while high - low > 1:
        middle = (low + high) // 2
        enough = count_operations(layer, middle, d) >= count_operations(recurrent, middle, d)
        low, high = (low, middle) if enough else (middle, high)
    return high


def _times_by_length(trial: Trial) -> dict[str, Points]:
    """CPU time of PyTorch's fastest attention and recurrent layers, in milliseconds."""
    lengths, d = trial.pick([512, 1024, 2048, 4096], [512, 1024, 2048, 4096, 8192]), 64
    with seeded(trial.generator()):
        network = nn.RNN(d, d, batch_first=True)
    softmax = Softmax(head_dim=d, heads=1)
    calls: list[costs.Call] = []
    for n in lengths:
        x = torch.randn(1, n, d, generator=trial.generator(n))
        calls += [partial(softmax, x[None], x[None], x[None], Mask()), partial(network, x)]
    milliseconds = [1000 * each for each in costs.least_seconds(calls, trial.pick(2, 4))]
    at = [float(n) for n in lengths]
    return {
        "attention": list(zip(at, milliseconds[::2], strict=True)),
        "recurrent": list(zip(at, milliseconds[1::2], strict=True)),
    }


def _operation_exponents() -> dict[str, float]:
    """Exponents of the operations in n and d, and of the number of sequential steps in n."""
    sizes = (16, 32, 64)
    exponents = {}
    for name, layer in (("attention", attention), ("recurrent", recurrent)):
        in_n = log_log_slope([(n, count_operations(layer, n, 32)) for n in sizes])
        in_d = log_log_slope([(d, count_operations(layer, 32, d)) for d in sizes])
        steps = log_log_slope(
            [(n, longest_chain(layer(torch.zeros(n, 4, requires_grad=True)))) for n in sizes]
        )
        exponents[f"exponent of operations in n, {name}"] = round(in_n.value, 6)
        exponents[f"exponent of operations in d, {name}"] = round(in_d.value, 6)
        exponents[f"exponent of steps in sequence in n, {name}"] = round(steps.value, 2)
    return exponents


def longest_chain(out: Tensor) -> int:
    """Length of the longest chain of operations from an input to this tensor."""
    depth: dict[object, int] = {None: 0}
    stack = [out.grad_fn]
    while stack:
        node = stack[-1]
        parents = [] if node is None else [parent for parent, _ in node.next_functions]
        unvisited = [parent for parent in parents if parent not in depth]
        if unvisited:
            stack += unvisited
        else:
            stack.pop()
            depth.setdefault(node, 1 + max((depth[parent] for parent in parents), default=0))
    return depth[out.grad_fn]


@claim(
    "longer-free",
    topic="efficient",
    source="course",
    statement="self-attention scales to longer sequences without more computation",
    quoted=True,
    why="""Every token is compared with every other: n^2 scores of d products each. Twice the
    length is four times the work. Two things do not grow: the number of weights, because the same
    W_Q, W_K, W_V serve any length (the control), and the number of sequential steps. That the same
    weights can read longer sequences is often presented as if it cost nothing.""",
    judge=Below(0.2, "exponent in n"),
    control="the number of weights instead of the time",
    reference=VASWANI,
    alone=True,
)
def longer_free(trial: Trial) -> Evidence:
    lengths, W = trial.pick([1024, 2048, 4096, 8192], [1024, 2048, 4096, 8192, 16384]), 32
    with seeded(trial.generator()):
        layer = MultiHead(W, 1)
    calls = [
        partial(layer, torch.randn(1, n, W, generator=trial.generator(n)), Mask()) for n in lengths
    ]
    at = [float(n) for n in lengths]
    seconds = costs.least_seconds(calls, trial.pick(2, 4))
    times = [(n, 1000 * each) for n, each in zip(at, seconds, strict=True)]
    weight_counts = [
        sum(each.numel() for each in MultiHead(W, 1, max_length=n).parameters()) for n in lengths
    ]
    quadratic = [(n, times[-1][1] * (n / at[-1]) ** 2) for n in at]
    lines = [Series("self-attention", times), Series("n^2", quadratic)]
    return Evidence(
        log_log_slope(list(zip(at, map(float, weight_counts), strict=True)))
        if trial.control
        else log_log_slope(times),
        Lines("tokens", "milliseconds of CPU time", lines, x_log=True, y_log=True),
        details={
            f"weights for {lengths[0]:,} and {lengths[-1]:,} tokens": f"{weight_counts[0]:,} and "
            f"{weight_counts[-1]:,}"
        },
    )
