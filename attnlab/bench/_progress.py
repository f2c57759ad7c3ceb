"""Progress of a bench, reported to a listener such as the command line's progress bar."""

from __future__ import annotations


class BenchProgress:
    """Ignores all reports. Subclass it to show them."""

    def begin(self, what: str, steps: int) -> None:
        """A part of the bench begins and takes `steps` steps."""

    def step(self, what: str = "", by: int = 1) -> None:
        """`by` more steps are done; `what` comes next."""


NO_PROGRESS = BenchProgress()
