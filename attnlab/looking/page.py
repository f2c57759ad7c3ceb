"""One self-contained HTML file of a capture: opens without a network, runs no code but our own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnlab.charts import escape
from attnlab.looking.file import header_text
from attnlab.page import write_page

HEADER_ID = "attnlab-header"


def static(name: str) -> str:
    """A file of the built front end; `make web` builds it anew."""
    return files("attnlab.looking").joinpath("static", name).read_text(encoding="utf-8")


def render(header: dict[str, Any], blocks: Sequence[bytes]) -> str:
    script, style = static("look.js").replace("</script", "<\\/script"), static("look.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    title = escape(str(header["title"]) or "attention")
    data = "".join(
        f'<script type="text/plain" data-block="{number}">'
        f"{base64.b64encode(block).decode('ascii')}</script>\n"
        for number, block in enumerate(blocks)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="attnlab"><noscript>{title}: this page draws with JavaScript.</noscript></div>\n'
        f'<script type="application/json" id="{HEADER_ID}">{_inline(header)}</script>\n'
        f"{data}<script>{script}</script>\n</body>\n</html>\n"
    )


def save_page(path: Path, header: dict[str, Any], blocks: Sequence[bytes], overwrite: bool) -> None:
    write_page(path, render(header, blocks), overwrite)


def _inline(header: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in; half surrogates stay escaped."""
    return header_text(header).replace("<", "\\u003c")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
