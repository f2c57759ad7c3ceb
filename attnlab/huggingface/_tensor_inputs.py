"""The inputs of a Hugging Face model as tensors, for models that read neither text nor image nor
sound, or several of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab._short_repr import short_repr
from attnlab._tensor_files import load_tensors, read_header
from attnlab.huggingface._image_inputs import drawn, image_medium
from attnlab.huggingface._token_words import HuggingFaceTokens
from attnlab.interpret._arrangement import Medium
from attnlab.interpret._records import Sequence

TEXTS = {"input_ids": "text", "decoder_input_ids": "target"}
MAX_NUMBERS = 2**28


def read_tensors(model: Any, given: Any) -> dict[str, Tensor]:
    """A dict of tensors, or a safetensors file; each is an argument of the model's forward."""
    if isinstance(given, Path):
        given = _read_file(given)
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"inputs are {short_repr(given)}; give a dict of tensors, or their file")
    parameters = inspect.signature(model.forward).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"inputs: {short_repr(name)} is no tensor")
        if name not in parameters and not anything:
            listed = ", ".join(list(parameters)[:12])
            raise ValueError(
                f"inputs: a {type(model).__name__} takes no {short_repr(name)}; it takes {listed}"
            )
    return dict(given)


def _read_file(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"{path}: does not exist; give a safetensors file of the model's inputs")
    count = sum(torch.Size(info.shape).numel() for info in read_header(path).values())
    if count > MAX_NUMBERS:
        raise ValueError(f"{path}: has {count:,} numbers; at most {MAX_NUMBERS:,} are read")
    return load_tensors(path)


def sequences_of(inputs: dict[str, Tensor], words: HuggingFaceTokens | None) -> list[Sequence]:
    """The texts among the inputs: their first rows, as words if there is a tokenizer."""
    sequences = []
    for name, title in TEXTS.items():
        ids = inputs.get(name)
        if ids is None or ids.is_floating_point() or ids.dim() < 2:
            continue
        row = ids[0].reshape(-1).tolist() if ids.dim() == 2 else list(range(ids.shape[1]))
        sequences.append(text_sequence(title, row, words if ids.dim() == 2 else None))
    if len(sequences) == 2:
        sequences[0].name = "source"
    return sequences


def text_sequence(name: str, ids: list[int], words: HuggingFaceTokens | None) -> Sequence:
    if words is None:
        return Sequence(
            name, [str(i) for i in ids], list(range(len(ids))), [False] * len(ids), ids=ids
        )
    texts = [words.text(index) for index in ids]
    special = [index in words.special for index in ids]
    return Sequence(name, texts, words.words(ids, [None] * len(ids)), special, ids=ids)


def media_of(model: Any, inputs: dict[str, Tensor]) -> list[Medium]:
    """The image among the inputs, from its darkest to its brightest pixel."""
    values = inputs.get("pixel_values")
    pixels = None if values is None else drawn(values)
    if values is None or pixels is None:
        return []
    medium = image_medium(model, values, pixels)
    return [] if medium is None else [medium]


def floating_tensors(value: Any) -> Iterator[Tensor]:
    """The floating-point tensors in an output; backbones return tuples of feature maps."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.dim() > 1:
            yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from floating_tensors(part)
