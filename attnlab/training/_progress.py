"""Progress of a training run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0
Listener = Callable[[int, int, str], None]
"""Called after each step with the steps done, the total steps, and loss and speed as text."""
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def use_progress_listener(listener: Listener) -> Iterator[None]:
    """Send progress to `listener` instead of showing a bar.

    Use it to show one bar for several runs, because two bars would overwrite each other.

    >>> from attnlab.training import use_progress_listener
    >>> with use_progress_listener(lambda step, steps, text: print(f"{step} of {steps}")):
    ...     pass  # train here
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def shows_progress() -> bool:
    """Whether bars and lines may be shown: no listener shows the progress in its own way."""
    return _listener.get() is None


class Reporter:
    """Shows loss, tokens per second, fraction of the machine's matmul peak, and time left."""

    def __init__(
        self, steps: int, done: int, peak: float, quiet: bool = False, unit: str = "tok"
    ) -> None:
        self.steps, self.peak, self.quiet, self.unit = steps, peak, quiet, unit
        self.console = Console(file=sys.stderr)
        self.bar: Progress | None = None
        self.listener = _listener.get()
        self.begin, self.first = time.perf_counter(), done
        self.last_line, self.last_step = 0.0, done
        if self.console.is_terminal and not quiet and self.listener is None:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[facts]}"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self.line = self.bar.add_task("training", total=steps, completed=done, facts="")

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, step: int, loss: float, rate: float, flops: float) -> None:
        """After each step: `rate` units per second, `flops` operations per second."""
        if self.peak:  # other programs may have slowed the measurement of the peak
            self.peak = max(self.peak, flops)
        fraction = flops / self.peak if self.peak else 0.0
        facts = f"loss {loss:.3f}  {rate:,.0f} {self.unit}/s  {fraction:.0%} of peak"
        now = time.perf_counter()
        if self.listener is not None:
            self.listener(step, self.steps, facts)
        elif self.bar is not None:
            self.bar.update(self.line, completed=step, total=self.steps, facts=facts)
        elif not self.quiet and (
            now - self.last_line > SECONDS_BETWEEN_LINES or step == self.steps
        ):
            seconds_per_step = (now - self.begin) / max(1, step - self.first)
            left = seconds_per_step * (self.steps - step)
            print(f"step {step}/{self.steps}  {facts}  {left:,.0f} s left", file=sys.stderr)
            self.last_line = now

    def print_message(self, text: str) -> None:
        if self.quiet:
            return
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr)
