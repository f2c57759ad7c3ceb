"""The declaration of the task `summary`."""

from __future__ import annotations

from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.kind import Capability, Example, TaskKind

SUMMARY = TaskKind(
    name="summary",
    help="Train models that summarize texts, evaluate them and write summaries.",
    headline="rougeL",
    better="higher",
    example=Example(
        "Train a model on the docstrings of this machine's Python packages:",
        "attnlab summary train --out",
        "summary",
    ),
    commands="attnlab.tasks.summary._commands:app",
    comparison="attnlab.tasks.summary._comparison:SummaryComparison",
    inspected_model="attnlab.tasks.summary._inspected_model:open_run",
    capabilities={
        "write": Capability(
            "attnlab.tasks.summary._serving:SummaryService", models=("seq2seq",), files=(TOKENIZER,)
        )
    },
)
