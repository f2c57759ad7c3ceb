"""A workbench for attention: build, train, look inside and compare attention mechanisms."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab._create_mechanism import attention as attention
    from attnlab._create_mechanism import create_mechanism as create_mechanism
    from attnlab._register_mechanism import register_mechanism as register_mechanism
    from attnlab.extensions import load_extension as load_extension
    from attnlab.interpret._capture import capture as capture
    from attnlab.interpret._look import look as look
    from attnlab.laws import check_laws as check_laws
    from attnlab.mask import Mask as Mask
    from attnlab.mechanism import Card as Card
    from attnlab.mechanism import Mechanism as Mechanism
    from attnlab.mechanisms import MECHANISMS as MECHANISMS

__version__ = "0.2.0"

# Resolved on first use: torch takes seconds to import, and `attnlab --help` must not wait for it.
_PUBLIC = {
    "MECHANISMS": "attnlab.mechanisms",
    "Card": "attnlab.mechanism",
    "Mask": "attnlab.mask",
    "Mechanism": "attnlab.mechanism",
    "attention": "attnlab._create_mechanism",
    "capture": "attnlab.interpret._capture",
    "check_laws": "attnlab.laws",
    "create_mechanism": "attnlab._create_mechanism",
    "load_extension": "attnlab.extensions",
    "look": "attnlab.interpret._look",
    "register_mechanism": "attnlab._register_mechanism",
}
MODEL_ADAPTERS = (
    "attnlab.interpret._attnlab_hooks:OwnModels",
    "attnlab.huggingface._inspected_models:HuggingFaceModels",
)
"""Whose models `look` and `capture` understand, in the order in which they are asked."""
__all__ = [
    "MECHANISMS",
    "Card",
    "Mask",
    "Mechanism",
    "attention",
    "capture",
    "check_laws",
    "create_mechanism",
    "load_extension",
    "look",
    "register_mechanism",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'attnlab' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
