"""Which tokens the queries and the keys of each captured layer are.

The sequences of an input are known before the model runs: the tokens of a text, the patches of an
image. A layer may also attend from or to something else, such as frames of a sound, windows, merged
tokens or learned queries. It gets a sequence of its own, of patches or times if these are known, or
else of positions.

Letters: T queries, S keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Sequenced
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from attnlab.interpret._records import Layer, PatchedImage, Sequence

Role = Literal["text", "image", "sound"]
NAMES: dict[str, Role] = {  # of modules
    r"vision|visual|image|pixel|patch": "image",
    r"audio|sound|speech": "sound",
    r"text|language": "text",
}
NEITHER = re.compile(r"q_?former|resampler|perceiver|latent|query_|queries|abstractor", re.I)
"""Parts of models whose tokens are learned queries."""
MIN_PATCHES = 4


class Medium(Protocol):
    """An image or a sound, as tokens."""

    @property
    def role(self) -> Role: ...

    def tokens(self, count: int) -> Sequence | None:
        """This number of tokens; None if they cannot be this medium's."""


@dataclass(frozen=True)
class ImageMedium:
    """An image whose tokens are a grid of patches, after some named tokens."""

    pixels: Tensor
    """(height, width, 3) uint8, as the model reads it."""
    before: Sequenced[str] = ()
    grid: tuple[int, int] | None = None
    """Rows and columns of the patches that the model cuts the image into, if known."""
    role: Role = "image"

    def tokens(self, count: int) -> Sequence | None:
        first = len(self.before)
        if self.grid is not None and count > first + self.grid[0] * self.grid[1]:
            if not self.before:
                return None  # unknown whether the other tokens come before or after
            return self._patches(first, *self.grid, count)
        for lead in (first, 0):
            grid = self.divide(count - lead)
            if grid is not None:
                return self._patches(lead, *grid, count)
        return None

    def divide(self, patches: int) -> tuple[int, int] | None:
        """Rows and columns of this number of square patches."""
        if patches < MIN_PATCHES:
            return None
        height, width = self.pixels.shape[:2]
        side = (height * width / patches) ** 0.5
        rows, columns = round(height / side), round(width / side)
        return (rows, columns) if rows * columns == patches else None

    def _patches(self, first: int, rows: int, columns: int, count: int) -> Sequence:
        image = PatchedImage(self.pixels, rows, columns, first)
        sequence = patch_tokens(image, self.before[:first])
        rest = [f"[{number + 1}]" for number in range(count - len(sequence.texts))]
        sequence.texts += rest
        sequence.words += range(len(sequence.words), count)
        sequence.special += [True] * len(rest)
        return sequence


@dataclass(frozen=True)
class SoundMedium:
    """A sound whose tokens are equally long."""

    seconds: float
    role: Role = "sound"

    def tokens(self, count: int) -> Sequence:
        step = self.seconds / count
        digits = 1 if step >= 0.1 else 2 if step >= 0.01 else 3
        texts = [f"{number * step:.{digits}f}s" for number in range(count)]
        return Sequence("sound", texts, list(range(count)), [False] * count)


def patch_tokens(image: PatchedImage, before: Sequenced[str]) -> Sequence:
    """The tokens of an image: `before`, then the patches as "row,column"."""
    positions = [
        f"{row + 1},{column + 1}" for row in range(image.rows) for column in range(image.columns)
    ]
    texts = [*(f"[{name}]" for name in before), *positions]
    special = [True] * len(before) + [False] * len(positions)
    return Sequence("patches", texts, list(range(len(texts))), special, image=image)


def position_tokens(count: int, name: str = "positions") -> Sequence:
    """Tokens that have no other name than their number, from 1."""
    texts = [str(number + 1) for number in range(count)]
    return Sequence(name, texts, list(range(count)), [False] * count)


class Arrangement:
    """The sequences of one input, and those that its layers need besides."""

    def __init__(self, sequences: Sequenced[Sequence], media: Sequenced[Medium] = ()) -> None:
        self.sequences, self.media = list(sequences), list(media)
        self.known = len(self.sequences)
        self.roles = {_role(each) for each in sequences} | {medium.role for medium in media}
        self._made: dict[tuple[str, int], int] = {}

    def indices(self, layer: Layer) -> tuple[int, int]:
        """The sequences of a layer's queries and keys, whose weights were captured.

        Of two sequences that are known before, the first is the encoder's.
        """
        assert layer.weights is not None
        own = self.known - 1
        if layer.stack == "encoder" and layer.kind == "self":
            own = min(own, 0)
        memory = 0 if self.known > 1 or not self.media else -1
        if layer.stack == "encoder" and own >= 0 and self.sequences[own].name == "target":
            own = -1  # the encoder reads an image or a sound
        T, S = layer.weights.shape[1:]
        queries = self._find(layer, T, own, is_memory=False)
        if layer.kind == "self" and T == S:
            return queries, queries
        return queries, self._find(layer, S, memory, is_memory=layer.kind == "cross")

    def _find(self, layer: Layer, count: int, expected: int, is_memory: bool) -> int:
        """`is_memory`: keys that come from another part of the model."""
        if layer.parts > 1:
            return self._positions(f"part of {layer.parts}", count)
        named = None if is_memory else role_of(layer.name)
        role = named if named in self.roles else None
        fitting = [i for i, each in enumerate(self.sequences) if len(each.texts) == count]
        if expected in fitting and role in (None, _role(self.sequences[expected])):
            return expected
        same = [i for i in fitting if role is not None and _role(self.sequences[i]) == role]
        if same:
            return same[0]
        encodes = layer.stack == "encoder" or not re.search(r"decoder|cross", layer.name)
        reads = encodes or is_memory or role in ("image", "sound")
        learned = NEITHER.search(layer.name) and not is_memory
        for medium in self.media if reads and not learned else ():
            index = self._of_medium(medium, count) if role in (None, medium.role) else None
            if index is not None:
                return index
        if role is None and fitting and fitting[0] < self.known:
            return fitting[0]
        return self._positions("positions", count)

    def _of_medium(self, medium: Medium, count: int) -> int | None:
        if (medium.role, count) not in self._made:
            sequence = medium.tokens(count)
            return None if sequence is None else self._add(medium.role, count, sequence)
        return self._made[medium.role, count]

    def _positions(self, name: str, count: int) -> int:
        if (name, count) not in self._made:
            return self._add(name, count, position_tokens(count, name))
        return self._made[name, count]

    def _add(self, name: str, count: int, sequence: Sequence) -> int:
        self.sequences.append(sequence)
        self._made[name, count] = len(self.sequences) - 1
        return self._made[name, count]


def role_of(name: str) -> Role | None:
    """What the queries of a module are, by its name."""
    return next((role for pattern, role in NAMES.items() if re.search(pattern, name.lower())), None)


def _role(sequence: Sequence) -> Role | None:
    if sequence.name == "patches":
        return "image"
    if sequence.name == "sound":
        return "sound"
    return "text" if sequence.name in ("text", "source", "target") else None
