"""Measures the time of attention by length, all contenders in turn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from attnlab._confidence_intervals import Estimate
from attnlab.bench._attention_pass import PassKey, create_pass
from attnlab.bench._contenders import Contender, Sizes
from attnlab.bench._measure_costs import threads
from attnlab.bench._memory_limit import fits, too_large_reason
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._settings import CostSettings

MAX_SECONDS = 6.0  # of one call, extrapolated from shorter lengths
SLOW = 0.5  # seconds; a longer call needs no warm-up and is timed only twice
SAMPLE_SECONDS = 0.02  # that one sample should last
PEAK_SIZE = 1024  # of the square matrices whose product gives the machine's peak


@dataclass
class Costs:
    """The cost of each pass at each length; `skipped` has the reasons for missing lengths."""

    values: dict[PassKey, dict[int, Estimate]] = field(default_factory=dict)
    skipped: dict[PassKey, str] = field(default_factory=dict)
    flops: dict[tuple[str, bool, int], float] = field(default_factory=dict)
    peak: float = 0.0
    """Operations per second of a large matrix product."""


@dataclass(frozen=True)
class TimedPass:
    key: PassKey
    tokens: int
    call: Callable[[], object]


def select_clock(thread_count: int) -> Callable[[], float]:
    """CPU time for one thread: other processes do not disturb it. Wall time for several threads,
    whose CPU time would count their waiting too."""
    return time.process_time if thread_count == 1 else time.perf_counter


def measure_speed(
    contenders: Sequence[Contender], settings: CostSettings, progress: BenchProgress = NO_PROGRESS
) -> Costs:
    sizes, clock = Sizes(settings.heads, settings.head_dim), select_clock(settings.threads)
    costs, samples = Costs(), dict[tuple[PassKey, int], list[float]]()
    steps = sum(2 * len(contender.causal) for contender in contenders) * len(settings.lengths)
    progress.begin("speed", steps * (settings.rounds + 1))
    with threads(settings.threads):
        passes, first = [], dict[tuple[PassKey, int], float]()
        for tokens in settings.lengths:
            for timed_pass in _create_passes(contenders, sizes, tokens, costs):
                progress.step(_describe(timed_pass))
                if not is_too_slow(timed_pass, first, costs):
                    first[timed_pass.key, tokens] = _seconds(timed_pass.call, clock, 1)
                    passes.append(timed_pass)
        progress.step(by=steps - len(passes))
        for turn in range(settings.rounds):
            costs.peak = max(costs.peak, _matmul_peak(clock))
            for timed_pass in passes:
                progress.step(_describe(timed_pass))
                once = first[timed_pass.key, timed_pass.tokens]
                if once > SLOW and turn == 0:
                    samples[timed_pass.key, timed_pass.tokens] = [once]
                if once <= SLOW or turn == 0:
                    times = max(1, min(50, math.ceil(SAMPLE_SECONDS / max(once, 1e-6))))
                    mean = _seconds(timed_pass.call, clock, times)
                    samples.setdefault((timed_pass.key, timed_pass.tokens), []).append(mean)
    for (key, tokens), seconds in samples.items():
        median = Estimate(statistics.median(seconds), min(seconds), max(seconds))
        costs.values.setdefault(key, {})[tokens] = median
    return check_measured(costs, settings)


def check_measured(costs: Costs, settings: CostSettings) -> Costs:
    """Returns the costs; an error if every length was skipped."""
    if not costs.values:
        reason = next(iter(costs.skipped.values()), "because no mechanism takes part")
        raise ValueError(
            f"--lengths {' '.join(map(str, settings.lengths))}: all are skipped {reason}; give "
            "shorter ones"
        )
    return costs


def _describe(timed_pass: TimedPass) -> str:
    return f"{timed_pass.key[0]}, {timed_pass.tokens:,} tokens"


def _create_passes(
    contenders: Sequence[Contender], sizes: Sizes, tokens: int, costs: Costs
) -> list[TimedPass]:
    """All passes at one length, next to each other, so that a busy machine slows all of them."""
    passes: list[TimedPass] = []
    inputs = None  # created for the first contender that fits
    for contender in contenders:
        keys = keys_that_fit(contender, sizes, tokens, costs)
        if not keys:
            continue
        inputs = inputs or sizes.inputs(tokens)
        module, attend = contender.create(sizes, tokens)
        leaves = [weight for weight in module.parameters() if weight.requires_grad]
        for key in keys:
            _, causal, backward = key
            flops = contender.flops(sizes, tokens, causal)
            if flops is not None:
                costs.flops[contender.name, causal, tokens] = flops
            call = create_pass(attend, inputs, leaves, causal, backward)
            passes.append(TimedPass(key, tokens, call))
    return sorted(passes, key=lambda timed_pass: timed_pass.key[1:])


def keys_that_fit(contender: Contender, sizes: Sizes, tokens: int, costs: Costs) -> list[PassKey]:
    """The passes that fit into memory at this length; notes why the others are skipped."""
    keys = [(contender.name, causal, back) for causal in contender.causal for back in (False, True)]
    for key in keys:
        if key not in costs.skipped and not fits(contender, *key[1:], sizes, tokens):
            costs.skipped[key] = too_large_reason(f"{tokens:,} tokens")
    return [key for key in keys if key not in costs.skipped]


def is_too_slow(
    timed_pass: TimedPass, first: dict[tuple[PassKey, int], float], costs: Costs
) -> bool:
    """Extrapolates the time from the longest length so far, by the number of operations."""
    if timed_pass.key in costs.skipped:
        return True
    measured = [
        (tokens, seconds) for (key, tokens), seconds in first.items() if key == timed_pass.key
    ]
    if not measured:
        return False
    tokens, seconds = max(measured)
    name, causal, _ = timed_pass.key
    before, now = (costs.flops.get((name, causal, count)) for count in (tokens, timed_pass.tokens))
    growth = now / before if before and now else (timed_pass.tokens / tokens) ** 2
    if seconds * growth <= MAX_SECONDS:
        return False
    costs.skipped[timed_pass.key] = (
        f"from {timed_pass.tokens:,} tokens on, where a call would take more than {MAX_SECONDS:g} s"
    )
    return True


def _seconds(call: Callable[[], object], clock: Callable[[], float], times: int) -> float:
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times


def _matmul_peak(clock: Callable[[], float]) -> float:
    a, b = torch.randn(2, PEAK_SIZE, PEAK_SIZE)
    out = torch.empty(PEAK_SIZE, PEAK_SIZE)
    best = min(_seconds(lambda: torch.mm(a, b, out=out), clock, 1) for _ in range(3))
    return 2 * PEAK_SIZE**3 / best
