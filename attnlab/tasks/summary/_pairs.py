"""Texts with their summaries: read from the user's files, counted where bad, split by group."""

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

from attnlab.tasks.language._text_sources import file_text, place_of

NAMED = 5  # lines that a message names
LONGEST_FIELD = 2**24  # characters
SUFFIXES = (".jsonl", ".csv", ".tsv")


@dataclass(frozen=True)
class Pair:
    """A text, what it says in short, and what it must stay together with in a split."""

    text: str
    summary: str
    group: str = ""


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what."""

    text: str = "text"
    summary: str = "summary"
    group: str | None = None

    @property
    def names(self) -> list[str]:
        return [self.text, self.summary, *([self.group] if self.group else [])]


USUAL = Columns()


@dataclass(frozen=True)
class Found:
    """The pairs of a file, and its lines that hold none, each with the reason."""

    pairs: list[Pair]
    bad: list[tuple[int, str]] = field(default_factory=list)

    def complaint(self, path: object) -> str:
        """One line about the bad ones, or an empty text."""
        if not self.bad:
            return ""
        total = len(self.bad) + len(self.pairs)
        return f"{path}: {len(self.bad)} of {total} rows left out: {self.reasons}"

    @property
    def reasons(self) -> str:
        """Each with how often and where: no 'text' in 2 (lines 3, 9)."""
        return _reasons(self.bad)


def read_pairs(path: str | Path, columns: Columns = USUAL) -> Found:
    """Rows of a .jsonl, .csv or .tsv file; the last two begin with a line of column names."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise ValueError(f"{path}: give a file that ends with .jsonl, .csv or .tsv")
    if columns.text == columns.summary:
        raise ValueError(f"text and summary are both column {columns.text!r}; give two")
    text = file_text(path)
    rows = _json_rows(text) if kind == ".jsonl" else _table_rows(path, text, kind, columns)
    pairs: list[Pair] = []
    bad: list[tuple[int, str]] = []
    for line, row in rows:
        made = row if isinstance(row, str) else _pair(row, columns)
        if isinstance(made, str):
            bad.append((line, made))
        else:
            pairs.append(made)
    if not pairs:
        reason = _reasons(bad) if bad else "it has no rows"
        raise ValueError(f"{path}: holds no text with a summary ({reason})")
    return Found(pairs, bad)


def _pair(row: dict[str, Any], columns: Columns) -> Pair | str:
    """The pair, or what is wrong with the row."""
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
    before = csv.field_size_limit(LONGEST_FIELD)
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
                    raise ValueError(_runaway(path, first, reader.line_num, error)) from None
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


def _runaway(path: Path, first: int, last: int, error: csv.Error) -> str:
    """A row that went on over lines until something was wrong: nobody knows what it swallowed."""
    return (
        f"{path}: a quote opens in the row that begins at line {first} and is not closed where it "
        f"should be; lines {first} to {last} cannot be told apart ({error}); close it, or double it"
    )


def _check_header(path: Path, header: list[str], columns: Columns) -> None:
    missing = [name for name in columns.names if name not in header]
    if missing:
        raise ValueError(
            f"{path}: has no column {missing[0]!r}; there are {', '.join(map(repr, header))}: "
            "name yours with --text-column and --summary-column"
        )
    twice = [name for name in columns.names if header.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: has column {twice[0]!r} twice; rename one")


def _reasons(bad: Sequence[tuple[int, str]]) -> str:
    told = []
    for reason, count in Counter(reason for _, reason in bad).most_common():
        lines = [str(line) for line, other in bad if other == reason]
        shown = ", ".join(lines[:NAMED]) + (", ..." if count > NAMED else "")
        told.append(f"{reason} in {count} (line{'s' if count > 1 else ''} {shown})")
    return "; ".join(told)


@dataclass(frozen=True)
class Split:
    """What is learned, what settings are chosen on, and what is measured in the end."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def split_pairs(pairs: Sequence[Pair], share: float = 0.03, seed: int = 0) -> Split:
    """By group; a pair without one is kept together with those of the same text.

    Where a group goes follows from its name and the seed. `share` of the pairs, or a little more,
    are for validation, and as many for the test.
    """
    if not 0 < share <= 0.4:
        raise ValueError(f"held-out share is {share}; give a number above 0, at most 0.4")
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.group or pair.text, []).append(pair)
    if len(groups) < 3:
        raise ValueError(
            f"{len(groups)} groups cannot be split into training, validation and test; "
            "give more texts or another group column"
        )
    parts: list[list[Pair]] = [[], [], []]  # test, validation, train
    order = sorted(groups, key=lambda name: (place_of(name, seed), name))
    for left, name in zip(range(len(order), 0, -1), order, strict=True):
        full = [bool(part) and len(part) >= share * len(pairs) for part in parts[:2]]
        place = next((i for i in (0, 1) if not full[i]), 2)
        missing = [i for i in range(3) if not parts[i]]
        if len(missing) == left:  # so few groups that each part must have its own
            place = missing[0]
        parts[place] += groups[name]
    return Split(parts[2], parts[1], parts[0])


def digest(pairs: Sequence[Pair]) -> str:
    """Tells one set of pairs from another: a run must not go on with the wrong one."""
    found = hashlib.sha256()
    for pair in pairs:
        found.update(f"{pair.text}\0{pair.summary}\0{pair.group}\n".encode("utf-8", "replace"))
    return found.hexdigest()[:16]
