"""One `Report` for the terminal, a page, Markdown, JSON and figures.

report = Report("bench", "Attention mechanisms, measured", [Section("error", "Error", ...)])
print_report(report, Console())
save_page(Path("error.html"), report)
Path("error.md").write_text(to_markdown(report))
Path("error.json").write_text(to_json(report))
save_figure(plot, Path("error.pdf"), "Error by features")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnlab.report._content import (
    Bars,
    Block,
    Cell,
    Command,
    Figure,
    Gallery,
    Heatmap,
    Lines,
    Link,
    Mark,
    Picture,
    Plot,
    Quote,
    Report,
    Section,
    Series,
    Strip,
    Table,
    Tile,
    Value,
)

if TYPE_CHECKING:
    from attnlab.report._json import parse_report as parse_report
    from attnlab.report._json import read_report as read_report
    from attnlab.report._json import to_json as to_json
    from attnlab.report._markdown import markers as markers
    from attnlab.report._markdown import place_between_markers as place_between_markers
    from attnlab.report._markdown import to_markdown as to_markdown
    from attnlab.report._matplotlib import check_figure as check_figure
    from attnlab.report._matplotlib import figure as figure
    from attnlab.report._matplotlib import save_figure as save_figure
    from attnlab.report._page import check_page as check_page
    from attnlab.report._page import render_page as render_page
    from attnlab.report._page import save_page as save_page
    from attnlab.report._terminal import print_plot as print_plot
    from attnlab.report._terminal import print_report as print_report

# Resolved on first use: not everyone who makes a report waits for matplotlib.
_RENDERERS = {
    "check_figure": "figures",
    "check_page": "html",
    "figure": "figures",
    "markers": "markdown",
    "parse_report": "json",
    "place_between_markers": "markdown",
    "print_plot": "terminal",
    "print_report": "terminal",
    "read_report": "json",
    "render_page": "html",
    "save_figure": "figures",
    "save_page": "html",
    "to_json": "json",
    "to_markdown": "markdown",
}
__all__ = [
    "Bars",
    "Block",
    "Cell",
    "Command",
    "Figure",
    "Gallery",
    "Heatmap",
    "Lines",
    "Link",
    "Mark",
    "Picture",
    "Plot",
    "Quote",
    "Report",
    "Section",
    "Series",
    "Strip",
    "Table",
    "Tile",
    "Value",
    "check_figure",
    "check_page",
    "figure",
    "markers",
    "parse_report",
    "place_between_markers",
    "print_plot",
    "print_report",
    "read_report",
    "render_page",
    "save_figure",
    "save_page",
    "to_json",
    "to_markdown",
]


def __getattr__(name: str) -> Any:
    if name not in _RENDERERS:
        raise AttributeError(f"module 'attnlab.report' has no attribute {name!r}")
    return getattr(import_module(f"attnlab.report.{_RENDERERS[name]}"), name)
