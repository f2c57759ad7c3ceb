"""What a person sees while the story is made: in a terminal two bars, which move all the time;
elsewhere the lines that training prints anyway."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

Tick = Callable[[int, int, str], None]
"""Done, of how many, what is under way in words."""
UNIT = 1000  # steps of the bar of the whole


def getting_ready() -> AbstractContextManager[object]:
    """Something to see while torch is read, which takes seconds."""
    console = Console(stderr=True)
    return console.status("getting ready") if console.is_terminal else nullcontext()


def _silent(*_: object) -> None:
    """Elsewhere than in a terminal nobody is told."""


class Clock(ProgressColumn):
    """Time since `begin`, which may lie before the bar was drawn."""

    def render(self, task: Task) -> Text:
        seconds = int(time.monotonic() - task.fields["begin"])
        return Text(f"{seconds // 60}:{seconds % 60:02}")


class Bars:
    """One bar for the whole and one for the part under way, on standard error."""

    def __init__(self, whole: float) -> None:
        """`whole`: of all parts together, in the unit that each is measured in."""
        self.console = Console(stderr=True)
        self.whole, self.done = whole, 0.0
        self.begin = time.monotonic()
        self.shown = self.console.is_terminal

    @contextmanager
    def part(self, title: str, size: float, stages: Sequence[float] = (1.0,)) -> Iterator[Tick]:
        """A part; each of its `stages` counts from the beginning and is that share of it."""
        before, self.done = self.done, self.done + size
        if not self.shown:
            yield _silent
            return
        progress = self._progress()
        whole = progress.add_task("the whole story", total=UNIT, begin=self.begin, facts="")
        mine = progress.add_task(title, total=None, begin=time.monotonic(), facts="")
        progress.update(whole, completed=UNIT * before / self.whole)
        stage, last = 0, 0

        def tick(done: int, of: int, facts: str) -> None:
            nonlocal stage, last
            stage += done < last  # counted from the beginning again
            last = done
            now = stages[stage] if stage < len(stages) else 0.0
            share = sum(stages[:stage]) + now * done / max(1, of)
            progress.update(whole, completed=UNIT * (before + size * min(1.0, share)) / self.whole)
            progress.update(mine, completed=done, total=of, facts=facts)

        with progress:
            yield tick

    def _progress(self) -> Progress:
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40)),
            Clock(),
            TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True)),
            console=self.console,
            transient=True,
            redirect_stdout=False,  # what is told goes to standard output when no bar is there
            expand=True,
        )
