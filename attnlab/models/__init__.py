"""The models by kind. `load` opens any folder in which a model was saved."""

from __future__ import annotations

from pathlib import Path

from attnlab.models._model import Model, load_weights, read_description
from attnlab.models._stack import StackConfig
from attnlab.models.decoder import Decoder
from attnlab.models.encoder import Encoder, EncoderConfig
from attnlab.models.seq2seq import Seq2Seq, Seq2SeqConfig
from attnlab.models.vision import ConvNet, ConvNetConfig, ViT, ViTConfig
from attnlab.run_folder._file_names import CONFIG, WEIGHTS

MODELS: dict[str, type[Model]] = {
    model.kind: model for model in (Decoder, Encoder, Seq2Seq, ViT, ConvNet)
}

__all__ = [
    "MODELS",
    "ConvNet",
    "ConvNetConfig",
    "Decoder",
    "Encoder",
    "EncoderConfig",
    "Model",
    "Seq2Seq",
    "Seq2SeqConfig",
    "StackConfig",
    "ViT",
    "ViTConfig",
    "create",
    "load",
]


def create(description: dict[str, object], source: object = "config") -> Model:
    """A new model from a description, as `Model.description` returns it.

    >>> from attnlab.models import Decoder, StackConfig, create
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3))
    >>> create(model.description()).parameter_count() == model.parameter_count()
    True
    """
    kind = str(description.get("model"))
    if kind not in MODELS:
        raise ValueError(f"{source}: no model {kind!r}; choose from {', '.join(MODELS)}")
    return MODELS[kind].from_description(description, source)


def load(folder: str | Path) -> Model:
    """The model saved in this folder, of any kind, in evaluation mode.

    >>> from attnlab.models import Decoder, StackConfig, load
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3))
    >>> model.save_pretrained("small-decoder")
    >>> load("small-decoder").parameter_count() == model.parameter_count()
    True
    """
    model = create(read_description(folder), Path(folder) / CONFIG)
    load_weights(model, Path(folder) / WEIGHTS)
    return model.eval()
