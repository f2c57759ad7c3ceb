"""The base class of all models: a configuration, saving and loading."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from torch import nn

from attnlab._safe_files import read_json, write_atomically, write_json
from attnlab.layers import MultiHead
from attnlab.position import LearnedPositions
from attnlab.run_folder._config import CONFIG_BYTES, parse_config
from attnlab.run_folder._file_names import CONFIG, WEIGHTS


class Model(nn.Module):
    """A model is built from its configuration, a frozen dataclass."""

    kind: ClassVar[str]
    config_class: ClassVar[type[Any]]
    config: Any
    has_idle_parameters: ClassVar[bool] = False
    """`forward` does not use some parameters, so DDP must not wait for their gradients."""

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
        write_atomically(folder / WEIGHTS, lambda part: save_model(self, str(part)))
        write_json(folder / CONFIG, self.description())

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """The model that `save_pretrained` saved, in evaluation mode."""
        model = cls.from_description(read_description(folder), Path(folder) / CONFIG)
        load_weights(model, Path(folder) / WEIGHTS)
        return model.eval()

    @classmethod
    def from_description(cls, description: dict[str, Any], source: object = "config") -> Self:
        settings = {key: value for key, value in description.items() if key != "model"}
        if description.get("model") != cls.kind:
            raise ValueError(
                f"{source}: describes a {description.get('model')!r} model; give a {cls.kind!r}"
            )
        return cls(make_config(cls.config_class, settings, source))


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


def make_config(kind: type[Any], settings: dict[str, Any], source: object) -> Any:
    """The dataclass of these settings, also nested ones. Refuses unknown and missing names."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(settings) - set(fields))
    required = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    missing = sorted(set(required) - set(settings))
    if unknown or missing:
        problem = f"unknown {', '.join(unknown)}" if unknown else f"missing {', '.join(missing)}"
        raise ValueError(f"{source}: {problem} (settings: {', '.join(fields)})")
    nested = getattr(kind, "nested", {})
    values = {
        name: make_config(nested[name], value, source)
        if name in nested and isinstance(value, dict)
        else value
        for name, value in settings.items()
    }
    return kind(**values)


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


def load_weights(model: nn.Module, path: Path) -> None:
    try:
        problem = _shape_mismatch(model, path) or _load_and_compare_names(model, path)
    except FileNotFoundError:
        raise ValueError(f"{path.parent}: holds no weights; {path.name} is missing") from None
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: these weights cannot be read ({reason})") from None
    if problem:
        raise ValueError(
            f"{path}: these weights do not fit the configuration in {CONFIG}: {problem}"
        )


def _shape_mismatch(model: nn.Module, path: Path) -> str:
    """The first mismatch in the model's order; torch would list all, which fills pages."""
    with safe_open(path, framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    for name, tensor in model.state_dict().items():
        expected = tuple(tensor.shape)
        if shapes.get(name, expected) != expected:
            return f"{name} has shape {shapes[name]} in the file, but {expected} as configured"
    return ""


def _load_and_compare_names(model: nn.Module, path: Path) -> str:
    """Load the weights; return a problem if a name is missing or unexpected."""
    missing, unexpected = load_model(model, str(path), strict=False)
    for name in model.state_dict():
        if name in missing:
            return f"{name} is not in the file"
    return f"the file has {unexpected[0]}, which is not configured" if unexpected else ""
