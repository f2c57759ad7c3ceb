"""Runs claims in parallel processes; those that measure time or memory run alone.

Each claim has its own process, so that a crash affects only one row of the ledger. Claims of one
group share a trained model, and therefore run one after another in one process.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from attnlab._cores import available_cores
from attnlab.claims._claim import Claim, Evidence, Size, Trial, Verdict
from attnlab.mechanisms._compiled import note_if_off

OPPOSITE = {"holds": "refuted", "holds only when": "refuted", "refuted": "holds"}


@dataclass(frozen=True)
class Result:
    """The outcome of one claim and of its control."""

    name: str
    verdict: Verdict
    evidence: Evidence | None = None
    control: Verdict | None = None
    control_evidence: Evidence | None = None
    seconds: float = 0.0

    @property
    def trusted(self) -> bool | None:
        """Whether the control reached the opposite verdict. None if the verdict has no opposite."""
        opposite = OPPOSITE.get(self.verdict.outcome)
        if opposite is None or self.control is None:
            return None
        return self.control.outcome == opposite


def run_claim(claim: Claim, seed: int, size: Size) -> Result:
    """Run the experiment and its control. An exception becomes the verdict "failed".

    >>> from attnlab.claims import CLAIMS, run_claim
    >>> result = run_claim(CLAIMS["copy"], seed=0, size="small")
    >>> result.verdict.outcome, result.trusted
    ('holds', True)
    """
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


def run_claims(
    claims: Sequence[Claim],
    *,
    seed: int = 0,
    size: Size = "small",
    processes: int | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Run claims and yield each result when it is ready.

    Claims that may run in parallel come first.

    `on_start` is called with the name of each claim when it starts.

    >>> from attnlab.claims import CLAIMS, run_claims
    >>> [result.verdict.outcome for result in run_claims([CLAIMS["copy"]], processes=1)]
    ['holds']
    """
    note_if_off()  # here, because the pool's processes do not
    processes = processes or available_cores()
    parallel = [claim for claim in claims if not claim.alone]
    alone = [claim for claim in claims if claim.alone]
    groups = group_claims(parallel)
    yield from _run_in_pool(groups, seed, size, min(processes, max(1, len(groups))), on_start)
    yield from _run_in_pool([[claim] for claim in alone], seed, size, 1, on_start)


def group_claims(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The claims that each process runs: those of one group, or a single one.

    The largest groups come first, so that no long one starts when all others are done.
    """
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        groups.setdefault(claim.group or f" {claim.name}", []).append(claim)
    return sorted(groups.values(), key=len, reverse=True)


def _run_in_pool(
    groups: Sequence[list[Claim]],
    seed: int,
    size: Size,
    processes: int,
    on_start: Callable[[str], None],
) -> Iterator[Result]:
    """Submits at most as many groups as there are processes, so that `on_start` is called on time.

    When a process is killed (by a crash or for lack of memory), all running claims are lost, and
    the pool does not know which one caused it. Each is run again alone, and fails if killed again.
    """
    queue = list(groups)
    while queue:
        lost: list[Claim] = []
        with _process_pool(processes) as pool:
            running: dict[Future[list[Result]], list[Claim]] = {}
            while running or (queue and not lost):
                while queue and not lost and len(running) < processes:
                    group = queue.pop(0)
                    for claim in group:
                        on_start(claim.name)
                    names = [claim.name for claim in group]
                    running[pool.submit(_run_by_name, names, seed, size)] = group
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    group = running.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        lost += group
                    else:
                        yield from future.result()
        for claim in lost:
            yield _run_alone(claim, seed, size)


def _run_alone(claim: Claim, seed: int, size: Size) -> Result:
    with _process_pool(1) as pool:
        try:
            return pool.submit(_run_by_name, [claim.name], seed, size).result()[0]
        except BrokenProcessPool:
            return Result(claim.name, Verdict("failed", "its process was killed"))


def _process_pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_set_up_process
    )


def _set_up_process() -> None:
    """One thread per process, so that processes do not compete for cores. Ctrl-C reaches them all
    and ends them without a traceback; the main process prints the message."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)


def _run_by_name(names: Sequence[str], seed: int, size: Size) -> list[Result]:
    from attnlab.claims._registry import CLAIMS

    return [run_claim(CLAIMS[name], seed, size) for name in names]
