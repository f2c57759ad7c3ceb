"""One `Report` for the terminal, a page, Markdown, JSON, CSV and figures.

report = Report("bench", "Attention mechanisms, measured", [Section("error", "Error", ...)])
print_report(report, Console())
save_page(Path("error.html"), report)
Path("error.md").write_text(to_markdown(report))
Path("error.json").write_text(to_json(report))
Path("error.csv").write_text(to_csv(report))
save_figure(plot, Path("error.pdf"), "Error by features")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names
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
    from attnlab.report._csv import to_csv as to_csv
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
    "figure",
    "parse_report",
    "print_plot",
    "print_report",
    "read_report",
    "render_page",
    "save_figure",
    "save_page",
    "to_csv",
    "to_json",
    "to_markdown",
]

__getattr__ = lazy_names(
    __name__,
    {
        "check_figure": "attnlab.report._matplotlib",
        "check_page": "attnlab.report._page",
        "figure": "attnlab.report._matplotlib",
        "markers": "attnlab.report._markdown",
        "parse_report": "attnlab.report._json",
        "place_between_markers": "attnlab.report._markdown",
        "print_plot": "attnlab.report._terminal",
        "print_report": "attnlab.report._terminal",
        "read_report": "attnlab.report._json",
        "render_page": "attnlab.report._page",
        "save_figure": "attnlab.report._matplotlib",
        "save_page": "attnlab.report._page",
        "to_csv": "attnlab.report._csv",
        "to_json": "attnlab.report._json",
        "to_markdown": "attnlab.report._markdown",
    },
)
