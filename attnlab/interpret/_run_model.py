"""Runs one model on one input and computes everything that a page shows about it.

Letters: H heads, T queries, S keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from dataclasses import replace
from math import inf

import torch
from torch import Tensor, nn

from attnlab._short_repr import one_line
from attnlab.interpret._arrangement import Arrangement
from attnlab.interpret._attention_flow import attention_flow
from attnlab.interpret._capture import record
from attnlab.interpret._head_patterns import allowed_keys, head_patterns
from attnlab.interpret._inspected_model import (
    InspectedModel,
    ModelOutput,
    PreparedInput,
    describe_prediction,
    gradient_target,
)
from attnlab.interpret._loss_check import loss_note
from attnlab.interpret._options import CaptureLimits
from attnlab.interpret._recorder import CapturedAttention, CaptureOptions
from attnlab.interpret._records import (
    CapturePanel,
    HeadPattern,
    Layer,
    NextTokens,
    Sequence,
    to_cpu_float32,
)

TOP_TOKENS = 10  # predicted next tokens that are kept for each position


def run_captured(
    inspected: InspectedModel,
    prepared: PreparedInput,
    limits: CaptureLimits,
    *,
    used_bytes: int = 0,
) -> tuple[CapturePanel, list[str]]:
    """The captured panel, and notes. `used_bytes` of the allowed memory are already in use."""
    _check_size(prepared, limits)
    captured, output, target = _run_once(inspected, prepared, limits, used_bytes)
    arrangement = Arrangement(prepared.sequences, prepared.media)
    arranged = arrange(captured.layers, arrangement)
    layers, indices = [layer for layer, _ in arranged], [pair for _, pair in arranged]
    sequences = arrangement.sequences
    notes = [
        *describe_prediction(output, inspected),
        *(loss_note(inspected.label, output.values, prepared.ids) if output.kind == "next" else ()),
        *inspected.notes,
        *prepared.notes,
        *captured.notes,
    ]
    flow = attention_flow(layers, indices, sequences)
    flow.target = target
    for layer in layers:
        layer.gradient = None  # frees memory: a page shows only the flow
    panel = CapturePanel(
        label=inspected.label,
        model=inspected.info(),
        sequences=sequences,
        layers=layers,
        sequence_indices=indices,
        patterns=[_patterns(layer, sequences, pair) for layer, pair in arranged],
        next_tokens=predict_next_tokens(inspected, prepared, output),
        flow=flow,
    )
    return panel, notes


def control_patterns(
    untrained: InspectedModel, prepared: PreparedInput, limits: CaptureLimits
) -> list[list[HeadPattern]]:
    """The patterns of an untrained model. Layers are scored one by one; no weights are kept."""
    patterns: dict[str, list[HeadPattern]] = {}
    arrangement = Arrangement(prepared.sequences, prepared.media)

    def score(layer: Layer) -> None:
        for one, pair in arrange([layer], arrangement):
            patterns[layer.name] = _patterns(one, arrangement.sequences, pair)

    options = CaptureOptions(
        layers=limits.layers, heads=limits.heads, max_tokens=limits.max_tokens, memory=inf,
        on_layer=score,
    )  # fmt: skip
    with torch.no_grad(), record(untrained.model, options):
        untrained.run(prepared)
    return list(patterns.values())


def memory_used(panel: CapturePanel) -> int:
    """Bytes of the arrays that grow with the square of the tokens."""
    maps = [*(panel.flow.rollout or []), *(panel.flow.gradient or [])]
    weights = [layer.weights for layer in panel.layers if layer.weights is not None]
    return sum(x.numel() * x.element_size() for x in (*maps, *weights))


def _run_once(
    inspected: InspectedModel, prepared: PreparedInput, limits: CaptureLimits, used_bytes: int
) -> tuple[CapturedAttention, ModelOutput, str]:
    """Run the model, and backward for gradients; returns the description of the target too."""
    target = ""
    options = CaptureOptions(
        qkv=limits.neurons, gradients=limits.gradients, layers=limits.layers, heads=limits.heads,
        max_tokens=limits.max_tokens, memory=limits.memory, used_bytes=used_bytes,
        maps=1 + limits.gradients,
    )  # fmt: skip
    with (
        frozen(inspected.model),
        torch.set_grad_enabled(limits.gradients),
        record(inspected.model, options) as captured,
    ):
        output = inspected.run(prepared)
        if limits.gradients:
            value, target = gradient_target(output, inspected.token, inspected.classes)
            if value.requires_grad:  # otherwise it depends on no captured layer
                _backward(value, captured)
    return captured, replace(output, values=to_cpu_float32(output.values)), target


def _backward(value: Tensor, captured: CapturedAttention) -> None:
    """Gradients, unless the model's own code prevents them (it changes its tensors in place)."""
    try:
        value.backward()
    except RuntimeError as error:
        captured.without_gradients(f"No gradients: {one_line(error, 100)}.")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the `with`; afterwards each module is in its mode from before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """No gradients for parameters: they are not used, and would double the memory."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


def _check_size(prepared: PreparedInput, limits: CaptureLimits) -> None:
    longest = max((len(sequence.texts) for sequence in prepared.sequences), default=0)
    if longest > limits.max_tokens:
        raise ValueError(
            f"the input has {longest} tokens; --max-tokens is {limits.max_tokens}: "
            "give a shorter text, or a larger --max-tokens with fewer --layers"
        )


def arrange(
    layers: Sequenced[Layer], arrangement: Arrangement
) -> list[tuple[Layer, tuple[int, int]]]:
    """The layers with the sequences of their queries and keys."""
    for layer in layers:
        _start_at_first(layer)
    return [(layer, arrangement.indices(layer)) for layer in layers]


def _start_at_first(layer: Layer) -> None:
    """The model read all tokens at once, so fewer queries than keys are merged queries, and not
    the last ones of a text that it reads token by token."""
    if layer.start and layer.weights is not None:
        layer.allowed = allowed_keys(layer, *layer.weights.shape[1:])
        layer.start, layer.causal = 0, False


def _patterns(
    layer: Layer, sequences: Sequenced[Sequence], pair: tuple[int, int]
) -> list[HeadPattern]:
    queries, keys = pair
    return head_patterns(layer, sequences[queries], sequences[keys])


def predict_next_tokens(
    inspected: InspectedModel, prepared: PreparedInput, output: ModelOutput
) -> NextTokens | None:
    if prepared.predicted is None or output.kind != "next":
        return None
    probabilities = output.values.float().softmax(-1)  # (T, V)
    values, tokens = probabilities.topk(min(TOP_TOKENS, probabilities.shape[1]), dim=-1)
    top = [
        [(inspected.token(token), value) for token, value in zip(ids, row, strict=True)]
        for ids, row in zip(tokens.tolist(), values.tolist(), strict=True)
    ]
    following = torch.tensor(prepared.ids[1:], dtype=torch.int64)
    actual: list[float | None] = probabilities[:-1].gather(1, following[:, None])[:, 0].tolist()
    return NextTokens(prepared.predicted, top, [*actual, None])
