"""Result files (claim ledgers and benches) below the runs folder and in the studio's own folder.

The first bytes of a file say what it is; its content is checked and never trusted. A request can
only name a file of the list, so no name leads outside.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab._cache import cache_folder
from attnlab._safe_files import open_regular, read_json
from attnlab.report import parse_report, to_json
from attnlab.report._json import upgrade_plot
from attnlab.run_folder._file_names import CHECKPOINTS
from attnlab.studio import _request_limits as limits
from attnlab.studio._run_list import to_strict_json

BENCH, CLAIMS = "attnlab-report", "attnlab-claims"
BENCH_KINDS = ("bench", "heads")  # kinds of reports that the bench page shows
OWN_PREFIX = "studio:"  # of the name of a file that the studio wrote
HEADER_BYTES = 256  # within which a file names its format
MAX_DEPTH = 2
MAX_FOLDERS = 2000  # to search


@dataclass(frozen=True)
class ResultFile:
    name: str
    path: Path
    time: float
    kind: str
    content: dict[str, Any]


def results_folder() -> Path:
    """The folder in which the studio keeps its own results."""
    return cache_folder("studio")


class ResultFiles:
    def __init__(self, runs: Path, own: Path) -> None:
        self.runs, self.own = runs, own
        self.lock = threading.Lock()
        self.cache: dict[Path, tuple[Any, ResultFile | None]] = {}

    def list_files(self, kind: str) -> list[ResultFile]:
        """The result files of this kind, newest first."""
        with self.lock:
            cache: dict[Path, tuple[Any, ResultFile | None]] = {}
            for name, path in self._paths():
                stamp = _file_stamp(path)
                old = self.cache.get(path)
                unchanged = old is not None and old[0] == stamp
                cache[path] = old if old and unchanged else (stamp, _read_result(name, path))
            self.cache = cache
        files = [file for _, file in cache.values() if file is not None and file.kind == kind]
        return sorted(files, key=lambda file: -file.time)[: limits.LISTED_REPORTS]

    def _paths(self) -> Iterator[tuple[str, Path]]:
        for root, prefix in ((self.runs, ""), (self.own, OWN_PREFIX)):
            for path in _json_files(root):
                yield prefix + path.relative_to(root).as_posix(), path


def _json_files(root: Path) -> Iterator[Path]:
    """JSON files below a folder: no links, no hidden files, not too deep."""
    folders, count = [(root, 0)], 0
    while folders and count < MAX_FOLDERS:
        folder, depth = folders.pop(0)
        count += 1
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH and entry.name != CHECKPOINTS:
                    folders.append((Path(entry.path), depth + 1))
            elif entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _file_stamp(path: Path) -> Any:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_result(name: str, path: Path) -> ResultFile | None:
    """None if the file is not a result file, or is broken."""
    try:
        with open_regular(path) as file:
            header = file.read(HEADER_BYTES)
        kinds = (kind for text, kind in FORMATS.items() if f'"{text}"'.encode() in header)
        kind = next(kinds, None)
        if kind is None:
            return None
        content = to_strict_json(read_json(path, limits.REPORT_BYTES), depth=32)
        return ResultFile(name, path, path.lstat().st_mtime, kind, CHECKS[kind](content))
    except (OSError, ValueError):
        return None


def check_bench_report(content: Any) -> dict[str, Any]:
    """A valid bench report without its single measurements, which the page does not show."""
    report = parse_report(content)
    if report.kind not in BENCH_KINDS:
        raise ValueError(
            f"it is a report of kind {report.kind!r}; choose from {', '.join(BENCH_KINDS)}"
        )
    without_measurements: dict[str, Any] = json.loads(to_json(report, measurements=False))
    return without_measurements


def merge_ledgers(ledgers: Sequence[ResultFile]) -> dict[str, Any] | None:
    """One ledger with the newest row of each claim. Each row has its size, seed, time and file.

    A row that the studio wrote has its own time, because each claim rewrites the file.
    """
    rows: dict[str, dict[str, Any]] = {}
    for file in ledgers:
        shared = {"size": file.content.get("size"), "seed": file.content.get("seed")}
        for row in file.content["claims"]:
            time = row.get("time")
            valid = isinstance(time, int | float) and not isinstance(time, bool)
            time = min(time, file.time) if valid else file.time
            old = rows.get(row["id"])
            if old is None or time > old["time"]:
                rows[row["id"]] = {**row, **shared, "time": time, "file": file.name}
    if not ledgers:
        return None
    newest = {k: v for k, v in ledgers[0].content.items() if k not in ("size", "seed")}
    return {**newest, "claims": list(rows.values())}


def check_ledger(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != CLAIMS:
        raise ValueError("not a claim ledger")
    rows = content.get("claims")
    if content.get("version") not in (1, 2) or not isinstance(rows, list):
        raise ValueError("a ledger of an unknown version; 1 and 2 can be read")
    if not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        raise ValueError("a ledger with rows that are not claims")
    if content["version"] == 1:
        rows = [_upgrade_row(row) for row in rows]
    return {**content, "version": 2, "claims": rows}


def _upgrade_row(row: Any) -> Any:
    """Upgrades a claim, or its control, of version 0.1."""
    if not isinstance(row, dict):
        return row
    upgrades = {"plot": upgrade_plot, "figure": upgrade_plot, "control": _upgrade_row}
    return {
        name: upgrades.get(name, lambda unchanged: unchanged)(value) for name, value in row.items()
    }


CHECKS: dict[str, Callable[[Any], dict[str, Any]]] = {
    BENCH: check_bench_report,
    CLAIMS: check_ledger,
}
FORMATS = {BENCH: BENCH, "attnlab-bench": BENCH, CLAIMS: CLAIMS}  # the second is version 0.1's
