"""A capture as one self-contained HTML page: it needs no network and runs only its own script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab.interpret._capture_file import header_text
from attnlab.report._page import script_page, write_page

HEADER_ID = "attnlab-header"


def read_static(name: str) -> str:
    """The text of a built front-end file; `make web` rebuilds it."""
    return files("attnlab.interpret").joinpath("static", name).read_text(encoding="utf-8")


def render(header: dict[str, Any], blocks: Sequence[bytes]) -> str:
    header_text(header)  # raises if the header is too large for a page
    title = str(header["title"]) or "attention"
    script, style = read_static("look.js"), read_static("look.css")
    return script_page(title, script, style, header, data_id=HEADER_ID, blocks=blocks)


def save_page(path: Path, header: dict[str, Any], blocks: Sequence[bytes], overwrite: bool) -> None:
    write_page(path, render(header, blocks), overwrite)
