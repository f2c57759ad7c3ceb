"""The options of `attnlab look`. Their sentences are also the help of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attnlab._help_groups import CAPTURE, COMMON, OUTPUT
from attnlab.interpret._memory_limit import GIBIBYTES


@dataclass(frozen=True)
class LookInput:
    """What a model reads."""

    text: Annotated[str | None, "Text for the model to read.", COMMON] = None
    pair: Annotated[
        str | None, "Second text. For an encoder-decoder, the input of its decoder.", COMMON
    ] = None
    image: Annotated[Path | None, "Image file for a vision model to read.", COMMON] = None
    generate: Annotated[
        int,
        "Number of tokens to generate before the page is made. The page shows them too.",
        COMMON,
    ] = 0


@dataclass(frozen=True)
class CaptureLimits:
    """Which parts of a run are captured, and how large they may be."""

    neurons: Annotated[
        bool, "Also store queries, keys and values. The page gets larger.", CAPTURE
    ] = False
    layers: Annotated[
        Sequence[int] | None, "Numbers of the layers to capture, from 0. Without it, all.", CAPTURE
    ] = None
    heads: Annotated[
        Sequence[int] | None, "Numbers of the heads to capture, from 0. Without it, all.", CAPTURE
    ] = None
    max_tokens: Annotated[int, "Refuse inputs with more tokens than this.", CAPTURE] = 2048
    gradients: Annotated[
        bool, "Compute gradient-weighted attention, with one backward pass.", CAPTURE
    ] = True
    memory: Annotated[
        float, "Refuse captures that need more memory than this, in GiB.", CAPTURE
    ] = GIBIBYTES


@dataclass(frozen=True)
class LookOptions(CaptureLimits, LookInput):
    """All options of `look` besides the model."""

    tokenizer: Annotated[Any, "Tokenizer or image processor of a model in memory."] = None
    compare: Annotated[
        Any, "Folder of another model to compare with, on the same input.", COMMON
    ] = None
    compare_tokenizer: Annotated[Any, "Tokenizer of the model to compare with, if it differs."] = (
        None
    )
    untrained: Annotated[bool, "Compare with the same model before training.", COMMON] = False
    compare_text: Annotated[
        str | None, "Another text to compare with, for the same model.", COMMON
    ] = None
    without: Annotated[
        tuple[str, ...],
        "Compare with the same model without these heads, given as LAYER.HEAD, such as 3.1.",
        COMMON,
    ] = ()
    control: Annotated[
        bool,
        "Score the attention patterns of an untrained model beside those of each head.",
        CAPTURE,
    ] = True
    seed: Annotated[int, "Random seed for the untrained weights.", CAPTURE] = 0
    title: Annotated[str | None, "Title of the page.", OUTPUT] = None

    def __post_init__(self) -> None:
        given = self.without
        object.__setattr__(self, "without", (given,) if isinstance(given, str) else tuple(given))
        if isinstance(self.image, str):
            object.__setattr__(self, "image", Path(self.image))
        compared = (
            self.compare is not None,
            self.untrained,
            self.compare_text is not None,
            bool(self.without),
        )
        if sum(compared) > 1:
            raise ValueError(
                "compare, untrained, compare_text and without exclude each other; give one of them"
            )
        if self.generate > self.max_tokens:
            raise ValueError(
                f"--generate {self.generate} exceeds --max-tokens {self.max_tokens}; give fewer"
            )
