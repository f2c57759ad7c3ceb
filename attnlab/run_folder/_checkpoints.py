"""checkpoints/step-N: weights, optimizer state, and where the run stood, each with its digest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab._safe_files import write_whole
from attnlab.run_folder._file_names import OLD_OPTIMIZER, OPTIMIZER, STATE, WEIGHTS


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of training steps."""
    best: float | None = None
    elapsed: float | None = None
    """Seconds in all, with validations and saving. Older checkpoints lack it."""


OPTIONAL = ("elapsed",)


def write_checkpoint(
    folder: Path, progress: Progress, keep: int, save: Callable[[Path], None]
) -> Path:
    """Let `save` write the tensors of step-N, add the state, and drop all but `keep`."""
    path = folder / f"step-{progress.step:09d}"

    def write(part: Path) -> None:
        part.mkdir(parents=True)
        save(part)
        digests = {file.name: _digest(file) for file in sorted(part.iterdir())}
        state = {**asdict(progress), "sha256": digests}
        (part / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, write)
    others = [each for each in list_checkpoints(folder) if each != path]
    later = [each for each in others if each.name > path.name]  # damaged, or of another past
    earlier = [each for each in others if each.name < path.name]
    for old in later + earlier[: max(0, len(earlier) - keep + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first; links are left out."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [p for p in entries if p.name.startswith("step-") and p.is_dir() and not p.is_symlink()]


def newest_good(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not."""
    problems: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        problem = _damage(path)
        if problem is None:
            return path, problems
        problems.append(f"{path}: damaged ({problem}); using the one before")
    return None, problems


def read_progress(path: Path) -> Progress:
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    return Progress(**{name: state[name] for name in asdict(Progress()) if name in state})


def missing_files(path: Path) -> list[str]:
    """What a checkpoint lacks to be whole."""
    names = (WEIGHTS, optimizer_file(path).name, STATE)
    return [name for name in names if not (path / name).exists()]


def optimizer_file(path: Path) -> Path:
    """The optimizer's state in a checkpoint, which older versions gave another name."""
    old = path / OLD_OPTIMIZER
    return old if old.exists() else path / OPTIMIZER


def step_of(path: Path) -> int | None:
    number = path.name.removeprefix("step-")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else None


def _damage(path: Path) -> str | None:
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        for name, wanted in state["sha256"].items():
            if _digest(path / name) != wanted:
                return f"{name} is not what was written"
        for name in asdict(Progress()):
            if name not in OPTIONAL:
                state[name]
    except (OSError, json.JSONDecodeError, KeyError, UnicodeDecodeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
