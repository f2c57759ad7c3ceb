"""The inputs and outputs of one call of one attention layer, of any library's model.

Letters: H requested heads, G key heads that they use, T queries, S keys, D head size, M value
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

AttentionKind = Literal["self", "cross"]
StackName = Literal["encoder", "decoder"]


@dataclass
class AttentionCall:
    """One row of the batch, the requested heads. Tensors are detached, on any device."""

    name: str
    stack: StackName
    kind: AttentionKind
    heads: list[int]
    all_heads: int
    start: int
    """Position of the first query; 0 starts a new input."""
    first_key: int = 0
    """Position of the first key. It is above 0 if a sliding cache has dropped older keys."""
    mechanism: str = "softmax"
    signed: bool = False
    normalized: bool = True
    causal: bool = False
    scale: float | None = None
    weights: Tensor | None = None  # (H, T, S)
    q: Tensor | None = None  # (H, T, D)
    k: Tensor | None = None  # (G, S, D)
    v: Tensor | None = None  # (G, S, M)
    groups: list[int] = field(default_factory=list)
    bias: Tensor | None = None  # (1 or H, T, S)
    allowed: Tensor | None = None  # (T, S)
    head_outputs: Tensor | None = None  # (H, T, M): what the layer computed
    condition: Tensor | float = 1.0
    """By which factor a rounding error may grow: one number, or (H, T, 1)."""
    checkable: bool = True
    """Whether weights times values must equal `head_outputs` (not with dropout)."""
    output: Tensor | None = None
    """The layer's full output with its graph, to hook its gradient."""
    select: Callable[[Tensor], Tensor] | None = None
    """Selects (H, T, M) from a gradient of `output`."""
    output_is_weights: bool = False
    """`output` holds the weights themselves, and `select` returns (H, T, S)."""
    no_gradient: str = ""
    """Why the model allows no gradient, if so."""
    parts: int = 1
    """Into how many parts (windows, frames, crops) the layer splits an input; it is one of them."""
    note: str = ""


class CallListener(Protocol):
    """Receives the attention calls of a model."""

    row: int
    wants_weights: bool
    wants_gradients: bool

    def select_heads(
        self,
        name: str,
        *,
        batch: int,
        heads: int,
        queries: int,
        keys: int,
        usual: list[int] | None = None,
    ) -> list[int] | None:
        """The requested heads of this layer; None skips the layer. `usual`: those to take if none
        are requested, instead of all."""

    def reserve_memory(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        """Raise if the weights that the model itself keeps until its end need too much memory."""

    def on_call(self, call: AttentionCall) -> None: ...

    def note(self, sentence: str) -> None: ...


def key_heads(heads: Sequence[int], H: int, G: int) -> tuple[list[int], list[int]]:
    """The key heads that `heads` (of H, sharing G key heads) use, and each head's index in them."""
    used_by = [head * G // H for head in heads]
    used = sorted(set(used_by))
    return used, [used.index(key_head) for key_head in used_by]


def at_least_float32(x: Tensor) -> Tensor:
    """Detached, in float32 or better, so that our own computation adds no rounding of its own."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
