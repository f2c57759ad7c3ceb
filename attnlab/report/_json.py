"""A report as JSON, and read back from a file that may come from anywhere."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from attnlab.report._content import Report

MAX_BYTES = 64 * 2**20  # of a file
OLD_FORMAT = "attnlab-bench"  # of version 0.1
SPECIAL = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as version 0.1 wrote them

_adapter = TypeAdapter(Report)


def to_json(report: Report, *, measurements: bool = True, indent: int | None = None) -> str:
    """`measurements=False` leaves out the single numbers, which are most of a large report."""
    left_out = None if measurements else {"sections": {"__all__": {"measurements"}}}
    return _adapter.dump_json(report, exclude=left_out, indent=indent).decode("utf-8")


def read_report(path: Path) -> Report:
    """The report in a file; a ValueError of one line for a file that is none."""
    if not path.exists():
        raise ValueError(f"{path}: is not there; --json FILE writes one")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path}: is no file; give one that --json wrote")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: {path.stat().st_size:,} bytes are too many for a report")
    try:
        raw = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: is not JSON; give what --json wrote") from None
    try:
        return parse_report(raw)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_report(raw: Any) -> Report:
    """Of parsed JSON; a ValueError names the place of the first thing that is wrong."""
    if isinstance(raw, dict) and raw.get("format") == OLD_FORMAT:
        raw = _upgraded(raw)
    if not isinstance(raw, dict) or raw.get("format") != "attnlab-report":
        raise ValueError("is no report of attnlab")
    if raw.get("version") != 1:
        raise ValueError(f"has version {str(raw.get('version'))[:40]}; this attnlab reads 1")
    text = json.dumps(raw, ensure_ascii=False)
    try:
        return _adapter.validate_json(text.encode("utf-8", "replace"))  # half surrogates
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{_place(first['loc'])}: {' '.join(first['msg'].split())}") from None


def _place(location: tuple[int | str, ...]) -> str:
    """sections 1, blocks 2, title"""
    words = list[str]()
    for each in location:
        if isinstance(each, int) and words:
            words[-1] += f" {each + 1}"
        else:
            words.append(str(each)[:40])
    return ", ".join(words) or "the report"


# Reports of version 0.1


def _upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    """What attnlab bench wrote in version 0.1, in today's shape; mistakes stay for the check."""
    if raw.get("version") != 1:
        return raw | {"format": "attnlab-report", "version": f"bench {raw.get('version')}"}
    sections = raw.get("sections")
    return raw | {
        "format": "attnlab-report",
        "kind": "bench",
        "title": "Attention mechanisms, measured",
        "machine": _special(raw.get("machine")),
        "sections": [_section(each) for each in sections]
        if isinstance(sections, list)
        else sections,
    }


def _section(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    parts = raw.get("parts")
    new = {name: value for name, value in raw.items() if name != "parts"}
    new |= {name: _special(raw.get(name)) for name in ("settings", "measurements")}
    return new | {"blocks": [_block(each) for each in parts] if isinstance(parts, list) else parts}


def _block(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    if "plot" not in raw:
        return raw | {"kind": "table", "rows": _special(raw.get("rows"))}
    new = {name: value for name, value in raw.items() if name != "tabled"}
    return new | {
        "kind": "figure",
        "plot": upgraded_plot(raw["plot"]),
        "in_table": raw.get("tabled"),
    }


def upgraded_plot(raw: Any) -> Any:
    """Of version 0.1; ledgers of claims have the same plots."""
    raw = _special(raw)
    if not isinstance(raw, dict):
        return raw
    if raw.get("kind") == "heatmap":
        new = {name: value for name, value in raw.items() if name != "center"}
        return new | {"center": raw.get("center")}
    if raw.get("kind") == "bars" and isinstance(raw.get("values"), list):
        return raw | {"values": [_bar(each) for each in raw["values"]]}
    return raw


def _bar(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    return [raw.get("name"), {name: value for name, value in raw.items() if name != "name"}]


def _special(raw: Any) -> Any:
    """Infinity and "not a number" had other names in cells, settings and measurements."""
    if isinstance(raw, list):
        return [_special(each) for each in raw]
    if isinstance(raw, dict):
        return {name: _special(value) for name, value in raw.items()}
    return SPECIAL.get(raw, raw) if isinstance(raw, str) else raw
