"""The page of a capture as a notebook widget."""

from __future__ import annotations

from functools import partial
from typing import Any

import anywidget
import traitlets

from attnlab.interpret._capture_file import header_text
from attnlab.interpret._head_switches import SwitchableModel
from attnlab.interpret._page import read_static


class LookWidget(anywidget.AnyWidget):
    """Sends header and blocks to the front end. If there is a model, the front end asks it for
    predictions without some heads."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    header = traitlets.Unicode().tag(sync=True)
    blocks = traitlets.List(traitlets.Bytes()).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)
    """Whether there is a model to ask."""


def make_widget(
    header: dict[str, Any], blocks: list[bytes], model: SwitchableModel | None = None
) -> LookWidget:
    widget = LookWidget(
        _esm=read_static("widget.js"),
        _css=read_static("look.css"),
        header=header_text(header),
        blocks=blocks,
        live=model is not None,
    )
    if model is not None:
        widget.on_msg(partial(_answer, model))
    return widget


def _answer(model: SwitchableModel, widget: LookWidget, content: Any, buffers: Any) -> None:
    """Answer a message with the same number."""
    del buffers
    if not isinstance(content, dict) or content.get("kind") != "switch":
        return
    number = content.get("number")
    if isinstance(number, int):
        answer = model.answer(content.get("request"))
        widget.send({"kind": "switched", "number": number, "answer": answer})
