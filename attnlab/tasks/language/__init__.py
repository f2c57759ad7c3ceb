"""Language modeling: predict the next token of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.tasks.language._comparison import LanguageComparison as LanguageComparison
    from attnlab.tasks.language._import import import_language as import_language
    from attnlab.tasks.language._training import evaluate as evaluate
    from attnlab.tasks.language._training import finetune as finetune
    from attnlab.tasks.language._training import load_language as load_language
    from attnlab.tasks.language._training import train_language as train_language
    from attnlab.tasks.language._training import write as write

__all__ = [
    "LanguageComparison",
    "evaluate",
    "finetune",
    "import_language",
    "load_language",
    "train_language",
    "write",
]
__getattr__ = lazy_names(
    __name__,
    {
        "LanguageComparison": "attnlab.tasks.language._comparison",
        "evaluate": "attnlab.tasks.language._training",
        "finetune": "attnlab.tasks.language._training",
        "import_language": "attnlab.tasks.language._import",
        "load_language": "attnlab.tasks.language._training",
        "train_language": "attnlab.tasks.language._training",
        "write": "attnlab.tasks.language._training",
    },
)
