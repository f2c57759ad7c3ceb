"""Measurements of a model's heads: the error and cost of each mechanism on each head."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

from attnlab._create_mechanism import find_mechanism
from attnlab.bench._contenders import AttnlabMechanism, Sizes
from attnlab.bench._error_bench import mechanism_name

ENCODER, CROSS = "encoder", "cross-attention"


@dataclass
class Head:
    """One head of one layer, and the errors of mechanisms on it."""

    layer: int
    """Its number in its part of the model, counting layers that were left out."""
    name: str
    """Name of the module."""
    head: int
    size: int
    """Head size."""
    errors: dict[str, list[float]] = field(default_factory=dict)
    """Errors of the mechanisms that can replace it, one for each window."""
    part: str = ENCODER
    """encoder, decoder or cross-attention."""
    causal: bool = False
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """Queries and keys of each window."""
    ranks: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By rank: the error of the best approximation of the weights of this rank, and the error of
    the output with these weights."""

    rank_tokens: int = 0
    """Queries or keys, whichever are fewer, of the longest window, which `ranks` is measured on."""

    def error(self, spec: str) -> float:
        """The mean over windows, weighted by their number of queries."""
        pairs = zip(self.errors[spec], self.lengths, strict=True)
        total = sum(queries for queries, _ in self.lengths)
        return sum(error * queries for error, (queries, _) in pairs) / total

    def cost(self, spec: str) -> float:
        """The mean over windows."""
        costs = [head_cost(spec, self.size, *lengths, self.causal) for lengths in self.lengths]
        return sum(costs) / len(costs)


@dataclass
class MeasuredHeads:
    heads: list[Head] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def layers(self) -> list[str]:
        return list(dict.fromkeys(head.name for head in self.heads))

    def heads_in(self, layer: str) -> list[Head]:
        return [head for head in self.heads if head.name == layer]

    def layer_number(self, layer: str) -> int:
        """Its number in its part of the model."""
        return self.heads_in(layer)[0].layer

    @property
    def parts(self) -> dict[str, list[str]]:
        """The layers of each part of the model."""
        parts: dict[str, list[str]] = {}
        for layer in self.layers:
            parts.setdefault(self.heads_in(layer)[0].part, []).append(layer)
        return parts

    @property
    def tokens(self) -> int:
        """The most keys of a window."""
        return max(keys for head in self.heads for _, keys in head.lengths)

    @property
    def lengths_text(self) -> str:
        """ "512 tokens"; for an encoder-decoder "40 to 512 and 64 tokens"."""
        texts = []
        for part, (first, *_) in self.parts.items():
            lengths = [queries for queries, _ in self.heads_in(first)[0].lengths]
            if part != CROSS:
                least, most = min(lengths), max(lengths)
                texts.append(f"{most:,}" if least == most else f"{least:,} to {most:,}")
        return f"{' and '.join(texts or [f'{self.tokens:,}'])} tokens"


@cache
def head_cost(spec: str, size: int, queries: int, keys: int, causal: bool) -> float:
    """Multiplications and additions of one head on one window: the products for the weights or sums
    and for the output. Feature maps and softmax do not count.

    If the numbers of queries and keys differ, N^2 is their product and N their mean: sums absorb
    each key once, and each query reads them once.
    """
    quadratic = "N^2" in find_mechanism(mechanism_name(spec)).card.time
    tokens = math.sqrt(queries * keys) if quadratic else (queries + keys) / 2
    return AttnlabMechanism(spec).flops(Sizes(1, size), tokens, causal)
