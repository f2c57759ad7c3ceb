"""Progress over the whole grid: a bar with the time left, or plain lines without a terminal."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attnlab._confidence_intervals import format_number
from attnlab.compare._jobs import TrialJob
from attnlab.compare._plan import PlannedComparison
from attnlab.compare._runs import Attempt, Failure
from attnlab.tasks.comparison import Comparison


class GridProgress:
    """Shows which trials run, how they ended and how long the rest will take."""

    def __init__(
        self,
        plans: Sequence[PlannedComparison],
        jobs: Sequence[TrialJob],
        slots: int,
        quiet: bool,
    ) -> None:
        self.plans, self.slots, self.quiet = plans, slots, quiet
        self.time_left = TimeLeft(slots)
        self.waiting = list(jobs)
        self.total = sum(len(plan.trials) for plan in plans)
        self.several = len(plans) > 1
        console = Console(stderr=True)
        self.bar: Progress | None = None
        if console.is_terminal and not quiet:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            texts = TextColumn("{task.fields[left]}"), TextColumn("{task.description}")
            self.bar = Progress(*columns, *texts, console=console, transient=True)
            self.task = self.bar.add_task("", total=self.total, left="")

    def __enter__(self) -> GridProgress:
        for plan in self.plans:
            name = f"{plan.folder.name}: " if self.several else ""
            for note in (*plan.comparison.notes(plan.trials), _header(plan)):
                self.print(f"{name}{note}")
        if self.bar is not None:
            self.bar.start()
            self._update_bar()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    @property
    def done(self) -> int:
        return sum(len(plan.attempts) for plan in self.plans)

    def begin(self, job: TrialJob) -> None:
        self.waiting.remove(job)
        self.time_left.begin(job)
        if self.slots == 1 and self.bar is None:
            self.print(f"{self.done + 1} of {self.total}: {self._name(job)}")
        self._update_bar()

    def end(self, job: TrialJob, text: str) -> None:
        self.time_left.end(job)
        left = self.time_left.text(self.waiting)
        text = f"{text}; {left}" if left else text
        if self.slots == 1 and self.bar is None:
            self.print(f"    {text}")
        else:
            self.print(f"{self.done} of {self.total}: {self._name(job)}: {text}")
        self._update_bar()

    def _name(self, job: TrialJob) -> str:
        path = job.folder
        return f"{path.parent.name}/{path.name}" if self.several else path.name

    def _update_bar(self) -> None:
        if self.bar is not None:
            running = ", ".join(map(self._name, self.time_left.running))
            left = self.time_left.text(self.waiting)
            self.bar.update(self.task, completed=self.done, description=running, left=left)

    def print(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        elif not self.quiet:
            print(text, file=sys.stderr)


class TimeLeft:
    """Expects each trial to take as long as those of the same contender on the same task, or of
    any contender if there is none yet."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.running: dict[TrialJob, float] = {}

    def begin(self, job: TrialJob) -> None:
        self.running[job] = time.monotonic()

    def end(self, job: TrialJob) -> None:
        seconds = time.monotonic() - self.running.pop(job)
        self.seconds.setdefault(_group(job), []).append(seconds)

    def expected(self, job: TrialJob) -> float | None:
        if job.budget.minutes is not None:
            return 60 * job.budget.minutes
        known = [second for seconds in self.seconds.values() for second in seconds]
        values = self.seconds.get(_group(job), known)
        return statistics.fmean(values) if values else None

    def left(self, waiting: Sequence[TrialJob]) -> float | None:
        """In seconds; None while nothing is known."""
        now = time.monotonic()
        rest: list[float] = []
        for job in (*waiting, *self.running):
            expected = self.expected(job)
            if expected is None:
                return None
            rest.append(max(0.0, expected - (now - self.running.get(job, now))))
        return max([sum(rest) / self.slots, *rest]) if rest else 0.0

    def text(self, waiting: Sequence[TrialJob]) -> str:
        left = self.left(waiting)
        if not left:
            return ""
        return f"about {format_duration(left)} left"


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def describe_attempt(comparison: Comparison, attempt: Attempt) -> str:
    """The metrics of a run, or why it failed."""
    if isinstance(attempt, Failure):
        return f"failed: {attempt.problem}"
    outcome = attempt.outcome
    facts = [
        f"{metric.title} {format_number(outcome.metrics[metric.name], metric.percent)}"
        for metric in comparison.metrics
    ]
    return f"{', '.join(facts)}; {_count(outcome.steps, 'step')}, {60 * outcome.minutes:.0f} s"


def _group(job: TrialJob) -> tuple[str, str]:
    return str(job.folder.parent), f"{job.trial.contender} {job.trial.place}"


def _header(plan: PlannedComparison) -> str:
    budget, done, jobs = plan.budget, len(plan.attempts), len(plan.jobs())
    already = f", {done} of them done" if done else ""
    total = f": {jobs * budget.minutes:g} minutes in all" if budget.minutes else ""
    return f"{_count(len(plan.trials), 'run')} of {budget}{already}{total}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
