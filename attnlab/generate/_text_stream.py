"""Generated text, piece by piece while tokens arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TextStreamer:
    """Turns tokens into pieces of text. Joined, the pieces equal `decode` of all tokens.

    A character is held back until all of its bytes have arrived.
    """

    def __init__(self, decode: Callable[[list[int]], str], ids: Sequence[int] = ()) -> None:
        """`ids` are the tokens of text that was already shown."""
        self.decode = decode
        self.ids = list(ids)
        self.emitted = len(decode(self.ids))

    def add(self, token: int) -> str:
        """The text that this token adds; empty while a character is incomplete."""
        self.ids.append(token)
        return self._new(self.decode(self.ids).rstrip("\ufffd"))

    def finish(self) -> str:
        """The text still held back, at the end."""
        return self._new(self.decode(self.ids))

    def _new(self, text: str) -> str:
        piece = text[self.emitted :]
        self.emitted = max(self.emitted, len(text))
        return piece
