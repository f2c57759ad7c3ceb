"""Runs only the later blocks of a model again: the earlier ones return what they returned before.

An intervention in one block does not change the blocks before it. `Replay` checks that a model
can skip them without a change of its output; one that cannot is run as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.interpret._attention_sites import (
    AttentionSite,
    StreamBlock,
    block_of,
    find_blocks,
    same_type,
    with_stream,
)
from attnlab.interpret._attnlab_sites import restore_attributes
from attnlab.interpret._inspected_model import BatchOutput
from attnlab.interpret._model_input import ModelInput
from attnlab.interpret._record import run_recorded

TOLERANCE = 1e-4  # relative to the largest output


class Replay:
    """One input of a model, whose blocks have been run once."""

    def __init__(self, source: ModelInput, sites: Sequence[AttentionSite]) -> None:
        self.source = source
        self.blocks: list[StreamBlock] = find_blocks(source.model, sites)
        self.output, self.streams = run_recorded(source, self.blocks)
        self.ran = set(self.streams.order)
        self.usable = (
            bool(self.ran)
            and self.streams.runs_once
            and all(
                self._skips_exactly(index)
                for index in {self.streams.order[len(self.ran) // 2], self.streams.order[-1]}
            )
        )

    def _skips_exactly(self, index: int) -> bool:
        """Whether the output stays the same if all blocks before this one are skipped."""
        try:
            with self.skipping_before(index):
                again = self.source.run().values
        except Exception:  # any model may rely on what a block leaves behind
            return False
        values = self.output.values
        limit = TOLERANCE * float(values.abs().max().clamp(min=1e-6))
        return again.shape == values.shape and float((again - values).abs().max()) <= limit

    def block_index(self, site: AttentionSite) -> int | None:
        index = block_of(site, self.blocks)
        return index if index in self.ran else None

    def run_from(self, index: int | None) -> BatchOutput:
        """Run the model; skip the blocks that run before block `index`, if that is possible."""
        if self.usable and index is not None:
            try:
                with self.skipping_before(index):
                    return self.source.run()
            except Exception:  # a later block needs what a skipped one leaves behind
                self.usable = False
        return self.source.run()

    @contextmanager
    def skipping_before(self, index: int) -> Iterator[None]:
        order = self.streams.order
        skipped = order[: order.index(index)]
        with replaced_outputs({self.blocks[i].module: self.streams.outputs[i] for i in skipped}):
            yield

    def run_with_streams(
        self, index: int, streams: Callable[[Tensor], Tensor], copies: int
    ) -> BatchOutput:
        """Run `copies` rows of the input from the streams (copies, T, W) after block `index`,
        which are made from the recorded one (1, T, W)."""
        order = self.streams.order
        until = order[: order.index(index) + 1]
        outputs = {i: repeat_rows(self.streams.outputs[i], copies) for i in until}
        stream = self.streams.stream(index)
        assert stream is not None
        outputs[index] = with_stream(outputs[index], streams(stream))
        with replaced_outputs({self.blocks[i].module: outputs[i] for i in until}):
            return self.source.repeated(copies).run()


@contextmanager
def replaced_outputs(outputs: dict[nn.Module, Any]) -> Iterator[None]:
    """Modules that return these values instead of running."""
    before = {module: {"forward": module.__dict__.get("forward")} for module in outputs}
    try:
        for module, output in outputs.items():
            module.__dict__["forward"] = _returning(output)
        yield
    finally:
        for module, attributes in before.items():
            restore_attributes(module, attributes)


def _returning(output: Any) -> Callable[..., Any]:
    def forward(*_: Any, **__: Any) -> Any:
        return output

    return forward


def repeat_rows(output: Any, copies: int) -> Any:
    """A block's output for several equal rows."""
    if isinstance(output, Tensor):
        one_row = output.dim() > 0 and len(output) == 1
        return output.expand(copies, *output.shape[1:]) if one_row else output
    if isinstance(output, tuple | list):
        return same_type(output, (repeat_rows(part, copies) for part in output))
    return output


def same_shape_batches(
    sources: Sequence[ModelInput], entries: int
) -> list[tuple[ModelInput, list[int]]]:
    """Join inputs of the same shape into batches with up to about `entries` numbers of output, each
    with the numbers of its inputs. The mask token is at the same position in a batch."""
    batches: list[list[int]] = []
    groups: dict[tuple[Any, ...], int] = {}
    for number, source in enumerate(sources):
        shapes = ((name, tuple(x.shape[1:])) for name, x in source.inputs.items())
        key = (source.first_mask(), *shapes)
        most = max(1, entries // max(1, source.ids.shape[1]))
        index = groups.get(key)
        if index is None or len(batches[index]) >= most:
            groups[key] = len(batches)
            batches.append([number])
        else:
            batches[index].append(number)
    return [(_joined([sources[number] for number in batch]), batch) for batch in batches]


def _joined(batch: list[ModelInput]) -> ModelInput:
    first = batch[0]
    if len(batch) == 1:
        return first
    inputs = {name: torch.cat([each.inputs[name] for each in batch]) for name in first.inputs}
    return ModelInput(
        first.model, first.inspected, inputs, torch.cat([each.ids for each in batch]),
        first.tokens, first.label,
    )  # fmt: skip
