"""One model on one input, with all that a page shows of it.

Letters: H heads, T queries, S keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from attnlab.looking.capture import Seen, capture
from attnlab.looking.flow import attention_flow
from attnlab.looking.patterns import head_patterns
from attnlab.looking.records import Layer, NextTokens, Pattern, Sequence, Side, plain
from attnlab.looking.subjects import Prepared, Said, Subject, target_of

LIKELIEST = 10  # next tokens that are kept for each position


@dataclass(frozen=True)
class Limits:
    """How much is captured."""

    layers: Sequenced[int] | None = None
    heads: Sequenced[int] | None = None
    max_tokens: int = 2048
    neurons: bool = False
    """q, k and v too."""
    gradients: bool = True


def side_of(
    subject: Subject, prepared: Prepared, limits: Limits, *, control: int | None = None
) -> tuple[Side, list[str]]:
    """What the model attends to, and notes; `control` is the seed of an untrained one."""
    _check_size(prepared, limits)
    seen, said, target = _watched(subject, prepared, limits)
    layers = fitting(seen.layers, prepared.sequences)
    notes = [*subject.notes, *prepared.notes, *seen.notes]
    notes += _left_out(subject.label, len(layers), len(seen.layers))
    places = [place(layer, prepared.sequences) for layer in layers]
    side = Side(
        label=subject.label,
        model=subject.about(),
        sequences=prepared.sequences,
        layers=layers,
        places=places,
        patterns=_patterns(layers, places, prepared.sequences),
        next=next_tokens(subject, prepared, said),
        flow=attention_flow(layers, places, prepared.sequences),
    )
    side.flow.target = target
    if control is not None:
        fresh, _, _ = _watched(subject.untrained(control), prepared, Limits(
            limits.layers, limits.heads, limits.max_tokens, gradients=False
        ))  # fmt: skip
        same = fitting(fresh.layers, prepared.sequences)
        side.control = _patterns(same, places, prepared.sequences)
    return side, notes


def _watched(subject: Subject, prepared: Prepared, limits: Limits) -> tuple[Seen, Said, str]:
    """Run the model once, and backward if gradients are wanted."""
    meaning = ""
    with (
        _frozen(subject.model),
        torch.set_grad_enabled(limits.gradients),
        capture(
            subject.model,
            qkv=limits.neurons,
            gradients=limits.gradients,
            layers=limits.layers,
            heads=limits.heads,
            max_tokens=limits.max_tokens,
        ) as seen,
    ):
        said = subject.run(prepared)
        if limits.gradients:
            value, meaning = target_of(said, subject.token)
            if value.requires_grad:  # else nothing was captured that it could depend on
                value.backward()
    return seen, replace(said, values=plain(said.values)), meaning


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout meanwhile; a model that is being trained goes on as it was."""
    learning = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in learning:
            module.training = True


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No gradient for any parameter: none is wanted, and they would take the model's size again."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)


def _check_size(prepared: Prepared, limits: Limits) -> None:
    longest = max(len(sequence.texts) for sequence in prepared.sequences)
    if longest > limits.max_tokens:
        raise ValueError(
            f"the input has {longest} tokens; --max-tokens is {limits.max_tokens}: "
            "give a shorter text, or more of them with fewer --layers"
        )


def place(layer: Layer, sequences: Sequenced[Sequence]) -> tuple[int, int]:
    """The sequences of a layer's queries and keys: of two, the first is the encoder's."""
    last = len(sequences) - 1
    if layer.kind == "cross":
        return last, 0
    here = 0 if layer.stack == "encoder" else last
    return here, here


def fitting(layers: Sequenced[Layer], sequences: Sequenced[Sequence]) -> list[Layer]:
    """The layers whose queries and keys are the tokens of these sequences."""

    def fits(layer: Layer) -> bool:
        T, S = (len(sequences[each].texts) for each in place(layer, sequences))
        # the model read all at once: a later start is a guess, where queries were merged
        return layer.start == 0 and (layer.weights is None or layer.weights.shape[1:] == (T, S))

    return [layer for layer in layers if fits(layer)]


def _left_out(label: str, kept: int, count: int) -> list[str]:
    """A note on layers that do not fit; an error where none does."""
    if not kept:
        raise ValueError(
            f"{label}: no layer attends from all tokens of this input to all, so there is "
            "nothing to show; attnlab.capture gives its layers as they are"
        )
    if kept == count:
        return []
    return [
        f"{label}: {count - kept} of {count} layers are left out, because they attend to parts "
        "of the input or to what was merged of it, not to these tokens."
    ]


def _patterns(
    layers: Sequenced[Layer],
    places: Sequenced[tuple[int, int]],
    sequences: Sequenced[Sequence],
) -> list[list[Pattern]]:
    return [
        head_patterns(layer, sequences[queries], sequences[keys])
        for layer, (queries, keys) in zip(layers, places, strict=True)
    ]


def next_tokens(subject: Subject, prepared: Prepared, said: Said) -> NextTokens | None:
    if prepared.written is None or said.meaning != "next":
        return None
    likely = said.values.float().softmax(-1)  # (T, V)
    values, tokens = likely.topk(min(LIKELIEST, likely.shape[1]), dim=-1)
    top = [
        [(subject.token(token), value) for token, value in zip(ids, row, strict=True)]
        for ids, row in zip(tokens.tolist(), values.tolist(), strict=True)
    ]
    follows = torch.tensor(prepared.ids[1:], dtype=torch.int64)
    actual: list[float | None] = likely[:-1].gather(1, follows[:, None])[:, 0].tolist()
    return NextTokens(prepared.written, top, [*actual, None])
