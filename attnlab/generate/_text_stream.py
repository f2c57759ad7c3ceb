"""Written text, piece by piece while its tokens come."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Pieces:
    """Joined, the pieces are what `read` makes of all tokens.

    A character whose last bytes are still to come waits: until then it reads as a replacement sign.
    """

    def __init__(self, read: Callable[[list[int]], str], ids: Sequence[int] = ()) -> None:
        """`ids`: of a text that was told already."""
        self.read = read
        self.ids = list(ids)
        self.told = len(read(self.ids))

    def add(self, token: int) -> str:
        """What this token adds, perhaps nothing yet."""
        self.ids.append(token)
        return self._new(self.read(self.ids).rstrip("\ufffd"))

    def rest(self) -> str:
        """At the end: what still waits."""
        return self._new(self.read(self.ids))

    def _new(self, text: str) -> str:
        piece = text[self.told :]
        self.told = max(self.told, len(text))
        return piece
