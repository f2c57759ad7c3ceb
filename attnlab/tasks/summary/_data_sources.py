"""Load pairs of text and summary from your file, or from docstrings or packages of this machine.

Pairs from this machine are cached under the hash of their source.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from attnlab._cache import cache_folder
from attnlab._safe_files import write_text
from attnlab.tasks.summary import _debian_packages as debian
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary._pairs import DEFAULT_COLUMNS, Columns, LoadedPairs, Pair, read_pairs
from attnlab.training import is_main_process

T = TypeVar("T")
BUILT_IN = ("docstrings", "debian")
VERSION = 1  # of the cleaning; raise it to discard cached pairs
PROGRESS_SECONDS = 10.0  # between progress lines outside a terminal
CACHE_COLUMNS = Columns(group="group")


def load_pairs(
    data: str | Path, columns: Columns = DEFAULT_COLUMNS, *, quiet: bool = False
) -> list[Pair]:
    """The pairs of a built-in source, or of a .jsonl, .csv or .tsv file."""
    return load_pairs_with_bad_rows(data, columns, quiet=quiet).pairs


def load_pairs_with_bad_rows(
    data: str | Path, columns: Columns = DEFAULT_COLUMNS, *, quiet: bool = False
) -> LoadedPairs:
    """`load_pairs`, together with the rows of a file that hold no pair."""
    if str(data) in BUILT_IN:
        return LoadedPairs((_load_docstrings if str(data) == "docstrings" else _load_debian)(quiet))
    path = Path(data)
    if not path.exists() and not path.suffix:
        raise ValueError(
            f"data is {str(data)!r}, which does not exist; give {', '.join(BUILT_IN)} or a file"
        )
    loaded = read_pairs(path, columns)
    if loaded.bad_rows and is_main_process() and not quiet:
        print(loaded.describe_bad_rows(path), file=sys.stderr)
    return loaded


def cached_versions(name: str) -> Iterator[list[Pair]]:
    """All cached versions of a built-in source, the newest first, because the sources on this
    machine may have changed since a run was trained."""
    paths = cache_folder("summary").glob(f"{name}-{VERSION}-*.jsonl") if name in BUILT_IN else []
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            yield read_pairs(path, CACHE_COLUMNS).pairs
        except ValueError:
            continue  # not written by attnlab


def _load_docstrings(quiet: bool) -> list[Pair]:
    files = list(docstrings.sources())
    if not files:
        raise ValueError("this Python has no source files to take docstrings from; give a file")
    sha = hashlib.sha256()
    for module, path in with_progress(files, "checking sources for changes", quiet):
        try:
            sha.update(module.encode() + hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            continue  # it is skipped below too

    def gather() -> list[Pair]:
        pairs: dict[str, Pair] = {}
        for module, path in with_progress(files, "reading docstrings", quiet):
            for pair in docstrings.docstring_pairs(module, path):
                pairs.setdefault(pair.text, pair)
        return list(pairs.values())

    return _load_cached("docstrings", sha.hexdigest(), gather, quiet)


def _load_debian(quiet: bool) -> list[Pair]:
    def print_line(text: str) -> None:
        if is_main_process() and not quiet:
            print(text, file=sys.stderr)

    paths = debian.package_lists(cache_folder("summary") / "apt", print_line)
    texts = [
        debian.read_package_list(path)
        for path in with_progress(paths, "reading package lists", quiet)
    ]
    sha = hashlib.sha256()
    for text in texts:
        sha.update(hashlib.sha256(text.encode()).digest())
    return _load_cached("debian", sha.hexdigest(), lambda: debian.parse_pairs(texts), quiet)


def _load_cached(name: str, key: str, gather: Callable[[], list[Pair]], quiet: bool) -> list[Pair]:
    path = cache_folder("summary") / f"{name}-{VERSION}-{key[:16]}.jsonl"
    if path.exists():
        try:
            return read_pairs(path, CACHE_COLUMNS).pairs
        except ValueError:
            path.unlink()  # not written by attnlab
    pairs = gather()
    if not pairs:
        raise ValueError(f"{name}: this machine has no pairs of text and summary; give a file")
    rows = ({"text": pair.text, "summary": pair.summary, "group": pair.group} for pair in pairs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    if is_main_process() and not quiet:
        print(f"saved {len(pairs):,} pairs in {path}", file=sys.stderr)
    return read_pairs(path, CACHE_COLUMNS).pairs


def with_progress(items: Sequence[T], label: str, quiet: bool) -> Iterator[T]:
    """Iterate with a progress bar in a terminal, or with a line every few seconds elsewhere."""
    console = Console(file=sys.stderr)
    if quiet or not is_main_process():
        yield from items
    elif console.is_terminal:
        yield from track(items, label, console=console, transient=True)
    else:
        last = time.monotonic()
        for number, item in enumerate(items):
            if time.monotonic() - last > PROGRESS_SECONDS:
                print(f"{label}: {number:,} of {len(items):,}", file=sys.stderr)
                last = time.monotonic()
            yield item
