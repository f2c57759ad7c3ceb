"""`attnlab.average`: the mean attention of a head over many texts, by position or by word class.

Letters: T tokens, C word classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlab.interpret._find_heads import captured_self_attention, numbers_of
from attnlab.interpret._layer_numbers import list_numbers
from attnlab.interpret._model_input import ModelInput, Text, read_all
from attnlab.interpret._run_model import evaluating

if TYPE_CHECKING:
    from attnlab.report import Report

CLASSES = ("first token", "function word", "other word", "part of a word", "number", "punctuation")
FUNCTION_WORDS = frozenset(
    """
    a an the and or but nor so if then than that which who whom whose what when where why how this
    these those there here i you he she it we they me him her us them my your his its our their is
    am are was were be been being do does did have has had will would shall should can could may
    might must not no of in on at by for from to with without into onto over under about as up down
    out off again very too also just only both all any some each every
    """.split()  # noqa: SIM905 (a list of 120 texts is hard to read)
)


@dataclass(frozen=True, eq=False)
class AverageAttention:
    """Mean weights: `weights[i][j]` is how much `names[i]` attends to `names[j]`."""

    label: str
    layer: int
    layer_name: str
    head: int
    by: str
    names: list[str]
    weights: Tensor
    """By position (T, T), over the texts that have both. By class (C, C): the mean over queries of
    the weight on all keys of a class."""
    counts: list[int]
    """Texts that reach each position, or queries of each class."""
    texts: int

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import average_report

        return average_report(self)


def average(
    model: Any,
    texts: Sequence[Text],
    layer: int,
    head: int,
    *,
    by: str = "position",
    tokenizer: Any = None,
) -> AverageAttention:
    """Average the attention of one head over many texts.

    Layers are numbered as in `intervene`. `by` is "position", or "class": first token, function
    word, other word, part of a word, number, punctuation. Classes are decided by the tokens' texts
    alone (function words are English).

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> mean = attnlab.average(model, [[5, 6, 7], [8, 9]], layer=1, head=2)
    >>> mean.weights.shape, mean.counts
    (torch.Size([3, 3]), [2, 2, 1])
    """
    if by not in ("position", "class"):
        raise ValueError(f"by is {by!r}; give position or class")
    sources = read_all(model, texts, tokenizer=tokenizer)
    maps = []
    name = ""
    with evaluating(sources[0].model):
        for source in sources:
            name, weights = _head_weights(source, layer, head)
            maps.append(weights)
    if by == "position":
        names, mean, counts = _by_position(maps)
    else:
        names, mean, counts = _by_class(sources, maps)
    return AverageAttention(
        sources[0].label, layer, name, head, by, names, mean, counts, len(sources)
    )


def _head_weights(source: ModelInput, layer: int, head: int) -> tuple[str, Tensor]:
    layers = captured_self_attention(source)
    numbers = numbers_of(source.model, [each.name for each in layers])
    if isinstance(layer, bool) or not isinstance(layer, int) or layer not in numbers:
        raise ValueError(
            f"no layer {layer!r}; {source.label} has {len(layers)} layers that attend from all "
            f"tokens to all: give {list_numbers(numbers)}"
        )
    chosen = layers[numbers.index(layer)]
    if isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < chosen.all_heads:
        raise ValueError(
            f"no head {head!r} in {chosen.name}, which has {chosen.all_heads}; give numbers from 0 "
            f"to {chosen.all_heads - 1}"
        )
    assert chosen.weights is not None
    return chosen.name, chosen.weights[head]


def _by_position(maps: list[Tensor]) -> tuple[list[str], Tensor, list[int]]:
    T = max(len(weights) for weights in maps)
    total, count = torch.zeros(T, T), torch.zeros(T, T)
    for weights in maps:
        t = len(weights)
        total[:t, :t] += weights
        count[:t, :t] += 1
    reached = [sum(len(weights) > position for weights in maps) for position in range(T)]
    return [str(position) for position in range(T)], total / count.clamp(min=1), reached


def _by_class(sources: list[ModelInput], maps: list[Tensor]) -> tuple[list[str], Tensor, list[int]]:
    C = len(CLASSES)
    total, count = torch.zeros(C, C), torch.zeros(C)
    for source, weights in zip(sources, maps, strict=True):
        classes = torch.tensor(word_classes(source))  # (T,)
        member = torch.nn.functional.one_hot(classes, C).float()  # (T, C)
        total += member.mT @ weights @ member
        count += member.sum(0)
    return list(CLASSES), total / count.clamp(min=1)[:, None], [int(n) for n in count]


def word_classes(source: ModelInput) -> list[int]:
    """The class of each token, as an index into CLASSES."""
    continued = _continued(source)
    return [
        0 if position == 0 else CLASSES.index(word_class(text, continued[position]))
        for position, text in enumerate(source.tokens)
    ]


def word_class(text: str, continued: bool) -> str:
    """The class of a token that is not the first, by its text."""
    plain = re.sub(r"^##|^[Ġ▁]", "", text.strip()).strip()
    if not re.search(r"\w", plain):
        return "punctuation"
    if plain.isnumeric():
        return "number"
    if continued:
        return "part of a word"
    return "function word" if plain.lower() in FUNCTION_WORDS else "other word"


def _continued(source: ModelInput) -> list[bool]:
    """Whether each token continues the word of the token before, by spaces and marks."""
    tokens = source.tokens
    spaced = any(text[:1] in " Ġ▁" for text in tokens[1:] if text)
    if any(text.startswith("##") for text in tokens):
        return [text.startswith("##") for text in tokens]
    return [
        bool(spaced and position and text and text[0] not in " Ġ▁" and text[0].isalnum())
        and tokens[position - 1][-1:].isalnum()
        for position, text in enumerate(tokens)
    ]
