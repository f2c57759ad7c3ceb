"""The options of `attnlab look`. Their sentences are also the help of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attnlab._help_groups import CAPTURE, COMMON, MEASUREMENT, OUTPUT
from attnlab.interpret._memory_limit import GIBIBYTES


def parse_place(text: str) -> tuple[int, int, int]:
    """The numbers of LAYER.HEAD.TOKEN."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise ValueError(
            f"no walkthrough {text!r}; give LAYER.HEAD.TOKEN, three numbers from 0, such as 3.1.7"
        )
    layer, head, token = map(int, parts)
    return layer, head, token


@dataclass(frozen=True)
class LookInput:
    """What a model reads."""

    text: Annotated[str | None, "Text for the model to read.", COMMON] = None
    pair: Annotated[
        str | None, "Second text. For an encoder-decoder, the input of its decoder.", COMMON
    ] = None
    image: Annotated[
        Path | None,
        "Image file for a model to read; with --text for a model that reads both.",
        COMMON,
    ] = None
    generate: Annotated[
        int,
        "Number of tokens to generate before the page is made. The page shows them too.",
        COMMON,
    ] = 0
    sound: Annotated[Path | None, "Sound file (WAV) for a model to read.", COMMON] = None
    inputs: Annotated[
        Any,
        "Safetensors file with the inputs of a Hugging Face model as its forward takes them, in "
        "place of a text, an image or a sound. In Python also a dict of tensors.",
        COMMON,
    ] = None


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
    walkthrough: Annotated[
        str | None,
        "Token whose path through the model the page can walk with all numbers, given as "
        "LAYER.HEAD.TOKEN, such as 3.1.7. Without it, the one that the page opens with.",
        CAPTURE,
    ] = None


@dataclass(frozen=True)
class EffectOptions:
    """What changes the prediction, measured by changing the model."""

    effects: Annotated[
        bool,
        "Also measure how the prediction changes without each head, what each layer predicts, and "
        "what attention to each token contributes. It runs the model once for each head and token.",
        MEASUREMENT,
    ] = False
    answer: Annotated[
        str | int | None,
        "Token whose probability --effects measures. Without it, the next token.",
        MEASUREMENT,
    ] = None
    position: Annotated[
        int | None,
        "Number of the token, from 0, whose next token --effects measures in detail. Without it, "
        "the last one or the first mask.",
        MEASUREMENT,
    ] = None
    corrupted: Annotated[
        str | None,
        "Text of equally many tokens with another answer, for the patching map of --effects.",
        MEASUREMENT,
    ] = None

    def check_effects(self, text: str | None, generate: int) -> None:
        details = {"answer": self.answer, "position": self.position, "corrupted": self.corrupted}
        given = [name for name, value in details.items() if value is not None]
        if given and not self.effects:
            raise ValueError(f"--{given[0]} belongs to --effects; give that too")
        if self.corrupted is not None and (text is None or generate):
            raise ValueError("--corrupted needs --text, without --generate")


@dataclass(frozen=True)
class LookOptions(EffectOptions, CaptureLimits, LookInput):
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
    progress: Annotated[
        Any, "Function that gets the number of heads whose effect is measured, and of all heads."
    ] = None

    def __post_init__(self) -> None:
        given = self.without
        object.__setattr__(self, "without", (given,) if isinstance(given, str) else tuple(given))
        for name in ("image", "sound", "inputs"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))
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
        self.check_effects(self.text, self.generate)
        if self.walkthrough is not None:
            parse_place(self.walkthrough)
        if self.generate > self.max_tokens:
            raise ValueError(
                f"--generate {self.generate} exceeds --max-tokens {self.max_tokens}; give fewer"
            )
