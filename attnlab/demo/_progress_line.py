"""The demo's progress bar in a terminal. Without a terminal, training prints its own lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

ProgressCallback = Callable[[int, int, str], None]
"""Called with the number of steps done, the total, and a text to show."""


def show_startup_status() -> AbstractContextManager[object]:
    """Shows a spinner while torch is imported, which takes seconds."""
    console = Console(stderr=True)
    return console.status("Starting") if console.is_terminal else nullcontext()


class ProgressLine:
    """Shows the progress of the whole demo and the running part, on standard error."""

    def __init__(self, total: float) -> None:
        """`total` is the sum of the sizes of all parts."""
        console = Console(stderr=True)
        self.visible, self.done = console.is_terminal, 0.0
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
            disable=not self.visible,
        )
        self.task = self.progress.add_task("", total=total, facts="")

    @contextmanager
    def part(
        self, title: str, size: float, stages: Sequence[float] = (1.0,)
    ) -> Iterator[ProgressCallback]:
        """Starts a part. Each of its `stages` is a fraction of it, and counts its steps from 0."""
        before, self.done = self.done, self.done + size
        stage = last = 0

        def report(done: int, total: int, facts: str) -> None:
            nonlocal stage, last
            stage += done < last  # the next stage counts from 0 again
            last = done
            weight = stages[stage] if stage < len(stages) else 0.0
            fraction = min(1.0, sum(stages[:stage]) + weight * done / max(1, total))
            self.progress.update(self.task, completed=before + size * fraction, facts=facts)

        self.progress.update(self.task, description=title, completed=before, facts="")
        with self.progress:
            yield report
