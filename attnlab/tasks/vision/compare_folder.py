"""The folder of a comparison: one comparison's runs and figures, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder.layout import CONFIG, LOCK
from attnlab.tasks.registry import result_files
from attnlab.tasks.vision.recipe import MODELS

REPORTS = ("compare.json", "compare.html", "compare.svg")
RUN = re.compile(rf"({'|'.join(MODELS)})-[0-9.e-]+-\d+")  # as `run_folder` names them


def run_folder(model: str, share: float, seed: int) -> str:
    return f"{model}-{share:g}-{seed}"


def check_out(out: Path, folders: Sequence[Path], start: StartMode) -> list[Path]:
    """Before anything is read or computed; the folders of runs that are not among these."""
    runs = [path.parent for path in out.glob(f"*/{CONFIG}")]
    there = sorted(path for path in runs if RUN.fullmatch(path.name))
    others = [path for path in there if path not in folders]
    report = (out / REPORTS[0]).exists()
    if start is StartMode.OVERWRITE:
        return others
    if start is StartMode.RESUME and (others or (report and not there)):
        which = f" ({others[0].name})" if others else ""
        raise ValueError(
            f"{out}: holds another comparison{which}; give the same --fractions, --seeds and "
            "--seed or more, --overwrite to begin anew, or another folder"
        )
    if start is StartMode.NEW and (there or report):
        raise ValueError(
            f"{out}: holds a comparison already; "
            "give --resume to go on, --overwrite to begin anew, or another folder"
        )
    return []


def remove(out: Path, others: Sequence[Path]) -> None:
    """What another comparison left, so that its runs and figures do not pass for ours."""
    for name in REPORTS:
        (out / name).unlink(missing_ok=True)
    for folder in others:
        run = RunFolder(folder, result_files())
        with run.locked():
            run.delete()
        run.remove(LOCK)
        if not any(folder.iterdir()):  # a person may have put something there
            folder.rmdir()


def kept(path: Path) -> dict[str, Any]:
    """What was measured of a run; empty where nothing was, or nobody can read it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
