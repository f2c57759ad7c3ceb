"""The places of a model where interventions act: its attention layers and its blocks.

Letters: B batch, T queries, S keys, H heads, M value size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attnlab.interpret._attention_call import AttentionKind, StackName

HeadEdit = Callable[[Tensor], Tensor]
"""Changes the heads' outputs (B, T, H, M)."""
WeightEdit = Callable[[Tensor, Tensor], Tensor]
"""Changes the weights (B, T, S) of one head; the second argument says which keys are allowed."""


class AttentionSite(ABC):
    """One attention layer, whose heads can be changed from outside."""

    name: str
    """As `capture` names it."""
    module: nn.Module
    stack: StackName
    kind: AttentionKind
    heads: int | None
    """None if only a run can tell."""

    @abstractmethod
    def edit_heads(self, edit: HeadEdit) -> AbstractContextManager[object]:
        """Change the heads' outputs, before the layer's output projection mixes them."""

    @abstractmethod
    def edit_weights(
        self, heads: Sequence[int], edit: WeightEdit
    ) -> AbstractContextManager[object]:
        """Change the weights of these heads; the other heads stay the same to the bit."""

    def check_heads(self, heads: Sequence[int], count: int | None = None) -> None:
        count = self.heads if count is None else count
        wrong = [head for head in heads if count is not None and not 0 <= head < count]
        if wrong:
            assert count is not None
            raise ValueError(
                f"no head {wrong[0]} in {self.name}, which has {count}; "
                f"give numbers from 0 to {count - 1}"
            )


def checked_edit(edit: WeightEdit, weights: Tensor, allowed: Tensor) -> Tensor:
    """The edited weights (B, T, S) of one head; raises if an edit returns something else."""
    edited = edit(weights.clone(), allowed)
    if not isinstance(edited, Tensor) or edited.shape != weights.shape:
        shape = tuple(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
        raise ValueError(
            f"the edit of weights {tuple(weights.shape)} returned {shape}; return a tensor of the "
            "same shape: batch, queries, keys"
        )
    return edited


@dataclass(frozen=True)
class StreamBlock:
    """One block of the residual stream. Its output is the stream after it."""

    name: str
    module: nn.Module
    group: str
    """Name of the list of blocks that it belongs to: an encoder's and a decoder's differ."""


def find_blocks(model: nn.Module, sites: Sequence[AttentionSite]) -> list[StreamBlock]:
    """The elements of the outermost module lists that hold the attention layers, in order."""
    attending = {site.module for site in sites}
    blocks: list[StreamBlock] = []
    groups: list[str] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{group}.") for group in groups)
        if inside or not isinstance(module, nn.ModuleList):
            continue
        if not any(part in attending for part in module.modules()):
            continue
        groups.append(name)
        blocks += [
            StreamBlock(f"{name}.{number}", block, name) for number, block in enumerate(module)
        ]
    return blocks


def block_of(site: AttentionSite, blocks: Sequence[StreamBlock]) -> int | None:
    """The index of the block that holds a layer."""
    for index, block in enumerate(blocks):
        if any(part is site.module for part in block.module.modules()):
            return index
    return None


def stream_of(output: object) -> Tensor | None:
    """The residual stream (B, T, W) in the output of a block: its first tensor."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    return first if isinstance(first, Tensor) and first.dim() == 3 else None


def with_stream(output: object, stream: Tensor) -> object:
    """The output of a block with another stream."""
    if isinstance(output, tuple | list):
        return same_type(output, (stream, *output[1:]))
    return stream


def same_type(output: Any, parts: Iterable[Any]) -> Any:
    """A tuple, named tuple or list like `output`, of other parts."""
    return getattr(type(output), "_make", type(output))(parts)
