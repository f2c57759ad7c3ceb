"""Hugging Face models: opened from a folder, and their attention's queries, keys, values, masks.

Nothing here imports transformers before it is needed.
"""

from __future__ import annotations

from attnlab.huggingface.interface import listen
from attnlab.huggingface.loading import load_model
from attnlab.huggingface.places import is_huggingface
from attnlab.huggingface.registering import attend_with, register

__all__ = ["attend_with", "is_huggingface", "listen", "load_model", "register"]
