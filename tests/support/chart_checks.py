"""What every chart and page must be: well formed, readable, and inert whatever a text holds."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from attnlab.charts import Bar, Chart, Series, bar_chart, line_chart
from attnlab.charts.scales import width_of

NAMESPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"' onload='alert(1)' x=\"",
    "</title></desc></svg></style><iframe src=https://evil.example>",
    "&lt;b&gt; &amp; <!-- ]]> -->",
    "nul\x00 escape\x1b[31m bell\x07 \x85 delete\x7f",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200f \u061c \ufeff",
    "half \ud800 of a pair \udfff \ufffe",
    "two\nlines\r\n\ttab",
]
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "main", "section", "div", "p"),
    *("dl", "dt", "dd", "figure", "figcaption", "strong", "span", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "img"),
    *("svg", "desc", "text", "line", "rect", "path", "circle"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "scope", "tabindex", "role"),
    *("aria-label", "xmlns", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "width", "height"),
    *("cx", "cy", "r", "d", "text-anchor", "transform", "fill-opacity", "src", "alt"),
}


class Reader(HTMLParser):
    """Tags, attributes and text; every tag must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_inert(text: str) -> Reader:
    """Only the page's own tags and attributes, and nothing that is fetched or run."""
    read = Reader(text)
    assert set(read.tags) <= ALLOWED
    assert {name for name, _ in read.attributes} <= ATTRIBUTES
    for name, value in read.attributes:
        assert "//" not in (value or "") or name in ("xmlns", "aria-label", "src")
        assert name != "src" or (value or "").startswith("data:image/png;base64,")
    assert all(c.isprintable() or c in "\n\u200c\u200d" for c in text)
    text.encode("utf-8")
    return read


def check_page(text: str) -> Reader:
    read = check_inert(text)
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) <= {"http://www.w3.org/2000/svg"}
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        check_svg(svg)
    return read


def check_svg(svg: str) -> ElementTree.Element:
    """Well formed, named, and all of it inside the drawing."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.attrib["role"] == "img"
    assert [each.tag for each in root][:2] == [f"{NAMESPACE}title", f"{NAMESPACE}desc"]
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("x", "x1", "x2", "cx", "width"):
                assert -0.1 <= float(value) <= width + 0.1, (element.tag, name, value)
            if name in ("y", "y1", "y2", "cy", "height"):
                assert -0.1 <= float(value) <= height + 0.1, (element.tag, name, value)
            if name == "d":
                places = re.findall(r"[ML]([\d.]+) ([\d.]+)", value)
                assert len(places) == len(re.findall("[ML]", value))  # no nan, no inf
                assert all(float(x) <= width and float(y) <= height for x, y in places)
        if element.tag == f"{NAMESPACE}text":
            check_text_fits(element, width)
    return root


def check_text_fits(element: ElementTree.Element, width: float) -> None:
    wide = width_of(element.text or "")
    left = float(element.attrib["x"])
    left -= {"start": 0, "middle": wide / 2, "end": wide}[element.attrib["text-anchor"]]
    assert left > -4, element.text  # widths of letters are estimates
    assert left + wide <= width + 4, element.text


def texts_of(chart: Chart) -> list[str]:
    root = check_svg(chart.svg)
    return [each.text or "" for each in root.iter(f"{NAMESPACE}text")]


def lines(*series: Series, **changes: Any) -> Chart:
    return line_chart(series, **{"title": "t", "x_label": "step", "y_label": "loss", **changes})


def bars(*each: Bar, **changes: Any) -> Chart:
    return bar_chart(each, **{"title": "t", "label": "place", "value": "answers", **changes})
