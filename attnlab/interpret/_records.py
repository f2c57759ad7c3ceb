"""The records of a capture: a model's attention to one input. The file that they are
saved in: docs/reference/capture-format.md.

Letters: H captured heads, G key heads, T queries, S keys, D head size, M value size,
L layers and the embedding, P targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import Field, InstanceOf, Strict
from torch import Tensor

from attnlab.interpret._attention_call import AttentionKind, StackName
from attnlab.interpret._walkthrough import Walkthrough

LIMIT = 1e-3  # tolerated difference between weights times values and a layer's output

# Types of the values in a file. Records are checked when they are saved or read, not when created.
Item = TypeVar("Item")
AnyText = InstanceOf[str]  # pydantic's own str rejects lone surrogates, which a token may contain
StrictBool = Annotated[bool, Strict()]
NonNegativeInt = Annotated[int, Strict(), Field(ge=0, le=2**53 - 1)]  # exact in every JSON reader
AxisLength = Annotated[int, Strict(), Field(ge=1, le=2**24)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Magnitude = Annotated[Number, Field(ge=0)]
Fraction = Annotated[float, Strict(), Field(ge=0, le=1)]
ItemList = Annotated[list[Item], Field(fail_fast=True)]  # otherwise each item may add an error
NonEmptyList = Annotated[ItemList[Item], Field(min_length=1)]
ModelKind = Literal["encoder", "decoder", "encoder-decoder", "vision"]
ModelSource = Literal["attnlab", "huggingface"]
FlowKind = Literal["rollout", "gradient"]
EffectPart = Literal["heads", "keys", "lens", "patching"]
EffectKind = Literal["next", "masked", "classes"]
View = Literal[
    "heads", "walkthrough", "matrix", "model", "effect", "neurons", "compare", "generation",
    "cross", "flow", "image", "mask",
]  # fmt: skip


@dataclass(kw_only=True)
class LayerInfo:
    """One attention layer without its arrays."""

    name: AnyText
    """Name of the module in its model."""
    stack: StackName
    kind: AttentionKind
    heads: NonEmptyList[NonNegativeInt]
    """Numbers of the captured heads."""
    all_heads: AxisLength
    mechanism: AnyText
    signed: StrictBool
    normalised: StrictBool  # spelled as in version 1 of the file format
    """Rows sum to 1 (or to 0 where every key is masked)."""
    scale: Number | None
    groups: ItemList[NonNegativeInt]
    """For each captured head, the index of its key head in k and v."""
    difference: Magnitude | None
    """Largest difference between weights times values and the layer's output; None: not checked."""
    excess: Magnitude | None = None
    """The difference as a multiple of the rounding tolerance (at least LIMIT); None if unknown."""
    note: AnyText


@dataclass(kw_only=True)
class Layer(LayerInfo):
    """One attention layer on one input. Tensors are on the CPU, float32, without gradients."""

    start: int = 0
    """Position of the first query. It is above 0 if the queries before it were not captured."""
    weights: Tensor | None = None
    """(H, T, S)."""
    q: Tensor | None = None
    """(H, T, D)."""
    k: Tensor | None = None
    """(G, S, D): the key heads that the captured heads use, in order."""
    v: Tensor | None = None
    """(G, S, M)."""
    bias: Tensor | None = None
    """(1 or H, T, S): added to the scores, without the mask."""
    allowed: Tensor | None = None
    """(T, S): True where a query may attend; None means everywhere."""
    causal: bool = False
    norms: Tensor | None = None
    """(H, S): norm of each value vector."""
    gradient: Tensor | None = None
    """(H, T, S): gradient of a target with respect to the weights."""
    no_gradient: str = ""
    """Why the model allows no gradient, if so; not saved in files."""
    parts: int = 1
    """Into how many parts the layer splits an input, of which it shows one; not saved in files."""

    @property
    def doubtful(self) -> bool:
        """Whether the difference is more than rounding (above LIMIT in files without `excess`)."""
        if self.difference is None:
            return False
        return self.difference > LIMIT if self.excess is None else self.excess > 1


@dataclass
class PatchedImage:
    """An image that a vision model reads as patches."""

    pixels: Tensor
    """(height, width, 3) uint8."""
    rows: int
    columns: int
    first: int
    """Number of tokens before the patches."""


@dataclass
class Sequence:
    """Tokens of one input."""

    name: str
    texts: list[str]
    words: list[int]
    """The number of the word that each token belongs to."""
    special: list[bool]
    segments: list[int] | None = None
    prompt: int | None = None
    """Number of tokens before the generated ones."""
    image: PatchedImage | None = None
    ids: list[int] | None = None
    """Token ids, if known; not saved in files."""


@dataclass
class HeadPattern:
    """A head's score for each known pattern, and its label."""

    label: AnyText
    scores: dict[AnyText, Fraction]


@dataclass
class NextTokens:
    """For each position the likeliest next tokens, and the probability of the actual one."""

    sequence: NonNegativeInt
    top: ItemList[ItemList[tuple[AnyText, Fraction]]]
    actual: ItemList[Fraction | None]


@dataclass
class Flow:
    """Attention accumulated from the first layer up to each layer: (T, S) each."""

    rollout: list[Tensor] | None = None
    gradient: list[Tensor] | None = None
    target: str = ""
    """The output whose gradient was taken."""
    reasons: dict[FlowKind, AnyText] = field(default_factory=dict)
    """Why "rollout" or "gradient" is missing."""
    layers: list[int] = field(default_factory=list)


@dataclass
class EffectTarget:
    """A token or class whose log-probability is measured."""

    token: AnyText
    probability: Fraction
    """Of the whole model."""


@dataclass
class KeyEffect:
    """A token that the measured position attends to: its weight, mean over layers and heads, and
    the change of the target's log-probability if the position may not attend to it."""

    sequence: NonNegativeInt
    position: NonNegativeInt
    weight: Magnitude
    effect: Number


@dataclass
class KeyEffects:
    points: ItemList[KeyEffect]
    all_keys: NonNegativeInt
    """How many tokens there are; of very many, some are measured."""
    correlation: Annotated[Number, Field(ge=-1, le=1)] | None
    """Spearman's, of the weight and the size of the effect; None if one of them is constant."""


@dataclass
class LensTable:
    """What each layer predicts: L rows, first of the embedding, and P targets."""

    layers: list[str]
    best: list[list[str]]
    """(L, P): the likeliest token."""
    best_probability: Tensor
    """(L, P)."""
    target_probability: Tensor
    """(L, P): of the targets."""
    top: list[list[tuple[str, float]]]
    """(L): the likeliest tokens for the measured target."""


@dataclass
class PatchingTable:
    """Which part of the answer a patch from the clean into the corrupted text restores."""

    layers: list[str]
    clean_tokens: list[str]
    corrupted_tokens: list[str]
    restored: Tensor
    """(L, T)."""
    clean: float
    corrupted: float
    description: str


@dataclass
class Effects:
    """What changes a prediction. There is a target for each of P positions; one of them is measured
    in detail."""

    kind: EffectKind
    """Targets are next tokens, the tokens themselves, or a single class."""
    sequence: int | None
    """Index of the sequence that the targets belong to; None for a class."""
    measured: int
    targets: list[EffectTarget]
    heads: list[Tensor | None]
    """For each layer (H, P): the change of each target's log-probability without each head."""
    keys: KeyEffects | None = None
    lens: LensTable | None = None
    patching: PatchingTable | None = None
    reasons: dict[EffectPart, AnyText] = field(default_factory=dict)
    """Why a part is missing."""


@dataclass
class ModelInfo:
    name: AnyText
    kind: ModelKind
    source: ModelSource
    parameters: NonNegativeInt


@dataclass
class CapturePanel:
    """One model on one input: one of the page's one or two panels."""

    label: str
    model: ModelInfo
    sequences: list[Sequence]
    layers: list[Layer]
    sequence_indices: list[tuple[int, int]]
    """For each layer, the indices of its queries' and of its keys' sequence."""
    patterns: list[list[HeadPattern]] = field(default_factory=list)
    """For each layer, for each captured head."""
    control: list[list[HeadPattern]] | None = None
    """The patterns of an untrained model."""
    next_tokens: NextTokens | None = None
    flow: Flow = field(default_factory=Flow)
    effects: Effects | None = None
    walkthrough: Walkthrough | None = None


@dataclass(frozen=True)
class InitialView:
    """What a page opens with: a view, a layer of the first panel, and if given one of its captured
    heads and a selected query."""

    view: View
    layer: NonNegativeInt
    head: NonNegativeInt | None = None
    query: NonNegativeInt | None = None


@dataclass(frozen=True)
class Highlight:
    """A head of the first panel that is worth a look, with its clearest query and key."""

    layer: NonNegativeInt
    head: NonNegativeInt
    """Its index among the captured heads of the layer."""
    query: NonNegativeInt
    key: NonNegativeInt
    weight: Magnitude
    pattern: AnyText


@dataclass
class Capture:
    """One panel, or two to compare."""

    title: str
    panels: list[CapturePanel]
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the libraries that ran the model."""
    initial_view: InitialView | None = None
    highlights: list[Highlight] = field(default_factory=list)


def layer_fields(layer: LayerInfo) -> dict[str, Any]:
    """The fields of `LayerInfo`, by name."""
    return {field.name: getattr(layer, field.name) for field in fields(LayerInfo)}


def to_cpu_float32(x: Tensor) -> Tensor:
    """A copy on the CPU in float32, detached from the graph."""
    return x.detach().to("cpu", torch.float32)
