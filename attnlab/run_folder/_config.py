"""config.json: the one place that reads it, checks it and upgrades it from older versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WrapValidator,
)

from attnlab._safe_files import read_json
from attnlab.run_folder._file_names import CONFIG, FORMAT, VERSION

CONFIG_BYTES = 2**24  # an image run names all of its classes
LAST_STEP = 10**15  # beyond it a float skips whole numbers


class UnknownVersionError(ValueError):
    """A run that a newer attnlab wrote."""


def _else(default: Any) -> WrapValidator:
    """A list of runs survives any value: one of the wrong type counts as not given."""

    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            return default

    return WrapValidator(validate)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


Object = Annotated[dict[str, Any], PlainValidator(_object)]
Count = Annotated[int | None, Field(ge=0, lt=LAST_STEP), _else(None)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class TaskPart(_Part):
    name: Annotated[str | None, _else(None)] = None
    headline: Annotated[str, _else("loss")] = "loss"
    better: Annotated[Literal["lower", "higher"], _else("lower")] = "lower"


class TrainingPart(_Part):
    steps: Count = None
    minutes: Annotated[float | None, _else(None)] = None


class RunConfig(_Part):
    """What readers of any run rely on; `content` has the rest."""

    format: Literal["attnlab-run"]
    version: Literal[3]
    task: TaskPart
    model: Object
    training: TrainingPart
    parameters: Count = None
    versions: Annotated[Object, _else({})] = {}
    content: Object
    """config.json in full, in the newest version."""


def read_config(folder: Path, *, follow_links: bool = True) -> RunConfig:
    """The configuration of a run; a ValueError that begins with "config.json" where there is none.

    `follow_links`: a studio that serves folders of strangers reads no links.
    """
    try:
        content = read_json(folder / CONFIG, CONFIG_BYTES, follow_links=follow_links)
    except ValueError as error:
        raise ValueError(f"{CONFIG} {error}") from None
    return parse_config(content)


def parse_config(content: Any) -> RunConfig:
    try:
        content = upgrade(_object(content))
        return RunConfig.model_validate({**content, "content": content})
    except UnknownVersionError:
        raise
    except ValueError:
        raise ValueError(f"{CONFIG} does not describe a run") from None


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """The same settings in the newest version. Version 1, of attnlab 0.1, had no number."""
    version = content.get("version") if content.get("format") == FORMAT else 1
    while version != VERSION:
        if type(version) is not int or version not in UPGRADES:
            raise UnknownVersionError(
                f"{CONFIG} has version {str(version)[:20]} of the run format, and this attnlab "
                f"reads 1 to {VERSION}; update attnlab"
            )
        content = UPGRADES[version](content)
        version = content["version"]
    return content


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, **content, "version": 2}


NEW_NAMES = {
    "optimiser": "optimizer", "rate": "learning_rate", "muon_rate": "muon_learning_rate",
    "batch_rows": "batch_size", "accumulate": "accumulation_steps", "warmup": "warmup_steps",
    "decay": "decay_fraction", "floor": "final_rate_fraction", "clip": "max_gradient_norm",
    "beta_one": "beta1", "beta_two": "beta2", "ema": "ema_decay", "best": "keep_best",
    "keep": "keep_checkpoints", "training_only": "training_time_only",
}  # fmt: skip
"""Settings of a training that version 3 renamed."""
NEW_SPELLING = {"normalise_queries": "normalize_queries", "colour": "color"}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    content = _respelled(content)
    training = content.get("training")
    if isinstance(training, dict):
        renamed = {NEW_NAMES.get(name, name): value for name, value in training.items()}
        content = {**content, "training": renamed}
    return {**content, "version": 3}


def _respelled(content: Any) -> Any:
    if isinstance(content, list):
        return [_respelled(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {NEW_SPELLING.get(name, name): _respelled(value) for name, value in content.items()}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2}
"""From each older version to the next one."""

# Settings of a training that may differ between a run and its continuation.
MAY_CHANGE = {
    "steps", "minutes", "training_time_only", "device", "shard", "evaluate_every", "evaluations",
    "save_every", "keep_checkpoints", "compile",
}  # fmt: skip


def check_same(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    """Refuse to resume a run with other settings."""
    for part in ("task", "model", "training"):
        one, other = (json.loads(json.dumps(each[part])) for each in (old, new))
        for name in dict.fromkeys([*one, *other]):
            was, now = one.get(name), other.get(name)
            if was != now and not (part == "training" and name in MAY_CHANGE):
                raise ValueError(
                    f"{path}: the run has {name} {was!r}, not {now!r}; "
                    "resume with the same settings"
                )
