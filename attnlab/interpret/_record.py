"""`attnlab.record`: keeps what happens inside a model while it reads an input, by name.

Letters: H heads, T tokens, S keys, D head size, M value size, W width, V vocabulary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._attention_sites import (
    AttentionSite,
    StreamBlock,
    block_of,
    find_blocks,
    stream_of,
)
from attnlab.interpret._capture import record as capture_with
from attnlab.interpret._inspected_model import BatchOutput
from attnlab.interpret._layer_numbers import list_numbers, numbers_among
from attnlab.interpret._model_input import ModelInput, Text, read_input
from attnlab.interpret._recorder import CaptureOptions
from attnlab.interpret._run_model import evaluating

PARTS = ("attention", "heads", "q", "k", "v", "input", "stream")


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One attention layer. A part that the model does not show is None."""

    number: int
    """As in `intervene`."""
    name: str
    stack: str
    kind: str
    attention: Tensor | None = None  # (H, T, S)
    heads: Tensor | None = None  # (H, T, M) outputs before the output projection
    q: Tensor | None = None  # (H, T, D)
    k: Tensor | None = None  # (G, S, D)
    v: Tensor | None = None  # (G, S, M)
    input: Tensor | None = None  # (T, W) the residual stream before the layer's block
    stream: Tensor | None = None  # (T, W) the residual stream after the layer's block


@dataclass(frozen=True, eq=False)
class Record:
    """What happened inside a model. `record["3.heads"]` is a part of layer 3, and
    `record["logits"]` the output."""

    label: str
    tokens: list[str]
    ids: list[int]
    layers: list[LayerRecord]
    logits: Tensor
    """(T, V) of tokens, (K,) of classes, or vectors (T, W), as `kind` says."""
    kind: str
    notes: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """The names of all recorded tensors."""
        parts = [
            f"{layer.number}.{part}"
            for layer in self.layers
            for part in PARTS
            if getattr(layer, part) is not None
        ]
        return [*parts, "logits"]

    def __getitem__(self, name: str) -> Tensor:
        number, _, part = name.partition(".")
        if name == "logits":
            return self.logits
        value = None
        numbered = {str(layer.number): layer for layer in self.layers}
        if number in numbered and part in PARTS:
            value = getattr(numbered[number], part)
        if value is None:
            known = list_numbers([layer.number for layer in self.layers])
            raise ValueError(
                f"nothing is recorded as {name!r}; give LAYER.PART with {known} for the layer and "
                f"one of {', '.join(PARTS)}, or logits"
            )
        recorded: Tensor = value
        return recorded

    def __repr__(self) -> str:
        return f"Record({self.label!r}, {len(self.tokens)} tokens, {len(self.layers)} layers)"


class StreamRecorder:
    """Keeps the inputs and outputs of blocks, and the order in which they run."""

    def __init__(self, blocks: Sequence[StreamBlock]) -> None:
        self.blocks = blocks
        self.inputs: dict[int, Tensor] = {}
        self.outputs: dict[int, Any] = {}
        self.runs: dict[int, list[tuple[Tensor | None, Tensor | None]]] = {}
        """The streams before and after each run of a block; several if layers share weights."""
        self.order: list[int] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        with ExitStack() as stack:
            for index, block in enumerate(self.blocks):
                before = block.module.register_forward_pre_hook(
                    self._before(index), with_kwargs=True
                )
                stack.callback(before.remove)
                after = block.module.register_forward_hook(self._after(index))
                stack.callback(after.remove)
            yield

    def _before(self, index: int) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            del module
            stream = next(
                (x for x in (*args, kwargs.get("hidden_states")) if isinstance(x, Tensor)), None
            )
            if stream is not None and stream.dim() == 3:
                self.inputs[index] = stream

        return hook

    def _after(self, index: int) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            del module, args
            self.order.append(index)
            self.outputs[index] = output
            run = (self.inputs.get(index), stream_of(output))
            self.runs.setdefault(index, []).append(run)

        return hook

    def stream(self, index: int) -> Tensor | None:
        """The stream (B, T, W) after a block; None if it did not run, or is no such tensor."""
        return stream_of(self.outputs.get(index))

    @property
    def runs_once(self) -> bool:
        return len(set(self.order)) == len(self.order)


def repeat_name(name: str, number: int) -> str:
    """The name of a layer's run, from 1, as `capture` names it."""
    return name if number == 1 else f"{name} ({number})"


@contextmanager
def recording_heads(
    sites: Sequence[AttentionSite], refused: list[str] | None = None
) -> Iterator[dict[str, Tensor]]:
    """The heads' outputs (B, T, H, M) of each layer by name, in the order in which they run. One
    that runs again is named as in `capture`. `refused` gets the names of layers that show none."""
    outputs: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()

    def keep(name: str) -> Any:
        def edit(heads: Tensor) -> Tensor:
            counts[name] += 1
            outputs[repeat_name(name, counts[name])] = heads
            return heads

        return edit

    with ExitStack() as stack:
        for site in sites:
            try:
                context = site.edit_heads(keep(site.name))
            except ValueError:  # a layer without outputs for each head
                if refused is not None:
                    refused.append(site.name)
                continue
            stack.enter_context(context)
        yield outputs


def record(
    model: Any,
    text: Text | None = None,
    *,
    tokenizer: Any = None,
    pair: str | None = None,
    image: str | Path | None = None,
    max_tokens: int = 2048,
) -> Record:
    """Run a model, and keep its residual stream, attention, head outputs, q, k, v and logits.

    `model` is a folder or a model in memory with its `tokenizer`; `text` a text, or token ids. An
    encoder-decoder takes a `pair` of texts, a vision model an `image`. Layers are numbered as in
    `intervene`. The hooks are gone afterwards.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> cache = attnlab.record(model, [5, 6, 7, 5])
    >>> cache["1.heads"].shape  # heads, tokens, size of a head
    torch.Size([3, 4, 8])
    >>> cache["1.stream"].shape, cache["logits"].shape
    (torch.Size([4, 24]), torch.Size([4, 50]))
    """
    source = read_input(model, text, tokenizer=tokenizer, pair=pair, image=image)
    sites = attention_sites(source.model)
    blocks = find_blocks(source.model, sites)
    streams = StreamRecorder(blocks)
    options = CaptureOptions(qkv=True, max_tokens=max_tokens)
    with (
        evaluating(source.model),
        recording_heads(sites) as heads,
        streams.recording(),
        torch.no_grad(),
        capture_with(source.model, options) as captured,
    ):
        output = source.run()
    by_name = {site.name: site for site in sites}
    names = [re.sub(r" \(\d+\)$", "", layer.name) for layer in captured.layers]
    numbers = numbers_among([layer.name for layer in captured.layers], list(by_name))
    layers = []
    for number, layer in enumerate(captured.layers):
        site = by_name.get(names[number])
        index = None if site is None else block_of(site, blocks)
        own = heads.get(layer.name)
        before, after = _run_of(
            streams.runs.get(-1 if index is None else index, []),
            names[:number].count(names[number]),
            names.count(names[number]),
        )
        layers.append(
            LayerRecord(
                numbers[number],
                layer.name,
                layer.stack,
                layer.kind,
                layer.weights,
                None if own is None else _kept(own[0].transpose(0, 1)),
                layer.q,
                layer.k,
                layer.v,
                _kept_row(before),
                _kept_row(after),
            )
        )
    values = _kept(output.values[0])
    return Record(
        source.label, source.tokens, source.ids[0].tolist(), layers, values, output.kind,
        list(captured.notes),
    )  # fmt: skip


def _run_of(
    runs: list[tuple[Tensor | None, Tensor | None]], number: int, count: int
) -> tuple[Tensor | None, Tensor | None]:
    """The block's run that holds run `number` of a layer, which runs `count` times in all."""
    if len(runs) == count:
        return runs[number]
    return runs[0] if len(runs) == 1 else (None, None)


def _kept(x: Tensor) -> Tensor:
    return x.detach().clone()


def _kept_row(x: Tensor | None) -> Tensor | None:
    """(T, W). A stream (T, 1, W), as FSMT's, is not kept: interventions could not patch it."""
    return None if x is None or len(x) != 1 else _kept(x[0])


def run_recorded(
    source: ModelInput, blocks: Sequence[StreamBlock]
) -> tuple[BatchOutput, StreamRecorder]:
    """Run a model and keep what its blocks return."""
    streams = StreamRecorder(blocks)
    with streams.recording():
        output = source.run()
    return output, streams
