"""What one call of one attention layer was given and gave, whatever model it belongs to.

Letters: H heads asked for, G key heads that they read, T queries, S keys, D head size, M value
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

Kind = Literal["self", "cross"]
StackName = Literal["encoder", "decoder"]


@dataclass
class Call:
    """One row of the batch, the heads asked for. Tensors are without a graph, on any device."""

    name: str
    stack: StackName
    kind: Kind
    heads: list[int]
    all_heads: int
    start: int
    """Position of the first query; 0 begins anew."""
    first: int = 0
    """Position of the first key: a sliding cache forgets what it will never see again."""
    mechanism: str = "softmax"
    signed: bool = False
    normalised: bool = True
    causal: bool = False
    scale: float | None = None
    weights: Tensor | None = None  # (H, T, S)
    q: Tensor | None = None  # (H, T, D)
    k: Tensor | None = None  # (G, S, D)
    v: Tensor | None = None  # (G, S, M)
    groups: list[int] = field(default_factory=list)
    bias: Tensor | None = None  # (1 or H, T, S)
    allowed: Tensor | None = None  # (T, S)
    given: Tensor | None = None  # (H, T, M): what the layer really gave
    condition: Tensor | float = 1.0
    """How many times a rounding error may grow: one for all, or (H, T, 1)."""
    checked: bool = True
    """Weights times values must be what was given (not with dropout, which is random)."""
    output: Tensor | None = None
    """What the layer gave, whole and with its graph, for its gradient."""
    pick: Callable[[Tensor], Tensor] | None = None
    """From a gradient of `output` to its part (H, T, M)."""
    direct: bool = False
    """`output` is the weights themselves, and `pick` gives (H, T, S)."""
    no_gradient: str = ""
    """Why no gradient can be taken, where the model is the reason."""
    note: str = ""


class Listener(Protocol):
    """Who wants to know."""

    row: int
    wants_weights: bool
    wants_gradients: bool

    def admit(
        self, name: str, *, batch: int, heads: int, queries: int, keys: int
    ) -> list[int] | None:
        """The heads of this layer that are asked for; None: leave the layer out."""

    def afford(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        """Refuse what takes too much memory: weights that the model itself keeps until its end."""

    def hear(self, call: Call) -> None: ...

    def note(self, sentence: str) -> None: ...


def key_heads(heads: Sequence[int], H: int, G: int) -> tuple[list[int], list[int]]:
    """Of H heads that share G key heads: the key heads these read, and which of them each reads."""
    read = [head * G // H for head in heads]
    kept = sorted(set(read))
    return kept, [kept.index(key) for key in read]


def accurate(x: Tensor) -> Tensor:
    """Without a graph, in float32 or better: what is computed on the side is not rounded twice."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
