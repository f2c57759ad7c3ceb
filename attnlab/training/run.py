"""A run folder explains itself: settings, weights, tokeniser, metrics, checkpoints."""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import save_file

import attnlab
from attnlab.files import write_json, write_text, write_whole
from attnlab.models import Model, create
from attnlab.models.base import CONFIG, WEIGHTS, load_weights
from attnlab.training.checkpoint import newest_good
from attnlab.training.settings import Settings

METRICS, CHECKPOINTS, LOCK = "metrics.jsonl", "checkpoints", ".lock"
TRIES = 10  # at a lock
# What commands of all tasks leave in a run folder besides, about the weights that are there: of
# other weights it would be wrong.
RESULTS = (
    "test.html", "test.json", "validation.html", "validation.json", "train.html", "train.json",
    "compared.json", "seen.safetensors", "skipped.txt", "audit.html", "audit.json", "known.json",
)  # fmt: skip


class Run:
    """One training run's folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def finished(self) -> bool:
        """Whether its training came to an end; `model` takes a checkpoint while it has not."""
        return (self.folder / WEIGHTS).exists()

    def config(self) -> dict[str, Any]:
        path = self.folder / CONFIG
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(f"{self.folder}: not a run folder; {CONFIG} is missing") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not JSON ({error})") from None
        parts = ("task", "model", "training")
        if not isinstance(config, dict) or not all(isinstance(config.get(p), dict) for p in parts):
            raise ValueError(f"{path}: not the configuration of a run")
        return config

    def model(self) -> Model:
        """The trained model; while there is none, that of the newest checkpoint."""
        description = self.config()["model"]
        path = self.folder / WEIGHTS
        if not path.exists():
            newest, _ = newest_good(self.checkpoints)
            if newest is None:
                raise ValueError(f"{self.folder}: has no weights yet; train it first")
            path = newest / WEIGHTS
        model = create(description, self.folder / CONFIG)
        load_weights(model, path)
        return model.eval()

    def metrics(self) -> list[dict[str, Any]]:
        """All rows that were written; a last line that a crash cut short is left out."""
        path = self.folder / METRICS
        rows = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    rows.append(json.loads(line))
                except json.JSONDecodeError:
                    break
        return rows

    def go_on_from(self, step: int, unfinished: bool, config: dict[str, Any]) -> None:
        """Drop what comes after this step: metrics that will be written again, final weights."""
        write_json(self.folder / CONFIG, config)  # how many steps, or where, may have changed
        if unfinished:
            (self.folder / WEIGHTS).unlink(missing_ok=True)
        rows = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_text(self.folder / METRICS, text)

    @contextmanager
    def append(self) -> Iterator[IO[str]]:
        with (self.folder / METRICS).open("a", encoding="utf-8", buffering=1) as file:
            yield file

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second run into the same folder; the lock goes with the process."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / LOCK).open("w")
        except OSError as error:
            raise ValueError(
                f"{self.folder}: cannot write there ({error.strerror}); choose another folder"
            ) from None
        with file:
            if not _taken(file):
                raise ValueError(
                    f"{self.folder}: another run is writing here; wait for it or choose another"
                )
            for left in self.folder.rglob(".*.part"):  # of a process that was killed
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield

    def begin(self, config: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Write config.json, or check that a resumed run is the same."""
        path = self.folder / CONFIG
        if resume:
            _same(self.config(), config, path)
            return
        if path.exists():
            if not overwrite:
                raise ValueError(
                    f"{self.folder}: holds a run already; "
                    "give --resume to go on, --overwrite to begin anew, or another folder"
                )
            self.clear()
        write_json(path, config)

    def clear(self) -> None:
        """Remove what a training left here and what was found out about it, by known names."""
        for name in (WEIGHTS, METRICS, *RESULTS):
            (self.folder / name).unlink(missing_ok=True)
        for report in filter(_is_report, self.folder.glob("test-*.json")):  # on other data
            report.with_suffix(".html").unlink(missing_ok=True)
            report.unlink()
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:
        """Write the trained weights."""
        write_whole(self.folder / WEIGHTS, lambda part: save_file(tensors, part))


def _is_report(path: Path) -> bool:
    """Whether an evaluation wrote this, and not a person."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"run", "trained_data", "confusion"} <= set(found)


def _taken(file: IO[str]) -> bool:
    """The lock, tried for a moment: who lists runs holds it for an instant to see who trains."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


def versions() -> dict[str, str]:
    return {
        "attnlab": attnlab.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


# What may differ between a run and its continuation.
FREE = {
    "steps", "minutes", "training_only", "device", "shard", "evaluate_every", "evaluations",
    "save_every", "keep", "compile",
}  # fmt: skip


def as_begun(settings: Settings, out: str | Path, given: Mapping[str, Any]) -> Settings:
    """Settings of a run that goes on in `out`: a warmup that nobody gave was made from the steps,
    and with more of them stays what the run began with."""
    if given.get("warmup") is not None:
        return settings
    return replace(settings, warmup=Run(out).config()["training"].get("warmup", settings.warmup))


def _same(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    for part in ("task", "model", "training"):
        one, other = old[part], new[part]
        if part == "training":
            one, other = ({k: v for k, v in x.items() if k not in FREE} for x in (one, other))
        one, other = (json.loads(json.dumps(x)) for x in (one, other))
        if one != other:
            pairs = (
                [(k, one.get(k), other.get(k)) for k in {*one, *other}]
                if isinstance(one, dict) and isinstance(other, dict)
                else [(part, one, other)]
            )
            name, was, now = next(pair for pair in pairs if pair[1] != pair[2])
            raise ValueError(
                f"{path}: the run has {name} {was!r}, not {now!r}; resume with the same settings"
            )


def check_folder(out: str | Path, resume: bool, overwrite: bool) -> None:
    """Before anything is read or computed."""
    if resume and overwrite:
        raise ValueError("--resume and --overwrite; give one of them")
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"{out}: is a file; name a folder")
    if resume:
        Run(out).config()  # says so if there is no run
    elif (Path(out) / "config.json").exists() and not overwrite:
        raise ValueError(
            f"{out}: holds a run already; "
            "give --resume to go on, --overwrite to begin anew, or another folder"
        )
