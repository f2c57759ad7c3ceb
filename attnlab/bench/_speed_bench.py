"""How long attention takes, by length: everything in turn, in one run, on one machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from attnlab._confidence_intervals import Estimate
from attnlab.bench._attention_pass import Way, pass_of
from attnlab.bench._contenders import Contender, Sizes
from attnlab.bench._measure_costs import threads
from attnlab.bench._memory_limit import fits, too_large
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._settings import CostSettings

LONGEST = 6.0  # seconds of one call, as its last length foretells
SLOW = 0.5  # seconds: what takes longer needs no warming up, and is timed twice in all
ENOUGH = 0.02  # seconds that one sample should last
PEAK = 1024  # side of the matrices whose product is the machine's peak


@dataclass
class Costs:
    """Of each way at each length; `left_out` says why a length is missing."""

    values: dict[Way, dict[int, Estimate]] = field(default_factory=dict)
    left_out: dict[Way, str] = field(default_factory=dict)
    flops: dict[tuple[str, bool, int], float] = field(default_factory=dict)
    peak: float = 0.0
    """Multiplications and additions per second of a large product of matrices."""


@dataclass(frozen=True)
class Job:
    way: Way
    tokens: int
    call: Callable[[], object]


def clock_of(settings_threads: int) -> Callable[[], float]:
    """CPU time is what one thread works, whoever else uses the machine; with several threads it
    would count their waiting too, and what a person waits for is the wall clock's."""
    return time.process_time if settings_threads == 1 else time.perf_counter


def measure_speed(
    parties: Sequence[Contender], settings: CostSettings, progress: Progress = SILENT
) -> Costs:
    sizes, clock = Sizes(settings.heads, settings.head_dim), clock_of(settings.threads)
    found, samples = Costs(), dict[tuple[Way, int], list[float]]()
    steps = sum(2 * len(each.causal) for each in parties) * len(settings.lengths)
    progress.begin("speed", steps * (settings.rounds + 1))
    with threads(settings.threads):
        jobs, first = [], dict[tuple[Way, int], float]()
        for tokens in settings.lengths:
            for job in _jobs(parties, sizes, tokens, found):
                progress.step(_told(job))
                if not too_long(job, first, found):
                    first[job.way, tokens] = _seconds(job.call, clock, 1)
                    jobs.append(job)
        progress.step(by=steps - len(jobs))
        for turn in range(settings.rounds):
            found.peak = max(found.peak, _peak(clock))
            for job in jobs:
                progress.step(_told(job))
                once = first[job.way, job.tokens]
                if once > SLOW and turn == 0:
                    samples[job.way, job.tokens] = [once]
                if once <= SLOW or turn == 0:
                    times = max(1, min(50, math.ceil(ENOUGH / max(once, 1e-6))))
                    taken = _seconds(job.call, clock, times)
                    samples.setdefault((job.way, job.tokens), []).append(taken)
    for (way, tokens), each in samples.items():
        figure = Estimate(statistics.median(each), min(each), max(each))
        found.values.setdefault(way, {})[tokens] = figure
    return some(found, settings)


def some(found: Costs, settings: CostSettings) -> Costs:
    """What was found, if anything was."""
    if not found.values:
        reason = next(iter(found.left_out.values()), "as nobody takes part")
        raise ValueError(
            f"--lengths {' '.join(map(str, settings.lengths))}: all are left out {reason}; give "
            "shorter ones"
        )
    return found


def _told(job: Job) -> str:
    return f"{job.way[0]}, {job.tokens:,} tokens"


def _jobs(parties: Sequence[Contender], sizes: Sizes, tokens: int, found: Costs) -> list[Job]:
    """All ways at one length, side by side, so that what slows the machine slows all of them."""
    jobs: list[Job] = []
    inputs = None  # made for the first that fits
    for party in parties:
        ways = fitting(party, sizes, tokens, found)
        if not ways:
            continue
        inputs = inputs or sizes.inputs(tokens)
        module, attend = party.create(sizes, tokens)
        leaves = [each for each in module.parameters() if each.requires_grad]
        for way in ways:
            _, causal, backward = way
            flops = party.flops(sizes, tokens, causal)
            if flops is not None:
                found.flops[party.name, causal, tokens] = flops
            call = pass_of(attend, inputs, leaves, causal, backward)
            jobs.append(Job(way, tokens, call))
    return sorted(jobs, key=lambda job: job.way[1:])


def fitting(party: Contender, sizes: Sizes, tokens: int, found: Costs) -> list[Way]:
    """Those of its ways that fit into memory at this length; the others are noted."""
    ways = [(party.name, causal, back) for causal in party.causal for back in (False, True)]
    for way in ways:
        if way not in found.left_out and not fits(party, *way[1:], sizes, tokens):
            found.left_out[way] = too_large(f"{tokens:,} tokens")
    return [way for way in ways if way not in found.left_out]


def too_long(job: Job, first: dict[tuple[Way, int], float], found: Costs) -> bool:
    """As its arithmetic grows from the longest text so far, so will its time."""
    if job.way in found.left_out:
        return True
    known = [(tokens, taken) for (way, tokens), taken in first.items() if way == job.way]
    if not known:
        return False
    tokens, taken = max(known)
    name, causal, _ = job.way
    before, now = (found.flops.get((name, causal, each)) for each in (tokens, job.tokens))
    growth = now / before if before and now else (job.tokens / tokens) ** 2
    if taken * growth <= LONGEST:
        return False
    found.left_out[job.way] = (
        f"from {job.tokens:,} tokens on, where a call would take more than {LONGEST:g} s"
    )
    return True


def _seconds(call: Callable[[], object], clock: Callable[[], float], times: int) -> float:
    begin = clock()
    for _ in range(times):
        call()
    return (clock() - begin) / times


def _peak(clock: Callable[[], float]) -> float:
    a, b = torch.randn(2, PEAK, PEAK)
    out = torch.empty(PEAK, PEAK)
    best = min(_seconds(lambda: torch.mm(a, b, out=out), clock, 1) for _ in range(3))
    return 2 * PEAK**3 / best
