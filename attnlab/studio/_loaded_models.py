"""The models that a worker keeps loaded. A model is loaded again when its files change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attnlab.run_folder._file_names import CHECKPOINTS, CONFIG, WEIGHTS
from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError
from attnlab.studio._run_list import capability_files

T = TypeVar("T")
ATTEMPTS = 3  # a run in training may delete the checkpoint that is being loaded


class LoadedModels:
    def __init__(self, capacity: int = limits.MODELS_PER_WORKER) -> None:
        self.capacity = capacity
        self.models: OrderedDict[tuple[str, str], tuple[Any, Any]] = OrderedDict()
        """File stamps and loaded model, by purpose and folder."""

    def get(self, purpose: str, folder: str, load: Callable[[Path], T]) -> T:
        """The result of `load(folder)`, from memory if the files have not changed.

        A folder that cannot be loaded is status 409: the request itself is not wrong.
        """
        key, path = (purpose, folder), Path(folder)
        for attempt in range(1, ATTEMPTS + 1):
            stamps = file_stamps(path)
            entry = self.models.get(key)
            if entry is not None and entry[0] == stamps:
                self.models.move_to_end(key)
                return entry[1]
            self.models.pop(key, None)
            while len(self.models) >= self.capacity:  # first: two large models may not fit at once
                self.models.popitem(last=False)
            try:
                model = load(path)
                getattr(model, "processor", None)  # raises if the folder has none
            except (ValueError, OSError) as error:
                if attempt < ATTEMPTS and file_stamps(path) != stamps:
                    continue
                message = " ".join(str(error).split()).replace(folder, path.name)
                raise RequestError(409, message[:500]) from None
            self.models[key] = (stamps, model)
            return model
        raise AssertionError("the last attempt returns or raises")


def file_stamps(folder: Path) -> list[Any]:
    """Changes when a file that a model is loaded from changes."""
    stamps: list[Any] = []
    for name in (CONFIG, WEIGHTS, CHECKPOINTS, *capability_files()):
        try:
            status = (folder / name).stat()
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return stamps


LOADED_MODELS = LoadedModels()
