"""The path of one token through one layer of a model, with all its numbers.

Letters: H captured heads, S keys, D head size, M value size, W width, F inner width of the
feed-forward layer, P parts of the block, N heads whose keys and values are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

WalkthroughPart = Literal["embedding", "vectors", "keys", "heads", "parts", "output"]
PartKind = Literal["self", "cross", "feed_forward"]


@dataclass
class BlockPart:
    """One layer inside a block, and what it adds to the residual stream for the token."""

    kind: PartKind
    values: Tensor
    """(W,)"""


@dataclass
class Walkthrough:
    """What the walkthrough of a page shows beyond weights. What a model does not show is None, and
    `reasons` says why."""

    layer: int
    """Its index in the panel."""
    query: int
    head: int
    """Index among the captured heads: the one that was chosen."""
    block: int
    """Number of the block in its stack, from 0."""
    blocks: int
    """How many blocks the stack has."""
    rotary: bool = False
    """Whether q and k were rotated by their positions."""
    embedding: Tensor | None = None
    """(W,) the residual stream before the first block."""
    input: Tensor | None = None
    """(W,) the residual stream before the layer's block."""
    q: Tensor | None = None
    """(H, D)"""
    dots: Tensor | None = None
    """(H, S): dot products of q with every key."""
    bias: Tensor | None = None
    """(1 or H, S)"""
    key_heads: list[int] = field(default_factory=list)
    """For each of N, the index of its captured head: those whose keys and values are kept."""
    k: Tensor | None = None
    """(N, S, D)"""
    v: Tensor | None = None
    """(N, S, M)"""
    outputs: Tensor | None = None
    """(H, M): each head's output."""
    parts: list[BlockPart] = field(default_factory=list)
    """What each layer of the block adds, in order. Empty if attnlab cannot tell."""
    norm_first: bool = True
    """The stream after the block is the one before plus all parts; otherwise it is normalized after
    each part."""
    hidden: Tensor | None = None
    """(F,): inside the feed-forward layer, after its activation."""
    stream: Tensor | None = None
    """(W,) the residual stream after the block."""
    top: list[tuple[str, float, float]] = field(default_factory=list)
    """The likeliest tokens or classes, with logit and probability."""
    reasons: dict[WalkthroughPart, str] = field(default_factory=dict)
