"""How training starts in a run folder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from attnlab.run_folder._file_names import has_run


class StartMode(StrEnum):
    """NEW refuses a folder that holds a run, RESUME continues that run, OVERWRITE replaces it."""

    NEW = "new"
    RESUME = "resume"
    OVERWRITE = "overwrite"

    @classmethod
    def _missing_(cls, value: object) -> StartMode:
        raise ValueError(f"start is {value!r}; choose from {', '.join(cls)}")

    def for_part(self, folder: Path) -> StartMode:
        """The mode for one of several runs: RESUME starts those that never began."""
        return StartMode.NEW if self is StartMode.RESUME and not has_run(folder) else self
