"""checkpoints/step-N: weights, optimizer state and progress, with checksums."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab._safe_files import write_atomically
from attnlab.run_folder._file_names import OLD_OPTIMIZER, OPTIMIZER, STATE, WEIGHTS


@dataclass
class TrainingProgress:
    """How far a training run has come."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Time spent in training steps."""
    best: float | None = None
    elapsed: float | None = None
    """Total seconds, with validation and saving. Older checkpoints lack it."""


OPTIONAL = ("elapsed",)


def write_checkpoint(
    folder: Path, progress: TrainingProgress, keep: int, save: Callable[[Path], None]
) -> Path:
    """Let `save` write the tensors of step-N, add the progress, and keep `keep` checkpoints."""
    path = folder / f"step-{progress.step:09d}"

    def write(part: Path) -> None:
        part.mkdir(parents=True)
        save(part)
        digests = {file.name: _digest(file) for file in sorted(part.iterdir())}
        state = {**asdict(progress), "sha256": digests}
        (part / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)
    others = [other for other in list_checkpoints(folder) if other != path]
    later = [other for other in others if other.name > path.name]  # damaged, or of an older run
    earlier = [other for other in others if other.name < path.name]
    for old in later + earlier[: max(0, len(earlier) - keep + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    return path


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
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    return TrainingProgress(
        **{name: state[name] for name in asdict(TrainingProgress()) if name in state}
    )


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
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        for name, expected in state["sha256"].items():
            if _digest(path / name) != expected:
                return f"the checksum of {name} is wrong"
        for name in asdict(TrainingProgress()):
            if name not in OPTIONAL:
                state[name]
    except (OSError, json.JSONDecodeError, KeyError, UnicodeDecodeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
