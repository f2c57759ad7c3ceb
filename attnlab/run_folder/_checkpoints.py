"""checkpoints/step-N: weights, optimizer state and progress, with checksums."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from attnlab._safe_files import PART, open_regular, read_json, write_atomically
from attnlab.run_folder._config import LAST_STEP
from attnlab.run_folder._file_names import OLD_OPTIMIZER, OPTIMIZER, STATE, WEIGHTS

OPTIONAL = {"elapsed"}  # progress that older checkpoints lack
STATE_BYTES = 2**20


Count = Annotated[int, Field(ge=0, lt=LAST_STEP)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass
class TrainingProgress:
    """How far a training run has come."""

    step: Count = 0
    epoch: Count = 0
    position: Count = 0
    tokens: Count = 0
    seconds: Seconds = 0.0
    """Time spent in training steps."""
    best: float | None = None
    elapsed: Seconds | None = None
    """Total seconds, with validation and saving. Older checkpoints lack it."""


PROGRESS, DIGESTS = TypeAdapter(TrainingProgress), TypeAdapter(dict[str, str])


def write_checkpoint(
    folder: Path, progress: TrainingProgress, keep: int, save: Callable[[Path], None]
) -> Path:
    """Let `save` write the tensors of step-N, add the progress, and keep `keep` checkpoints."""
    path = folder / f"step-{progress.step:09d}"

    def write(part: Path) -> None:
        part.mkdir()
        save(part)
        digests = {file.name: _digest(file) for file in sorted(part.iterdir())}
        state = {**asdict(progress), "sha256": digests}
        state["checksum"] = _checksum(state)
        (part / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)
    prune_checkpoints(path, keep)
    return path


def prune_checkpoints(newest: Path, keep: int) -> None:
    """Keep `keep` checkpoints up to this one. Later ones are damaged, or of an older run."""
    others = [other for other in list_checkpoints(newest.parent) if other != newest]
    later = [other for other in others if other.name > newest.name]
    earlier = [other for other in others if other.name < newest.name]
    for old in later + earlier[: max(0, len(earlier) - keep + 1)]:
        removed = old.with_name(f".{old.name}.old{PART}")
        old.rename(removed)  # in one step: a kill leaves no half of a checkpoint
        shutil.rmtree(removed, ignore_errors=True)


def list_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, oldest first, without links."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [p for p in entries if p.name.startswith("step-") and p.is_dir() and not p.is_symlink()]


def newest_intact_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest intact checkpoint, and a sentence for each damaged newer one."""
    problems: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        problem = _find_damage(path)
        if problem is None:
            return path, problems
        problems.append(f"{path}: damaged ({problem}); using the previous checkpoint")
    return None, problems


def read_progress(path: Path) -> TrainingProgress:
    return _read_state(path)[0]


def missing_files(path: Path) -> list[str]:
    """The files that a checkpoint lacks."""
    names = (WEIGHTS, optimizer_file(path).name, STATE)
    return [name for name in names if not (path / name).exists()]


def optimizer_file(path: Path) -> Path:
    """The optimizer state of a checkpoint, which has another name in older versions."""
    old = path / OLD_OPTIMIZER
    return old if old.exists() else path / OPTIMIZER


def step_of(path: Path) -> int | None:
    number = path.name.removeprefix("step-")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else None


def _find_damage(path: Path) -> str | None:
    try:
        progress, digests = _read_state(path)
        if progress.step != step_of(path):
            return f"{STATE} is of step {progress.step}"
        for name in (WEIGHTS, optimizer_file(path).name, *digests):
            if Path(name).name != name or not (path / name).exists():
                return f"{name} is missing"
            if _digest(path / name) != digests.get(name):
                return f"the checksum of {name} is wrong"
    except (OSError, ValueError, RecursionError) as error:
        return str(error)
    return None


def _read_state(path: Path) -> tuple[TrainingProgress, dict[str, str]]:
    """The progress and the digests in state.json. A ValueError says what is wrong with it."""
    try:
        content = read_json(path / STATE, STATE_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{STATE} {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{STATE} is not an object")
    if content.get("checksum", _checksum(content)) != _checksum(content):  # older ones have none
        raise ValueError(f"the checksum of {STATE} is wrong")
    names = asdict(TrainingProgress())
    missing = [n for n in (*names, "sha256") if n not in content and n not in OPTIONAL]
    if missing:
        raise ValueError(f"{STATE} has no {missing[0]}")
    progress = {name: content[name] for name in names if name in content}
    try:
        return (
            PROGRESS.validate_json(json.dumps(progress), strict=True),
            DIGESTS.validate_python(content["sha256"], strict=True),
        )
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "sha256"
        raise ValueError(f"{STATE} has a wrong value of {field}") from None


def _checksum(state: dict[str, Any]) -> str:
    """Of all values except the checksum itself."""
    rest = {name: value for name, value in state.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with open_regular(path, follow_links=True) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
