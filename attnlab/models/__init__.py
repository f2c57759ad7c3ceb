"""The models by kind. `load` opens any folder in which a model was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab._short_repr import short_repr
from attnlab.models._model import Model, read_description
from attnlab.models._stack import StackConfig
from attnlab.models.decoder import Decoder
from attnlab.models.encoder import Encoder, EncoderConfig
from attnlab.models.perceiver import Perceiver, PerceiverConfig
from attnlab.models.seq2seq import Seq2Seq, Seq2SeqConfig
from attnlab.models.vision import ConvNet, ConvNetConfig, ViT, ViTConfig
from attnlab.run_folder._file_names import CONFIG, WEIGHTS

MODELS: dict[str, type[Model]] = {
    model.kind: model for model in (Decoder, Perceiver, Encoder, Seq2Seq, ViT, ConvNet)
}

__all__ = [
    "MODELS",
    "ConvNet",
    "ConvNetConfig",
    "Decoder",
    "Encoder",
    "EncoderConfig",
    "Model",
    "Perceiver",
    "PerceiverConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "StackConfig",
    "ViT",
    "ViTConfig",
    "create",
    "load",
]


def create(description: dict[str, Any], source: object = "config") -> Model:
    """A new model from a description, as `Model.description` returns it.

    >>> from attnlab.models import Decoder, StackConfig, create
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3))
    >>> create(model.description()).parameter_count() == model.parameter_count()
    True
    """
    return _find_model(description, source).from_description(description, source)


def load(folder: str | Path) -> Model:
    """The model saved in this folder, of any kind, in evaluation mode.

    >>> from attnlab.models import Decoder, StackConfig, load
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3))
    >>> model.save_pretrained("small-decoder")
    >>> load("small-decoder").parameter_count() == model.parameter_count()
    True
    """
    folder = Path(folder)
    return open_model(read_description(folder), folder / CONFIG, folder / WEIGHTS)


def open_model(description: dict[str, Any], source: Path, weights: Path) -> Model:
    """The model that this description of the file `source` and these weights make, of any kind."""
    return _find_model(description, source).from_files(description, source, weights)


def _find_model(description: dict[str, Any], source: object) -> type[Model]:
    kind = description.get("model")
    if not isinstance(kind, str) or kind not in MODELS:
        raise ValueError(f"{source}: no model {short_repr(kind)}; choose from {', '.join(MODELS)}")
    return MODELS[kind]
