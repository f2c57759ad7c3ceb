"""Replace the attention of a pretrained model by a cheaper mechanism, and train it to agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.convert._run_convert import convert as convert
    from attnlab.convert._settings import ConvertSettings as ConvertSettings

__all__ = ["ConvertSettings", "convert"]
__getattr__ = lazy_names(
    __name__,
    {
        "ConvertSettings": "attnlab.convert._settings",
        "convert": "attnlab.convert._run_convert",
    },
)
