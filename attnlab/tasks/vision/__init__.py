"""Vision: classify images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.tasks.vision._classify import classify as classify
    from attnlab.tasks.vision._classify import classify_test as classify_test
    from attnlab.tasks.vision._comparison import VisionComparison as VisionComparison
    from attnlab.tasks.vision._open_data import open_data as open_data
    from attnlab.tasks.vision._scoring import evaluate as evaluate
    from attnlab.tasks.vision._training import load_vision as load_vision
    from attnlab.tasks.vision._training import train_vision as train_vision

__all__ = [
    "VisionComparison",
    "classify",
    "classify_test",
    "evaluate",
    "load_vision",
    "open_data",
    "train_vision",
]
__getattr__ = lazy_names(
    __name__,
    {
        "VisionComparison": "attnlab.tasks.vision._comparison",
        "classify": "attnlab.tasks.vision._classify",
        "classify_test": "attnlab.tasks.vision._classify",
        "evaluate": "attnlab.tasks.vision._scoring",
        "load_vision": "attnlab.tasks.vision._training",
        "open_data": "attnlab.tasks.vision._open_data",
        "train_vision": "attnlab.tasks.vision._training",
    },
)
