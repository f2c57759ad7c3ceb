"""The list of runs, the details of one run, and the differences of settings."""

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
from attnlab.run_folder._config import to_count
from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, METRICS, TOKENIZER, WEIGHTS
from attnlab.run_folder._lock import is_locked
from attnlab.run_folder._metrics import json_value, last_row
from attnlab.run_folder._run_list import dict_or_empty, find_runs, mechanism_of, modified_time
from attnlab.studio._allowed_folders import AllowedFolders, printable_name, run_id_of
from attnlab.studio._http_errors import RequestError
from attnlab.tasks.kind import load_reference
from attnlab.tasks.registry import TASKS, task_of

MAX_SETTINGS, MAX_FILES, MAX_EXAMPLE_BYTES = 500, 200, 2**26
Entry = dict[str, Any]


def capability_files() -> list[str]:
    """The files that decide what a run can do."""
    capabilities = (
        capability for kind in TASKS.values() for capability in kind.capabilities.values()
    )
    files = (file for capability in capabilities for file in capability.files)
    return [TOKENIZER, *dict.fromkeys(files)]


@dataclass
class _CachedEntry:
    stamps: tuple[Any, ...]
    entry: Entry


class RunList:
    """The runs of a folder. Reads again only runs that have changed."""

    def __init__(self, folders: AllowedFolders) -> None:
        self.folders = folders
        self.lock = threading.Lock()
        self.cache: dict[str, _CachedEntry] = {}

    def entries(self) -> list[Entry]:
        """Entries of all runs, by name."""
        with self.lock:
            folders = {run_id_of(f, self.folders.runs): f for f in find_runs(self.folders.runs)}
            files = stamped_files()
            self.cache = {name: self._read(name, folder, files) for name, folder in folders.items()}
            return [cached.entry for cached in self.cache.values()]

    def entry(self, run: str) -> Entry:
        """The entry of one run."""
        folder = self.folders.run_folder(run)
        with self.lock:
            self.cache[run] = self._read(run, folder, stamped_files())
            return self.cache[run].entry

    def _read(self, name: str, folder: Path, files: Sequence[str]) -> _CachedEntry:
        stamps, old = _file_stamps(folder, files), self.cache.get(name)
        if old is not None and old.stamps == stamps:
            return old
        return _CachedEntry(stamps, read_entry(name, folder))


def stamped_files() -> list[str]:
    """The files that an entry depends on."""
    return [CONFIG, METRICS, WEIGHTS, CHECKPOINTS, *capability_files()]


def _file_stamps(folder: Path, files: Sequence[str]) -> tuple[Any, ...]:
    """Changes when anything that an entry shows changes."""
    stamps: list[Any] = [is_locked(folder)]
    path = str(folder)  # the list is read all the time, and Path takes longer than the system call
    for name in files:
        try:
            status = os.lstat(f"{path}/{name}")
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def read_entry(name: str, folder: Path) -> Entry:
    modified_times = [
        modified_time(folder / file) for file in (CONFIG, METRICS, WEIGHTS, TOKENIZER)
    ]
    times = [time for time in modified_times if time is not None]
    base: Entry = {
        "id": name,
        "name": folder.name,
        "created": min(times, default=None),
        "updated": max(times, default=None),
    }
    try:
        config = read_config(folder, follow_links=False)
    except ValueError as error:
        empty = dict.fromkeys(("task", "steps", "parameters", "attention"))
        values = {"state": "broken", "problem": str(error), "step": 0, "last": {}, "can": []}
        return {**base, **empty, **values}
    last = last_row(folder / METRICS)
    return {
        **base,
        "task": config.task.name,
        "state": run_state(folder),
        "step": to_count(last.get("step")) or 0,
        "steps": config.training.steps,
        "minutes": json_value(config.training.minutes),
        "parameters": config.parameters,
        "attention": mechanism_of(config.model),
        "headline": config.task.headline,
        "better": config.task.better,
        "last": metric_values(last),
        "can": list_capabilities(folder, config.content),
    }


def run_state(folder: Path) -> str:
    if is_locked(folder):
        return "training"
    return "finished" if (folder / WEIGHTS).exists() else "stopped"


def metric_values(row: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a row by name; those of a validation are called "validation NAME"."""
    validation = row.get("validation")
    flat = {key: value for key, value in row.items() if key not in ("step", "validation")}
    if isinstance(validation, dict):
        flat |= {f"validation {key}": value for key, value in validation.items()}
    return {
        k: v for k, v in flat.items() if isinstance(v, int | float) or v in ("nan", "inf", "-inf")
    }


def list_capabilities(folder: Path, config: dict[str, Any]) -> list[str]:
    """What the run's model can do, according to its settings and files."""
    if not (folder / WEIGHTS).exists() and not any(list_checkpoints(folder / CHECKPOINTS)):
        return []
    model = dict_or_empty(config["model"]).get("model")
    kind = task_of(config)
    capabilities = kind.available_capabilities(folder, model) if kind is not None else []
    reads_text = model in ("decoder", "encoder", "seq2seq") and (folder / TOKENIZER).exists()
    return [*capabilities, "look"] if model == "vit" or reads_text else capabilities


def audit_file(task: str | None) -> str | None:
    """The name of the file with the audit of a run; None if the task has no audit."""
    kind = TASKS.get(task or "")
    return (
        kind.capabilities["audit"].report
        if kind is not None and "audit" in kind.capabilities
        else None
    )


def read_details(folders: AllowedFolders, run: str, entry: Entry) -> dict[str, Any]:
    """The entry of a run with its settings, files and checkpoints."""
    folder = folders.run_folder(run)
    try:
        config = read_config(folder, follow_links=False).content
    except ValueError:
        config = {}
    audit = audit_file(entry["task"])
    details = {
        **entry,
        "config": to_strict_json(config),
        "settings": flatten_settings(config),
        "files": list(list_files(folder)),
        "checkpoints": [checkpoint_entry(path) for path in list_checkpoints(folder / CHECKPOINTS)],
        "audited": audit is not None and (folder / audit).is_file(),
    }
    examples = example_inputs(folder, config, entry["can"])
    return {**details, "examples": examples} if examples else details


def to_strict_json(value: Any, depth: int = 8) -> Any:
    """JSON without NaN, which every parser accepts, and not too deep."""
    if isinstance(value, dict):
        return {str(k): to_strict_json(v, depth - 1) for k, v in value.items()} if depth else None
    if isinstance(value, list):
        return [to_strict_json(item, depth - 1) for item in value] if depth else None
    return value if isinstance(value, str) else json_value(value)


def flatten_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Every setting by its path, as {"training.learning_rate": 0.003}. A list is one setting."""
    settings: dict[str, Any] = {}

    def walk(value: dict[str, Any], path: str, depth: int) -> None:
        for name, inner in value.items():
            if isinstance(inner, dict) and inner and depth:
                walk(inner, f"{path}{name}.", depth - 1)
            elif len(settings) < MAX_SETTINGS:
                settings[f"{path}{name}"] = to_strict_json(inner)

    walk(config, "", 4)
    return settings


def list_files(folder: Path) -> Iterator[dict[str, Any]]:
    """The files directly in the folder, without links and hidden files."""
    try:
        with os.scandir(folder) as entries:
            files = (entry for entry in entries if entry.is_file(follow_symlinks=False))
            names = sorted(file.name for file in files)
    except OSError:
        return
    for name in [name for name in names if not name.startswith(".")][:MAX_FILES]:
        try:
            status = (folder / name).lstat()
        except OSError:
            continue
        yield {"name": name, "bytes": status.st_size, "time": status.st_mtime}


def checkpoint_entry(path: Path) -> dict[str, Any]:
    size = sum(file["bytes"] for file in list_files(path))
    return {"name": path.name, "step": step_of(path), "bytes": size, "time": modified_time(path)}


def prepare_audit(
    folder: Path, pairs: str | None, find_file: Callable[[str], Path | None]
) -> dict[str, Any]:
    """The arguments of an audit of this run, as its task prepares them."""
    config = read_config(folder, follow_links=False).content
    kind = task_of(config)
    assert kind is not None
    prepare = load_reference(kind.capabilities["audit"].prepare)
    arguments: dict[str, Any] = prepare(dict_or_empty(config["task"]), {"pairs": pairs}, find_file)
    return arguments


def example_inputs(
    folder: Path, config: dict[str, Any], can: Sequence[str]
) -> list[dict[str, Any]]:
    """Inputs to try, as the run's task lists them."""
    kind = task_of(config)
    references = (
        [kind.capabilities[name].examples for name in can if name in kind.capabilities]
        if kind
        else []
    )
    examples: list[dict[str, Any]] = []
    for reference in filter(None, references):
        try:
            examples += load_reference(reference)(
                lambda name: read_json(folder / name, MAX_EXAMPLE_BYTES),
                dict_or_empty(config["task"]),
            )
        except ValueError:
            continue
    return examples


def compare_settings(folders: AllowedFolders, runs: Sequence[str]) -> dict[str, Any]:
    """The settings in which runs differ. A missing setting is null."""
    settings = []
    for run in runs:
        try:
            config = read_config(folders.run_folder(run), follow_links=False)
            settings.append(flatten_settings(config.content))
        except ValueError as error:
            message = f"{printable_name(run)}: its settings cannot be read ({error})."
            raise RequestError(409, message) from None
    names = list(dict.fromkeys(name for run_settings in settings for name in run_settings))
    rows, same = [], 0
    for name in names:
        values = [run_settings.get(name) for run_settings in settings]
        texts = {json.dumps(value, sort_keys=True) for value in values}
        if len(texts) == 1:
            same += 1
        else:
            rows.append({"setting": name, "values": values})
    return {"rows": rows[:MAX_SETTINGS], "same": same}
