"""How far a bench is: told to whoever listens."""

from __future__ import annotations


class Progress:
    """Says nothing. The command line draws a bar instead."""

    def begin(self, what: str, steps: int) -> None:
        """A part of the bench begins that takes so many steps."""

    def step(self, what: str = "", by: int = 1) -> None:
        """One more is done, and this comes next."""


SILENT = Progress()
