"""What `attnlab look` can be told. Each field's help is also that of the command's option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attnlab.interpret._memory_limit import GIBIBYTES


@dataclass(frozen=True)
class LookInput:
    """What a model reads."""

    text: Annotated[str | None, "What the model reads."] = None
    pair: Annotated[str | None, "A second text; for an encoder-decoder, its decoder's input."] = (
        None
    )
    image: Annotated[Path | None, "The image that a vision model reads."] = None
    generate: Annotated[int, "Tokens to generate first, which are then shown too."] = 0


@dataclass(frozen=True)
class CaptureLimits:
    """Which parts of a run are captured, and how large they may be."""

    neurons: Annotated[bool, "Keep queries, keys and values too: a larger page."] = False
    layers: Annotated[Sequence[int] | None, "Only these layers, from 0."] = None
    heads: Annotated[Sequence[int] | None, "Only these heads, from 0."] = None
    max_tokens: Annotated[int, "Refuse longer inputs."] = 2048
    gradients: Annotated[bool, "Gradient-weighted attention, by one backward pass."] = True
    memory: Annotated[float, "Refuse what takes more GiB: weights, gradients and flow."] = GIBIBYTES


@dataclass(frozen=True)
class LookOptions(CaptureLimits, LookInput):
    """All that `look` takes besides the model."""

    tokenizer: Annotated[Any, "The tokenizer or image processor of a model in memory."] = None
    compare: Annotated[Any, "Another model to compare with, on the same input."] = None
    compare_tokenizer: Annotated[Any, "Its tokenizer, where it has another one."] = None
    untrained: Annotated[bool, "Compare with the same model before training."] = False
    compare_text: Annotated[str | None, "Another text to compare with, for the same model."] = None
    control: Annotated[bool, "Score the patterns of an untrained model beside each head's."] = True
    seed: Annotated[int, "Random seed for the untrained weights."] = 0
    title: Annotated[str | None, "Title of the page."] = None

    def __post_init__(self) -> None:
        if isinstance(self.image, str):
            object.__setattr__(self, "image", Path(self.image))
        compared = (self.compare is not None, self.untrained, self.compare_text is not None)
        if sum(compared) > 1:
            raise ValueError("compare, untrained and compare_text; give one of them")
        if self.generate > self.max_tokens:
            raise ValueError(
                f"--generate {self.generate}; --max-tokens is {self.max_tokens}: give fewer"
            )
