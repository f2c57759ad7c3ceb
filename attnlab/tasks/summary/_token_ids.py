"""Texts and summaries as ids."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class Wording:
    """How a text and its summary are told to the model.

    Every word has its space before it, the first of a line too: then it is the same token in text
    and summary, and can be copied. A text that is too long is cut at its end.
    """

    tokenizer: Tokenizer
    longest_text: int
    longest_summary: int
    """With the end token."""

    def source(self, text: str) -> tuple[list[int], int]:
        """The ids, and how many were cut off."""
        ids = self.tokenizer.encode(spaced(text))
        return ids[: self.longest_text], max(0, len(ids) - self.longest_text)

    def summary(self, summary: str) -> list[int]:
        """The ids with their end; may be longer than the model writes."""
        return [*self.tokenizer.encode(spaced(summary)), self.tokenizer.end]

    def read(self, ids: list[int]) -> str:
        return " ".join(self.tokenizer.decode(ids).split())


def spaced(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(f" {line}" for line in lines if line)
