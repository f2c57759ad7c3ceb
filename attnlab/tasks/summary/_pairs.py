"""Pairs of a text and its summary: read them from files, and split them by group."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from attnlab._short_repr import short_repr
from attnlab.tasks.language._split import hash_position
from attnlab.tasks.language._text_files import read_text_file

MAX_LISTED, MAX_COLUMNS = 5, 10  # line numbers and columns in a message
MAX_FIELD = 2**24  # characters
SUFFIXES = (".jsonl", ".csv", ".tsv")


@dataclass(frozen=True)
class Pair:
    """A text, its summary, and a group: pairs of one group stay together in a split."""

    text: str
    summary: str
    group: str = ""


@dataclass(frozen=True)
class Columns:
    """The columns of a file that hold text, summary and group."""

    text: str = "text"
    summary: str = "summary"
    group: str | None = None

    @property
    def names(self) -> list[str]:
        return [self.text, self.summary, *([self.group] if self.group else [])]


DEFAULT_COLUMNS = Columns()


@dataclass(frozen=True)
class LoadedPairs:
    """The pairs of a file, and its rows without a pair: (line number, reason)."""

    pairs: list[Pair]
    bad_rows: list[tuple[int, str]] = field(default_factory=list)

    def describe_bad_rows(self, path: object) -> str:
        """One line about the rows without a pair, or an empty string."""
        if not self.bad_rows:
            return ""
        total = len(self.bad_rows) + len(self.pairs)
        return f"{path}: {len(self.bad_rows)} of {total} rows skipped: {self.reasons}"

    @property
    def reasons(self) -> str:
        """Each reason with its count and lines: no 'text' in 2 (lines 3, 9)."""
        return _format_reasons(self.bad_rows)


def read_pairs(path: str | Path, columns: Columns = DEFAULT_COLUMNS) -> LoadedPairs:
    """Read a .jsonl, .csv or .tsv file. The first line of .csv and .tsv has the column names."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise ValueError(f"{path}: give a file that ends with .jsonl, .csv or .tsv")
    if columns.text == columns.summary:
        raise ValueError(
            f"text and summary are both column {columns.text!r}; give two different columns"
        )
    text = read_text_file(path)
    rows = _json_rows(text) if kind == ".jsonl" else _table_rows(path, text, kind, columns)
    pairs: list[Pair] = []
    bad_rows: list[tuple[int, str]] = []
    for line, row in rows:
        pair = row if isinstance(row, str) else _make_pair(row, columns)
        if isinstance(pair, str):
            bad_rows.append((line, pair))
        else:
            pairs.append(pair)
    if not pairs:
        reason = _format_reasons(bad_rows) if bad_rows else "it has no rows"
        raise ValueError(f"{path}: has no text with a summary ({reason})")
    return LoadedPairs(pairs, bad_rows)


def _make_pair(row: dict[str, Any], columns: Columns) -> Pair | str:
    """The pair, or the reason why the row has none."""
    for name in columns.names:
        value = row.get(name)
        if value is None:
            return f"no {name!r}"
        if not isinstance(value, str) and not (name == columns.group and isinstance(value, int)):
            return f"{name!r} is not text"
        if not str(value).strip():
            return f"{name!r} is empty"
    group = str(row[columns.group]) if columns.group else ""
    return Pair(row[columns.text].strip(), " ".join(row[columns.summary].split()), group)


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            yield number, "not JSON"
            continue
        yield number, row if isinstance(row, dict) else "not a JSON object"


def _table_rows(
    path: Path, text: str, kind: str, columns: Columns
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    before = csv.field_size_limit(MAX_FIELD)
    try:
        stream = StringIO(text, newline="")
        if kind == ".csv":
            reader = csv.reader(stream, strict=True)
        else:
            reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        header: list[str] = []
        while True:
            first = reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error as error:
                if not header or reader.line_num > first:
                    raise ValueError(
                        _unclosed_quote_message(path, first, reader.line_num, error)
                    ) from None
                yield first, f"not a row of a table ({error})"
                continue
            if not header:
                header = [name.strip() for name in fields or []]
                _check_header(path, header, columns)
            elif fields is None:
                return
            elif fields and len(fields) != len(header):
                yield first, f"{len(fields)} fields, not {len(header)}"
            elif fields:
                yield first, dict(zip(header, fields, strict=True))
    finally:
        csv.field_size_limit(before)


def _unclosed_quote_message(path: Path, first: int, last: int, error: csv.Error) -> str:
    """The error for a row that runs over several lines: rows after the open quote are lost in
    it."""
    return (
        f"{path}: a quote opens in the row that begins at line {first} and is not closed where it "
        f"should be; lines {first} to {last} cannot be separated ({error}); close the quote, or "
        "double it"
    )


def _check_header(path: Path, header: list[str], columns: Columns) -> None:
    missing = [name for name in columns.names if name not in header]
    if missing:
        listed = ", ".join(map(short_repr, header[:MAX_COLUMNS]))
        more = ", ..." if len(header) > MAX_COLUMNS else ""
        raise ValueError(
            f"{path}: has no column {missing[0]!r}; its columns are {listed}{more}: name "
            "yours with --text-column and --summary-column"
        )
    twice = [name for name in columns.names if header.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: has column {twice[0]!r} twice; rename one")


def _format_reasons(bad_rows: Sequence[tuple[int, str]]) -> str:
    parts = []
    for reason, count in Counter(reason for _, reason in bad_rows).most_common():
        lines = [str(line) for line, other in bad_rows if other == reason]
        listed = ", ".join(lines[:MAX_LISTED]) + (", ..." if count > MAX_LISTED else "")
        parts.append(f"{reason} in {count} (line{'s' if count > 1 else ''} {listed})")
    return "; ".join(parts)


@dataclass(frozen=True)
class Split:
    """Pairs for training, for choosing settings, and for the final measurement."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def split_pairs(pairs: Sequence[Pair], fraction: float = 0.03, seed: int = 0) -> Split:
    """Split pairs by group. Pairs without a group stay together with pairs of the same text.

    The name of a group and the seed decide its part. About `fraction` of the pairs are for
    validation, and as many for the test.
    """
    if not 0 < fraction <= 0.4:
        raise ValueError(f"held-out fraction is {fraction}; give a number above 0, at most 0.4")
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.group or pair.text, []).append(pair)
    if len(groups) < 3:
        raise ValueError(
            f"{len(groups)} groups cannot be split into training, validation and test; "
            "give more texts or another group column"
        )
    parts: list[list[Pair]] = [[], [], []]  # test, validation, train
    order = sorted(groups, key=lambda name: (hash_position(name, seed), name))
    for left, name in zip(range(len(order), 0, -1), order, strict=True):
        full = [bool(part) and len(part) >= fraction * len(pairs) for part in parts[:2]]
        target = next((i for i in (0, 1) if not full[i]), 2)
        missing = [i for i in range(3) if not parts[i]]
        if len(missing) == left:  # every remaining group has to fill an empty part
            target = missing[0]
        parts[target] += groups[name]
    return Split(parts[2], parts[1], parts[0])


def digest(pairs: Sequence[Pair]) -> str:
    """Identifies a set of pairs, so that a run is not resumed with other data."""
    sha = hashlib.sha256()
    for pair in pairs:
        sha.update(f"{pair.text}\0{pair.summary}\0{pair.group}\n".encode("utf-8", "replace"))
    return sha.hexdigest()[:16]
