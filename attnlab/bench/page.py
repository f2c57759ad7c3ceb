"""A report as one offline page that draws itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from attnlab.bench.results import Report, report_json
from attnlab.page import script_page, write_page

TITLE = "Attention mechanisms, measured"


def static(name: str) -> str:
    """A file of the built front end; `make web` builds it anew."""
    return files("attnlab.bench").joinpath("static", name).read_text(encoding="utf-8")


def bench_page(report: Report) -> str:
    """Without the single measurements: the JSON file has them, the page would grow tenfold."""
    found = report_json(report)
    for section in found["sections"]:
        del section["measurements"]
    return script_page(TITLE, static("bench.js"), static("bench.css"), found)


def save_page(path: Path, report: Report, overwrite: bool = False) -> None:
    write_page(path, bench_page(report), overwrite)
