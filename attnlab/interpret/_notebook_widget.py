"""The same renderer inside a notebook."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from attnlab.interpret._capture_file import header_text
from attnlab.interpret._page import static


class LookWidget(anywidget.AnyWidget):
    """Header and blocks go to the front end as they are; nothing comes back."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    header = traitlets.Unicode().tag(sync=True)
    blocks = traitlets.List(traitlets.Bytes()).tag(sync=True)


def make_widget(header: dict[str, Any], blocks: list[bytes]) -> LookWidget:
    return LookWidget(
        _esm=static("widget.js"), _css=static("look.css"), header=header_text(header), blocks=blocks
    )
