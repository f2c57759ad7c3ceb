"""Read config.json, check it, and upgrade it from older versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnlab._safe_files import read_json
from attnlab._short_repr import short_repr
from attnlab.run_folder._file_names import CONFIG, FORMAT, VERSION

CONFIG_BYTES = 2**24  # an image run names all of its classes
LAST_STEP = 10**15  # beyond it, floats cannot represent every whole number


NOT_A_RUN = f"{CONFIG} does not describe a run"


class UnknownVersionError(ValueError):
    """A newer version of attnlab wrote this run."""


@dataclass(frozen=True)
class TaskSection:
    name: str | None = None
    headline: str = "loss"
    better: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True)
class TrainingSection:
    steps: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class RunConfig:
    """The settings that every run has. `content` holds all of them.

    A value of the wrong type is replaced by its default, so that listing runs never fails. These
    are no pydantic models: importing pydantic would take as long as listing 300 runs.
    """

    task: TaskSection
    model: dict[str, Any]
    training: TrainingSection
    parameters: int | None
    versions: dict[str, Any]
    content: dict[str, Any]
    """The whole config.json, in the newest version."""


def read_config(folder: Path, *, follow_links: bool = True) -> RunConfig:
    """Read the configuration of a run. Without one, raise a ValueError about config.json.

    Set `follow_links` to False for folders that you do not trust.

    >>> from pathlib import Path
    >>> from attnlab.run_folder import read_config
    >>> from attnlab.tasks.vision import train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 1}, "quiet": True}
    >>> _ = train_vision("digits", out="run", **small)
    >>> read_config(Path("run")).task.name
    'vision'
    """
    try:
        content = read_json(folder / CONFIG, CONFIG_BYTES, follow_links=follow_links)
    except ValueError as error:
        raise ValueError(f"{CONFIG} {error}") from None
    return parse_config(content)


def parse_config(content: Any) -> RunConfig:
    if not isinstance(content, dict):
        raise ValueError(NOT_A_RUN)
    try:
        content = upgrade(content)
    except RecursionError:  # nested too deeply
        raise ValueError(NOT_A_RUN) from None
    task, model, training = (content.get(name) for name in ("task", "model", "training"))
    sections = isinstance(task, dict) and isinstance(model, dict) and isinstance(training, dict)
    if not sections or content.get("format") != FORMAT or type(content["version"]) is not int:
        raise ValueError(NOT_A_RUN)
    name, headline, versions = task.get("name"), task.get("headline"), content.get("versions")
    return RunConfig(
        task=TaskSection(
            name=name if isinstance(name, str) else None,
            headline=headline if isinstance(headline, str) else "loss",
            better="higher" if task.get("better") == "higher" else "lower",
        ),
        model=model,
        training=TrainingSection(
            to_count(training.get("steps")), _to_number(training.get("minutes"))
        ),
        parameters=to_count(content.get("parameters")),
        versions=versions if isinstance(versions, dict) else {},
        content=content,
    )


def to_count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LAST_STEP else None


def _to_number(value: Any) -> float | None:
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:  # an int may exceed every float
        return None


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """The same settings in the newest version. A config without a number has version 1."""
    version = content.get("version") if content.get("format") == FORMAT else 1
    while version != VERSION:
        if type(version) is not int or version not in UPGRADES:
            raise UnknownVersionError(
                f"{CONFIG} has version {short_repr(version)} of the run format, but this attnlab "
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
"""Training settings that version 3 renamed."""
NEW_SPELLING = {"normalise_queries": "normalize_queries", "colour": "color"}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    content = _rename_keys(content)
    training = content.get("training")
    if isinstance(training, dict):
        renamed = {NEW_NAMES.get(name, name): value for name, value in training.items()}
        content = {**content, "training": renamed}
    return {**content, "version": 3}


def _rename_keys(content: Any) -> Any:
    if isinstance(content, list):
        return [_rename_keys(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {NEW_SPELLING.get(name, name): _rename_keys(value) for name, value in content.items()}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2}
"""Each function upgrades from its version to the next."""

# Training settings that may change when a run is resumed.
MAY_CHANGE = {
    "steps", "minutes", "training_time_only", "device", "shard", "evaluate_every", "evaluations",
    "save_every", "keep_checkpoints", "compile",
}  # fmt: skip


def check_same_settings(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    """Refuse to resume a run with other settings."""
    for section in ("task", "model", "training"):
        before, after = (json.loads(json.dumps(config[section])) for config in (old, new))
        for name in dict.fromkeys([*before, *after]):
            was, now = before.get(name), after.get(name)
            if was != now and not (section == "training" and name in MAY_CHANGE):
                raise ValueError(
                    f"{path}: the run has {short_repr(name)[1:-1]} {short_repr(was)}, "
                    f"not {short_repr(now)}; "
                    "resume with the same settings"
                )
