"""What is known of a model's attention to one input; docs/capture-format.md says how it is saved.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnlab.interpret.calls import Kind, StackName

LIMIT = 1e-3  # a smaller difference between weights times values and a layer's output is none


@dataclass
class Layer:
    """One attention layer, one input. Tensors are on the CPU, float32, without gradients."""

    name: str
    """Of the module in its model."""
    stack: StackName
    kind: Kind
    heads: list[int]
    """Numbers of the heads that were kept."""
    all_heads: int
    mechanism: str
    signed: bool
    normalised: bool
    """Rows sum to 1 (or to 0, with nothing to look at)."""
    scale: float | None = None
    start: int = 0
    """Position of the first query: above 0 where the queries before were not captured."""
    weights: Tensor | None = None
    """(H, T, S)."""
    q: Tensor | None = None
    """(H, T, D)."""
    k: Tensor | None = None
    """(G, S, D) of the key heads that the kept heads read, in order."""
    v: Tensor | None = None
    """(G, S, M)."""
    groups: list[int] = field(default_factory=list)
    """For each kept head the index of its key head in k and v."""
    bias: Tensor | None = None
    """(1 or H, T, S): what is added to the scores, the mask aside."""
    allowed: Tensor | None = None
    """(T, S) True where a query may look; None: everywhere."""
    causal: bool = False
    norms: Tensor | None = None
    """(H, S): length of each value."""
    gradient: Tensor | None = None
    """(H, T, S): of a target with respect to the weights."""
    no_gradient: str = ""
    """Why there is none, where the model is the reason; not kept in a file."""
    difference: float | None = None
    """The largest between weights times values and what the layer gave; None: not checked."""
    excess: float | None = None
    """The same as a multiple of what rounding explains (at least LIMIT); None: not known."""
    note: str = ""

    @property
    def doubtful(self) -> bool:
        """More than rounding explains; of a file without `excess`, more than LIMIT."""
        if self.difference is None:
            return False
        return self.difference > LIMIT if self.excess is None else self.excess > 1


@dataclass
class Picture:
    """An image that was cut into patches."""

    pixels: Tensor
    """(height, width, 3) uint8."""
    rows: int
    columns: int
    first: int
    """Tokens before the patches."""


@dataclass
class Sequence:
    """Tokens of one input."""

    name: str
    texts: list[str]
    words: list[int]
    """Which word each token belongs to."""
    special: list[bool]
    segments: list[int] | None = None
    prompt: int | None = None
    """Tokens before the generated ones."""
    picture: Picture | None = None
    ids: list[int] | None = None
    """Token ids, where known; not kept in a file."""


@dataclass
class Pattern:
    """How much a head looks like each known pattern, and which one it is called after."""

    label: str
    scores: dict[str, float]


@dataclass
class NextTokens:
    """For each position what may come next, and how likely what really comes was."""

    sequence: int
    top: list[list[tuple[str, float]]]
    actual: list[float | None]


@dataclass
class Flow:
    """Attention through all layers up to each one: each (T, S)."""

    rollout: list[Tensor] | None = None
    gradient: list[Tensor] | None = None
    target: str = ""
    """What the gradient is of."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why "rollout" or "gradient" is missing."""
    layers: list[int] = field(default_factory=list)


@dataclass
class Side:
    """One model on one input."""

    label: str
    model: dict[str, str | int]
    """name, kind, source, parameters."""
    sequences: list[Sequence]
    layers: list[Layer]
    places: list[tuple[int, int]]
    """For each layer the sequences of its queries and of its keys."""
    patterns: list[list[Pattern]] = field(default_factory=list)
    """For each layer, for each kept head."""
    control: list[list[Pattern]] | None = None
    """The same of an untrained model."""
    next: NextTokens | None = None
    flow: Flow = field(default_factory=Flow)


@dataclass(frozen=True)
class Opening:
    """What a page shows where its address says nothing: of the first side this layer."""

    view: str
    layer: int = 0


@dataclass
class Capture:
    """One side, or two to compare."""

    title: str
    sides: list[Side]
    notes: list[str] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    opening: Opening | None = None


def plain(x: Tensor) -> Tensor:
    """On the CPU, float32, without a graph."""
    return x.detach().to("cpu", torch.float32)
