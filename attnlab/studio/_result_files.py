"""Files of results below the runs folder and in the studio's own: ledgers of claims, benches.

A file is told by its first bytes and then read with nothing in it trusted. A request can only name
a file that was found, so no name leads elsewhere.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab._safe_files import open_regular, read_json
from attnlab.report import parse_report, to_json
from attnlab.report._json import upgraded_plot
from attnlab.run_folder._file_names import CHECKPOINTS
from attnlab.studio import _request_limits as limits
from attnlab.studio._run_list import strict

BENCH, CLAIMS = "attnlab-report", "attnlab-claims"
MEASURED = ("bench", "heads")  # kinds of reports that the bench page shows
OWN = "studio:"  # before the name of a file that the studio wrote
HEAD = 256  # bytes within which a file says what it is
DEPTH = 2
FOLDERS = 2000  # that are searched


@dataclass(frozen=True)
class Found:
    name: str
    path: Path
    time: float
    kind: str
    content: dict[str, Any]


def own_folder() -> Path:
    """Where the studio keeps what it measured."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnlab" / "studio"


class Results:
    def __init__(self, runs: Path, own: Path) -> None:
        self.runs, self.own = runs, own
        self.lock = threading.Lock()
        self.kept: dict[Path, tuple[Any, Found | None]] = {}

    def of(self, kind: str) -> list[Found]:
        """The newest first."""
        with self.lock:
            seen: dict[Path, tuple[Any, Found | None]] = {}
            for name, path in self._files():
                stamp = _stamp(path)
                old = self.kept.get(path)
                same = old is not None and old[0] == stamp
                seen[path] = old if old and same else (stamp, _read(name, path))
            self.kept = seen
        found = [each for _, each in seen.values() if each is not None and each.kind == kind]
        return sorted(found, key=lambda each: -each.time)[: limits.REPORTS]

    def _files(self) -> Iterator[tuple[str, Path]]:
        for root, before in ((self.runs, ""), (self.own, OWN)):
            for path in _json_files(root):
                yield before + path.relative_to(root).as_posix(), path


def _json_files(root: Path) -> Iterator[Path]:
    """No links, nothing hidden, not too deep."""
    folders, count = [(root, 0)], 0
    while folders and count < FOLDERS:
        folder, depth = folders.pop(0)
        count += 1
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda each: each.name)
        except OSError:
            continue
        for each in found:
            if each.name.startswith("."):
                continue
            if each.is_dir(follow_symlinks=False):
                if depth < DEPTH and each.name != CHECKPOINTS:
                    folders.append((Path(each.path), depth + 1))
            elif each.name.endswith(".json") and each.is_file(follow_symlinks=False):
                yield Path(each.path)


def _stamp(path: Path) -> Any:
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _read(name: str, path: Path) -> Found | None:
    """None: nothing of ours, or broken."""
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
        kind = next((each for name, each in FORMATS.items() if f'"{name}"'.encode() in head), None)
        if kind is None:
            return None
        content = strict(read_json(path, limits.REPORT_BYTES), depth=32)
        return Found(name, path, path.lstat().st_mtime, kind, CHECKS[kind](content))
    except (OSError, ValueError):
        return None


def bench(content: Any) -> dict[str, Any]:
    """Without the single measurements, as the page has it."""
    report = parse_report(content)
    if report.kind not in MEASURED:
        raise ValueError(f"a report of another kind: {report.kind}")
    found: dict[str, Any] = json.loads(to_json(report, measurements=False))
    return found


def merged(ledgers: Sequence[Found]) -> dict[str, Any] | None:
    """One ledger of all, the newest row of each claim, which says its size, seed, time and file.

    A row that the studio wrote has its own time: its file is written anew with every claim.
    """
    rows: dict[str, dict[str, Any]] = {}
    for found in ledgers:
        of_all = {"size": found.content.get("size"), "seed": found.content.get("seed")}
        for row in found.content["claims"]:
            time = row.get("time")
            known = isinstance(time, int | float) and not isinstance(time, bool)
            time = min(time, found.time) if known else found.time
            old = rows.get(row["id"])
            if old is None or time > old["time"]:
                rows[row["id"]] = {**row, **of_all, "time": time, "file": found.name}
    if not ledgers:
        return None
    newest = {k: v for k, v in ledgers[0].content.items() if k not in ("size", "seed")}
    return {**newest, "claims": list(rows.values())}


def claims(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != CLAIMS:
        raise ValueError("no ledger")
    rows = content.get("claims")
    if content.get("version") not in (1, 2) or not isinstance(rows, list):
        raise ValueError("a ledger of another kind")
    if not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        raise ValueError("a ledger whose rows are no claims")
    if content["version"] == 1:
        rows = [_upgraded_row(row) for row in rows]
    return {**content, "version": 2, "claims": rows}


def _upgraded_row(row: Any) -> Any:
    """A claim, or its control, of version 0.1."""
    if not isinstance(row, dict):
        return row
    upgrades = {"plot": upgraded_plot, "figure": upgraded_plot, "control": _upgraded_row}
    return {name: upgrades.get(name, lambda same: same)(value) for name, value in row.items()}


CHECKS: dict[str, Callable[[Any], dict[str, Any]]] = {BENCH: bench, CLAIMS: claims}
FORMATS = {BENCH: BENCH, "attnlab-bench": BENCH, CLAIMS: CLAIMS}  # the second is version 0.1's
