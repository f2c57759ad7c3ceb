"""A progress line in a terminal; elsewhere training prints its own lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

Tick = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and what to show of it."""


def getting_ready() -> AbstractContextManager[object]:
    """Something to see while torch is imported, which takes seconds."""
    console = Console(stderr=True)
    return console.status("getting ready") if console.is_terminal else nullcontext()


class ProgressLine:
    """The share of the whole demo that is done, and the part under way, on standard error."""

    def __init__(self, total: float) -> None:
        """`total`: of all parts, in the unit in which each is given."""
        console = Console(stderr=True)
        self.shown, self.done = console.is_terminal, 0.0
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40)),
            TimeElapsedColumn(),
            TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True)),
            console=console,
            transient=True,
            redirect_stdout=False,  # results go to standard output between the parts
            expand=True,
            disable=not self.shown,
        )
        self.task = self.progress.add_task("", total=total, facts="")

    @contextmanager
    def part(self, title: str, size: float, stages: Sequence[float] = (1.0,)) -> Iterator[Tick]:
        """A part; each of its `stages` counts from the beginning and is that share of it."""
        before, self.done = self.done, self.done + size
        stage = last = 0

        def tick(done: int, of: int, facts: str) -> None:
            nonlocal stage, last
            stage += done < last  # counted from the beginning again
            last = done
            now = stages[stage] if stage < len(stages) else 0.0
            share = min(1.0, sum(stages[:stage]) + now * done / max(1, of))
            self.progress.update(self.task, completed=before + size * share, facts=facts)

        self.progress.update(self.task, description=title, completed=before, facts="")
        with self.progress:
            yield tick
