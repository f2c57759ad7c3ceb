"""A model's heads as measured: how far each mechanism is from each, and at which cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

from attnlab._create_mechanism import find_mechanism
from attnlab.bench._contenders import Ours, Sizes
from attnlab.bench._error_bench import name_of

ENCODER, CROSS = "encoder", "cross-attention"


@dataclass
class Head:
    """One head of one layer, and each mechanism's error on it, window by window."""

    layer: int
    """As the model counts: its place in its part, counting those that were left out."""
    name: str
    """Of the module."""
    head: int
    size: int
    """Head size."""
    errors: dict[str, list[float]] = field(default_factory=dict)
    """Of those that can take its place."""
    part: str = ENCODER
    """encoder, decoder or cross-attention."""
    causal: bool = False
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """Queries and keys of each window."""
    ranks: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By rank: the least error that any projection of so many directions leaves in the weights,
    and the error of the output with those weights."""

    rank_tokens: int = 0
    """Queries or keys of the window that the ranks are of, what is fewer; the longest."""

    def error(self, spec: str) -> float:
        """The mean over windows, a short one counting less: costs are of the long ones too."""
        pairs = zip(self.errors[spec], self.lengths, strict=True)
        total = sum(queries for queries, _ in self.lengths)
        return sum(error * queries for error, (queries, _) in pairs) / total

    def cost(self, spec: str) -> float:
        """The mean over windows."""
        costs = [cost(spec, self.size, *each, self.causal) for each in self.lengths]
        return sum(costs) / len(costs)


@dataclass
class Measured:
    heads: list[Head] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def layers(self) -> list[str]:
        return list(dict.fromkeys(head.name for head in self.heads))

    def of(self, layer: str) -> list[Head]:
        return [head for head in self.heads if head.name == layer]

    def number(self, layer: str) -> int:
        """Of the layer in its part, as the model counts."""
        return self.of(layer)[0].layer

    @property
    def parts(self) -> dict[str, list[str]]:
        """The layers of each part of the model."""
        found: dict[str, list[str]] = {}
        for layer in self.layers:
            found.setdefault(self.of(layer)[0].part, []).append(layer)
        return found

    @property
    def tokens(self) -> int:
        """The most that a head looks at."""
        return max(keys for head in self.heads for _, keys in head.lengths)

    @property
    def size(self) -> str:
        """512 tokens; of an encoder-decoder 40 to 512 and 64 tokens."""
        found = []
        for part, (first, *_) in self.parts.items():
            lengths = [queries for queries, _ in self.of(first)[0].lengths]
            if part != CROSS:
                least, most = min(lengths), max(lengths)
                found.append(f"{most:,}" if least == most else f"{least:,} to {most:,}")
        return f"{' and '.join(found or [f'{self.tokens:,}'])} tokens"


@cache
def cost(spec: str, size: int, queries: int, keys: int, causal: bool) -> float:
    """Multiplications and additions of one head on one window: the products that make weights or
    sums and the output. Feature maps and softmax are not counted.

    Where queries and keys are not as many, N^2 is their product and N their mean: sums take each
    key in once, and each query reads them once.
    """
    square = "N^2" in find_mechanism(name_of(spec)).card.time
    tokens = math.sqrt(queries * keys) if square else (queries + keys) / 2
    return Ours(spec).flops(Sizes(1, size), tokens, causal)
