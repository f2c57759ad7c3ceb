"""Base class of the readers: a model with the windows to choose mechanisms on and to check them on,
and the score to compare, which is the model's own loss or how far its output moves.

Letters: T tokens, V vocabulary, K classes, W width.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.heads._inputs import HeadInputs
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._inspected_model import InspectedModel

MIN_TOKENS = 16  # of a window
MASKED_FRACTION = 0.15  # fraction of tokens that an encoder has to predict
MEASURES = {
    "next-token loss": "The loss is measured on the next token, in nats.",
    "masked-token loss": f"The loss is measured on the masked {MASKED_FRACTION:.0%} of tokens, in "
    "nats.",
    "loss of its own words": "The loss is measured on the text that the unchanged model generates "
    "after each window, in nats.",
    "loss of the summaries": "The loss is measured on the summaries' tokens, in nats.",
    "loss of the classes": "The loss is measured on the images' classes, in nats.",
    "distance": "The distance is from the output of the unchanged model, relative to its norm.",
}
TEXT, IMAGES = "text", "images"
MAX_CHARACTERS = 4_000_000  # of a longer text only parts are encoded
WORD_SEARCH = 200  # characters to search for the start of a word


@dataclass(frozen=True)
class InputWindow:
    """The inputs of one forward pass, and the labels of its loss."""

    inputs: dict[str, Tensor]
    labels: Tensor | None = None
    """The token ids (T,) or the class (1,) to predict."""

    @property
    def ids(self) -> Tensor:
        """The token ids of a text, (1, T)."""
        return self.inputs["ids"]


@dataclass(frozen=True)
class WindowSplit:
    """Windows to choose on and windows to check on. No token or image is in two of them."""

    choosing: list[InputWindow]
    checking: list[InputWindow]
    tokens: int | None = None
    """Tokens of a window; None if not known yet."""


class ModelReader(ABC):
    """A model that reads windows."""

    reads: str = TEXT
    """text or images."""
    measure: str
    """The score: a key of MEASURES."""

    def __init__(self, inspected: InspectedModel) -> None:
        self.inspected, self.label = inspected, inspected.label
        self.notes = list(inspected.notes)
        self.seed = 0

    @property
    def model(self) -> nn.Module:
        return self.inspected.model

    def windows(self, inputs: HeadInputs, settings: HeadSettings) -> WindowSplit:
        if (inputs.images is None) != (self.reads == TEXT):
            needed = "a text; give --text FILE" if self.reads == TEXT else "images; give --images"
            raise ValueError(f"{self.label}: this model reads {needed}")
        self.notes += inputs.notes
        return self._create_windows(inputs, settings)

    @abstractmethod
    def _create_windows(self, inputs: HeadInputs, settings: HeadSettings) -> WindowSplit: ...

    @abstractmethod
    def run(self, window: InputWindow) -> Tensor:
        """Logits (1, T, V) or (1, K), or vectors (1, T, W)."""

    @torch.no_grad()
    def evaluate(self, window: InputWindow, number: int) -> Tensor:
        """The loss (), or without labels the whole output."""
        del number  # the window's, for readers that sample something
        output = self.run(window)[0].float()
        if window.labels is None:
            return output
        return F.cross_entropy(output.view(-1, output.shape[-1]), window.labels)

    def score(self, result: Tensor, before: Tensor) -> float:
        """One number: the loss, or the relative distance from the output before."""
        if self.measure == "distance":
            return float((result - before).norm() / before.norm())
        return float(result)

    def note(self, sentence: str) -> None:
        """Adds a note, unless it already exists."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def batch(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=next(self.model.parameters()).device)


def split_in_half(windows: list[InputWindow], tokens: int | None = None) -> WindowSplit:
    """The first half to choose on, the second to check on."""
    middle = len(windows) // 2
    return WindowSplit(windows[:middle], windows[middle:], tokens)


def cut_pieces(
    text: str, encode: Callable[[str], list[int]], size: int, count: int, label: str
) -> list[list[int]]:
    """Up to `count` pieces of `size` token ids, evenly spread over the text."""
    if size < MIN_TOKENS:
        raise ValueError(
            f"{label}: --tokens, the model's limit and its special tokens leave {max(0, size)} "
            f"tokens of text in a window; {MIN_TOKENS} or more are needed"
        )
    if len(text) > MAX_CHARACTERS:
        encoded_parts = [encode(part)[:size] for part in _cut_parts(text, count)]
        if all(len(ids) == size for ids in encoded_parts):
            return encoded_parts
    ids = encode(text)
    size = min(size, len(ids) // 2)
    if size < MIN_TOKENS:
        raise ValueError(
            f"{label}: the text has {len(ids)} tokens; give a text with {2 * MIN_TOKENS} or more: "
            "half to choose mechanisms on, half to check them on"
        )
    count = min(count, len(ids) // size)
    step = len(ids) // count
    return [ids[start : start + size] for start in range(0, count * step, step)]


def _cut_parts(text: str, count: int) -> list[str]:
    """`count` evenly spread parts of a huge text, MAX_CHARACTERS in total. Each starts with a whole
    word if there is a space near its start."""
    step, length = len(text) // count, MAX_CHARACTERS // count
    parts = []
    for start in range(0, count * step, step):
        part = text[start : start + length]
        space = re.search(r"\s", part[:WORD_SEARCH]) if start else None
        parts.append(part[space.end() :] if space else part)
    return parts
