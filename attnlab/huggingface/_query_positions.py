"""Works out the positions of a call's queries, and the properties of its weights.

Letters: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attnlab.interpret._attention_call import AttentionKind, StackName


def select_heads(x: Tensor, heads: Sequence[int]) -> Tensor:
    """Select heads from (H, ...); no copy if these are all heads."""
    return x if list(heads) == list(range(len(x))) else x[list(heads)]


def signed_and_normalized(weights: Tensor) -> tuple[bool, bool]:
    """Whether any of the weights (H, T, S) is negative, and whether all rows sum to 1 (or 0)."""
    sums = weights.sum(-1)
    normalized = ((sums - 1).abs() < 1e-3) | (sums == 0)
    return bool(weights.numel() and weights.amin() < 0), bool(normalized.all())


class PositionTracker:
    """Tracks the position of each layer's queries by lengths alone: models do not pass it."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.starts: dict[StackName, int] = {}

    def advance(
        self, name: str, stack: StackName, kind: AttentionKind, T: int, S: int
    ) -> tuple[int, int]:
        """Positions of the first query and of the first key of a call with T queries and S keys.

        As many keys as queries mean a new text. Fewer queries continue after the cached keys; if
        the cache holds fewer keys than there were, it has dropped the oldest. Cross-attention
        starts where the self-attention of its stack did, which runs before it.
        """
        if kind == "cross":
            return self.starts.get(stack, 0), 0
        end = self.ends.get(name)
        if T == S:
            start = first_key = 0
        elif end is not None and end + T > S:
            start, first_key = end, end + T - S
        else:
            start, first_key = S - T, 0
        self.ends[name] = start + T
        self.starts[stack] = start
        return start, first_key
