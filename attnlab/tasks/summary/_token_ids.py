"""Encode texts and summaries as token ids."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class SummaryTextEncoding:
    """Encodes a text and its summary for the model.

    Every word has a space before it, even the first word of a line. So a word has the same tokens
    in the text and in the summary, and can be copied. A text that is too long loses its end.
    """

    tokenizer: Tokenizer
    longest_text: int
    longest_summary: int
    """In tokens, with the end token."""

    def encode_source(self, text: str) -> tuple[list[int], int]:
        """The ids of a text, and how many were cut off."""
        ids = self.tokenizer.encode(normalize_spaces(text))
        return ids[: self.longest_text], max(0, len(ids) - self.longest_text)

    def encode_summary(self, summary: str) -> list[int]:
        """The ids with the end token. They may be longer than the model can write."""
        return [*self.tokenizer.encode(normalize_spaces(summary)), self.tokenizer.end]

    def decode_summary(self, ids: list[int]) -> str:
        return " ".join(self.tokenizer.decode(ids).split())


def normalize_spaces(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(f" {line}" for line in lines if line)
