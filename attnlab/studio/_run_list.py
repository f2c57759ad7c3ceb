"""What the studio tells of runs: the list, one of them, and how their settings differ."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json
from attnlab.run_folder import read_config
from attnlab.run_folder._checkpoints import list_checkpoints, step_of
from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, METRICS, TOKENIZER, WEIGHTS
from attnlab.run_folder._lock import is_locked
from attnlab.run_folder._metrics import integer, json_value, last_row
from attnlab.run_folder._run_list import find_runs, mapping, mechanism_of, modified
from attnlab.studio._allowed_folders import Places, name_of, shown
from attnlab.studio._http_errors import Refused
from attnlab.tasks.kind import load
from attnlab.tasks.registry import TASKS, task_of

SETTINGS, FILES, EXAMPLE_BYTES = 500, 200, 2**26
Entry = dict[str, Any]


def needed() -> list[str]:
    """Files that decide what a run can do."""
    files = (file for kind in TASKS.values() for each in kind.can.values() for file in each.files)
    return [TOKENIZER, *dict.fromkeys(files)]


@dataclass
class _Kept:
    seen: tuple[Any, ...]
    entry: Entry


class RunList:
    """The runs of a folder; what has not changed is not read again."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.lock = threading.Lock()
        self.kept: dict[str, _Kept] = {}

    def entries(self) -> list[Entry]:
        """By name."""
        with self.lock:
            folders = {name_of(f, self.places.runs): f for f in find_runs(self.places.runs)}
            kept = {}
            for name, folder in folders.items():
                seen, old = _seen(folder), self.kept.get(name)
                same = old is not None and old.seen == seen
                kept[name] = old if old and same else _Kept(seen, entry_of(name, folder))
            self.kept = kept
            return [each.entry for each in kept.values()]


def _seen(folder: Path) -> tuple[Any, ...]:
    """Changes when anything that the list tells of does."""
    found: list[Any] = [is_locked(folder)]
    for name in (CONFIG, METRICS, WEIGHTS, CHECKPOINTS, *needed()):
        try:
            about = (folder / name).lstat()
            found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


def entry_of(name: str, folder: Path) -> Entry:
    times = [modified(folder / each) for each in (CONFIG, METRICS, WEIGHTS, TOKENIZER)]
    known = [time for time in times if time is not None]
    base: Entry = {
        "id": name,
        "name": folder.name,
        "created": min(known, default=None),
        "updated": max(known, default=None),
    }
    try:
        config = read_config(folder, follow_links=False)
    except ValueError as error:
        empty = dict.fromkeys(("task", "steps", "parameters", "attention"))
        about = {"state": "broken", "problem": str(error), "step": 0, "last": {}, "can": []}
        return {**base, **empty, **about}
    last = last_row(folder / METRICS)
    return {
        **base,
        "task": config.task.name,
        "state": state_of(folder),
        "step": integer(last.get("step")) or 0,
        "steps": config.training.steps,
        "minutes": json_value(config.training.minutes),
        "parameters": config.parameters,
        "attention": mechanism_of(config.model),
        "headline": config.task.headline,
        "better": config.task.better,
        "last": numbers_of(last),
        "can": abilities(folder, config.content),
    }


def state_of(folder: Path) -> str:
    if is_locked(folder):
        return "training"
    return "finished" if (folder / WEIGHTS).exists() else "stopped"


def numbers_of(row: dict[str, Any]) -> dict[str, Any]:
    """Each metric by name; those of a validation by "validation NAME"."""
    inner = row.get("validation")
    flat = {key: value for key, value in row.items() if key not in ("step", "validation")}
    if isinstance(inner, dict):
        flat |= {f"validation {key}": value for key, value in inner.items()}
    return {
        k: v for k, v in flat.items() if isinstance(v, int | float) or v in ("nan", "inf", "-inf")
    }


def abilities(folder: Path, config: dict[str, Any]) -> list[str]:
    """What can be done with the run's model, as far as its settings tell."""
    if not (folder / WEIGHTS).exists() and not any(list_checkpoints(folder / CHECKPOINTS)):
        return []
    model = mapping(config["model"]).get("model")
    kind = task_of(config)
    found = kind.capabilities(folder, model) if kind is not None else []
    reads = model in ("decoder", "encoder", "seq2seq") and (folder / TOKENIZER).exists()
    return [*found, "look"] if model == "vit" or reads else found


def audit_file(task: str | None) -> str | None:
    """The file that an audit of this task's runs leaves in their folder; None: it has no audit."""
    kind = TASKS.get(task or "")
    return kind.can["audit"].report if kind is not None and "audit" in kind.can else None


def one(places: Places, run: str, entry: Entry) -> dict[str, Any]:
    """All that is known of a run but its metrics."""
    folder = places.run(run)
    try:
        config = read_config(folder, follow_links=False).content
    except ValueError:
        config = {}
    audit = audit_file(entry["task"])
    found = {
        **entry,
        "config": strict(config),
        "settings": flattened(config),
        "files": list(files_of(folder)),
        "checkpoints": [checkpoint(path) for path in list_checkpoints(folder / CHECKPOINTS)],
        "audited": audit is not None and (folder / audit).is_file(),
    }
    examples = examples_of(folder, config, entry["can"])
    return {**found, "examples": examples} if examples else found


def strict(value: Any, depth: int = 8) -> Any:
    """JSON that every reader accepts, and not too deep."""
    if isinstance(value, dict):
        return {str(k): strict(v, depth - 1) for k, v in value.items()} if depth else None
    if isinstance(value, list):
        return [strict(each, depth - 1) for each in value] if depth else None
    return value if isinstance(value, str) else json_value(value)


def flattened(config: dict[str, Any]) -> dict[str, Any]:
    """{"training.learning_rate": 0.003}: every setting by its path; a list is one setting."""
    found: dict[str, Any] = {}

    def walk(value: dict[str, Any], path: str, depth: int) -> None:
        for name, inner in value.items():
            if isinstance(inner, dict) and inner and depth:
                walk(inner, f"{path}{name}.", depth - 1)
            elif len(found) < SETTINGS:
                found[f"{path}{name}"] = strict(inner)

    walk(config, "", 4)
    return found


def files_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Those in the folder itself, links and what is hidden left out."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.is_file(follow_symlinks=False))
    except OSError:
        return
    for name in [each for each in names if not each.startswith(".")][:FILES]:
        try:
            about = (folder / name).lstat()
        except OSError:
            continue
        yield {"name": name, "bytes": about.st_size, "time": about.st_mtime}


def checkpoint(path: Path) -> dict[str, Any]:
    sizes = [each["bytes"] for each in files_of(path)]
    return {"name": path.name, "step": step_of(path), "bytes": sum(sizes), "time": modified(path)}


def audit_request(
    folder: Path, pairs: str | None, file_named: Callable[[str], Path | None]
) -> dict[str, Any]:
    """What an audit of a run that can be audited is to ask, as its task finds it."""
    config = read_config(folder, follow_links=False).content
    kind = task_of(config)
    assert kind is not None
    prepare = load(kind.can["audit"].prepare)
    found: dict[str, Any] = prepare(mapping(config["task"]), {"pairs": pairs}, file_named)
    return found


def examples_of(folder: Path, config: dict[str, Any], can: Sequence[str]) -> list[str]:
    """Inputs that one can try, as the run's task gives them."""
    kind = task_of(config)
    given = [kind.can[name].examples for name in can if name in kind.can] if kind else []
    found: list[str] = []
    for reference in filter(None, given):
        try:
            found += load(reference)(lambda name: read_json(folder / name, EXAMPLE_BYTES))
        except ValueError:
            continue
    return found


def diff(places: Places, runs: Sequence[str]) -> dict[str, Any]:
    """Settings in which runs differ; what is not there is null."""
    settings = []
    for run in runs:
        try:
            config = read_config(places.run(run), follow_links=False)
            settings.append(flattened(config.content))
        except ValueError as error:
            raise Refused(409, f"{shown(run)}: its settings cannot be read ({error}).") from None
    names = list(dict.fromkeys(name for each in settings for name in each))
    rows, same = [], 0
    for name in names:
        values = [each.get(name) for each in settings]
        texts = {json.dumps(value, sort_keys=True) for value in values}
        if len(texts) == 1:
            same += 1
        else:
            rows.append({"setting": name, "values": values})
    return {"rows": rows[:SETTINGS], "same": same}
