"""Where the queries of a call stand, and what its weights are like: a model says neither.

Letters: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attnlab.interpret._attention_call import Kind, StackName


def pick_heads(x: Tensor, heads: Sequence[int]) -> Tensor:
    """These of all heads (H, ...); not copied where that is all of them."""
    return x if list(heads) == list(range(len(x))) else x[list(heads)]


def nature(weights: Tensor) -> tuple[bool, bool]:
    """Whether weights (H, T, S) have negative ones, and whether their rows sum to 1 (or 0)."""
    sums = weights.sum(-1)
    normalized = ((sums - 1).abs() < 1e-3) | (sums == 0)
    return bool(weights.numel() and weights.amin() < 0), bool(normalized.all())


class Positions:
    """Where each layer's next queries stand, from lengths alone: a model does not say it."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.starts: dict[StackName, int] = {}

    def place(self, name: str, stack: StackName, kind: Kind, T: int, S: int) -> tuple[int, int]:
        """`start` and `first` of a call of T queries to S keys.

        As many keys as queries is a new text. Fewer queries go on after what a cache holds; if it
        holds less than was seen, it has forgotten the beginning. Cross-attention goes on where
        its stack's self-attention, which runs before it, did.
        """
        if kind == "cross":
            return self.starts.get(stack, 0), 0
        end = self.ends.get(name)
        if T == S:
            start = first = 0
        elif end is not None and end + T > S:
            start, first = end, end + T - S
        else:
            start, first = S - T, 0
        self.ends[name] = start + T
        self.starts[stack] = start
        return start, first
