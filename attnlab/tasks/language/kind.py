"""The declaration of the task `language`."""

from __future__ import annotations

from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.kind import Capability, Example, TaskKind

CONVERSION, CONVERSION_PAGE = "convert.json", "convert.html"

LANGUAGE = TaskKind(
    name="language",
    help="Train language models, write texts with them and evaluate them.",
    headline="bits",
    better="lower",
    example=Example(
        "Train a language model on the documentation of installed packages:",
        "attnlab language train --out",
        "language",
    ),
    commands="attnlab.tasks.language._commands:app",
    comparison="attnlab.tasks.language._comparison:LanguageComparison",
    capabilities={
        "generate": Capability(
            "attnlab.tasks.language._serving:TextGenerationService",
            models=("decoder",),
            files=(TOKENIZER,),
        )
    },
    files={
        CONVERSION: "report of `attnlab convert`",
        CONVERSION_PAGE: "the same report as a page",
    },
    results=(CONVERSION, CONVERSION_PAGE),
)
