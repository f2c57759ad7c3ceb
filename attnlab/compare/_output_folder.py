"""The folder of a comparison: what it holds, how it is written and removed.

A folder holds a comparison if it has compare.json. Every file is complete or absent at any instant.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnlab._safe_files import write_json, write_text
from attnlab.compare._conclusions import Conclusions
from attnlab.compare._runs import (
    ATTEMPTS,
    FIGURES,
    FORMAT,
    PAGE,
    RESULTS,
    TABLE,
    TRIALS,
    VERSION,
    Attempt,
)
from attnlab.report import Figure, Heatmap, Report, save_figure, save_page, to_csv
from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder._file_names import LOCK
from attnlab.run_folder._removal import removal, removal_began, remove_empty_folders
from attnlab.run_folder._run_list import find_runs
from attnlab.tasks.comparison import TRIAL_FOLDER, ComparisonTrial
from attnlab.tasks.registry import result_files


def check_output_folder(folder: Path, start: StartMode, results: str = RESULTS) -> None:
    """Raises an error if `start` does not fit the folder, before anything is computed."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder")
    exists = (folder / results).exists()
    if start is StartMode.RESUME and not exists:
        raise ValueError(
            f"{folder}: holds no comparison to resume; {results} is missing; start without --resume"
        )
    if start is StartMode.NEW and exists:
        raise ValueError(
            f"{folder}: already holds a comparison; give --resume to continue it, --overwrite to "
            "replace it, or another folder"
        )
    if start is StartMode.NEW and not removal_began(folder) and _trial_runs(folder):
        raise ValueError(
            f"{folder}: has runs of a comparison, but its {results} is missing; give --overwrite "
            "to remove them, or another folder"
        )


def remove_comparison(folder: Path) -> None:
    """Deletes all runs of a comparison, also those that the new one lacks: they would look like its
    own. Your other files stay."""
    with removal(folder, RESULTS):
        for path in (folder / PAGE, folder / TABLE, *folder.glob(FIGURES)):
            path.unlink(missing_ok=True)
        for path in _trial_runs(folder):
            RunFolder(path, result_files()).delete_folder()
        for path in _trial_folders(folder):
            remove_empty_folders(path)


def _trial_folders(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if TRIAL_FOLDER.fullmatch(path.name)]


def _trial_runs(folder: Path) -> list[Path]:
    """The run folders of a comparison, also those that never began. A trial may have several."""
    runs = [path for trial in _trial_folders(folder) for path in find_runs(trial)]
    locks = [path.parent for trial in _trial_folders(folder) for path in trial.rglob(LOCK)]
    return sorted({*runs, *locks})


def write_results(
    folder: Path,
    settings: dict[str, Any],
    trials: list[ComparisonTrial],
    attempts: list[Attempt],
    conclusions: Conclusions,
    report: Report,
) -> None:
    """Writes compare.json, then the page and the table that are made from it."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": settings,
        "trials": TRIALS.dump_python(trials, mode="json"),
        **asdict(conclusions),
        "runs": ATTEMPTS.dump_python(attempts, mode="json"),
    }
    write_json(folder / RESULTS, content)
    if attempts:
        save_page(folder / PAGE, report, overwrite=True)
        write_text(folder / TABLE, to_csv(report))


def write_figures(folder: Path, report: Report, pattern: str = FIGURES) -> None:
    """Writes each figure as an SVG file, for papers. The first of a metric has its short name."""
    blocks = [block for section in report.sections for block in section.blocks]
    written: set[str] = set()
    for figure in (block for block in blocks if isinstance(block, Figure)):
        metric = figure.title if isinstance(figure.plot, Heatmap) else figure.plot.y
        name = _file_name(metric)
        name = _file_name(figure.title) if name in written else name
        written.add(name)
        path = folder / pattern.replace("*", name)
        save_figure(figure.plot, path, figure.title, overwrite=True)


def _file_name(title: str) -> str:
    return "-".join(re.findall(r"\w+", title))[:80]
