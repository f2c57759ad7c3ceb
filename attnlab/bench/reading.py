"""A report's JSON read back, and nothing in it trusted: a file may come from anywhere."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attnlab.bench.results import (
    FORMAT,
    VERSION,
    Cell,
    Drawn,
    Report,
    Section,
    Table,
    Value,
)
from attnlab.charts import Mark, Series
from attnlab.charts.plots import Bars, Drawing, Heatmap, Lines
from attnlab.intervals import Estimate

T = TypeVar("T")
LARGEST = 64 * 2**20  # bytes of a file
LONGEST = 4000  # characters of a text
MOST = 200_000  # items of a list
SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def read_report(path: Path) -> Report:
    """The report in a file; a ValueError of one line for a file that is none."""
    if not path.exists():
        raise ValueError(f"{path}: is not there; attnlab bench all --json FILE writes one")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path}: is no file; give one that attnlab bench --json wrote")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path}: {path.stat().st_size:,} bytes are too many for a report")
    try:
        raw = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: is not JSON; give what attnlab bench --json wrote") from None
    try:
        return report_of(raw)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def report_of(raw: Any) -> Report:
    """A ValueError names the place of the first thing that is wrong."""
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ValueError("is no report of attnlab bench")
    if raw.get("version") != VERSION:
        given = str(raw.get("version"))[:40]
        raise ValueError(f"has version {given}; this attnlab reads version {VERSION}")
    sections = _list(raw, "sections", "the report", _section)
    names = [section.name for section in sections]
    if len(set(names)) < len(names):
        raise ValueError("two sections have one name")
    return Report(
        sections=sections,
        machine=_record(raw, "machine", "the report", _value),
        versions=_record(raw, "versions", "the report", _text),
        seconds=_number(raw.get("seconds"), "seconds"),
    )


def _section(raw: Any, where: str) -> Section:
    raw = _dict(raw, where)
    name = _text(raw.get("name"), f"{where}, name")
    if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
        raise ValueError(f"{where}: name is {name[:40]!r}; letters, digits and dashes alone")
    return Section(
        name=name,
        title=_text(raw.get("title"), f"{where}, title"),
        findings=_list(raw, "findings", where, _text),
        advice=_list(raw, "advice", where, _text),
        parts=_list(raw, "parts", where, _part),
        settings=_record(raw, "settings", where, _setting),
        measurements=_list(raw, "measurements", where, _measurement),
    )


def _part(raw: Any, where: str) -> Table | Drawn:
    raw = _dict(raw, where)
    title = _text(raw.get("title"), f"{where}, title")
    note = _text(raw.get("note"), f"{where}, note")
    if "plot" in raw:
        tabled = _bool(raw.get("tabled"), f"{where}, tabled")
        return Drawn(title, _drawing(raw["plot"], f"{where}, plot"), note, tabled)
    header = _list(raw, "header", where, _text)
    rows = _list(raw, "rows", where, _row)
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{where}: a row has not the header's {len(header)} cells")
    drop = _list(raw, "drop", where, _text) if "drop" in raw else []  # older reports have none
    return Table(title, header, rows, note, drop)


def _row(raw: Any, where: str) -> list[Cell]:
    return _list({"cells": raw}, "cells", where, _cell)


def _cell(raw: Any, where: str) -> Cell:
    if isinstance(raw, dict):
        return _figure(raw, where)
    return _value(raw, where)


def _figure(raw: Any, where: str) -> Estimate:
    raw = _dict(raw, where)
    low, high = (_end(raw.get(name), f"{where}, {name}") for name in ("low", "high"))
    return Estimate(_number(raw.get("value"), f"{where}, value"), low, high)


def _measurement(raw: Any, where: str) -> dict[str, Value]:
    return _record({"row": raw}, "row", where, _value)


# Drawings


def _drawing(raw: Any, where: str) -> Drawing:
    raw = _dict(raw, where)
    kind = raw.get("kind")
    if kind == "lines":
        return Lines(
            _text(raw.get("x"), f"{where}, x"),
            _text(raw.get("y"), f"{where}, y"),
            _list(raw, "series", where, _series),
            _bool(raw.get("x_log"), f"{where}, x_log"),
            _bool(raw.get("y_log"), f"{where}, y_log"),
            _list(raw, "marks", where, _mark),
        )
    if kind == "bars":
        bars = _list(raw, "values", where, _bar)
        y = _text(raw.get("y"), f"{where}, y")
        return Bars(y, dict(bars), _list(raw, "marks", where, _mark))
    if kind == "heatmap":
        return _heatmap(raw, where)
    raise ValueError(f"{where}: kind is {str(kind)[:40]!r}; lines, bars and heatmap are known")


def _series(raw: Any, where: str) -> Series:
    raw = _dict(raw, where)
    points, band = (_list(raw, name, where, _pair) for name in ("points", "band"))
    if band and len(band) != len(points):
        raise ValueError(f"{where}: {len(band)} bands for {len(points)} points")
    return Series(_text(raw.get("name"), f"{where}, name"), points, band)


def _pair(raw: Any, where: str) -> tuple[float, float]:
    if not isinstance(raw, list) or len(raw) != 2:
        raise ValueError(f"{where}: should be two numbers")
    return _number(raw[0], where), _number(raw[1], where)


def _bar(raw: Any, where: str) -> tuple[str, Estimate]:
    return _text(_dict(raw, where).get("name"), f"{where}, name"), _figure(raw, where)


def _mark(raw: Any, where: str) -> Mark:
    raw = _dict(raw, where)
    x, y = (_end(raw.get(name), f"{where}, {name}") for name in ("x", "y"))
    return Mark(_text(raw.get("label"), f"{where}, label"), x, y)


def _heatmap(raw: dict[str, Any], where: str) -> Heatmap:
    columns, rows, names = (_list(raw, each, where, _text) for each in ("columns", "rows", "names"))
    values = _list(raw, "values", where, _values)
    texts = _list(raw, "texts", where, _texts)
    for name, grid in (("values", values), ("texts", texts)):
        shape = (len(grid), {len(row) for row in grid})
        if (grid or name == "values") and shape != (len(rows), {len(columns)} if rows else set()):
            raise ValueError(f"{where}, {name}: is not {len(rows)} rows of {len(columns)} columns")
    for value in (each for row in values for each in row if each is not None and names):
        if not (value.is_integer() and 0 <= value < len(names)):
            raise ValueError(f"{where}: {value} is no place in names")
    x, y, z = (_text(raw.get(each), f"{where}, {each}") for each in ("x", "y", "z"))
    log, centre = _bool(raw.get("log"), f"{where}, log"), _end(raw.get("centre"), where)
    return Heatmap(x, y, z, columns, rows, values, log, centre, names, texts)


def _values(raw: Any, where: str) -> list[float | None]:
    return _list({"row": raw}, "row", where, _end)


def _texts(raw: Any, where: str) -> list[str]:
    return _list({"row": raw}, "row", where, _text)


# Plain values


def _dict(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: should be an object")
    return raw


def _list(raw: dict[str, Any], name: str, where: str, read: Callable[[Any, str], T]) -> list[T]:
    found = raw.get(name)
    if not isinstance(found, list) or len(found) > MOST:
        raise ValueError(f"{where}, {name}: should be a list")
    return [read(each, f"{name[:-1] or name} {place + 1}") for place, each in enumerate(found)]


def _record(
    raw: dict[str, Any], name: str, where: str, read: Callable[[Any, str], T]
) -> dict[str, T]:
    found = _dict(raw.get(name), f"{where}, {name}")
    if len(found) > MOST:
        raise ValueError(f"{where}, {name}: too many entries")
    return {_text(key, name): read(value, f"{name}, {key[:40]}") for key, value in found.items()}


def _text(raw: Any, where: str) -> str:
    if not isinstance(raw, str) or len(raw) > LONGEST:
        raise ValueError(f"{where}: should be a text of at most {LONGEST:,} characters")
    return raw


def _bool(raw: Any, where: str) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"{where}: should be true or false")
    return raw


def _number(raw: Any, where: str) -> float:
    if isinstance(raw, str) and raw in SPECIAL:
        return SPECIAL[raw]
    if isinstance(raw, bool) or not isinstance(raw, int | float) or abs(raw) > 1e300:
        raise ValueError(f"{where}: should be a number")
    return float(raw)


def _end(raw: Any, where: str) -> float | None:
    return None if raw is None else _number(raw, where)


def _value(raw: Any, where: str) -> Any:
    """A text, a number as it is (whole ones stay whole), true, false or nothing."""
    if raw is None or isinstance(raw, bool):
        return raw
    if isinstance(raw, str):
        return SPECIAL.get(raw, _text(raw, where))
    return raw if isinstance(raw, int) and abs(raw) < 2**63 else _number(raw, where)


def _setting(raw: Any, where: str) -> Any:
    return _list({"of": raw}, "of", where, _value) if isinstance(raw, list) else _value(raw, where)
