"""One self-contained HTML file of a capture: opens without a network, runs no code but our own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab.interpret._capture_file import header_text
from attnlab.report._page import script_page, write_page

HEADER_ID = "attnlab-header"


def static(name: str) -> str:
    """A file of the built front end; `make web` builds it anew."""
    return files("attnlab.interpret").joinpath("static", name).read_text(encoding="utf-8")


def render(header: dict[str, Any], blocks: Sequence[bytes]) -> str:
    header_text(header)  # refuses what no page would open
    title = str(header["title"]) or "attention"
    script, style = static("look.js"), static("look.css")
    return script_page(title, script, style, header, data_id=HEADER_ID, blocks=blocks)


def save_page(path: Path, header: dict[str, Any], blocks: Sequence[bytes], overwrite: bool) -> None:
    write_page(path, render(header, blocks), overwrite)
