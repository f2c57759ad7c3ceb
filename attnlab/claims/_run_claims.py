"""Runs claims side by side, those that measure time or memory alone; a failure stops no other.

Claims run in processes of their own, so that a crash is one row. Those that belong together, for
they need the same model trained first, are one piece of work and run in one process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from attnlab.claims._claim import Claim, Evidence, Size, Trial, Verdict

OPPOSITE = {"holds": "refuted", "holds only when": "refuted", "refuted": "holds"}


@dataclass(frozen=True)
class Result:
    """One claim as it was run."""

    name: str
    verdict: Verdict
    evidence: Evidence | None = None
    control: Verdict | None = None
    control_evidence: Evidence | None = None
    seconds: float = 0.0

    @property
    def trusted(self) -> bool | None:
        """Whether the control came to the other verdict; None where there is nothing to oppose."""
        wanted = OPPOSITE.get(self.verdict.outcome)
        if wanted is None or self.control is None:
            return None
        return self.control.outcome == wanted


def run_one(claim: Claim, seed: int, size: Size) -> Result:
    """The experiment and its control; whatever goes wrong becomes the verdict "failed"."""
    begin = time.perf_counter()
    missing = claim.needs() if claim.needs is not None else ""
    if missing or claim.measure is None:
        return Result(claim.name, Verdict("not run", missing))
    try:
        evidence = claim.measure(Trial(seed, size))
        control = claim.measure(Trial(seed, size, control=True))
        return Result(
            claim.name,
            claim.judge(evidence),
            evidence,
            claim.judge(control),
            control,
            time.perf_counter() - begin,
        )
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        text = f"{reason}: {' '.join(str(error).split())[:200]}"
        return Result(claim.name, Verdict("failed", text), seconds=time.perf_counter() - begin)


def run(
    claims: Sequence[Claim],
    *,
    seed: int = 0,
    size: Size = "small",
    processes: int | None = None,
    begun: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Results as they come, first of what may run side by side, then of what must run alone."""
    processes = processes or len(os.sched_getaffinity(0))
    beside = [each for each in claims if not each.alone]
    alone = [each for each in claims if each.alone]
    groups = grouped(beside)
    yield from _pooled(groups, seed, size, min(processes, max(1, len(groups))), begun)
    yield from _pooled([[each] for each in alone], seed, size, 1, begun)


def grouped(claims: Sequence[Claim]) -> list[list[Claim]]:
    """What one process does in a row: claims that belong together, or one. The largest groups come
    first, so that no long one is begun when all else is done."""
    groups: dict[str, list[Claim]] = {}
    for each in claims:
        groups.setdefault(each.together or f" {each.name}", []).append(each)
    return sorted(groups.values(), key=len, reverse=True)


def _pooled(
    groups: Sequence[list[Claim]],
    seed: int,
    size: Size,
    processes: int,
    begun: Callable[[str], None],
) -> Iterator[Result]:
    """At most as many groups under way as there are processes, so that `begun` tells the truth.

    When a process is killed (by a crash, for want of memory) all that were under way are lost, and
    nobody knows which one did it: each is run again by itself, and fails if it is lost again.
    """
    waiting = list(groups)
    while waiting:
        lost: list[Claim] = []
        with _pool(processes) as pool:
            under_way: dict[Future[list[Result]], list[Claim]] = {}
            while under_way or (waiting and not lost):
                while waiting and not lost and len(under_way) < processes:
                    group = waiting.pop(0)
                    for each in group:
                        begun(each.name)
                    names = [each.name for each in group]
                    under_way[pool.submit(_job, names, seed, size)] = group
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    group = under_way.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        lost += group
                    else:
                        yield from future.result()
        for each in lost:
            yield _by_itself(each, seed, size)


def _by_itself(claim: Claim, seed: int, size: Size) -> Result:
    with _pool(1) as pool:
        try:
            return pool.submit(_job, [claim.name], seed, size).result()[0]
        except BrokenProcessPool:
            return Result(claim.name, Verdict("failed", "its process was killed"))


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread
    )


def _one_thread() -> None:
    """Two processes with two threads each would stand in each other's way. And Ctrl-C, which goes
    to all of them, ends them without a traceback: whoever started them tells what happened."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)


def _job(names: Sequence[str], seed: int, size: Size) -> list[Result]:
    from attnlab.claims._registry import CLAIMS

    return [run_one(CLAIMS[name], seed, size) for name in names]
