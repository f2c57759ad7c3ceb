"""One run folder. Everything that is written into one goes through here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from attnlab._safe_files import read_json, write_json, write_text, write_whole
from attnlab.run_folder import _lock as lock
from attnlab.run_folder._config import UnknownVersionError, check_same, read_config
from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, METRICS, WEIGHTS, has_run
from attnlab.run_folder._start_mode import StartMode

REPORT_BYTES = 2**26


class RunFolder:
    """The files of one training run.

    `results`: names of the files that commands write about the trained weights. `clear` removes
    them, because they would be wrong about other weights. A pattern such as "test-*.json" stands
    for reports (JSON objects that name their "run") and the pages beside them.
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
        """Whether training ended and left its weights."""
        return (self.folder / WEIGHTS).exists()

    def config(self) -> dict[str, Any]:
        """config.json, checked and in the newest version."""
        try:
            return read_config(self.folder).content
        except UnknownVersionError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.folder}: not a run folder; {error}") from None

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

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder for this process, or refuse."""
        return lock.locked(self.folder)

    def begin(self, config: dict[str, Any], start: StartMode) -> None:
        """Write config.json, or check that a resumed run has the same settings."""
        check_folder(self.folder, start)
        if start == StartMode.RESUME:
            check_same(self.config(), config, self.folder / CONFIG)
            return
        if self.began:
            self.clear()
        self.write_json(CONFIG, config)

    def rewind(self, step: int, config: dict[str, Any], *, unfinished: bool) -> None:
        """Drop the metrics after this step, which will be written again, and final weights."""
        self.write_json(CONFIG, config)  # how many steps, or where, may have changed
        if unfinished:
            self.remove(WEIGHTS)
        rows = [row for row in self.metrics() if row["step"] <= step]
        self.write_text(METRICS, "".join(json.dumps(row) + "\n" for row in rows))

    def clear(self) -> None:
        """Remove what a training left here, and what commands found out about it."""
        for name in (WEIGHTS, METRICS, *self.results):
            if "*" not in name:
                self.remove(name)
                continue
            for path in filter(_is_report, list(self.folder.glob(name))):
                self.remove(path.with_suffix(".html").name)
                self.remove(path.name)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def delete(self) -> None:
        """Remove the run, so that the folder holds none."""
        if self.began:
            self.clear()
        self.remove(CONFIG)

    @contextmanager
    def append_metrics(self) -> Iterator[IO[str]]:
        with (self.folder / METRICS).open("a", encoding="utf-8", buffering=1) as file:
            yield file

    def write(self, name: str, save: Callable[[Path], None]) -> None:
        """Let `save` fill a file, then move it to this name in one step."""
        write_whole(self.folder / name, save)

    def write_json(self, name: str, data: Any) -> None:
        write_json(self.folder / name, data)

    def write_text(self, name: str, text: str) -> None:
        write_text(self.folder / name, text)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def check_folder(out: str | Path, start: StartMode) -> None:
    """Whether a training may begin there, before anything is read or computed."""
    folder, start = RunFolder(out), StartMode(start)
    if folder.folder.exists() and not folder.folder.is_dir():
        raise ValueError(f"{out}: is a file; name a folder")
    if start is StartMode.RESUME:
        folder.config()
    elif start is StartMode.NEW and folder.began:
        raise ValueError(
            f"{out}: holds a run already; "
            "give --resume to go on, --overwrite to replace it, or another folder"
        )


def _is_report(path: Path) -> bool:
    """Whether a command wrote it about a run, and not a person."""
    try:
        content = read_json(path, REPORT_BYTES)
    except ValueError:
        return False
    return isinstance(content, dict) and "run" in content
