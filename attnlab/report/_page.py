"""Offline HTML pages: one file with its data, script and style, which loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab._safe_files import check_output_file, write_text
from attnlab.report._content import Report
from attnlab.report._json import to_json
from attnlab.report._text import escape


def render_page(report: Report) -> str:
    """The HTML page of a report.

    It leaves out single measurements, which would make it ten times larger.

    >>> from attnlab.report import Report, Section, render_page
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> render_page(report)[:15]
    '<!doctype html>'
    """
    data = to_json(report, measurements=False)
    return script_page(
        report.title, _static("report.js"), _static("report.css"), data, data_id="attnlab-report"
    )


def save_page(path: Path, report: Report, overwrite: bool = False) -> None:
    """Write the HTML page of a report. With `overwrite`, replace an existing file.

    >>> from pathlib import Path
    >>> from attnlab.report import Report, Section, save_page
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> save_page(Path("loss.html"), report)
    """
    write_page(path, render_page(report), overwrite)


def _static(name: str) -> str:
    """A file of the built front end; `make web` builds it."""
    return files("attnlab.report").joinpath("static", name).read_text(encoding="utf-8")


def script_page(
    title: str,
    script: str,
    style: str,
    data: dict[str, Any] | str | None = None,
    *,
    data_id: str = "attnlab-data",
    blocks: Sequence[bytes] = (),
) -> str:
    """A page that `script` renders into #attnlab, from `data` as JSON in its own element and from
    `blocks` of bytes. The content policy allows only this script and style, by their hashes."""
    script = script.replace("</script", "<\\/script")
    policy = content_policy(
        f"script-src {source_hash(script)}",
        f"style-src {source_hash(style)}",
        "img-src data: blob:",
    )
    title = escape(title)
    data_elements = "".join(
        f'<script type="text/plain" data-block="{number}">'
        f"{base64.b64encode(block).decode('ascii')}</script>\n"
        for number, block in enumerate(blocks)
    )
    if data is not None:
        element = f'<script type="application/json" id="{data_id}">{_inline(data)}</script>\n'
        data_elements = element + data_elements
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="attnlab"><noscript>{title}: this page needs JavaScript.</noscript></div>\n'
        f"{data_elements}<script>{script}</script>\n</body>\n</html>\n"
    )


def content_policy(*allowed: str) -> str:
    """A content security policy that allows nothing else."""
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def source_hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def _inline(data: dict[str, Any] | str) -> str:
    """JSON that cannot close its element; lone surrogates stay escaped."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def check_page(path: Path, overwrite: bool) -> None:
    """Raises an error if the page cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give a file, such as {path.name or 'page'}.html")
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path}: a page is HTML; name it NAME.html")
    check_output_file(path, overwrite)


def write_page(path: Path, text: str, overwrite: bool = False) -> None:
    if path.exists() and not overwrite:
        raise ValueError(
            f"{path}: already exists; give another file, or overwrite=True to replace it"
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    write_text(path, text)
