"""One run folder. Everything written into it goes through `RunFolder`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json, write_atomically, write_json, write_text
from attnlab.run_folder import _lock as lock
from attnlab.run_folder._config import UnknownVersionError, check_same_settings, read_config
from attnlab.run_folder._file_names import (
    CHECKPOINTS,
    CONFIG,
    LOCK,
    METRICS,
    TOKENIZER,
    WEIGHTS,
    has_run,
)
from attnlab.run_folder._metrics_rows import MetricsFile, keep_rows, read_rows
from attnlab.run_folder._removal import has_remains, removal, removal_began, remove_empty_folders
from attnlab.run_folder._start_mode import StartMode

REPORT_BYTES = 2**26
SaveFile = Callable[[Path], None]
"""Writes one file."""


class RunFolder:
    """The files of one training run.

    `results` names the files that commands write about the trained weights. `delete` removes them,
    because they would be wrong for other weights. A pattern such as "test-*.json" stands for
    reports (JSON objects with a "run") and the HTML pages of the same name.
    """

    def __init__(self, folder: str | Path, results: Sequence[str] = ()) -> None:
        self.folder, self.results = Path(folder), tuple(results)

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def began(self) -> bool:
        return has_run(self.folder)

    @property
    def finished(self) -> bool:
        """Whether training ended and saved its weights."""
        return (self.folder / WEIGHTS).exists()

    def config(self) -> dict[str, Any]:
        """config.json, checked and in the newest version."""
        if not self.folder.exists():
            raise ValueError(
                f"{self.folder}: not a run folder, it does not exist; attnlab runs lists your runs"
            )
        try:
            return read_config(self.folder).content
        except UnknownVersionError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.folder}: not a run folder; {error}") from None

    def metrics(self) -> list[dict[str, Any]]:
        """All rows, without lines that are damaged or cut short."""
        return [row for _, row in read_rows(self.folder / METRICS) if row is not None]

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for this process, or raise an error."""
        return lock.locked(self.folder)

    def begin(
        self,
        config: dict[str, Any],
        start: StartMode,
        files: Mapping[str, SaveFile | None] | None = None,
    ) -> None:
        """Start a run, or check that a resumed run has the same settings.

        `files` are further files of the run: how to write each, or None if it has none. A new run
        writes config.json after all of them, so a folder with config.json is complete.
        """
        check_folder(self.folder, start)
        resumed = start == StartMode.RESUME
        if resumed:
            check_same_settings(self.config(), config, self.folder / CONFIG)
        elif self.began or has_remains(self.folder) or removal_began(self.folder):
            self.delete()
        for name, save in (files or {}).items():
            if save is None:
                self.remove(name)
            elif not (resumed and (self.folder / name).exists()):
                self.write(name, save)
        if not resumed:
            self.write_json(CONFIG, config)

    def rewind(
        self, step: int, config: dict[str, Any], *, unfinished: bool, results: Collection[str] = ()
    ) -> list[str]:
        """Remove the metrics after this step and, if `unfinished`, the final weights and the
        `results` about them. Return a sentence for each problem with the metrics."""
        for name in (WEIGHTS, *results) if unfinished else ():
            self.remove(name)
        problems = keep_rows(self.folder / METRICS, step)
        self.write_json(CONFIG, config)  # the steps or the device may have changed
        return problems

    def delete(self) -> None:
        """Remove the run and the reports about it. Other files stay."""
        with removal(self.folder, CONFIG):
            for name in (WEIGHTS, METRICS, TOKENIZER, *self.results):
                if "*" not in name:
                    self.remove(name)
                    continue
                for path in filter(_is_report, list(self.folder.glob(name))):
                    self.remove(path.with_suffix(".html").name)
                    self.remove(path.name)
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def delete_folder(self) -> None:
        """Remove the run, and the folder too if nothing else is in it."""
        with self.locked():
            self.delete()
            self.remove(LOCK)
        remove_empty_folders(self.folder)

    @contextmanager
    def append_metrics(self) -> Iterator[MetricsFile]:
        with MetricsFile(self.folder / METRICS) as file:
            yield file

    def write(self, name: str, save: SaveFile) -> None:
        """Let `save` write a temporary file, then rename it in one step."""
        write_atomically(self.folder / name, save)

    def write_json(self, name: str, data: Any) -> None:
        write_json(self.folder / name, data)

    def write_text(self, name: str, text: str) -> None:
        write_text(self.folder / name, text)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def check_folder(out: str | Path, start: StartMode) -> None:
    """Refuse a folder in which training cannot start, before anything is read or computed.

    >>> from attnlab.run_folder import StartMode, check_folder
    >>> check_folder("new-run", StartMode.NEW)
    >>> check_folder("new-run", StartMode.RESUME)
    Traceback (most recent call last):
    ValueError: new-run: not a run folder; config.json is missing; start without --resume
    """
    run, start = RunFolder(out), StartMode(start)
    folder = run.folder
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{out}: is a file; give a folder")
    if start is StartMode.NEW and run.began:
        raise ValueError(
            f"{out}: already holds a run; "
            "give --resume to continue it, --overwrite to replace it, or another folder"
        )
    removing = removal_began(folder)
    if has_remains(folder) and not (run.began or removing or start is StartMode.OVERWRITE):
        raise ValueError(
            f"{out}: has checkpoints, weights or metrics of a run, but its {CONFIG} is missing; "
            "give --overwrite to remove them, or another folder"
        )
    if start is StartMode.RESUME and not run.began:
        raise ValueError(f"{out}: not a run folder; {CONFIG} is missing; start without --resume")
    if start is StartMode.RESUME:
        run.config()


def _is_report(path: Path) -> bool:
    """Whether a command wrote this file about a run."""
    try:
        content = read_json(path, REPORT_BYTES)
    except ValueError:
        return False
    return isinstance(content, dict) and "run" in content
