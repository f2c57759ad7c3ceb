"""What mechanisms cost and how far they are from exact attention, measured on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.bench.markdown import report_markdown as report_markdown
    from attnlab.bench.page import save_page as save_page
    from attnlab.bench.reading import read_report as read_report
    from attnlab.bench.results import Report as Report
    from attnlab.bench.results import report_json as report_json
    from attnlab.bench.running import bench as bench
    from attnlab.bench.terminal import print_report as print_report

# Resolved on first use: the command line reads the settings here, and must not wait for torch.
_PUBLIC = {
    "Report": "results",
    "bench": "running",
    "report_markdown": "markdown",
    "print_report": "terminal",
    "read_report": "reading",
    "report_json": "results",
    "save_page": "page",
}
__all__ = [
    "Report",
    "bench",
    "print_report",
    "read_report",
    "report_json",
    "report_markdown",
    "save_page",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'attnlab.bench' has no attribute {name!r}")
    return getattr(import_module(f"attnlab.bench.{_PUBLIC[name]}"), name)
