"""metrics.jsonl while it grows: each whole line once, also when the file is cut or replaced.

A line is whole when its end is written. `train --resume` writes a new file, without what came
after its checkpoint, and `--overwrite` begins another; so beside the number of lines a reader holds
a mark, a checksum of all of them, and what no longer fits is sent again from the beginning.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from attnlab._safe_files import open_regular
from attnlab.run_folder._metrics import LINE_BYTES, clean_row, parse_row

MOST_LINES = 4_000_000
MARK = re.compile(r"([0-9]{1,9})(?:-([0-9a-f]{8}))?")


@dataclass(frozen=True)
class Part:
    """Lines `after` to `next`. `again`: what was read before is no longer so."""

    rows: list[dict[str, Any]]
    after: int
    next: int
    mark: str
    total: int
    again: bool = False

    def json(self) -> dict[str, Any]:
        found = {"after": self.after, "rows": self.rows, "next": self.next, "mark": self.mark}
        return {**found, "total": self.total, **({"again": True} if self.again else {})}


class Tail:
    """One file, and where each of its lines ends. Used by many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.ends = array("Q")
        """The byte after each line."""
        self.sums = array("I")
        """A checksum of all lines up to each."""
        self.known: tuple[int, int, int] | None = None
        """Inode, size and time of the file when it was last read."""

    def read(self, mark: str = "0", most: int = MOST_LINES) -> Part:
        """At most so many lines after this mark, of what there is now."""
        with self.lock:
            try:
                # one handle: a file put in its place meanwhile is another
                with open_regular(self.path) as file:
                    self._update(file)
                    return self._part(file, mark, most)
            except OSError:
                self._keep(0)
                self.known = None
                return Part([], 0, 0, "0", 0, again=mark not in ("", "0"))

    def _part(self, file: IO[bytes], mark: str, most: int) -> Part:
        at, again = self._place(mark)
        end = min(len(self.ends), at + most)
        return Part(self._rows(file, at, end), at, end, self._mark(end), len(self.ends), again)

    def _place(self, mark: str) -> tuple[int, bool]:
        found = MARK.fullmatch(mark)
        at = int(found[1]) if found else 0
        if at > len(self.ends):
            return 0, True
        fits = found is None or found[2] is None or self._mark(at) == mark
        return (at, False) if fits else (0, True)

    def _mark(self, at: int) -> str:
        return f"{at}-{self.sums[at - 1]:08x}" if at else "0"

    def _update(self, file: IO[bytes]) -> None:
        about = os.fstat(file.fileno())
        now = (about.st_ino, about.st_size, about.st_mtime_ns)
        if now != self.known:
            moved = self.known is None or now[0] != self.known[0]
            self._take(file, about.st_size, moved)
            self.known = now

    def _take(self, file: IO[bytes], size: int, moved: bool) -> None:
        if moved or size < self._end() or not self._last_is_same(file):
            self._keep(self._alike(file))
        file.seek(self._end())
        total = self.sums[-1] if self.sums else 0
        while len(self.ends) < MOST_LINES:
            line = file.readline(LINE_BYTES)
            if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                break  # the end, or half a line
            total = zlib.crc32(line, total)
            self.ends.append(self._end() + len(line))
            self.sums.append(total)

    def _alike(self, file: IO[bytes]) -> int:
        """How many lines are still as they were."""
        file.seek(0)
        total = 0
        for number, wanted in enumerate(self.sums):
            line = file.readline(LINE_BYTES)
            total = zlib.crc32(line, total)
            if total != wanted or file.tell() != self.ends[number]:
                return number
        return len(self.sums)

    def _last_is_same(self, file: IO[bytes]) -> bool:
        if not self.ends:
            return True
        begin, before = (self.ends[-2], self.sums[-2]) if len(self.ends) > 1 else (0, 0)
        file.seek(begin)
        return zlib.crc32(file.read(self.ends[-1] - begin), before) == self.sums[-1]

    def _keep(self, lines: int) -> None:
        del self.ends[lines:], self.sums[lines:]

    def _end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def _rows(self, file: IO[bytes], begin: int, end: int) -> list[dict[str, Any]]:
        first = self.ends[begin - 1] if begin else 0
        file.seek(first)
        content = file.read(self.ends[end - 1] - first) if end > begin else b""
        rows = []
        for number in range(begin, end):
            start = (self.ends[number - 1] if number else 0) - first
            row = parse_row(content[start : self.ends[number] - first])
            if row:
                rows.append(clean_row(row))
        return rows
