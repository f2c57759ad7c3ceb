"""Find run folders on disk and summarize them, even if their files are broken."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

from attnlab.run_folder._config import RunConfig, read_config, to_count
from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, METRICS, WEIGHTS
from attnlab.run_folder._metrics import Metrics, read_metrics, to_float

DEPTH = 4  # levels of subfolders that are searched


@dataclass(frozen=True)
class Summary:
    """One line of the list of runs. `problem` says why a run could not be read."""

    run: str
    folder: str
    problem: str | None = None
    task: str | None = None
    mechanism: str | None = None
    parameters: int | None = None
    step: int = 0
    steps: int | None = None
    done: bool = False
    loss: float | None = None
    headline: str = "loss"
    better: str = "lower"
    best: float | None = None
    best_step: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    modified: float | None = None


def find_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Folders with a config.json, sorted by name, without links and hidden folders."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    holds_run = any(entry.name == CONFIG for entry in entries)
    if holds_run:
        yield folder
    for name in names:
        if depth and not name.startswith(".") and not (holds_run and name == CHECKPOINTS):
            yield from find_runs(folder / name, depth - 1)


def summarize(folder: Path, root: Path) -> Summary:
    name = str(folder.relative_to(root))
    name = folder.resolve().name if name == "." else name
    try:
        config = read_config(folder)
    except ValueError as error:
        return Summary(name, str(folder), problem=str(error))
    return make_summary(name, folder, config, read_metrics(folder / METRICS, config.task))


def make_summary(name: str, folder: Path, config: RunConfig, metrics: Metrics) -> Summary:
    step = to_count(metrics.last.get("step")) or 0
    # minutes decide when a run ends, not steps, if both are set
    steps = None if config.training.minutes is not None else config.training.steps
    reached = config.training.minutes is not None or (steps is not None and step >= steps)
    changes = [modified_time(folder / file) for file in (CONFIG, METRICS, WEIGHTS)]
    return Summary(
        run=name,
        folder=str(folder),
        task=config.task.name,
        mechanism=mechanism_of(config.model),
        parameters=config.parameters,
        step=step,
        steps=steps,
        done=reached and changes[-1] is not None,
        loss=to_float(metrics.last.get("loss")),
        headline=config.task.headline,
        better=config.task.better,
        best=metrics.best,
        best_step=metrics.best_step,
        tokens=to_count(metrics.last.get("tokens")),
        seconds=to_float(metrics.last.get("seconds")),
        modified=max((change for change in changes if change is not None), default=None),
    )


def mechanism_of(model: dict[str, Any]) -> str | None:
    """The attention of the model, or of encoder, decoder and cross-attention; equal ones once."""
    parts = [part.get("attention") for part in (model, *map(dict_or_empty, model.values()))]
    parts.append(model.get("cross_attention"))
    return " / ".join(dict.fromkeys(filter(None, map(format_setting, parts)))) or None


def format_setting(value: Any) -> str:
    """A setting in one line, such as "softmax x3, window"; nested values are left out."""
    if isinstance(value, list):
        texts = ["" if isinstance(item, list) else format_setting(item) for item in value]
        counts = [(name, len(list(same))) for name, same in groupby(texts)]
        return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts if name)
    return str(value) if isinstance(value, (str, int, float)) else ""


def dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def modified_time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def visible_files(folder: Path) -> list[Path]:
    """The files of a folder, sorted by name, without hidden ones."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def purpose_of(name: str, purposes: Mapping[str, str]) -> str:
    """What a file is for. `purposes` may contain patterns such as "test-*.json"."""
    return next((text for pattern, text in purposes.items() if fnmatchcase(name, pattern)), "")
