"""A model on one input whose heads can be switched off one after another, for the page.

The studio and the notebook widget ask it for the new prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any

import torch
from pydantic import Field, Strict, TypeAdapter
from torch import Tensor

from attnlab._short_repr import one_line
from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._capture_header import one_line_errors
from attnlab.interpret._effects import choose_targets, target_name
from attnlab.interpret._inspected_model import BatchOutput, InspectedModel, PreparedInput
from attnlab.interpret._intervene import intervene
from attnlab.interpret._model_input import from_prepared
from attnlab.interpret._replay import Replay
from attnlab.interpret._run_model import evaluating

TOP = 5  # tokens that a prediction lists
MAX_HEADS = 4096  # that are off at the same time
Head = tuple[
    Annotated[str, Strict(), Field(max_length=1000)],
    Annotated[int, Strict(), Field(ge=0, le=2**20)],
]
"""The name of a layer, and the number of one of its heads."""


@dataclass(frozen=True)
class SwitchRequest:
    """What a page asks for."""

    heads: Annotated[list[Head], Field(max_length=MAX_HEADS, fail_fast=True)]
    position: Annotated[int, Strict(), Field(ge=0, le=2**24)] | None = None


@dataclass(frozen=True)
class SwitchedToken:
    """A token that may come next, with its probabilities."""

    token: str
    before: float
    """Of the whole model."""
    after: float
    """Without the heads that are off."""


@dataclass(frozen=True)
class SwitchedPrediction:
    """The target, and the likeliest tokens without the heads that are off."""

    target: SwitchedToken
    top: list[SwitchedToken]


SWITCH_REQUEST = TypeAdapter(SwitchRequest)


class SwitchableModel:
    """Blocks before the first changed one are not run again, where the model allows it."""

    def __init__(self, inspected: InspectedModel, prepared: PreparedInput) -> None:
        self.inspected = inspected
        self.source = from_prepared(inspected, prepared)

    @cached_property
    def replay(self) -> Replay:
        with evaluating(self.source.model), torch.no_grad():
            return Replay(self.source, attention_sites(self.source.model))

    def predict(self, request: SwitchRequest) -> SwitchedPrediction:
        """The prediction at a position (without it: the last one or the mask) without some heads.

        >>> import attnlab
        >>> from attnlab.models import Decoder, StackConfig
        >>> from attnlab.tokenizer import Characters
        >>> tokenizer = Characters.train(["the cat"])
        >>> sizes = {"context": 16, "width": 24, "layers": 2, "heads": 3}
        >>> model = Decoder(StackConfig(vocabulary=tokenizer.vocabulary, **sizes)).eval()
        >>> seen = attnlab.look(model, "the cat", tokenizer=tokenizer)
        >>> changed = seen.model.predict(SwitchRequest([("stack.blocks.0.attention", 1)]))
        >>> len(changed.top)
        5
        """
        before = self.replay.output
        targets = choose_targets(self.source, before, position=request.position)
        with evaluating(self.source.model), torch.no_grad():
            after = self._run(request.heads)
        row = targets.measured
        old, new = (_probabilities(output, row) for output in (before, after))  # (V,)

        def candidate(index: int) -> SwitchedToken:
            name = target_name(self.source, before, index)
            return SwitchedToken(name, float(old[index]), float(new[index]))

        best = new.topk(min(TOP, len(new))).indices.tolist()
        return SwitchedPrediction(candidate(int(targets.ids[row])), list(map(candidate, best)))

    def _run(self, heads: Sequence[Head]) -> BatchOutput:
        if not heads:
            return self.replay.output
        change = intervene(self.source.model)
        sites = {site.name: site for site in change.sites}
        for layer, head in heads:
            change = change.ablate(layer, head)
        order = self.replay.streams.order
        blocks = [self.replay.block_index(sites[layer]) for layer, _ in heads]
        known = [block for block in blocks if block is not None]
        first = min(known, key=order.index) if len(known) == len(blocks) else None
        with change:
            return self.replay.run_from(first)

    def answer(self, content: Any) -> dict[str, Any]:
        """The answer to a message of the widget: the prediction, or an error of one line."""
        try:
            with one_line_errors():
                request = SWITCH_REQUEST.validate_python(content)
            return asdict(self.predict(request))
        except ValueError as error:
            return {"error": one_line(error, 300)}


def _probabilities(output: BatchOutput, row: int) -> Tensor:
    values = output.values[0].detach().float().cpu()
    return (values if values.dim() == 1 else values[row]).softmax(-1)
