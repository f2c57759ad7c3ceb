"""The ledger as one offline page, and the attention playground: each draws itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab.claims._ledger_terminal import stated
from attnlab.claims._registry import CLAIMS
from attnlab.report._page import script_page, write_page

TITLE = "What is said about attention, run and judged"


def static(name: str) -> str:
    """A file of the built front end; `make web` builds it anew."""
    return files("attnlab.claims").joinpath("static", name).read_text(encoding="utf-8")


def claims_page(found: dict[str, Any]) -> str:
    """Of a ledger's JSON."""
    return script_page(TITLE, static("claims.js"), static("claims.css"), found)


def playground_page() -> str:
    """Carries what each claim says, so that a preset can quote its own."""
    said = {name: stated(each) for name, each in CLAIMS.items()}
    script, style = static("playground.js"), static("playground.css")
    return script_page("Attention playground", script, style, {"statements": said})


def save_claims(path: Path, found: dict[str, Any], overwrite: bool = False) -> None:
    write_page(path, claims_page(found), overwrite)


def save_playground(path: Path, overwrite: bool = False) -> None:
    write_page(path, playground_page(), overwrite)
