"""What is known of a model's attention to one input; docs/capture-format.md says how it is saved.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import Field, InstanceOf, Strict
from torch import Tensor

from attnlab.interpret._attention_call import Kind, StackName

LIMIT = 1e-3  # a smaller difference between weights times values and a layer's output is none

# What a file may hold. A record is not checked when it is made, but when it is saved or read.
Item = TypeVar("Item")
Text = InstanceOf[str]  # pydantic's own str refuses half surrogates, which a token may hold
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict(), Field(ge=0, le=2**53 - 1)]  # what JSON's readers agree on
Axis = Annotated[int, Strict(), Field(ge=1, le=2**24)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Magnitude = Annotated[Number, Field(ge=0)]
Share = Annotated[float, Strict(), Field(ge=0, le=1)]
Items = Annotated[list[Item], Field(fail_fast=True)]  # else each entry may give an error
Several = Annotated[Items[Item], Field(min_length=1)]
ModelKind = Literal["encoder", "decoder", "encoder-decoder", "vision"]
ModelSource = Literal["attnlab", "huggingface"]
FlowKind = Literal["rollout", "gradient"]
View = Literal[
    "heads", "matrix", "model", "neurons", "compare", "generation", "cross", "flow", "image",
    "mask",
]  # fmt: skip


@dataclass(kw_only=True)
class LayerFacts:
    """One attention layer, its arrays aside."""

    name: Text
    """Of the module in its model."""
    stack: StackName
    kind: Kind
    heads: Several[Whole]
    """Numbers of the heads that were kept."""
    all_heads: Axis
    mechanism: Text
    signed: Flag
    normalised: Flag  # spelled as in version 1 of the file format
    """Rows sum to 1 (or to 0, with nothing to look at)."""
    scale: Number | None
    groups: Items[Whole]
    """For each kept head the index of its key head in k and v."""
    difference: Magnitude | None
    """The largest between weights times values and what the layer gave; None: not checked."""
    excess: Magnitude | None = None
    """The same as a multiple of what rounding explains (at least LIMIT); None: not known."""
    note: Text


@dataclass(kw_only=True)
class Layer(LayerFacts):
    """One attention layer, one input. Tensors are on the CPU, float32, without gradients."""

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

    label: Text
    scores: dict[Text, Share]


@dataclass
class NextTokens:
    """For each position what may come next, and how likely what really comes was."""

    sequence: Whole
    top: Items[Items[tuple[Text, Share]]]
    actual: Items[Share | None]


@dataclass
class Flow:
    """Attention through all layers up to each one: each (T, S)."""

    rollout: list[Tensor] | None = None
    gradient: list[Tensor] | None = None
    target: str = ""
    """What the gradient is of."""
    reasons: dict[FlowKind, Text] = field(default_factory=dict)
    """Why "rollout" or "gradient" is missing."""
    layers: list[int] = field(default_factory=list)


@dataclass
class ModelFacts:
    name: Text
    kind: ModelKind
    source: ModelSource
    parameters: Whole


@dataclass
class Side:
    """One model on one input."""

    label: str
    model: ModelFacts
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

    view: View
    layer: Whole


@dataclass
class Capture:
    """One side, or two to compare."""

    title: str
    sides: list[Side]
    notes: list[str] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    opening: Opening | None = None


def facts_of(layer: LayerFacts) -> dict[str, Any]:
    return {each.name: getattr(layer, each.name) for each in fields(LayerFacts)}


def plain(x: Tensor) -> Tensor:
    """On the CPU, float32, without a graph."""
    return x.detach().to("cpu", torch.float32)
