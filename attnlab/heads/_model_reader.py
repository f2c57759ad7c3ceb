"""A model and what it reads: pieces to choose mechanisms on and others to check them on, and what
the model says of itself: its own loss, or how far its output moves.

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

from attnlab.heads._inputs import Material
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._inspected_model import Subject

LEAST = 16  # tokens of a window
MASKED = 0.15  # share of an encoder's tokens that it has to guess
MEASURES = {
    "next-token loss": "The loss is of the next token, in nats.",
    "masked-token loss": f"The loss is of {MASKED:.0%} of the tokens, which were masked, in nats.",
    "loss of its own words": "The loss is of the words that the model itself writes after each "
    "text, as it is, in nats.",
    "loss of the summaries": "The loss is of the summaries' tokens, in nats.",
    "loss of the classes": "The loss is of the images' classes, in nats.",
    "distance": "The distance is that of the model's output from its own, relative to its length.",
}
TEXT, IMAGES = "text", "images"
HUGE = 4_000_000  # characters: of a longer text only parts are made into tokens
NEAR = 200  # characters in which a word is looked for


@dataclass(frozen=True)
class Window:
    """What a model reads at once, and what it is judged by."""

    inputs: dict[str, Tensor]
    wanted: Tensor | None = None
    """The ids (T,) that it should say, or the class (1,)."""

    @property
    def ids(self) -> Tensor:
        """Of a text, (1, T)."""
        return self.inputs["ids"]


@dataclass(frozen=True)
class Windows:
    """No token and no image is in two of them."""

    choosing: list[Window]
    checking: list[Window]
    tokens: int | None = None
    """That are read at once; None where nobody knows yet."""


class Reader(ABC):
    """A model that reads windows."""

    reads: str = TEXT
    """text or images."""
    measure: str
    """What `judge` judges by; see MEASURES."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.label = subject, subject.label
        self.notes = list(subject.notes)
        self.seed = 0

    @property
    def model(self) -> nn.Module:
        return self.subject.model

    def windows(self, material: Material, settings: HeadSettings) -> Windows:
        if (material.images is None) != (self.reads == TEXT):
            wanted = "a text; give --text FILE" if self.reads == TEXT else "images; give --images"
            raise ValueError(f"{self.label}: this model reads {wanted}")
        self.notes += material.notes
        return self._windows(material, settings)

    @abstractmethod
    def _windows(self, material: Material, settings: HeadSettings) -> Windows: ...

    @abstractmethod
    def run(self, window: Window) -> Tensor:
        """Logits (1, T, V) or (1, K), or vectors (1, T, W)."""

    @torch.no_grad()
    def judge(self, window: Window, number: int) -> Tensor:
        """The loss (), or all that it gave: what a change of attention is judged by."""
        del number  # of the window, where something is drawn for it
        output = self.run(window)[0].float()
        if window.wanted is None:
            return output
        return F.cross_entropy(output.view(-1, output.shape[-1]), window.wanted)

    def score(self, judged: Tensor, before: Tensor) -> float:
        """One number: the loss, or how far the output moved from what it was before."""
        if self.measure == "distance":
            return float((judged - before).norm() / before.norm())
        return float(judged)

    def note(self, sentence: str) -> None:
        """Once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def batch(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=next(self.model.parameters()).device)


def halves(windows: list[Window], tokens: int | None = None) -> Windows:
    """The first half to choose on, the second to check on."""
    middle = len(windows) // 2
    return Windows(windows[:middle], windows[middle:], tokens)


def pieces(
    text: str, encode: Callable[[str], list[int]], size: int, count: int, label: str
) -> list[list[int]]:
    """Up to `count` of them, an even number, of `size` tokens, spread over the whole text."""
    if size < LEAST:
        raise ValueError(
            f"{label}: would read {max(0, size)} tokens of a text at once, by --tokens and by what "
            f"the model can read and adds before and behind; {LEAST} are the least"
        )
    if len(text) > HUGE:
        found = [encode(part)[:size] for part in _parts(text, count)]
        if all(len(each) == size for each in found):
            return found
    ids = encode(text)
    size = min(size, len(ids) // 2)
    if size < LEAST:
        raise ValueError(
            f"{label}: the text has {len(ids)} tokens; give one of {2 * LEAST} or more, half to "
            "choose on and half to check on"
        )
    count = min(count, len(ids) // size)
    step = len(ids) // count
    return [ids[at : at + size] for at in range(0, count * step, step)]


def _parts(text: str, count: int) -> list[str]:
    """So many beginnings of equal parts of a huge text, each from a word's beginning where one is
    near, together as long as a text may be."""
    step, long = len(text) // count, HUGE // count
    found = []
    for at in range(0, count * step, step):
        part = text[at : at + long]
        word = re.search(r"\s", part[:NEAR]) if at else None
        found.append(part[word.end() :] if word else part)
    return found
