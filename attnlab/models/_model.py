"""The base class of all models: a configuration, saving and loading."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import nn

from attnlab._safe_files import read_json, write_atomically, write_json
from attnlab._short_repr import short_repr
from attnlab._tensor_files import save_tensors, unique_tensors
from attnlab.layers import MultiHead
from attnlab.models._read_settings import make_config
from attnlab.models._weights_file import build_and_load
from attnlab.position import LearnedPositions
from attnlab.run_folder._config import CONFIG_BYTES, parse_config
from attnlab.run_folder._file_names import CONFIG, WEIGHTS

IMPORT = "attnlab.huggingface._import_model:import_model"
"""A package of a higher layer, which is imported when it is needed."""
OF_MECHANISM = re.compile(r"\.(mechanism|gates|convolution|output_gate|head_norm)\.")
"""Parameters that depend on the mechanism."""


class Model(nn.Module):
    """A model is built from its configuration, a frozen dataclass."""

    kind: ClassVar[str]
    config_class: ClassVar[type[Any]]
    config: Any
    has_idle_parameters: ClassVar[bool] = False
    """`forward` does not use some parameters, so DDP must not wait for their gradients."""

    @property
    def vocabulary(self) -> int | None:
        """The number of token ids that the model reads; None if it reads no text."""
        return getattr(self.config, "vocabulary", None)

    def parameter_count(self) -> int:
        """The number of parameters; those shared by two layers count once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def flops_per_token(self, length: int) -> float:
        """Operations per token of a training step, forward and backward, for texts of `length`."""
        return 6.0 * count_multiplied_weights(self) + attention_flops(self, length)

    def description(self) -> dict[str, Any]:
        return {"model": self.kind, **dataclasses.asdict(self.config)}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: x.detach().cpu().contiguous() for name, x in unique_tensors(self).items()}
        write_atomically(folder / WEIGHTS, lambda part: save_tensors(tensors, part))
        write_json(folder / CONFIG, self.description())

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """The model that `save_pretrained` saved, in evaluation mode."""
        folder = Path(folder)
        return cls.from_files(read_description(folder), folder / CONFIG, folder / WEIGHTS)

    @classmethod
    def from_description(cls, description: dict[str, Any], source: object = "config") -> Self:
        """A new model with these settings. `source` names them in errors."""
        return cls(cls._read_config(description, source))

    @classmethod
    def from_files(cls, description: dict[str, Any], source: Path, weights: Path) -> Self:
        """The model with these settings and weights, in evaluation mode. Neither is trusted: they
        must fit each other, which is checked before the model is built."""
        config = cls._read_config(description, source)
        return build_and_load(lambda: cls(config), cls.depth(config), source, weights).eval()

    def with_settings(self, **settings: Any) -> tuple[Self, list[str]]:
        """A copy with other settings, such as another `attention`, and the names of the parameters
        that are new: those that only the other mechanism has."""
        model = type(self)(dataclasses.replace(self.config, **settings))
        new, old = unique_tensors(model), unique_tensors(self)
        for name, tensor in old.items():
            kept = name in new and new[name].shape == tensor.shape
            if not kept and not OF_MECHANISM.search(name):
                listed = ", ".join(f"{key} {short_repr(value)}" for key, value in settings.items())
                raise ValueError(
                    f"{listed}: the weights {name} do not fit; choose settings that keep their size"
                )
            if kept:
                new[name].data.copy_(tensor)
        model.train(self.training)
        return model, [
            name for name in new if name not in old or new[name].shape != old[name].shape
        ]

    @classmethod
    def depth(cls, config: Any) -> int:
        """The number of blocks."""
        raise NotImplementedError

    @classmethod
    def _read_config(cls, description: dict[str, Any], source: object) -> Any:
        settings = {key: value for key, value in description.items() if key != "model"}
        if description.get("model") != cls.kind:
            raise ValueError(
                f"{source}: describes a {short_repr(description.get('model'))} model; "
                f"give a {cls.kind!r}"
            )
        return make_config(cls.config_class, settings, source)


def count_multiplied_weights(layers: nn.Module) -> int:
    """How many weights multiply a token: six operations each in a training step. Embeddings and
    positions are only looked up."""
    lookups = (nn.Embedding, LearnedPositions)
    looked_up = {
        id(p)
        for layer in layers.modules()
        if isinstance(layer, lookups)
        for p in layer.parameters()
    }
    multiplied = {id(m.weight) for m in layers.modules() if isinstance(m, nn.Linear)}
    return sum(
        p.numel() for p in layers.parameters() if id(p) not in looked_up or id(p) in multiplied
    )


def attention_flops(layers: nn.Module, length: int) -> float:
    """Operations of a token's attention in a training step: in every layer twelve for each entry of
    its vector and each token that it attends to."""
    widths = sum(m.heads * m.head_dim for m in layers.modules() if isinstance(m, MultiHead))
    return 12.0 * widths * length


def read_description(folder: str | Path) -> dict[str, Any]:
    path = Path(folder) / CONFIG
    try:
        description = read_json(path, CONFIG_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{folder}: holds no model; {CONFIG} {error}") from None
    if isinstance(description, dict) and ("format" in description or "task" in description):
        try:
            description = parse_config(description).model
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from None
    if not isinstance(description, dict) or "model" not in description:
        raise ValueError(f"{path}: does not describe an attnlab model")
    return description
