"""Summaries: read a text, write a summary, and show where each word came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.tasks.summary._generation import GenerationMethod as GenerationMethod
    from attnlab.tasks.summary._generation import write_summaries as write_summaries
    from attnlab.tasks.summary._presets import SummaryModel as SummaryModel
    from attnlab.tasks.summary._scoring import evaluate as evaluate
    from attnlab.tasks.summary._training import load_summary as load_summary
    from attnlab.tasks.summary._training import train as train

__all__ = [
    "GenerationMethod",
    "SummaryModel",
    "evaluate",
    "load_summary",
    "train",
    "write_summaries",
]
__getattr__ = lazy_names(
    __name__,
    {
        "SummaryModel": "attnlab.tasks.summary._presets",
        "GenerationMethod": "attnlab.tasks.summary._generation",
        "evaluate": "attnlab.tasks.summary._scoring",
        "load_summary": "attnlab.tasks.summary._training",
        "train": "attnlab.tasks.summary._training",
        "write_summaries": "attnlab.tasks.summary._generation",
    },
)
