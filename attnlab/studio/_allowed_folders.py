"""The folders that the studio may read: runs below one folder, and models named at start.

A run id in a request is never trusted: it is valid only if each part of it is a plain folder, and a
symbolic link is not a plain folder.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG
from attnlab.run_folder._run_list import DEPTH
from attnlab.studio._http_errors import RequestError

ROOT_RUN = "."  # the id of the run if --runs is itself a run folder
MODEL_FILES = ("*", f"{CHECKPOINTS}/*", f"{CHECKPOINTS}/*/*")  # patterns below a run folder


@dataclass(frozen=True)
class AllowedFolders:
    runs: Path
    models: dict[str, Path] = field(default_factory=dict)
    """Model folders by id."""

    @staticmethod
    def resolve(runs: Path, models: Sequence[Path] = ()) -> AllowedFolders:
        """Resolves links once, at start. Models of the same name get numbers."""
        model_folders: dict[str, Path] = {}
        for folder in models:
            if not (folder / CONFIG).is_file():
                raise ValueError(f"{folder}: has no model; give a folder with a {CONFIG}")
            folder = folder.resolve()
            name, number = folder.name, 2
            while name in model_folders:
                name, number = f"{folder.name}-{number}", number + 1
            model_folders[name] = folder
        return AllowedFolders(runs.resolve(), model_folders)

    def run_folder(self, run: str) -> Path:
        """The folder of a run id."""
        folder, valid = self.runs, is_valid_run_id(run)
        for part in split_run_id(run) if valid else ():
            in_run = part == CHECKPOINTS and _is_regular_file(folder / CONFIG)
            folder = folder / part
            if in_run or not _is_plain_folder(folder):
                valid = False
                break
        if not valid or not _is_regular_file(folder / CONFIG):
            raise RequestError(404, f"There is no run {printable_name(run)}.")
        return folder

    def loadable_run_folder(self, run: str) -> Path:
        """The folder of a run id, after checking that no link in it leads outside."""
        folder = self.run_folder(run)
        for path in (path for pattern in MODEL_FILES for path in folder.glob(pattern)):
            if path.is_symlink() and not path.resolve().is_relative_to(self.runs):
                message = f"{path.name} is a link to a file outside the runs folder."
                raise RequestError(409, f"{printable_name(run)}: {message}")
        return folder

    def find_file(self, name: str) -> Path | None:
        """A file that a run's settings name, relative to here or to the runs folder.

        None unless it lies below the runs folder: a stranger may have written the settings.
        """
        for candidate in (Path(name), self.runs / name):
            try:
                path = candidate.resolve()
                if path.is_relative_to(self.runs) and path.is_file():
                    return path
            except (OSError, ValueError):  # not a valid file name
                pass
        return None

    def model_folder(self, model: str) -> Path:
        if model not in self.models:
            available = ", ".join(self.models) or "none; give --model FOLDER at start"
            raise RequestError(
                404, f"There is no model {printable_name(model)} (available: {available})."
            )
        return self.models[model]


def split_run_id(run: str) -> list[str]:
    return [] if run == ROOT_RUN else run.split("/")


def is_valid_run_id(run: str) -> bool:
    """Whether a run could have this id. It need not exist."""
    parts = split_run_id(run)
    visible = all(part and not part.startswith(".") for part in parts)
    return visible and "\0" not in run and len(parts) <= DEPTH


def run_id_of(folder: Path, root: Path) -> str:
    """The id of a run folder."""
    return folder.relative_to(root).as_posix()


def printable_name(name: str) -> str:
    """Any name, made safe to print in a message."""
    text = "".join(c if c.isprintable() else "?" for c in name[:81])
    return f"{text[:80]}…" if len(text) > 80 else text or "without a name"


def _is_plain_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):  # a name that is too long or invalid
        return False


def _is_regular_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
