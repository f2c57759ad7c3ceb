"""Follow metrics.jsonl while it grows: each complete line once, even if the file is replaced.

`train --resume` writes a new file without the rows after its checkpoint, and `--overwrite` starts
another. So a reader holds a mark: the number of lines read and a checksum of them. If the file no
longer matches the mark, it is read again from the beginning.
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

MAX_LINES = 4_000_000
MARK = re.compile(r"([0-9]{1,9})(?:-([0-9a-f]{8}))?")


@dataclass(frozen=True)
class MetricsChunk:
    """Lines `after` to `next`. With `again`, discard what was read before."""

    rows: list[dict[str, Any]]
    after: int
    next: int
    mark: str
    total: int
    again: bool = False

    def json(self) -> dict[str, Any]:
        lines = {"after": self.after, "rows": self.rows, "next": self.next, "mark": self.mark}
        return {**lines, "total": self.total, **({"again": True} if self.again else {})}


class MetricsTail:
    """One file, and where each of its lines ends. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.ends = array("Q")
        """The byte after each line."""
        self.sums = array("I")
        """A checksum of all lines up to each."""
        self.last_stat: tuple[int, int, int] | None = None
        """Inode, size and modification time of the file when it was last read."""

    def read(self, mark: str = "0", max_lines: int = MAX_LINES) -> MetricsChunk:
        """At most `max_lines` lines after this mark."""
        with self.lock:
            try:
                # one handle, because the file may be replaced meanwhile
                with open_regular(self.path) as file:
                    self._update(file)
                    return self._chunk(file, mark, max_lines)
            except OSError:
                self._truncate(0)
                self.last_stat = None
                return MetricsChunk([], 0, 0, "0", 0, again=mark not in ("", "0"))

    def _chunk(self, file: IO[bytes], mark: str, max_lines: int) -> MetricsChunk:
        start, again = self._resolve_mark(mark)
        end = min(len(self.ends), start + max_lines)
        return MetricsChunk(
            self._rows(file, start, end), start, end, self._mark(end), len(self.ends), again
        )

    def _resolve_mark(self, mark: str) -> tuple[int, bool]:
        """The line to start from, and whether the mark no longer matches."""
        match = MARK.fullmatch(mark)
        line = int(match[1]) if match else 0
        if line > len(self.ends):
            return 0, True
        fits = match is None or match[2] is None or self._mark(line) == mark
        return (line, False) if fits else (0, True)

    def _mark(self, line: int) -> str:
        return f"{line}-{self.sums[line - 1]:08x}" if line else "0"

    def _update(self, file: IO[bytes]) -> None:
        info = os.fstat(file.fileno())
        stat = (info.st_ino, info.st_size, info.st_mtime_ns)
        if stat != self.last_stat:
            replaced = self.last_stat is None or stat[0] != self.last_stat[0]
            self._read_new_lines(file, info.st_size, replaced)
            self.last_stat = stat

    def _read_new_lines(self, file: IO[bytes], size: int, replaced: bool) -> None:
        if replaced or size < self._end() or not self._last_is_same(file):
            self._truncate(self._count_unchanged(file))
        file.seek(self._end())
        total = self.sums[-1] if self.sums else 0
        while len(self.ends) < MAX_LINES:
            line = file.readline(LINE_BYTES)
            if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                break  # the end, or an incomplete line
            total = zlib.crc32(line, total)
            self.ends.append(self._end() + len(line))
            self.sums.append(total)

    def _count_unchanged(self, file: IO[bytes]) -> int:
        """How many lines at the beginning have not changed."""
        file.seek(0)
        total = 0
        for number, expected in enumerate(self.sums):
            line = file.readline(LINE_BYTES)
            total = zlib.crc32(line, total)
            if total != expected or file.tell() != self.ends[number]:
                return number
        return len(self.sums)

    def _last_is_same(self, file: IO[bytes]) -> bool:
        if not self.ends:
            return True
        begin, before = (self.ends[-2], self.sums[-2]) if len(self.ends) > 1 else (0, 0)
        file.seek(begin)
        return zlib.crc32(file.read(self.ends[-1] - begin), before) == self.sums[-1]

    def _truncate(self, lines: int) -> None:
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
