"""One run folder. Everything written into it goes through `RunFolder`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from attnlab._safe_files import read_json, write_atomically, write_json, write_text
from attnlab.run_folder import _lock as lock
from attnlab.run_folder._config import UnknownVersionError, check_same_settings, read_config
from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, METRICS, WEIGHTS, has_run
from attnlab.run_folder._start_mode import StartMode

REPORT_BYTES = 2**26


class RunFolder:
    """The files of one training run.

    `results` names the files that commands write about the trained weights. `clear` removes them,
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
        try:
            return read_config(self.folder).content
        except UnknownVersionError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.folder}: not a run folder; {error}") from None

    def metrics(self) -> list[dict[str, Any]]:
        """All rows, without a last line that a crash cut short."""
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
        """Lock the folder for this process, or raise an error."""
        return lock.locked(self.folder)

    def begin(self, config: dict[str, Any], start: StartMode) -> None:
        """Write config.json, or check that a resumed run has the same settings."""
        check_folder(self.folder, start)
        if start == StartMode.RESUME:
            check_same_settings(self.config(), config, self.folder / CONFIG)
            return
        if self.began:
            self.clear()
        self.write_json(CONFIG, config)

    def rewind(self, step: int, config: dict[str, Any], *, unfinished: bool) -> None:
        """Remove the metrics after this step and, if `unfinished`, the final weights."""
        self.write_json(CONFIG, config)  # the steps or the device may have changed
        if unfinished:
            self.remove(WEIGHTS)
        rows = [row for row in self.metrics() if row["step"] <= step]
        self.write_text(METRICS, "".join(json.dumps(row) + "\n" for row in rows))

    def clear(self) -> None:
        """Remove the files of a training run and the reports about it."""
        for name in (WEIGHTS, METRICS, *self.results):
            if "*" not in name:
                self.remove(name)
                continue
            for path in filter(_is_report, list(self.folder.glob(name))):
                self.remove(path.with_suffix(".html").name)
                self.remove(path.name)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def delete(self) -> None:
        """Remove the run from the folder."""
        if self.began:
            self.clear()
        self.remove(CONFIG)

    @contextmanager
    def append_metrics(self) -> Iterator[IO[str]]:
        with (self.folder / METRICS).open("a", encoding="utf-8", buffering=1) as file:
            yield file

    def write(self, name: str, save: Callable[[Path], None]) -> None:
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
    ValueError: new-run: not a run folder; config.json is missing
    """
    folder, start = RunFolder(out), StartMode(start)
    if folder.folder.exists() and not folder.folder.is_dir():
        raise ValueError(f"{out}: is a file; give a folder")
    if start is StartMode.RESUME:
        folder.config()
    elif start is StartMode.NEW and folder.began:
        raise ValueError(
            f"{out}: already holds a run; "
            "give --resume to continue it, --overwrite to replace it, or another folder"
        )


def _is_report(path: Path) -> bool:
    """Whether a command wrote this file about a run."""
    try:
        content = read_json(path, REPORT_BYTES)
    except ValueError:
        return False
    return isinstance(content, dict) and "run" in content
