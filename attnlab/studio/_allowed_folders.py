"""The folders that the studio may read: runs below one folder, and models given at start.

A name that comes with a request is never trusted: it leads to a run only if each step of it is a
plain folder below, and a link is no plain folder.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG
from attnlab.run_folder._run_list import DEPTH
from attnlab.studio._http_errors import Refused

HERE = "."  # the run folder that --runs itself is
WITHIN = ("*", f"{CHECKPOINTS}/*", f"{CHECKPOINTS}/*/*")  # where the files of a run lie


@dataclass(frozen=True)
class Places:
    runs: Path
    models: dict[str, Path] = field(default_factory=dict)
    """Folders by id."""

    @staticmethod
    def of(runs: Path, models: Sequence[Path] = ()) -> Places:
        """Resolved once, at start; models of one name are numbered."""
        found: dict[str, Path] = {}
        for folder in models:
            if not (folder / CONFIG).is_file():
                raise ValueError(f"{folder}: no model here; give a folder with a {CONFIG}")
            folder = folder.resolve()
            name, number = folder.name, 2
            while name in found:
                name, number = f"{folder.name}-{number}", number + 1
            found[name] = folder
        return Places(runs.resolve(), found)

    def run(self, run: str) -> Path:
        """The folder of a run id."""
        folder, plain = self.runs, could_be(run)
        for part in parts_of(run) if plain else ():
            folder = folder / part
            if not _plain_folder(folder):
                plain = False
                break
        if not plain or not _regular(folder / CONFIG):
            raise Refused(404, f"There is no run {shown(run)}.")
        return folder

    def run_to_open(self, run: str) -> Path:
        """The same, once no file that a model is read from lies elsewhere."""
        folder = self.run(run)
        for path in (path for pattern in WITHIN for path in folder.glob(pattern)):
            if path.is_symlink() and not path.resolve().is_relative_to(self.runs):
                raise Refused(409, f"{shown(run)}: {path.name} is a link that leads elsewhere.")
        return folder

    def file_named(self, name: str) -> Path | None:
        """A file that a run's settings name, as seen from here or from the runs folder; None where
        it does not lie below that: settings may come from a stranger."""
        for path in (Path(name), self.runs / name):
            try:
                found = path.resolve()
                if found.is_relative_to(self.runs) and found.is_file():
                    return found
            except (OSError, ValueError):  # no name of a file at all
                pass
        return None

    def model(self, model: str) -> Path:
        if model not in self.models:
            known = ", ".join(self.models) or "none; give --model FOLDER at start"
            raise Refused(404, f"There is no model {shown(model)} (there are: {known}).")
        return self.models[model]


def parts_of(run: str) -> list[str]:
    return [] if run == HERE else run.split("/")


def could_be(run: str) -> bool:
    """Whether this can be the id of a run, be it there or not."""
    parts = parts_of(run)
    plain = all(part and not part.startswith(".") for part in parts)
    return plain and "\0" not in run and len(parts) <= DEPTH


def name_of(folder: Path, root: Path) -> str:
    """The id of a run folder."""
    return folder.relative_to(root).as_posix()


def shown(name: str) -> str:
    """A name of any kind in a sentence."""
    text = "".join(c if c.isprintable() else "?" for c in name[:81])
    return f"{text[:80]}…" if len(text) > 80 else text or "without a name"


def _plain_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):  # a name that is too long, or not one at all
        return False


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
