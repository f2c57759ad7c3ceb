"""Where pairs come from: the user's file, or what this machine has already.

What was gathered is kept in the cache folder under the hash of what it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from attnlab._safe_files import write_text
from attnlab.tasks.summary import _debian_packages as debian
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary._pairs import USUAL, Columns, Found, Pair, read_pairs
from attnlab.training import is_main_process

T = TypeVar("T")
BUILT_IN = ("docstrings", "debian")
VERSION = 1  # of the cleaning; a change of it makes all anew
PLAIN_SECONDS = 10.0
CACHED = Columns(group="group")


def load_pairs(data: str | Path, columns: Columns = USUAL, *, quiet: bool = False) -> list[Pair]:
    """The pairs of a built-in source, or of a .jsonl, .csv or .tsv file."""
    return load_found(data, columns, quiet=quiet).pairs


def load_found(data: str | Path, columns: Columns = USUAL, *, quiet: bool = False) -> Found:
    """`load_pairs`, with the rows of a file that were left out."""
    if str(data) in BUILT_IN:
        return Found((_docstrings if str(data) == "docstrings" else _debian)(quiet))
    path = Path(data)
    if not path.exists() and not path.suffix:
        raise ValueError(f"no data {str(data)!r}; there are {', '.join(BUILT_IN)}, or give a file")
    found = read_pairs(path, columns)
    if found.bad and is_main_process() and not quiet:
        print(found.complaint(path), file=sys.stderr)
    return found


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    place = Path(base).absolute() if base else Path.home() / ".cache"  # apt knows no other folder
    return place / "attnlab" / "summary"


def kept_versions(name: str) -> Iterator[list[Pair]]:
    """All that the cache holds of a built-in source, the newest first: what this machine has may
    have changed since."""
    paths = cache_folder().glob(f"{name}-{VERSION}-*.jsonl") if name in BUILT_IN else []
    for path in sorted(paths, key=lambda each: each.stat().st_mtime, reverse=True):
        try:
            yield read_pairs(path, CACHED).pairs
        except ValueError:
            continue  # something else wrote there


def _docstrings(quiet: bool) -> list[Pair]:
    files = list(docstrings.sources())
    if not files:
        raise ValueError("this Python has no sources to take docstrings from; give a file")
    found = hashlib.sha256()
    for module, path in told(files, "looking for changed sources", quiet):
        try:
            found.update(module.encode() + hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            continue  # it is left out below too

    def gather() -> list[Pair]:
        pairs: dict[str, Pair] = {}
        for module, path in told(files, "reading docstrings", quiet):
            for pair in docstrings.pairs_in(module, path):
                pairs.setdefault(pair.text, pair)
        return list(pairs.values())

    return _kept("docstrings", found.hexdigest(), gather, quiet)


def _debian(quiet: bool) -> list[Pair]:
    def say(text: str) -> None:
        if is_main_process() and not quiet:
            print(text, file=sys.stderr)

    paths = debian.lists(cache_folder() / "apt", say)
    texts = [debian.contents(path) for path in told(paths, "reading package lists", quiet)]
    found = hashlib.sha256()
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return _kept("debian", found.hexdigest(), lambda: debian.pairs_of(texts), quiet)


def _kept(name: str, key: str, gather: Callable[[], list[Pair]], quiet: bool) -> list[Pair]:
    path = cache_folder() / f"{name}-{VERSION}-{key[:16]}.jsonl"
    if path.exists():
        try:
            return read_pairs(path, CACHED).pairs
        except ValueError:
            path.unlink()  # something else wrote there
    pairs = gather()
    if not pairs:
        raise ValueError(f"{name}: nothing was found on this machine; give a file")
    rows = ({"text": each.text, "summary": each.summary, "group": each.group} for each in pairs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    if is_main_process() and not quiet:
        print(f"{len(pairs):,} pairs kept in {path}", file=sys.stderr)
    return read_pairs(path, CACHED).pairs


def told(items: Sequence[T], what: str, quiet: bool) -> Iterator[T]:
    """Each item in turn, with a bar in a terminal and a line now and then elsewhere."""
    console = Console(file=sys.stderr)
    if quiet or not is_main_process():
        yield from items
    elif console.is_terminal:
        yield from track(items, what, console=console, transient=True)
    else:
        last = time.monotonic()
        for number, item in enumerate(items):
            if time.monotonic() - last > PLAIN_SECONDS:
                print(f"{what}: {number:,} of {len(items):,}", file=sys.stderr)
                last = time.monotonic()
            yield item
