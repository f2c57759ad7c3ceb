"""The page of a capture as a notebook widget."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from attnlab.interpret._capture_file import header_text
from attnlab.interpret._page import read_static


class LookWidget(anywidget.AnyWidget):
    """Sends header and blocks to the front end; nothing comes back."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    header = traitlets.Unicode().tag(sync=True)
    blocks = traitlets.List(traitlets.Bytes()).tag(sync=True)


def make_widget(header: dict[str, Any], blocks: list[bytes]) -> LookWidget:
    return LookWidget(
        _esm=read_static("widget.js"),
        _css=read_static("look.css"),
        header=header_text(header),
        blocks=blocks,
    )
