"""Writes the ledger and the attention playground as single HTML files that work offline."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab.claims._ledger_terminal import format_statement
from attnlab.claims._registry import CLAIMS
from attnlab.report._page import script_page, write_page

TITLE = "Statements about attention, tested by experiments"


def read_static_file(name: str) -> str:
    """The text of a built file of the front end. `make web` rebuilds these files."""
    return files("attnlab.claims").joinpath("static", name).read_text(encoding="utf-8")


def claims_page(ledger: dict[str, Any]) -> str:
    """The HTML page of a ledger."""
    return script_page(TITLE, read_static_file("claims.js"), read_static_file("claims.css"), ledger)


def playground_page() -> str:
    """The HTML page of the playground. It holds all statements, because presets quote them."""
    statements = {name: format_statement(claim) for name, claim in CLAIMS.items()}
    script, style = read_static_file("playground.js"), read_static_file("playground.css")
    return script_page("Attention playground", script, style, {"statements": statements})


def save_claims(path: Path, ledger: dict[str, Any], overwrite: bool = False) -> None:
    write_page(path, claims_page(ledger), overwrite)


def save_playground(path: Path, overwrite: bool = False) -> None:
    """Write the playground, an interactive page. With `overwrite`, replace an existing file.

    >>> from pathlib import Path
    >>> from attnlab.claims import save_playground
    >>> save_playground(Path("playground.html"))
    """
    write_page(path, playground_page(), overwrite)
