"""Models that a worker keeps: opened at the first question, and anew when their files change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, WEIGHTS
from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import Refused
from attnlab.studio._run_list import needed

T = TypeVar("T")
TRIES = 3  # a run that trains may drop the checkpoint that is being opened


class Models:
    def __init__(self, most: int = limits.MODELS) -> None:
        self.most = most
        self.kept: OrderedDict[tuple[str, str], tuple[Any, Any]] = OrderedDict()

    def get(self, kind: str, folder: str, opened: Callable[[Path], T]) -> T:
        """As `opened` gives it. A folder that cannot be opened is told as such, not as the
        request's fault."""
        key, path = (kind, folder), Path(folder)
        for tried in range(1, TRIES + 1):
            stamp = stamp_of(path)
            kept = self.kept.get(key)
            if kept is not None and kept[0] == stamp:
                self.kept.move_to_end(key)
                return kept[1]
            self.kept.pop(key, None)
            while len(self.kept) >= self.most:  # before: two large ones need not fit at once
                self.kept.popitem(last=False)
            try:
                found = opened(path)
            except (ValueError, OSError) as error:
                if tried < TRIES and stamp_of(path) != stamp:
                    continue
                sentence = " ".join(str(error).split()).replace(folder, path.name)
                raise Refused(409, sentence[:500]) from None
            self.kept[key] = (stamp, found)
            return found
        raise AssertionError("the last try returns or raises")


def stamp_of(folder: Path) -> list[Any]:
    """Changes when what is loaded would."""
    found: list[Any] = []
    for name in (CONFIG, WEIGHTS, CHECKPOINTS, *needed()):
        try:
            about = (folder / name).stat()
            found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError:
            found.append(None)
    return found


MODELS = Models()
