"""Writes reports as JSON, and reads them from untrusted files."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from attnlab._short_repr import one_line
from attnlab.report._content import Report

MAX_BYTES = 64 * 2**20  # of a file
OLD_FORMAT = "attnlab-bench"  # of version 0.1
SPECIAL = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as version 0.1 wrote them

_adapter = TypeAdapter(Report)


def to_json(report: Report, *, measurements: bool = True, indent: int | None = None) -> str:
    """The report as JSON. `measurements=False` leaves out single measurements.

    >>> from attnlab.report import Report, Section, to_json
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> to_json(report)[:25]
    '{"format":"attnlab-report'
    """
    excluded = None if measurements else {"sections": {"__all__": {"measurements"}}}
    return _adapter.dump_json(report, exclude=excluded, indent=indent).decode("utf-8")


def read_report(path: Path) -> Report:
    """Read a report from a file. Any other file raises a ValueError of one line.

    >>> from pathlib import Path
    >>> from attnlab.report import Report, Section, read_report, to_json
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> _ = Path("loss.json").write_text(to_json(report))
    >>> read_report(Path("loss.json")).title
    'Loss by mechanism'
    """
    if not path.exists():
        raise ValueError(f"{path}: does not exist; give a file that --json wrote")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path}: is not a regular file; give one that --json wrote")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(
            f"{path}: has {path.stat().st_size:,} bytes; a report has at most {MAX_BYTES:,}"
        )
    try:
        raw = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: is not JSON; give a file that --json wrote") from None
    try:
        return parse_report(raw)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_report(raw: Any) -> Report:
    """Create a report from parsed JSON. A ValueError names the position of the first mistake.

    >>> import json
    >>> from attnlab.report import Report, Section, parse_report, to_json
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> parse_report(json.loads(to_json(report))).title
    'Loss by mechanism'
    """
    if isinstance(raw, dict) and raw.get("format") == OLD_FORMAT:
        raw = _upgrade_report(raw)
    if not isinstance(raw, dict) or raw.get("format") != "attnlab-report":
        raise ValueError("is not a report of attnlab; give a file that --json wrote")
    if raw.get("version") != 1:
        raise ValueError(f"has version {str(raw.get('version'))[:40]}; this attnlab reads 1")
    text = json.dumps(raw, ensure_ascii=False)
    try:
        return _adapter.validate_json(text.encode("utf-8", "replace"))  # lone surrogates
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = _format_location(first["loc"])
        raise ValueError(one_line(ValueError(f"{location}: {first['msg']}"))) from None


def _format_location(location: tuple[int | str, ...]) -> str:
    """For example "sections 1, blocks 2, title"."""
    words = list[str]()
    for part in location:
        if isinstance(part, int) and words:
            words[-1] += f" {part + 1}"
        else:
            words.append(str(part)[:40])
    return ", ".join(words) or "the report"


# Reports of version 0.1


def _upgrade_report(raw: dict[str, Any]) -> dict[str, Any]:
    """A report of version 0.1 in the current format; the validation finds its mistakes."""
    if raw.get("version") != 1:
        return raw | {"format": "attnlab-report", "version": f"bench {raw.get('version')}"}
    sections = raw.get("sections")
    return raw | {
        "format": "attnlab-report",
        "kind": "bench",
        "title": "Attention mechanisms, measured",
        "machine": _rename_special(raw.get("machine")),
        "sections": [_upgrade_section(section) for section in sections]
        if isinstance(sections, list)
        else sections,
    }


def _upgrade_section(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    parts = raw.get("parts")
    new = {name: value for name, value in raw.items() if name != "parts"}
    new |= {name: _rename_special(raw.get(name)) for name in ("settings", "measurements")}
    return new | {
        "blocks": [_upgrade_block(part) for part in parts] if isinstance(parts, list) else parts
    }


def _upgrade_block(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    if "plot" not in raw:
        return raw | {"kind": "table", "rows": _rename_special(raw.get("rows"))}
    new = {name: value for name, value in raw.items() if name != "tabled"}
    return new | {
        "kind": "figure",
        "plot": upgrade_plot(raw["plot"]),
        "in_table": raw.get("tabled"),
    }


def upgrade_plot(raw: Any) -> Any:
    """A plot of version 0.1 in the current format; ledgers of claims have the same plots."""
    raw = _rename_special(raw)
    if not isinstance(raw, dict):
        return raw
    if raw.get("kind") == "heatmap":
        new = {name: value for name, value in raw.items() if name != "center"}
        return new | {"center": raw.get("center")}
    if raw.get("kind") == "bars" and isinstance(raw.get("values"), list):
        return raw | {"values": [_upgrade_bar(bar) for bar in raw["values"]]}
    return raw


def _upgrade_bar(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    return [raw.get("name"), {name: value for name, value in raw.items() if name != "name"}]


def _rename_special(raw: Any) -> Any:
    """Renames infinity and NaN, which had other names in cells, settings and measurements."""
    if isinstance(raw, list):
        return [_rename_special(item) for item in raw]
    if isinstance(raw, dict):
        return {name: _rename_special(value) for name, value in raw.items()}
    return SPECIAL.get(raw, raw) if isinstance(raw, str) else raw
