"""Hugging Face models as models of attnlab: the same weights, and the same outputs.

config.json and safetensors are all that is needed, so transformers is not imported.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab._safe_files import read_json
from attnlab._short_repr import short_repr
from attnlab.huggingface._architectures import ARCHITECTURES, Architecture, Stored
from attnlab.huggingface._config_fields import ConfigFields
from attnlab.huggingface._load_model import find_folder
from attnlab.huggingface._weight_files import WeightFiles
from attnlab.models import Model
from attnlab.models._weights_file import build_bounded
from attnlab.run_folder._config import CONFIG_BYTES
from attnlab.run_folder._file_names import CONFIG


def import_model(
    path: str | Path,
    kind: type[Model] | None = None,
    *,
    attention: str | list[str] | None = None,
    context: int | None = None,
) -> tuple[Model, list[str]]:
    """The model in this folder as a model of attnlab, in evaluation mode, and notes about it.

    `kind` is the class that it must be. `attention` replaces the model's own mechanism, `context`
    the longest text in training.
    """
    folder = find_folder(Path(path))
    fields = read_fields(folder)
    architecture = find_architecture(fields, kind)
    config = _make_config(architecture, fields, context)
    with WeightFiles(folder) as files:
        places, missing, notes = _find_places(files, architecture, config)
        model = build_bounded(
            lambda: architecture.kind(config), config.layers, files.header, folder / CONFIG, folder
        )
        _copy_weights(model, files, places)
        _initialize(model, missing)
    if attention is not None:
        model, new = model.with_settings(attention=attention)
        notes += [f"{new[0]} ({len(new)} in all) is not in the file, so it is new"] if new else []
    return model.eval(), notes


def default_context(path: str | Path, most: int) -> int:
    """The longest text that a model was made for; at most `most` unless positions are learned."""
    fields = read_fields(find_folder(Path(path)))
    config = _make_config(find_architecture(fields, None), fields, None)
    return int(config.context if config.position == "learned" else min(config.context, most))


def read_fields(folder: Path) -> ConfigFields:
    """config.json."""
    path = folder / CONFIG
    try:
        description = read_json(path, CONFIG_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(description, dict) or "model_type" not in description:
        raise ValueError(f"{path}: does not describe a Hugging Face model; model_type is missing")
    return ConfigFields(description, path)


def find_architecture(fields: ConfigFields, kind: type[Model] | None) -> Architecture:
    name = fields.values["model_type"]
    known = {
        name: each for name, each in ARCHITECTURES.items() if kind is None or each.kind is kind
    }
    if not isinstance(name, str) or name not in known:
        what = "models" if kind is None else f"{kind.kind}s"
        raise fields.error("model_type", f"attnlab imports {what} of {', '.join(known)}")
    if fields.part("quantization_config"):
        raise fields.error("quantization_config", "give weights that are not quantized")
    return known[name]


def _make_config(architecture: Architecture, fields: ConfigFields, context: int | None) -> Any:
    settings = architecture.read(fields)
    listed = settings.get("attention", ["softmax"])
    settings["attention"] = listed[0] if len(set(listed)) == 1 else listed
    try:
        config = architecture.kind.config_class(**settings)
        if context is None or context == config.context:
            return config
        if config.position == "learned":
            raise ValueError(
                f"context is {context}; this model has {config.context} learned positions"
            )
        return replace(config, context=context)
    except ValueError as error:
        raise ValueError(f"{fields.source}: {error}") from None


def _find_places(
    files: WeightFiles, architecture: Architecture, config: Any
) -> tuple[dict[str, Stored], list[str], list[str]]:
    """Where each tensor is, those that the file lacks, and notes."""
    places, missing = {}, []
    used: set[str] = set()
    for name, place in architecture.tensors(config).items():
        stored = _with_names(place, files, architecture.prefix)
        if stored is None and place.required:
            absent = next(each for each in place.names if each not in files.header)
            raise ValueError(f"{files.folder}: its weights lack {absent}, which {CONFIG} asks for")
        if stored is None:
            missing.append(name)
        else:
            places[name] = stored
            used.update(stored.names)
    tied = "head.weight" if config.tie else None
    ignored = (*architecture.ignored, *(architecture.outer[tied].names if tied else ()))
    others = [name for name in files.header if name not in used and not name.endswith(ignored)]
    strange = [name for name in others if re.search(r"\.\d+\.", name)]
    if strange:
        raise ValueError(
            f"{files.folder}: {short_repr(strange[0])} is no part of {architecture.class_name} in "
            "attnlab"
        )
    notes = [f"{others[0]} is not used"] if others else []
    if missing:
        notes.append(f"the file has no {missing[0]} ({len(missing)} in all), so it is random")
    return places, missing, notes


def _with_names(place: Stored, files: WeightFiles, prefix: str) -> Stored | None:
    """The place with the names in the file, which may lack the prefix; None if it is not there."""
    for names in (place.names, tuple(name.removeprefix(prefix) for name in place.names)):
        if all(name in files.header for name in names):
            return replace(place, names=names)
    return None


@torch.no_grad()
def _copy_weights(model: nn.Module, files: WeightFiles, places: dict[str, Stored]) -> None:
    targets = model.state_dict(keep_vars=True)
    for name, place in places.items():
        shape, expected = files.shape_of(place), tuple(targets[name].shape)
        if shape != expected:
            raise ValueError(
                f"{files.folder}: {place.names[0]} gives shape {shape}, but {CONFIG} describes "
                f"{expected}"
            )
        targets[name].copy_(files.read(place))


@torch.no_grad()
def _initialize(model: nn.Module, names: list[str]) -> None:
    """Give the tensors that no file has the values of a new model."""
    generator = torch.Generator().manual_seed(0)
    targets = model.state_dict(keep_vars=True)
    for name in names:
        if targets[name].dim() > 1:
            targets[name].normal_(std=0.02, generator=generator)
        else:
            targets[name].fill_(float(name.endswith("norm.weight")))
