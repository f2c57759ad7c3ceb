"""Runs one model on one input and captures all that a page shows of it.

Letters: H heads, T queries, S keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from dataclasses import replace
from math import inf

import torch
from torch import nn

from attnlab.interpret._attention_flow import attention_flow
from attnlab.interpret._capture import watch
from attnlab.interpret._head_patterns import head_patterns
from attnlab.interpret._inspected_model import Prepared, Said, Subject, prediction, target_of
from attnlab.interpret._options import CaptureLimits
from attnlab.interpret._recorder import CaptureOptions, Seen
from attnlab.interpret._records import Layer, NextTokens, Pattern, Sequence, Side, plain

LIKELIEST = 10  # next tokens that are kept for each position


def run_captured(
    subject: Subject, prepared: Prepared, limits: CaptureLimits, *, taken: int = 0
) -> tuple[Side, list[str]]:
    """What the model attends to, and notes; `taken` bytes of the memory are gone."""
    _check_size(prepared, limits)
    seen, said, target = _watched(subject, prepared, limits, taken)
    layers = [layer for layer in seen.layers if fits(layer, prepared.sequences)]
    notes = [*prediction(said, subject), *subject.notes, *prepared.notes, *seen.notes]
    notes += _left_out(subject.label, len(layers), len(seen.layers))
    places = [place(layer, prepared.sequences) for layer in layers]
    flow = attention_flow(layers, places, prepared.sequences)
    flow.target = target
    for layer in layers:
        layer.gradient = None  # as large as the weights, and the flow is all that is shown of it
    side = Side(
        label=subject.label,
        model=subject.about(),
        sequences=prepared.sequences,
        layers=layers,
        places=places,
        patterns=[_patterns(layer, prepared.sequences) for layer in layers],
        next=next_tokens(subject, prepared, said),
        flow=flow,
    )
    return side, notes


def control_patterns(
    fresh: Subject, prepared: Prepared, limits: CaptureLimits
) -> list[list[Pattern]]:
    """The patterns of an untrained model, layer by layer: none of its weights are kept."""
    found: dict[str, list[Pattern]] = {}

    def score(layer: Layer) -> None:
        if fits(layer, prepared.sequences):
            found[layer.name] = _patterns(layer, prepared.sequences)

    options = CaptureOptions(
        layers=limits.layers, heads=limits.heads, max_tokens=limits.max_tokens, memory=inf,
        then=score,
    )  # fmt: skip
    with torch.no_grad(), watch(fresh.model, options):
        fresh.run(prepared)
    return list(found.values())


def bytes_of(side: Side) -> int:
    """Bytes of what grows with the square of the tokens."""
    maps = [*(side.flow.rollout or []), *(side.flow.gradient or [])]
    weights = [layer.weights for layer in side.layers if layer.weights is not None]
    return sum(x.numel() * x.element_size() for x in (*maps, *weights))


def _watched(
    subject: Subject, prepared: Prepared, limits: CaptureLimits, taken: int
) -> tuple[Seen, Said, str]:
    """Run the model once, and backward if gradients are wanted."""
    meaning = ""
    options = CaptureOptions(
        qkv=limits.neurons, gradients=limits.gradients, layers=limits.layers, heads=limits.heads,
        max_tokens=limits.max_tokens, memory=limits.memory, taken=taken,
        maps=1 + limits.gradients,
    )  # fmt: skip
    with (
        _frozen(subject.model),
        torch.set_grad_enabled(limits.gradients),
        watch(subject.model, options) as seen,
    ):
        said = subject.run(prepared)
        if limits.gradients:
            value, meaning = target_of(said, subject.token, subject.classes)
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


def _check_size(prepared: Prepared, limits: CaptureLimits) -> None:
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


def fits(layer: Layer, sequences: Sequenced[Sequence]) -> bool:
    """Its queries and keys are the tokens of these sequences."""
    T, S = (len(sequences[each].texts) for each in place(layer, sequences))
    # the model read all at once: a later start is a guess, where queries were merged
    return layer.start == 0 and (layer.weights is None or layer.weights.shape[1:] == (T, S))


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


def _patterns(layer: Layer, sequences: Sequenced[Sequence]) -> list[Pattern]:
    queries, keys = place(layer, sequences)
    return head_patterns(layer, sequences[queries], sequences[keys])


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
